"""Authentication with bearer tokens. The service stores only token hashes."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import final

from chat_core import UsageError
from chat_core.approvals import Principal
from chat_core.arguments import require_name, require_type
from starlette.requests import Request

_HASH_LENGTH = 64


def hash_token(token: str, /) -> str:
    """Return the SHA-256 hash of a token, for `BearerTokens`. Store the hash, and give the token to the client.

    A token must be random, such as `secrets.token_urlsafe(32)`: a fast hash does not protect a password.

    Args:
        token: the token.

    Raises:
        UsageError: the token is not a string, or is blank.
    """
    require_name("token", token)
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


@final
class BearerTokens:
    """An `authenticate` function that accepts the header `Authorization: Bearer` with a known token.

    Args:
        principals: the users of the tokens, by token hash.

    Raises:
        UsageError: a key is not a token hash, for example because it is the token itself. A value is not a `Principal`.
    """

    def __init__(self, principals: Mapping[str, Principal]) -> None:
        require_type("principals", principals, Mapping, "a mapping of token hashes to principals")
        for key, principal in principals.items():
            if not isinstance(key, str) or len(key) != _HASH_LENGTH or not set(key) <= set("0123456789abcdef"):
                msg = "the keys must be token hashes: create them with hash_token()"
                raise UsageError(msg)
            require_type("the value of a token hash", principal, Principal, "a Principal, such as Principal('ana')")
        self._principals = dict(principals)

    async def __call__(self, request: Request) -> Principal | None:
        """Return the user of the token in a request, or `None` if the request has no known token."""
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not token.strip():
            return None
        presented = hash_token(token.strip())
        found: Principal | None = None
        for known, principal in self._principals.items():  # compare all, so that the time does not depend on the token
            if hmac.compare_digest(known, presented):
                found = principal
        return found
