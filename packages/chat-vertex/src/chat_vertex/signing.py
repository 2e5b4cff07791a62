"""Signatures of JSON Web Tokens with `google-auth`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, cast, final

from chat_core.errors import UsageError
from google.auth import crypt, jwt

_ENCODE: Final = cast("Callable[..., bytes]", jwt.encode)  # pyright: ignore[reportUnknownMemberType] - no types
_READ_KEY: Final = cast("Callable[[str], object]", crypt.RSASigner.from_string)  # pyright: ignore[reportUnknownMemberType] - no types


@final
class Signer:
    """A private key that signs JSON Web Tokens with RS256. The `repr` shows nothing of the key.

    Args:
        key: a signer of `google.auth.crypt`.
    """

    __slots__ = ("_key",)

    def __init__(self, key: object) -> None:
        self._key = key

    def sign_jwt(self, claims: Mapping[str, object], *, key_id: str | None = None) -> str:
        """Return a JSON Web Token with the given claims, signed with this key.

        Args:
            claims: the claims of the token.
            key_id: id of the key for the header of the token.
        """
        return _ENCODE(self._key, dict(claims), key_id=key_id).decode()


def signer_for(private_key: str) -> Signer:
    """Return the signer for a private key in PEM format.

    Raises:
        UsageError: the key is invalid. The message omits the key.
    """
    try:
        return Signer(_READ_KEY(private_key))
    except ValueError:
        # The cause may quote the key.
        msg = "the private key of the service account is not an RSA key in PEM format"
        raise UsageError(msg) from None
