"""Connections that must not be used again, or not stay open."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio.to_thread
import pytest
import trustme
from chat_core.transport import Request
from chat_testing import Exchange, LoopbackServer
from chat_transport_httpx import HttpxTransport
from chat_transport_httpx._sockets import BufferedBackend

pytestmark = pytest.mark.anyio

Opened = Callable[[], AbstractAsyncContextManager[HttpxTransport]]

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
WITH_LENGTH = HEAD + b"content-length: 9\r\n\r\ndata: x\n\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n9\r\ndata: x\n\n\r\n0\r\n\r\n"
OTHER = HEAD + b"content-length: 13\r\n\r\ndata: other\n\n"


@pytest.mark.parametrize("response", [WITH_LENGTH, CHUNKED])
@pytest.mark.parametrize("surplus", [OTHER, OTHER[:20]], ids=["response", "part"])
async def test_bytes_after_a_response_are_not_the_next_response(
    opened: Opened, response: bytes, surplus: bytes
) -> None:
    def answer(exchange: Exchange) -> None:
        exchange.raw(response + surplus)
        exchange.reusable = True

    with LoopbackServer(answer) as server:
        request = Request("POST", "http", server.host, "/", (), b"{}")
        async with opened() as transport:
            for _ in range(2):
                assert (await transport.send(request)).body == b"data: x\n\n"
                async with transport.stream(request) as stream:
                    assert [event.data async for event in stream] == [b"x"]
        assert server.connections == 4


async def test_a_tls_connection_with_an_unread_record_is_readable() -> None:
    authority = trustme.CA()
    ours, theirs = ssl.create_default_context(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.configure_trust(ours)  # pyright: ignore[reportUnknownMemberType]  # pyOpenSSL
    authority.issue_cert("127.0.0.1").configure_cert(theirs)  # pyright: ignore[reportUnknownMemberType]  # as above
    has_sent, may_close = threading.Event(), threading.Event()

    def answer(exchange: Exchange) -> None:
        exchange.raw(b"one")
        exchange.raw(b"two")
        has_sent.set()
        may_close.wait(10)

    with LoopbackServer(answer, tls=theirs) as server:
        host, port = server.host.split(":")
        plain = await BufferedBackend().connect_tcp(host, int(port))
        stream = await plain.start_tls(ours, host, 10)
        await stream.write(b"GET / HTTP/1.1\r\n\r\n", 10)
        await stream.write(b"", 10)
        await anyio.to_thread.run_sync(has_sent.wait, 10)
        assert await stream.read(100, 10) == b"one"
        assert stream.get_extra_info("is_readable") is True
        assert await stream.read(100, 10) == b"two"
        assert stream.get_extra_info("is_readable") is False
        may_close.set()
        await stream.aclose()


async def test_a_request_cancelled_when_its_connection_is_open_frees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    connect = BufferedBackend.connect_tcp
    scopes: list[anyio.CancelScope] = []

    async def connect_and_cancel(*arguments: Any, **settings: Any) -> Any:
        stream = await connect(*arguments, **settings)
        if scopes:
            scopes.pop().cancel()
        return stream

    monkeypatch.setattr(BufferedBackend, "connect_tcp", connect_and_cancel)
    with LoopbackServer(lambda exchange: exchange.answer(200, {}, b"x")) as server:
        transport = HttpxTransport(max_connections=1)
        request = Request("POST", "http", server.host, "/", (), b"{}")
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            await transport.send(request)
        assert scope.cancelled_caught
        with anyio.fail_after(10):
            assert (await transport.send(request)).body == b"x"
        await transport.aclose()


async def test_a_cancelled_tls_handshake_closes_its_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        stream = await BufferedBackend().connect_tcp("127.0.0.1", server.getsockname()[1])
        peer, _ = server.accept()
        with peer:
            peer.settimeout(10)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stream.start_tls, ssl.create_default_context(), "127.0.0.1", 10)
                assert await anyio.to_thread.run_sync(peer.recv, 65536)
                tasks.cancel_scope.cancel()
            assert await anyio.to_thread.run_sync(peer.recv, 65536) == b""
