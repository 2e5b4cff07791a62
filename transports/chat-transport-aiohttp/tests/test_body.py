"""Response bodies that aiohttp alone would lose, wait for indefinitely, or report as complete."""

from __future__ import annotations

import gc
import logging
import threading
import zlib

import aiohttp
import anyio
import anyio.to_thread
import pytest
from aiohttp.http_exceptions import ContentEncodingError, TransferEncodingError
from chat_core.errors import TransportError
from chat_core.transport import EventStream, Request, Timeouts
from chat_core.transport.content_encoding import Decoder
from chat_testing import Exchange, LoopbackServer
from chat_transport_aiohttp import AiohttpTransport
from chat_transport_aiohttp._errors import AiohttpErrorTranslation
from chat_transport_aiohttp._request_body import LargeBody

pytestmark = pytest.mark.anyio

SSE = {"content-type": "text/event-stream"}
ASK = Request("POST", "http", "host", "/v1?key=secret")


def ask(host: str) -> Request:
    return Request("POST", "http", host, "/v1", (), b"{}", Timeouts(idle=10.0))


async def test_events_received_before_a_reset_are_delivered_before_the_error() -> None:
    heard, gone = threading.Event(), threading.Event()

    def handler(exchange: Exchange) -> None:
        exchange.head(200, SSE)
        exchange.chunk(b"data: 1\n\n")
        exchange.pause(heard)
        exchange.chunk(b"data: 2\n\n")
        exchange.chunk(b"data: 3\n\n")
        exchange.reset()
        gone.set()

    seen: list[bytes] = []

    async def busy(stream: EventStream) -> None:
        async for event in stream:
            seen.append(event.data)
            if not heard.is_set():
                heard.set()
                await anyio.to_thread.run_sync(gone.wait, 10)
                await anyio.wait_all_tasks_blocked()

    with LoopbackServer(handler) as server:
        transport = AiohttpTransport()
        async with transport.stream(ask(server.host)) as stream:
            with pytest.raises(TransportError) as caught:
                await busy(stream)
        await transport.aclose()
    assert caught.value.kind == "stream"
    # A reset may discard data that the kernel has not delivered. All other data must arrive.
    assert seen in ([b"1"], [b"1", b"2", b"3"])


async def test_a_reset_is_not_the_end_of_a_body_without_a_length() -> None:
    heard = threading.Event()

    def handler(exchange: Exchange) -> None:
        exchange.head(200, SSE, chunked=False)
        exchange.raw(b"data: 1\n\n")
        exchange.pause(heard)
        exchange.reset()

    with LoopbackServer(handler) as server:
        transport = AiohttpTransport()
        seen: list[bytes] = []
        async with transport.stream(ask(server.host)) as stream:
            with pytest.raises(TransportError) as caught:
                async for event in stream:
                    seen.append(event.data)
                    heard.set()
        await transport.aclose()
    assert (seen, caught.value.kind) == ([b"1"], "stream")


async def test_an_invalid_chunk_raises_without_waiting() -> None:
    heard = threading.Event()

    def handler(exchange: Exchange) -> None:
        exchange.head(200, SSE)
        exchange.chunk(b"data: 1\n\n")
        exchange.pause(heard)
        exchange.raw(b"this is no length\r\n")
        exchange.wait_closed()

    with LoopbackServer(handler) as server:
        transport = AiohttpTransport()
        with anyio.fail_after(5):
            async with transport.stream(ask(server.host)) as stream:
                with pytest.raises(TransportError) as caught:
                    async for _ in stream:
                        heard.set()
        await transport.aclose()
    assert caught.value.kind == "stream"


async def test_losing_an_idle_connection_logs_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    answered, gone = threading.Event(), threading.Event()

    def handler(exchange: Exchange) -> None:
        exchange.answer(200, {}, b"")
        exchange.pause(answered)
        exchange.reset()
        gone.set()

    with LoopbackServer(handler) as server, caplog.at_level(logging.DEBUG):
        transport = AiohttpTransport()
        await transport.send(ask(server.host))
        answered.set()
        await anyio.to_thread.run_sync(gone.wait, 10)
        await transport.send(ask(server.host))
        gc.collect()
        await transport.aclose()
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_stream_closed_after_its_last_event_keeps_the_connection_alive() -> None:
    def handler(exchange: Exchange) -> None:
        body = b"data: 1\n\n"
        exchange.answer(200, SSE, body)

    with LoopbackServer(handler) as server:
        transport = AiohttpTransport()
        for _ in range(3):
            request = Request("POST", "http", server.host, "/", is_last=lambda _event: True)
            async with transport.stream(request) as stream:
                async for _ in stream:
                    break
        await transport.aclose()
    assert server.connections == 1


def test_a_large_body_has_a_size_and_can_be_decoded() -> None:
    body = LargeBody("é".encode(), 1.0)
    assert (body.decode(), body.size) == ("é", 2)


def test_a_decoder_returns_nothing_until_it_has_enough_input() -> None:
    decoder = Decoder("gzip")
    squeeze = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    whole = squeeze.compress(b"x" * 100) + squeeze.flush()
    decoder.feed(whole[:3])
    assert decoder.read() == b""
    decoder.feed(whole[3:])
    assert decoder.read() == b"x" * 100


@pytest.mark.parametrize(
    ("error", "answered", "kind"),
    [
        (TransferEncodingError("no length"), False, "protocol"),
        (TransferEncodingError("no length"), True, "stream"),
        (ContentEncodingError("not gzip"), True, "protocol"),
        (aiohttp.ClientOSError(32, "Can not write request body for http://host/v1?key=secret"), False, "stream"),
        (aiohttp.ConnectionTimeoutError("Connection timeout to host http://host/v1?key=secret"), False, "timeout"),
        (OSError(), True, "stream"),
    ],
)
def test_a_client_error_is_translated_without_the_query(error: Exception, answered: bool, kind: str) -> None:
    with pytest.raises(TransportError) as caught, AiohttpErrorTranslation(ASK, response_started=answered):
        raise error
    assert caught.value.kind == kind
    assert "secret" not in f"{caught.value} {caught.value!r} {caught.value.__cause__!r}"
