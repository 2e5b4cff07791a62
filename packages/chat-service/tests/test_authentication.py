"""Bearer tokens, which are kept as hashes."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from chat_core import UsageError
from chat_core.approvals import Principal
from chat_service import BearerTokens, hash_token
from starlette.requests import Request

pytestmark = pytest.mark.anyio
ANA = Principal("ana", frozenset({"approver"}))


def request(value: str | None) -> Request:
    headers = [] if value is None else [(b"authorization", value.encode())]
    return Request({"type": "http", "headers": headers})


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("Bearer secret", ANA),
        ("bearer secret", ANA),
        ("Bearer secret2", None),
        ("Bearer", None),
        ("Bearer ", None),
        ("Basic secret", None),
        (f"Bearer {hash_token('secret')}", None),
        (None, None),
    ],
)
async def test_a_token_is_accepted_and_its_hash_is_not(header: str | None, found: Principal | None) -> None:
    assert await BearerTokens({hash_token("secret"): ANA})(request(header)) == found


def test_the_tokens_themselves_are_not_kept() -> None:
    tokens = BearerTokens({hash_token("secret"): ANA})

    assert "secret" not in repr(vars(tokens))


@pytest.mark.parametrize("token", ["", " ", None, 5])
def test_a_blank_token_has_no_hash(token: Any) -> None:
    with pytest.raises(UsageError, match="token must be a string that is not empty"):
        hash_token(token)


async def test_the_hash_of_an_empty_token_admits_no_request() -> None:
    tokens = BearerTokens({hashlib.sha256(b"").hexdigest(): ANA})

    assert [await tokens(request(header)) for header in ("Bearer ", "Bearer", "Bearer  ")] == [None, None, None]


def test_a_name_instead_of_a_principal_is_refused() -> None:
    names: Any = {hash_token("secret"): "ana"}
    with pytest.raises(UsageError, match="must be a Principal, such as"):
        BearerTokens(names)


@pytest.mark.parametrize("key", ["secret", "", "G" * 64, 5])
def test_a_token_instead_of_its_hash_is_refused(key: Any) -> None:
    with pytest.raises(UsageError, match="hash_token"):
        BearerTokens({key: ANA})
