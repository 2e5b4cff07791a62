"""Which clients may open a WebSocket."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
from chat_service import ServiceSettings
from chat_store import MemoryStore
from service_helpers import ANA, build_service, scripted, serving
from socket_helpers import open_socket
from websockets.exceptions import InvalidStatus

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 101),
        ({"origin": "http://127.0.0.1:{port}"}, 101),
        ({"origin": "https://app.example.org"}, 101),
        ({"origin": "https://a.b.example.com"}, 101),
        ({"origin": "https://example.com"}, 403),
        ({"origin": "https://evilexample.com"}, 403),
        ({"origin": "http://evil.example.org"}, 403),
        ({"origin": "null"}, 403),
    ],
)
async def test_pages_of_other_sites_are_refused(store: MemoryStore, headers: dict[str, str], status: int) -> None:
    settings = ServiceSettings(socket_origins=("app.example.org", "*.example.com"), workers=0)
    async with serving(build_service(store, scripted(), settings=settings)) as client:
        sent = {name: value.format(port=client.port) for name, value in headers.items()}
        found = 101
        try:
            async with open_socket(client, headers=sent) as socket:
                assert (await socket.ask("ping"))["type"] == "pong"
        except InvalidStatus as error:
            found = error.response.status_code

    assert found == status


@pytest.mark.parametrize(("host", "status"), [("localhost", 101), ("evil.example.org", 403)])
async def test_only_known_host_names_are_served(store: MemoryStore, host: str, status: int) -> None:
    handshake = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
    async with serving(build_service(store, scripted())) as client:
        reply = await client.get("/ws", host=host, sec_websocket_key="dGhlIHNhbXBsZSBub25jZQ==", **handshake)

    assert reply.status == status


async def test_an_address_may_open_some_connections_in_a_minute(store: MemoryStore) -> None:
    settings = ServiceSettings(socket_connects_per_minute=2, workers=0)
    async with serving(build_service(store, scripted(), settings=settings)) as client, AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(open_socket(client))
        with pytest.raises(InvalidStatus) as refused:
            await stack.enter_async_context(open_socket(client))

    assert refused.value.response.status_code == 429
    assert int(refused.value.response.headers["retry-after"]) in range(1, 31)


async def test_an_address_may_open_any_number_of_connections_without_a_limit(store: MemoryStore) -> None:
    settings = ServiceSettings(socket_connects_per_minute=0, workers=0)
    async with serving(build_service(store, scripted(), settings=settings)) as client, open_socket(client) as socket:
        assert (await socket.ask("ping"))["type"] == "pong"


async def test_the_sign_in_cookie_authenticates_the_connection(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted("Good morning."))) as client:
        cookie = (await client.as_user(None).post("/sign-in", {"token": ANA})).headers["set-cookie"].split(";")[0]
        async with open_socket(client, None, {"cookie": cookie}) as socket:
            assert (await socket.ask("chat", message="Hello."))["type"] == "session_created"
