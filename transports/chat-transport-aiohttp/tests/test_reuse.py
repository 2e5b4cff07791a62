"""Connections on which the server has sent more than its response. They are not used again."""

from __future__ import annotations

import threading

import anyio
import pytest
from chat_core.transport import Request
from chat_testing import Exchange, LoopbackServer
from chat_transport_aiohttp import AiohttpTransport

pytestmark = pytest.mark.anyio

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
OTHER = HEAD + b"content-length: 13\r\n\r\ndata: other\n\n"


@pytest.mark.parametrize(
    "surplus",
    [OTHER, OTHER[:60], OTHER[:20], HEAD + b"name: \0", b"\0"],
    ids=["response", "head", "part", "invalid", "other"],
)
async def test_bytes_after_a_response_are_not_the_next_response(surplus: bytes) -> None:
    may_continue = threading.Semaphore(0)

    def answer(exchange: Exchange) -> None:
        exchange.raw(HEAD + b"transfer-encoding: chunked\r\n\r\n9\r\ndata: x\n\n\r\n")
        assert may_continue.acquire(timeout=10)
        exchange.raw(b"0\r\n\r\n" + surplus)
        exchange.reusable = True

    with LoopbackServer(answer) as server:
        request = Request("POST", "http", server.host, "/", (), b"{}")
        transport = AiohttpTransport()
        for _ in range(3):
            with anyio.fail_after(10):
                async with transport.stream(request) as stream:
                    may_continue.release()
                    assert [event.data async for event in stream] == [b"x"]
        await transport.aclose()
        assert server.connections == 3
