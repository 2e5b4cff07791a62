from __future__ import annotations

import gzip
import logging
import threading
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

import anyio
import h11
import pytest
from chat_core.errors import TransportError
from chat_core.transport import EventStream, Framing, Request, Timeouts, Transport
from chat_testing import Exchange, LoopbackServer
from chat_transport_httpx import HttpxTransport

pytestmark = pytest.mark.anyio

Opened: TypeAlias = Callable[..., AbstractAsyncContextManager[HttpxTransport]]
SSE = {"content-type": "text/event-stream; charset=utf-8"}
SECRET = "sk-very-secret"


def ask(host: str, *, framing: Framing = "sse", idle: float | None = 10.0) -> Request:
    return Request(
        "POST",
        "http",
        host,
        f"/v1/chat?key={SECRET}",
        (("authorization", f"Bearer {SECRET}"), ("content-type", "application/json")),
        b'{"stream": true}',
        Timeouts(idle=idle),
        framing,
    )


async def refused(opened: Opened, host: str, *, framing: Framing = "sse", idle: float | None = 10.0) -> TransportError:
    """Return the error that entering a stream raises."""
    async with opened() as transport:
        with pytest.raises(TransportError) as caught:
            async with transport.stream(ask(host, framing=framing, idle=idle)):
                pytest.fail("the stream was entered")
    assert SECRET not in f"{caught.value!r}{caught.value}{caught.value.__cause__!r}{caught.value.headers!r}"
    return caught.value


async def broken(opened: Opened, host: str, *, idle: float | None = 10.0) -> tuple[list[bytes], TransportError]:
    """Return the received events, and the error that ended them."""
    seen: list[bytes] = []

    async def read(stream: EventStream) -> None:
        async for event in stream:
            seen.append(event.data)  # events before the error are delivered

    async with opened() as transport, transport.stream(ask(host, idle=idle)) as stream:
        with pytest.raises(TransportError) as caught:
            await read(stream)
    assert SECRET not in f"{caught.value!r}{caught.value}{caught.value.__cause__!r}"
    return seen, caught.value


async def data(stream: EventStream) -> list[bytes]:
    return [event.data async for event in stream]


# A stream as it should be


async def test_the_request_is_sent_with_its_path_headers_and_body(opened: Opened) -> None:
    with LoopbackServer(lambda exchange: exchange.events(b"data: x\n\n")) as server:
        async with opened() as transport, transport.stream(ask(server.host)) as stream:
            assert await data(stream) == [b"x"]
    [exchange] = server.exchanges
    assert (exchange.method, exchange.path, exchange.body) == ("POST", f"/v1/chat?key={SECRET}", b'{"stream": true}')
    assert exchange.headers["authorization"] == f"Bearer {SECRET}"
    assert exchange.headers["accept-encoding"] == "identity"
    assert exchange.headers["host"] == server.host


@pytest.mark.parametrize("user", ["", f"me:{SECRET}@"])
async def test_the_key_is_not_logged(caplog: pytest.LogCaptureFixture, user: str) -> None:
    with caplog.at_level(logging.DEBUG), LoopbackServer(lambda exchange: exchange.events(b"data: x\n\n")) as server:
        transport = HttpxTransport()
        async with transport.stream(ask(user + server.host)) as stream:
            assert await data(stream) == [b"x"]
        await transport.send(ask(user + server.host))
        await transport.aclose()
    assert f"{server.host}/v1/chat" in caplog.text
    assert SECRET not in caplog.text
    assert [exchange.path for exchange in server.exchanges] == [f"/v1/chat?key={SECRET}"] * 2


async def test_status_and_headers_are_available_before_the_first_event(opened: Opened) -> None:
    go_on = threading.Event()

    def handler(exchange: Exchange) -> None:
        exchange.head(201, {**SSE, "x-request-id": "r1"})
        exchange.pause(go_on)
        exchange.chunk(b"event: named\nid: 7\ndata: x\n\n")
        exchange.end()

    with LoopbackServer(handler) as server:
        async with opened() as transport, transport.stream(ask(server.host)) as stream:
            assert (stream.status, stream.headers["X-Request-Id"]) == (201, "r1")
            go_on.set()
            [[event]] = [batch async for batch in stream.batches()]
            assert (event.type, event.data, event.id) == ("named", b"x", "7")


async def test_events_of_one_read_are_one_batch(opened: Opened) -> None:
    with LoopbackServer(lambda exchange: exchange.events(b"data: a\n\ndata: b\n\n")) as server:
        async with opened() as transport, transport.stream(ask(server.host)) as stream:
            assert [len(batch) async for batch in stream.batches()] == [2]


async def test_an_event_is_delivered_before_the_next_arrives(opened: Opened) -> None:
    go_on = threading.Event()

    def handler(exchange: Exchange) -> None:
        exchange.head(200, SSE)
        exchange.chunk(b"data: first\n\nda")
        exchange.pause(go_on)
        exchange.chunk(b"ta: second\n\n")
        exchange.end()

    with LoopbackServer(handler) as server:
        async with opened() as transport, transport.stream(ask(server.host)) as stream:
            seen: list[bytes] = []
            async for event in stream:
                seen.append(event.data)
                go_on.set()
            assert seen == [b"first", b"second"]


async def test_a_slow_first_byte_is_awaited(opened: Opened) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def handler(exchange: Exchange) -> None:
        asked.set()
        exchange.pause(go_on)
        exchange.events(b"data: late\n\n")

    async def let_go() -> None:
        await anyio.to_thread.run_sync(asked.wait)
        go_on.set()

    with LoopbackServer(handler) as server:
        async with opened() as transport, anyio.create_task_group() as tasks:
            tasks.start_soon(let_go)
            async with transport.stream(ask(server.host)) as stream:
                assert await data(stream) == [b"late"]


async def test_json_lines_and_json_arrays_are_split_into_events(opened: Opened) -> None:
    def handler(exchange: Exchange) -> None:
        exchange.head(200, {"content-type": "application/json"})
        exchange.chunk(b"[1" if exchange.headers["x-framing"] == "json-array" else b"1\n")
        exchange.chunk(b",\r\n2]" if exchange.headers["x-framing"] == "json-array" else b"2")
        exchange.end()

    with LoopbackServer(handler) as server:
        async with opened() as transport:
            for framing in ("json-array", "json-lines"):
                request = Request("POST", "http", server.host, "/", (("x-framing", framing),), framing=framing)
                async with transport.stream(request) as stream:
                    assert await data(stream) == [b"1", b"2"]


async def test_a_connection_is_reused_after_a_complete_stream(opened: Opened) -> None:
    with LoopbackServer(lambda exchange: exchange.events(b"data: x\n\n")) as server:
        async with opened() as transport:
            for _ in range(3):
                async with transport.stream(ask(server.host)) as stream:
                    assert await data(stream) == [b"x"]
    assert server.connections == 1


def _deflate(data: bytes) -> bytes:
    squeeze = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return squeeze.compress(data) + squeeze.flush()


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data)


def _zlib(data: bytes) -> bytes:
    return zlib.compress(data)


SQUEEZE: dict[str, Callable[[bytes], bytes]] = {"gzip": _gzip, "deflate": _zlib, "bare": _deflate}


@pytest.mark.parametrize("encoding", list(SQUEEZE))
async def test_a_compressed_stream_is_decoded_if_not_requested(opened: Opened, encoding: str) -> None:
    def handler(exchange: Exchange) -> None:
        body = SQUEEZE[encoding](b"data: " + b"x" * 1000 + b"\n\ndata: y\n\n")
        exchange.head(200, {**SSE, "content-encoding": encoding.replace("bare", "deflate")})
        for index in range(0, len(body), 7):
            exchange.chunk(body[index : index + 7])
        exchange.end()

    with LoopbackServer(handler) as server:
        async with opened() as transport, transport.stream(ask(server.host)) as stream:
            assert "content-encoding" not in stream.headers
            assert await data(stream) == [b"x" * 1000, b"y"]


async def test_a_large_stream_of_several_gzip_members_is_read_in_little_memory(opened: Opened) -> None:
    event = b"data: " + b"x" * 9_992 + b"\n\n"
    bomb = gzip.compress(event * 5_000) + gzip.compress(event * 5_000)

    def handler(exchange: Exchange) -> None:
        exchange.answer(200, {**SSE, "content-encoding": "gzip"}, bomb)

    with LoopbackServer(handler) as server:
        async with opened() as transport, transport.stream(ask(server.host)) as stream:
            tracemalloc.start()
            try:
                count = sum([len(batch) async for batch in stream.batches()])
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
    assert count == 10_000
    assert peak < 15_000_000


async def test_informational_responses_are_skipped(opened: Opened) -> None:
    def handler(exchange: Exchange) -> None:
        exchange.raw(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n")
        exchange.events(b"data: x\n\n")

    with LoopbackServer(handler) as server:
        async with opened() as transport, transport.stream(ask(server.host)) as stream:
            assert (stream.status, await data(stream)) == (200, [b"x"])


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/json", "**REDACTED**"])
async def test_a_stream_with_an_imprecise_content_type_is_accepted(opened: Opened, content_type: str | None) -> None:
    def handler(exchange: Exchange) -> None:
        exchange.head(200, {} if content_type is None else {"content-type": content_type})
        for chunk in (b"\xef\xbb\xbf: hello\n\n", b"data: x\n\n"):
            exchange.chunk(chunk)
        exchange.end()

    with LoopbackServer(handler) as server:
        async with opened() as transport, transport.stream(ask(server.host)) as stream:
            assert await data(stream) == [b"x"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_stream_of_100_megabytes_needs_little_memory(opened: Opened) -> None:
    event = b"data: " + b"x" * 9_992 + b"\n\n"
    piece, rounds = event * 100, 100

    def handler(exchange: Exchange) -> None:
        exchange.head(200, SSE)
        for _ in range(rounds):
            exchange.chunk(piece)
        exchange.end()

    with LoopbackServer(handler) as server:
        async with opened() as transport, transport.stream(ask(server.host)) as stream:
            tracemalloc.start()
            try:
                size = 0
                async for batch in stream.batches():
                    size += sum(len(event.data) for event in batch)
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
    assert size == 100 * rounds * 9_992
    assert peak < 10_000_000


# Answers that are no stream


async def test_an_error_status_is_raised_on_entering_with_headers_and_body(opened: Opened) -> None:
    def handler(exchange: Exchange) -> None:
        exchange.answer(429, {"Retry-After": "7", "content-type": "application/json"}, b'{"error": 1}', reason="Slow")

    with LoopbackServer(handler) as server:
        error = await refused(opened, server.host)
    assert (error.kind, error.status, error.headers["retry-after"], error.body) == ("status", 429, "7", b'{"error": 1}')
    assert str(error) == f"POST http://{server.host}/v1/chat returned status 429 Slow"


async def test_the_body_of_an_error_status_is_decoded(opened: Opened) -> None:
    def handler(exchange: Exchange) -> None:
        exchange.answer(400, {"content-encoding": "gzip"}, gzip.compress(b"no"))

    with LoopbackServer(handler) as server:
        error = await refused(opened, server.host)
    assert (error.body, "content-encoding" in error.headers) == (b"no", False)


async def test_the_body_of_an_error_status_is_limited(opened: Opened) -> None:
    def handler(exchange: Exchange) -> None:
        exchange.head(500)
        while not exchange.left.is_set():
            exchange.chunk(b"x" * 100_000)

    with LoopbackServer(handler) as server:
        error = await refused(opened, server.host)
    assert error.body == b"x" * 1024 * 1024


async def test_an_error_status_with_a_truncated_body_is_raised(opened: Opened) -> None:
    def handler(exchange: Exchange) -> None:
        exchange.head(503)
        exchange.chunk(b"sor")

    with LoopbackServer(handler) as server:
        error = await refused(opened, server.host)
    assert (error.kind, error.status, error.body) == ("status", 503, b"sor")


async def test_a_redirect_is_raised_with_its_target_and_not_followed(opened: Opened) -> None:
    def handler(exchange: Exchange) -> None:
        exchange.answer(307, {"location": "https://elsewhere.test/v1?key=secret"})

    with LoopbackServer(handler) as server:
        error = await refused(opened, server.host)
    assert (error.kind, error.status, error.headers["location"]) == (
        "status",
        307,
        "https://elsewhere.test/v1?key=secret",
    )
    assert "redirect to https://elsewhere.test/v1;" in str(error)
    assert len(server.exchanges) == 1


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("text/html", b"<!doctype html><title>Log in</title>"),
        ("application/json", b'{"error": {"message": "no such model"}}'),
        ("text/plain", b"upstream unavailable"),
    ],
)
async def test_a_page_instead_of_a_stream_raises_with_its_beginning(
    opened: Opened, content_type: str, body: bytes
) -> None:
    with LoopbackServer(lambda exchange: exchange.answer(200, {"content-type": content_type}, body)) as server:
        error = await refused(opened, server.host)
    assert (error.kind, error.body) == ("protocol", body)
    assert content_type in str(error)
    assert repr(body) in str(error)


async def test_a_page_instead_of_json_lines_is_refused(opened: Opened) -> None:
    with LoopbackServer(lambda exchange: exchange.answer(200, {"content-type": "text/html"}, b"<html>")) as server:
        error = await refused(opened, server.host, framing="json-lines")
    assert (error.kind, error.body) == ("protocol", b"<html>")


async def test_an_unsupported_content_encoding_is_refused(opened: Opened) -> None:
    with LoopbackServer(lambda exchange: exchange.answer(200, {**SSE, "content-encoding": "zip9"}, b"?")) as server:
        error = await refused(opened, server.host)
    assert error.kind == "protocol"
    assert "zip9" in str(error)


async def test_a_response_that_is_not_http_raises_a_protocol_error(opened: Opened) -> None:
    with LoopbackServer(lambda exchange: exchange.raw(b"SSH-2.0-OpenSSH_9.9\r\n\r\n")) as server:
        error = await refused(opened, server.host)
    assert error.kind == "protocol"


# Connections that fail


async def test_a_refused_connection_raises_a_connect_error(opened: Opened) -> None:
    with LoopbackServer(lambda exchange: exchange.answer()) as server:
        pass
    error = await refused(opened, server.host)
    assert error.kind == "connect"
    assert error.__cause__ is not None


async def test_a_connection_closed_without_a_response_raises_a_stream_error(opened: Opened) -> None:
    with LoopbackServer(lambda _: None) as server:
        error = await refused(opened, server.host)
    assert error.kind == "stream"


async def test_an_error_does_not_contain_the_exception_handled_by_the_caller(opened: Opened) -> None:
    never = threading.Event()
    with LoopbackServer(lambda _: None) as hangs_up, LoopbackServer(lambda exchange: exchange.pause(never)) as stalls:
        try:
            int(SECRET)
        except ValueError:
            broken = await refused(opened, hangs_up.host)
            late = await refused(opened, stalls.host, idle=0.2)
        else:
            pytest.fail("a secret is no number")
    assert (broken.kind, late.kind) == ("stream", "timeout")
    assert SECRET not in f"{broken} {late}"


async def test_an_error_does_not_contain_the_credentials_of_the_url(opened: Opened) -> None:
    with LoopbackServer(lambda exchange: exchange.answer(500, {}, b"")) as server:
        error = await refused(opened, f"me:{SECRET}@{server.host}")
        assert server.exchanges[0].headers["authorization"].startswith("Basic ")
    assert f"http://{server.host}/v1" in str(error)
    assert SECRET not in str(error)


async def test_a_reset_before_the_response_raises_a_stream_error(opened: Opened) -> None:
    with LoopbackServer(lambda exchange: exchange.reset()) as server:
        error = await refused(opened, server.host)
    assert error.kind == "stream"


async def test_a_missing_first_byte_raises_a_timeout(opened: Opened) -> None:
    never = threading.Event()
    with LoopbackServer(lambda exchange: exchange.pause(never)) as server:
        error = await refused(opened, server.host, idle=0.2)
    assert error.kind == "timeout"


async def test_a_stall_within_an_event_raises_a_timeout(opened: Opened) -> None:
    never = threading.Event()

    def handler(exchange: Exchange) -> None:
        exchange.head(200, SSE)
        exchange.chunk(b"data: a\n\ndata: hal")
        exchange.pause(never)

    with LoopbackServer(handler) as server:
        seen, error = await broken(opened, server.host, idle=0.2)
    assert (seen, error.kind) == ([b"a"], "timeout")


def _reset(exchange: Exchange) -> None:
    exchange.reset()


def _hang_up(_: Exchange) -> None:
    """Close the connection by returning without the last chunk."""


async def test_httpcore_parses_only_the_last_chunk(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []
    receive_data = h11.Connection.receive_data

    def record(connection: h11.Connection, data: bytes) -> None:
        parsed.append(data)
        receive_data(connection, data)

    def answer(exchange: Exchange) -> None:
        exchange.events(b"data: one\n\n", b"data: two\n\n")

    monkeypatch.setattr(h11.Connection, "receive_data", record)
    async with opened() as transport:
        with LoopbackServer(answer) as server:
            for _ in range(2):  # the connection is used again
                async with transport.stream(ask(server.host)) as stream:
                    assert [event.data async for event in stream] == [b"one", b"two"]
            assert server.connections == 1
    assert b"data: " not in b"".join(parsed)
    assert parsed.count(b"0\r\n\r\n") == 2


async def test_an_invalid_end_of_a_chunk_raises_a_stream_error(opened: Opened) -> None:
    sent = threading.Event()

    def answer(exchange: Exchange) -> None:
        exchange.head(headers=SSE)
        exchange.raw(b"9\r\ndata: a\n\n")
        exchange.pause(sent)
        exchange.raw(b"XX3\r\nabc\r\n0\r\n\r\n")

    seen: list[bytes] = []
    async with opened() as transport:
        with LoopbackServer(answer) as server:
            async with transport.stream(ask(server.host)) as stream:
                with pytest.raises(TransportError) as caught:
                    async for event in stream:
                        seen.append(event.data)
                        sent.set()
    assert (seen, caught.value.kind) == ([b"a"], "stream")


def _cut_chunk(exchange: Exchange) -> None:
    exchange.raw(b"ff\r\ndata: b")


def _second_status(exchange: Exchange) -> None:
    exchange.raw(b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n")


@pytest.mark.parametrize("breaks", [_reset, _hang_up, _cut_chunk, _second_status])
async def test_a_truncated_body_raises_a_stream_error(opened: Opened, breaks: Callable[[Exchange], None]) -> None:
    seen_first = threading.Event()

    def handler(exchange: Exchange) -> None:
        exchange.head(200, SSE)
        exchange.chunk(b"data: a\n\n")
        exchange.pause(seen_first)
        breaks(exchange)

    with LoopbackServer(handler) as server:
        async with opened() as transport, transport.stream(ask(server.host)) as stream:
            events = aiter(stream)
            assert (await anext(events)).data == b"a"
            seen_first.set()
            with pytest.raises(TransportError) as caught:
                await anext(events)
    assert caught.value.kind == "stream"


async def test_a_body_shorter_than_its_content_length_raises_a_stream_error(opened: Opened) -> None:
    def handler(exchange: Exchange) -> None:
        exchange.head(200, {**SSE, "content-length": "100"}, chunked=False)
        exchange.raw(b"data: a\n\n")

    with LoopbackServer(handler) as server:
        seen, error = await broken(opened, server.host)
    assert (seen, error.kind) == ([b"a"], "stream")


async def test_a_body_without_a_length_ends_when_the_connection_closes(opened: Opened) -> None:
    def handler(exchange: Exchange) -> None:
        exchange.head(200, SSE, chunked=False)
        exchange.raw(b"data: a\n\ndata: cut")

    with LoopbackServer(handler) as server:
        async with opened() as transport, transport.stream(ask(server.host)) as stream:
            assert await data(stream) == [b"a"]


async def test_a_body_with_a_wrong_content_encoding_raises_a_protocol_error(opened: Opened) -> None:
    def handler(exchange: Exchange) -> None:
        exchange.answer(200, {**SSE, "content-encoding": "gzip"}, b"data: a\n\n")

    with LoopbackServer(handler) as server:
        seen, error = await broken(opened, server.host)
    assert (seen, error.kind) == ([], "protocol")


async def test_an_event_over_the_limit_raises_and_closes_the_connection(opened: Opened) -> None:
    def handler(exchange: Exchange) -> None:
        exchange.head(200, SSE)
        exchange.chunk(b"data: " + b"x" * 2000)
        assert exchange.wait_closed()

    with LoopbackServer(handler) as server:
        async with opened(max_event_bytes=1000) as transport, transport.stream(ask(server.host)) as stream:
            with pytest.raises(TransportError, match="longer than 1000 bytes"):
                await data(stream)


# Secrets and mistakes


@pytest.mark.parametrize("value", [f"Bearer {SECRET}\n", f"Bearer {SECRET}\u2026", f" {SECRET}"])
async def test_an_invalid_header_value_is_refused_without_its_value(opened: Opened, value: str) -> None:
    request = Request("POST", "http", "127.0.0.1:9", "/", (("authorization", value),))
    async with opened() as transport:
        for call in (transport.send(request), _enter(transport, request)):
            with pytest.raises(TransportError, match="'authorization'") as caught:
                await call
            assert SECRET not in f"{caught.value!r} {caught.value.__cause__!r} {caught.value.__context__!r}"


async def test_an_invalid_header_name_is_refused_without_its_text(opened: Opened) -> None:
    async with opened() as transport:
        request = Request("POST", "http", "127.0.0.1:9", "/", ((f"x {SECRET}", "y"),))
        with LoopbackServer(lambda exchange: exchange.answer()) as server:
            request = Request("POST", "http", server.host, "/", ((f"x {SECRET}", "y"),))
            with pytest.raises(TransportError) as caught:
                await transport.send(request)
    assert caught.value.kind == "protocol"
    assert SECRET not in f"{caught.value!r} {caught.value.__cause__!r}"


async def _enter(transport: Transport, request: Request) -> Any:
    async with transport.stream(request):
        pass
