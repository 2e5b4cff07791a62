"""URLs and cookies that the transport's own clients cache."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx
import pytest
from chat_core.transport import Request
from chat_transport_httpx import HttpxTransport


class Server:
    """Server that sets a cookie in its first response and records the requests."""

    def __init__(self) -> None:
        self.heads: list[str] = []
        self.bodies: list[bytes] = []

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = int(head.lower().partition("content-length: ")[2].partition("\r\n")[0] or 0)
                self.heads.append(head)
                self.bodies.append(await reader.readexactly(length))
                cookie = "set-cookie: place=7; Path=/\r\n" if len(self.heads) == 1 else ""
                writer.write(f"HTTP/1.1 200 OK\r\n{cookie}content-length: 2\r\n\r\nok".encode())
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    @asynccontextmanager
    async def listen(self) -> AsyncGenerator[tuple[Server, str]]:
        """Listen until the end of the block. Yield the server, and its address as the host of a request."""
        async with await asyncio.start_server(self.answer, "127.0.0.1", 0) as listener:
            yield self, f"127.0.0.1:{listener.sockets[0].getsockname()[1]}"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
async def test_each_request_to_a_cached_url_has_its_own_body_and_length() -> None:
    async with Server().listen() as (peer, host):
        transport = HttpxTransport()
        for body in (b"{}", b'{"longer": true}', b""):
            await transport.send(Request("POST", "http", host, "/v1", (("authorization", "Bearer a"),), body))
        await transport.send(Request("POST", "http", host, "/v1", (("authorization", "Bearer b"),), b"{}"))
        await transport.send(Request("GET", "http", host, "/v1", (("authorization", "Bearer b"),)))
        await transport.aclose()

    assert peer.bodies == [b"{}", b'{"longer": true}', b"", b"{}", b""]
    lengths = [
        [line for line in head.lower().split("\r\n") if line.startswith("content-length")] for head in peer.heads
    ]
    assert lengths == [["content-length: 2"], ["content-length: 16"], ["content-length: 0"], ["content-length: 2"], []]
    assert ["Bearer a" in head for head in peer.heads] == [True, True, True, False, False]
    assert all(head.lower().count("\r\nhost: ") == 1 for head in peer.heads)


@pytest.mark.anyio
async def test_a_connection_header_is_sent_only_if_the_request_has_one() -> None:
    async with Server().listen() as (peer, host):
        transport = HttpxTransport()
        for headers in ((), (("Connection", "close"),)):
            await transport.send(Request("POST", "http", host, "/v1", headers, b"{}"))
        await transport.aclose()

    sent = [[line for line in head.lower().split("\r\n") if line.startswith("connection:")] for head in peer.heads]
    assert sent == [[], ["connection: close"]]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("own", "sent"),
    [pytest.param(True, [False, False, False], id="own"), pytest.param(False, [False, True, True], id="of-the-caller")],
)
async def test_only_a_client_of_the_caller_stores_cookies(own: bool, sent: list[bool]) -> None:
    async with Server().listen() as (peer, host), httpx.AsyncClient(trust_env=False) as client:
        transport = HttpxTransport() if own else HttpxTransport(client)
        for _ in range(3):
            await transport.send(Request("POST", "http", host, "/v1", (), b"{}"))
        await transport.aclose()

    assert ["\r\ncookie: place=7\r\n" in head.lower() for head in peer.heads] == sent


@pytest.mark.anyio
async def test_more_urls_than_are_cached_can_be_requested() -> None:
    async with Server().listen() as (peer, host):
        transport = HttpxTransport()
        for number in range(200):
            await transport.send(Request("GET", "http", host, f"/{number}?key=k"))
        await transport.aclose()

    assert [head.split(" ")[1] for head in peer.heads] == [f"/{number}?key=k" for number in range(200)]
