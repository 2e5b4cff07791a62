"""Sign-in by the token of a printed address."""

from __future__ import annotations

from typing import Any

import pytest
from chat_core import UsageError
from chat_inbox import Inbox, TokenSignIn
from chat_store import MemoryStore
from inbox_helpers import Client
from starlette.requests import Request

pytestmark = pytest.mark.anyio
TOKEN = "t0ken"
COOKIE = "chat_inbox_sign_in_8470"
HOST = "127.0.0.1:8470"


def client(store: MemoryStore, address: str = "127.0.0.1", host: str = HOST) -> Client:
    sign_in = TokenSignIn("ana", TOKEN)
    app = sign_in.protect(Inbox(store, authenticate=sign_in.authenticate, may_decide=sign_in.may_decide))
    return Client(app, None, (address, 5000), host)


async def test_printed_address_signs_in_and_redirects_to_an_address_without_the_token(store: MemoryStore) -> None:
    browser = client(store)
    address = TokenSignIn("ana", TOKEN).address("/conversations/chat-17")
    assert address == "/conversations/chat-17?startup_token=t0ken"

    answer = await browser.get(f"{address}&all=1")

    assert (answer.status, answer.headers["location"]) == (303, f"http://{HOST}/conversations/chat-17?all=1")
    assert answer.headers["set-cookie"].startswith(f"{COOKIE}=t0ken; HttpOnly; Path=/; SameSite=lax")
    assert answer.headers["referrer-policy"] == "no-referrer"
    browser.cookies[COOKIE] = "t0ken"
    page = await browser.get("/conversations/chat-17?all=1")
    assert page.status == 200
    assert "ana" in page.text
    assert "t0ken" not in page.text


@pytest.mark.parametrize("path", ["/", "/conversations/chat-17", "/api/waiting", "/openapi.json", "/nothing"])
async def test_request_without_the_token_returns_401(store: MemoryStore, path: str) -> None:
    refused = client(store)
    for query in ("", "?startup_token=", "?startup_token=other", "?startup_token=t0ke%C3%A9"):
        assert (await refused.get(path + query)).status == 401
    assert (await refused.request("POST", path, b"{}", content_type="application/json")).status == 401
    for authorization in ("Bearer ", "Bearer other", "Basic t0ken"):
        assert (await refused.request("GET", path, b"", authorization=authorization)).status == 401
    refused.cookies = {COOKIE: "other", "chat_inbox_sign_in_1": "t0ken"}
    assert (await refused.get(path)).status == 401


@pytest.mark.parametrize(("person", "token"), [("ana", ""), ("ana", " "), ("", None), (None, None), ("ana", 5)])
def test_a_blank_token_or_name_is_refused(person: Any, token: Any) -> None:
    with pytest.raises(UsageError, match=r"(person|token) must be a string that is not empty"):
        TokenSignIn(person, token)


async def test_bearer_token_in_the_authorization_header_is_accepted(store: MemoryStore) -> None:
    answer = await client(store).request("GET", "/api/waiting", b"", authorization="Bearer t0ken")

    assert answer.status == 200


async def test_unprotected_inbox_returns_401_without_the_token(store: MemoryStore) -> None:
    app = Inbox(store, authenticate=TokenSignIn("ana", TOKEN).authenticate, may_decide=TokenSignIn("ana").may_decide)

    assert (await Client(app, None, host=HOST).get("/")).status == 401


def test_generated_tokens_are_long_and_random() -> None:
    addresses = {TokenSignIn("ana").address("/") for _ in range(3)}

    assert len(addresses) == 3
    assert all(len(address) > len("/?startup_token=") + 40 for address in addresses)


@pytest.mark.parametrize(
    ("address", "host"),
    [("127.0.0.1", HOST), ("::1", "[::1]:8470"), ("127.9.9.9", "localhost:8470")],
)
async def test_request_from_this_machine_to_a_loopback_host_is_accepted(
    store: MemoryStore, address: str, host: str
) -> None:
    assert (await client(store, address, host).get("/?startup_token=t0ken")).status == 303


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("192.0.2.7", HOST),
        ("127.0.0.1", "attacker.example:8470"),  # a name of another site that leads here
        ("127.0.0.1", "127.0.0.1.attacker.example"),
        ("127.0.0.1", "localhost@attacker.example"),
        ("127.0.0.1", "localhost:1@attacker.example"),
        ("testclient", "localhost"),
        *[("127.0.0.1", host) for host in ("", "[", "[::1", "localhost:", "localhost:x")],
    ],
)
async def test_request_from_elsewhere_or_to_another_host_is_refused_even_with_the_token(
    store: MemoryStore, address: str, host: str
) -> None:
    assert (await client(store, address, host).get("/?startup_token=t0ken")).status == 401


async def test_request_without_client_address_is_not_authenticated() -> None:
    query = b"startup_token=t0ken"
    scope = {"type": "http", "client": None, "headers": [(b"host", b"localhost")], "query_string": query}

    assert await TokenSignIn("ana", TOKEN).authenticate(Request(scope)) is None
