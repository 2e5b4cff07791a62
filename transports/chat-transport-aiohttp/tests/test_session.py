"""Sessions passed in by the caller, with their own decompression, cookies, headers and closing."""

from __future__ import annotations

import gzip

import aiohttp
import pytest
from chat_core.errors import TransportError
from chat_core.transport import Request, Timeouts
from chat_testing import Exchange, LoopbackServer
from chat_transport_aiohttp import AiohttpTransport

pytestmark = pytest.mark.anyio

SSE = {"content-type": "text/event-stream"}


def ask(host: str, *headers: tuple[str, str]) -> Request:
    return Request("POST", "http", host, "/v1", headers, b"{}", Timeouts(idle=10.0))


@pytest.mark.parametrize("auto_decompress", [True, False])
async def test_a_body_is_decompressed_once_with_any_session_setting(auto_decompress: bool) -> None:
    def handler(exchange: Exchange) -> None:
        exchange.answer(200, {**SSE, "content-encoding": "gzip"}, gzip.compress(b"data: x\n\n"))

    with LoopbackServer(handler) as server:
        async with aiohttp.ClientSession(auto_decompress=auto_decompress) as session:
            transport = AiohttpTransport(session)
            async with transport.stream(ask(server.host)) as stream:
                assert [event.data async for event in stream] == [b"x"]
                assert "content-encoding" not in stream.headers
            assert (await transport.send(ask(server.host))).body == b"data: x\n\n"


@pytest.mark.parametrize("auto_decompress", [True, False])
async def test_a_body_with_a_wrong_content_encoding_raises_a_protocol_error(auto_decompress: bool) -> None:
    def handler(exchange: Exchange) -> None:
        exchange.answer(200, {**SSE, "content-encoding": "gzip"}, b"data: x\n\n")

    with LoopbackServer(handler) as server:
        async with aiohttp.ClientSession(auto_decompress=auto_decompress) as session:
            with pytest.raises(TransportError) as caught:
                await AiohttpTransport(session).send(ask(server.host))
    assert caught.value.kind == "protocol"


async def test_a_given_accept_encoding_is_sent_and_no_content_type_is_added() -> None:
    with LoopbackServer(lambda exchange: exchange.answer()) as server:
        transport = AiohttpTransport()
        await transport.send(ask(server.host, ("Accept-Encoding", "gzip"), ("x-twice", "1"), ("x-twice", "2")))
        await transport.aclose()
    [exchange] = server.exchanges
    assert exchange.headers["accept-encoding"] == "gzip"
    assert exchange.headers["x-twice"] == "1, 2"
    assert "content-type" not in exchange.headers


async def test_a_session_with_raise_for_status_does_not_raise_here() -> None:
    with LoopbackServer(lambda exchange: exchange.answer(500, {}, b"why")) as server:
        async with aiohttp.ClientSession(raise_for_status=True) as session:
            response = await AiohttpTransport(session).send(ask(server.host))
    assert (response.status, response.body) == (500, b"why")


async def test_cookies_of_a_response_are_not_stored() -> None:
    with LoopbackServer(lambda exchange: exchange.answer(200, {"set-cookie": "a=b; path=/"})) as server:
        host = server.host.replace("127.0.0.1", "localhost")
        transport = AiohttpTransport()
        for _ in range(2):
            await transport.send(ask(host))
        await transport.aclose()
    assert ["cookie" in exchange.headers for exchange in server.exchanges] == [False, False]


async def test_a_session_of_the_caller_stores_cookies() -> None:
    with LoopbackServer(lambda exchange: exchange.answer(200, {"set-cookie": "a=b; path=/"})) as server:
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
            transport = AiohttpTransport(session)
            for _ in range(2):
                await transport.send(ask(server.host))
    assert ["cookie" in exchange.headers for exchange in server.exchanges] == [False, True]


async def test_an_exception_that_is_not_a_client_error_is_raised_unchanged() -> None:
    async def breaks(_session: object, _context: object, _params: object) -> None:
        raise ZeroDivisionError

    trace = aiohttp.TraceConfig()
    trace.on_request_start.append(breaks)
    async with aiohttp.ClientSession(trace_configs=[trace]) as session:
        with pytest.raises(ZeroDivisionError):
            await AiohttpTransport(session).send(ask("127.0.0.1:9"))
