from __future__ import annotations

import gzip
import threading
from inspect import signature

import aiohttp
import anyio
import pytest
from chat_core.errors import TransportError
from chat_core.transport import Request, Timeouts, Transport
from chat_testing import Exchange, LoopbackServer
from chat_transport_aiohttp import AiohttpTransport

pytestmark = pytest.mark.anyio

LIMITS = {
    "max_event_bytes": 16 * 2**20,
    "max_body_bytes": 64 * 2**20,
    "max_stream_bytes": 256 * 2**20,
    "max_error_bytes": 2**20,
}
"""The default limits of docs/security.md."""


def ask(host: str, *, idle: float | None = 10.0) -> Request:
    return Request("POST", "http", host, "/v1", (("x-key", "k"),), b"{}", Timeouts(idle=idle))


async def test_the_transport_implements_the_protocol_and_its_repr_hides_secrets() -> None:
    assert isinstance(AiohttpTransport(), Transport)
    assert repr(AiohttpTransport(proxy="http://user:secret@127.0.0.1:1")) == "AiohttpTransport()"
    async with aiohttp.ClientSession(headers={"x": "secret"}) as session:
        assert repr(AiohttpTransport(session)) == "AiohttpTransport(session=...)"


def test_the_default_limits_are_those_of_the_documentation() -> None:
    parameters = signature(AiohttpTransport).parameters
    assert {name: parameters[name].default for name in LIMITS} == LIMITS


@pytest.mark.parametrize("status", [200, 302, 429, 500])
async def test_send_returns_the_whole_response_for_any_status(status: int) -> None:
    def handler(exchange: Exchange) -> None:
        exchange.answer(status, {"X-Id": "1", "location": "/elsewhere"}, b"body")

    transport = AiohttpTransport()
    with LoopbackServer(handler) as server:
        response = await transport.send(ask(server.host))
        await transport.aclose()
    assert (response.status, response.headers["x-id"], response.body) == (status, "1", b"body")
    [asked] = server.exchanges
    assert (asked.method, asked.path, asked.body) == ("POST", "/v1", b"{}")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_send_and_stream_use_the_requested_method(method: str) -> None:
    transport = AiohttpTransport()
    with LoopbackServer(lambda exchange: exchange.answer(200, {}, b"")) as server:
        await transport.send(Request(method, "http", server.host, "/version"))
        async with transport.stream(Request(method, "http", server.host, "/events")):
            pass
        await transport.aclose()
    assert [(asked.method, asked.path) for asked in server.exchanges] == [(method, "/version"), (method, "/events")]


async def test_requests_with_other_keys_or_paths_are_sent_as_they_are() -> None:
    transport = AiohttpTransport()
    expected = [(f"/v1/{number % 5}", f"key-{number}") for number in (*range(70), 0)]
    with LoopbackServer(lambda exchange: exchange.answer(200, {}, b"")) as server:
        for path, key in expected:
            await transport.send(Request("POST", "http", server.host, path, (("x-key", key),), b"{}"))
        await transport.aclose()
    assert [(asked.path, asked.headers["x-key"]) for asked in server.exchanges] == expected


@pytest.mark.parametrize("content_type", [(), (("Content-Type", "application/json"),)])
async def test_the_content_type_is_sent_only_if_the_request_has_one(content_type: tuple[tuple[str, str], ...]) -> None:
    transport = AiohttpTransport()
    with LoopbackServer(lambda exchange: exchange.answer(200, {}, b"")) as server:
        await transport.send(Request("POST", "http", server.host, "/v1", content_type, b"{}"))
        await transport.aclose()
    [asked] = server.exchanges
    assert asked.headers.get("content-type") == (content_type[0][1] if content_type else None)


@pytest.mark.parametrize("limit", [None, 1000])
async def test_a_compressed_response_is_decoded(limit: int | None) -> None:
    def handler(exchange: Exchange) -> None:
        exchange.answer(200, {"content-encoding": "gzip"}, gzip.compress(b"body"))

    transport = AiohttpTransport(max_body_bytes=limit)
    with LoopbackServer(handler) as server:
        response = await transport.send(ask(server.host))
        await transport.aclose()
    assert response.body == b"body"
    assert not {"content-encoding", "content-length"} & set(response.headers)
    assert "gzip" in server.exchanges[0].headers["accept-encoding"]


async def test_a_body_over_the_limit_raises_and_closes_the_connection() -> None:
    def handler(exchange: Exchange) -> None:
        exchange.head(200)
        exchange.chunk(b"x" * 2000)
        assert exchange.wait_closed()

    transport = AiohttpTransport(max_body_bytes=1000)
    with LoopbackServer(handler) as server:
        with pytest.raises(TransportError, match="longer than 1000 bytes") as caught:
            await transport.send(ask(server.host))
        await transport.aclose()
    assert caught.value.kind == "protocol"


@pytest.mark.parametrize("limit", [None, 1000])
async def test_a_truncated_response_raises_a_stream_error(limit: int | None) -> None:
    def handler(exchange: Exchange) -> None:
        exchange.head(200)
        exchange.chunk(b"bo")

    transport = AiohttpTransport(max_body_bytes=limit)
    with LoopbackServer(handler) as server:
        with pytest.raises(TransportError) as caught:
            await transport.send(ask(server.host))
        await transport.aclose()
    assert caught.value.kind == "stream"


async def test_a_stalled_response_raises_a_timeout_and_closes_the_connection() -> None:
    closed = threading.Event()

    def handler(exchange: Exchange) -> None:
        exchange.head(200)
        exchange.chunk(b"bo")
        assert exchange.wait_closed()
        closed.set()

    transport = AiohttpTransport()
    with LoopbackServer(handler) as server:
        with pytest.raises(TransportError) as caught:
            await transport.send(ask(server.host, idle=0.2))
        assert await anyio.to_thread.run_sync(closed.wait, 10)
        await transport.aclose()
    assert caught.value.kind == "timeout"


async def test_a_proxy_receives_the_absolute_url() -> None:
    def proxy(exchange: Exchange) -> None:
        exchange.answer(200, {}, exchange.path.encode())

    with LoopbackServer(proxy) as server:
        transport = AiohttpTransport(proxy=f"http://{server.host}")
        response = await transport.send(ask("api.example.test"))
        await transport.aclose()
    assert response.body == b"http://api.example.test/v1"


async def test_a_proxy_that_refuses_a_tunnel_raises_a_connect_error() -> None:
    with LoopbackServer(lambda exchange: exchange.answer(407)) as server:
        transport = AiohttpTransport(proxy=f"http://{server.host}")
        with pytest.raises(TransportError, match="407") as caught:
            await transport.send(Request("POST", "https", "api.example.test", "/"))
        await transport.aclose()
    assert caught.value.kind == "connect"
