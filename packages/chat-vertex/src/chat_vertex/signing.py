"""Signatures of JSON Web Tokens by `google-auth`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, final

from chat_core.errors import UsageError


@final
class Signer:
    """A private key that signs JSON Web Tokens with RS256. The `repr` shows nothing of the key.

    Args:
        key: a signer of `google.auth.crypt`.
    """

    __slots__ = ("_encode", "_key")

    def __init__(self, key: object) -> None:
        self._key = key
        # google-auth has no types for its functions.
        self._encode: Callable[..., bytes] = import_module("google.auth.jwt").encode

    def sign_jwt(self, claims: Mapping[str, object], *, key_id: str | None = None) -> str:
        """Return a signed token with these claims.

        Args:
            claims: the claims of the token.
            key_id: id of the key for the header of the token.
        """
        return self._encode(self._key, dict(claims), key_id=key_id).decode()


def signer_for(private_key: str) -> Signer:
    """Return the signer for a private key in PEM format.

    Raises:
        UsageError: the key is invalid. The message omits the key.
    """
    crypt: Any = import_module("google.auth.crypt")
    try:
        return Signer(crypt.RSASigner.from_string(private_key))
    except ValueError:
        # The cause may quote the key.
        msg = "the private key of the service account is not an RSA key in PEM format"
        raise UsageError(msg) from None
