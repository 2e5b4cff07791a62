from __future__ import annotations

import gzip
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from inspect import signature
from typing import TypeAlias

import anyio
import httpx
import pytest
from chat_core.errors import TransportError
from chat_core.transport import Request, Timeouts, Transport
from chat_testing import Exchange, LoopbackServer
from chat_transport_httpx import HttpxTransport

pytestmark = pytest.mark.anyio

LIMITS = {
    "max_event_bytes": 16 * 2**20,
    "max_body_bytes": 64 * 2**20,
    "max_stream_bytes": 256 * 2**20,
    "max_error_bytes": 2**20,
}
"""The default limits of docs/security.md."""

Opened: TypeAlias = Callable[..., AbstractAsyncContextManager[HttpxTransport]]


def ask(host: str, *, idle: float | None = 10.0) -> Request:
    return Request("POST", "http", host, "/v1", (("x-key", "k"),), b"{}", Timeouts(idle=idle))


def test_the_transport_implements_the_protocol_and_its_repr_hides_secrets() -> None:
    assert isinstance(HttpxTransport(), Transport)
    assert repr(HttpxTransport(proxy="http://user:secret@127.0.0.1:1")) == "HttpxTransport()"
    assert repr(HttpxTransport(httpx.AsyncClient(headers={"x": "secret"}))) == "HttpxTransport(client=...)"


def test_the_default_limits_are_those_of_the_documentation() -> None:
    parameters = signature(HttpxTransport).parameters
    assert {name: parameters[name].default for name in LIMITS} == LIMITS


@pytest.mark.parametrize("status", [200, 302, 429, 500])
async def test_send_returns_the_whole_response_for_any_status(opened: Opened, status: int) -> None:
    def handler(exchange: Exchange) -> None:
        exchange.answer(status, {"X-Id": "1", "location": "/elsewhere"}, b"body")

    with LoopbackServer(handler) as server:
        async with opened() as transport:
            response = await transport.send(ask(server.host))
    assert (response.status, response.headers["x-id"], response.body) == (status, "1", b"body")
    [asked] = server.exchanges
    assert (asked.method, asked.path, asked.body) == ("POST", "/v1", b"{}")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "delete"])
async def test_send_and_stream_use_the_requested_method(opened: Opened, method: str) -> None:
    with LoopbackServer(lambda exchange: exchange.answer(200, {}, b"")) as server:
        async with opened() as transport:
            await transport.send(Request(method, "http", server.host, "/version"))
            async with transport.stream(Request(method, "http", server.host, "/events")):
                pass
    sent = method.upper()  # as httpx sends it
    assert [(asked.method, asked.path) for asked in server.exchanges] == [(sent, "/version"), (sent, "/events")]


@pytest.mark.parametrize("limit", [None, 1000])
async def test_a_compressed_response_is_decoded(opened: Opened, limit: int | None) -> None:
    def handler(exchange: Exchange) -> None:
        exchange.answer(200, {"content-encoding": "gzip"}, gzip.compress(b"body"))

    with LoopbackServer(handler) as server:
        async with opened(max_body_bytes=limit) as transport:
            response = await transport.send(ask(server.host))
    assert response.body == b"body"
    assert not {"content-encoding", "content-length"} & set(response.headers)
    assert "gzip" in server.exchanges[0].headers["accept-encoding"]


async def test_a_body_over_the_limit_raises_and_closes_the_connection(opened: Opened) -> None:
    def handler(exchange: Exchange) -> None:
        exchange.head(200)
        exchange.chunk(b"x" * 2000)
        assert exchange.wait_closed()

    with LoopbackServer(handler) as server:
        async with opened(max_body_bytes=1000) as transport:
            with pytest.raises(TransportError, match="longer than 1000 bytes") as caught:
                await transport.send(ask(server.host))
    assert caught.value.kind == "protocol"


@pytest.mark.parametrize("limit", [None, 1000])
async def test_a_truncated_response_raises_a_stream_error(opened: Opened, limit: int | None) -> None:
    def handler(exchange: Exchange) -> None:
        exchange.head(200)
        exchange.chunk(b"bo")

    with LoopbackServer(handler) as server:
        async with opened(max_body_bytes=limit) as transport:
            with pytest.raises(TransportError) as caught:
                await transport.send(ask(server.host))
    assert caught.value.kind == "stream"


async def test_a_stalled_response_raises_a_timeout_and_closes_the_connection(opened: Opened) -> None:
    closed = threading.Event()

    def handler(exchange: Exchange) -> None:
        exchange.head(200)
        exchange.chunk(b"bo")
        assert exchange.wait_closed()
        closed.set()

    with LoopbackServer(handler) as server:
        async with opened() as transport:
            with pytest.raises(TransportError) as caught:
                await transport.send(ask(server.host, idle=0.2))
            assert await anyio.to_thread.run_sync(closed.wait, 10)
    assert caught.value.kind == "timeout"


async def test_a_proxy_receives_the_absolute_url(opened: Opened) -> None:
    def proxy(exchange: Exchange) -> None:
        exchange.answer(200, {}, exchange.path.encode())

    with LoopbackServer(proxy) as server:
        async with opened(proxy=f"http://{server.host}") as transport:
            response = await transport.send(ask("api.example.test"))
    assert response.body == b"http://api.example.test/v1"


async def test_a_proxy_that_refuses_a_tunnel_raises_a_connect_error(opened: Opened) -> None:
    with LoopbackServer(lambda exchange: exchange.answer(407)) as server:
        async with opened(proxy=f"http://{server.host}") as transport:
            with pytest.raises(TransportError, match="407") as caught:
                await transport.send(Request("POST", "https", "api.example.test", "/"))
    assert caught.value.kind == "connect"


@pytest.mark.parametrize(
    ("proxy", "text"),
    [
        ("socks5://user:word@127.0.0.1:9", "socksio"),
        ("socks4://user:word@127.0.0.1:9", "must be like 'http://127.0.0.1:8080'"),
        ("127.0.0.1:9", "must be like 'http://127.0.0.1:8080'"),
        ("http://user:word@127.0.0.1:99999", "65535|127.0.0.1:99999 failed"),  # asyncio, trio
    ],
)
async def test_an_unusable_proxy_raises_a_connect_error(proxy: str, text: str) -> None:
    transport = HttpxTransport(proxy=proxy)
    with pytest.raises(TransportError, match=text) as caught:
        await transport.send(ask("api.example.test"))
    await transport.aclose()
    assert caught.value.kind == "connect"
    assert "word" not in f"{caught.value} {caught.value.__cause__!r} {caught.value.__context__!r}"
