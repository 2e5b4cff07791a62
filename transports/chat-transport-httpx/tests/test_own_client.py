"""Clients of httpx and httpx2 that the caller passes in, with their own hooks, transports and headers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib import import_module
from typing import Any

import anyio
import pytest
from chat_core.errors import TransportError, UsageError
from chat_core.transport import Request, Timeouts
from chat_testing import Exchange, LoopbackServer
from chat_transport_httpx import HttpxTransport
from client_packages import NAMES, PACKAGES

ASK = Request("POST", "https", "api.test", "/v1", (("Accept-Encoding", "gzip"),), b"{}")


@pytest.fixture(params=PACKAGES, ids=NAMES)
def package(request: pytest.FixtureRequest) -> Any:
    return request.param


class Body:
    """Request body of the stream class of its package, see `client`."""

    def __init__(self, *, breaks: Exception | None = None) -> None:
        self.closed = False
        self._breaks = breaks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"data: a\n\n"
        if self._breaks is not None:
            raise self._breaks
        yield b"data: b\n\n"

    async def aclose(self) -> None:
        self.closed = True


def client(package: Any, body: Body, **extensions: object) -> Any:
    stream = type("Stream", (package.AsyncByteStream,), {"__aiter__": body.__aiter__, "aclose": body.aclose})

    def answer(request: Any) -> Any:
        assert request.headers["accept-encoding"] == "gzip"
        headers = {"content-type": "text/event-stream"}
        return package.Response(200, headers=headers, stream=stream(), extensions=dict(extensions))

    return package.AsyncClient(transport=package.MockTransport(answer))


@pytest.mark.anyio
async def test_an_encoding_that_the_request_names_is_asked_for(package: Any) -> None:
    body = Body()
    async with client(package, body) as mine, HttpxTransport(mine).stream(ASK) as stream:
        assert [event.data async for event in stream] == [b"a", b"b"]
    assert body.closed


@pytest.mark.anyio
async def test_a_body_already_read_by_a_response_hook_is_returned(package: Any) -> None:
    async def read(response: Any) -> None:
        await response.aread()

    async with client(package, Body()) as mine:
        mine.event_hooks = {"response": [read]}
        transport = HttpxTransport(mine)
        async with transport.stream(ASK) as stream:
            assert [event.data async for event in stream] == [b"a", b"b"]
        assert (await transport.send(ASK)).body == b"data: a\n\ndata: b\n\n"


@pytest.mark.anyio
async def test_a_stream_that_a_response_hook_has_wrapped_is_read_through_the_wrapper(package: Any) -> None:
    async def wrap(response: Any) -> None:
        inner = response.stream

        async def upper(_: object) -> AsyncIterator[bytes]:
            async for data in inner:
                yield data.replace(b"one", b"ONE")

        async def aclose(_: object) -> None:
            await inner.aclose()

        wrapper: Any = type("Wrapper", (package.AsyncByteStream,), {"__aiter__": upper, "aclose": aclose})
        response.stream = wrapper()

    with LoopbackServer(lambda exchange: exchange.events(b"data: one\n\n")) as server:
        async with package.AsyncClient(event_hooks={"response": [wrap]}) as mine:
            request = Request("POST", "http", server.host, "/v1", (), b"{}")
            async with HttpxTransport(mine).stream(request) as stream:
                assert [event.data async for event in stream] == [b"ONE"]


@pytest.mark.anyio
async def test_an_error_while_closing_a_stream_is_ignored(package: Any) -> None:
    body = Body(breaks=package.ReadError("broken while it was being closed"))
    async with client(package, body) as mine, HttpxTransport(mine).stream(ASK) as stream:
        async for _ in stream:
            break
    assert body.closed


@pytest.mark.anyio
async def test_an_unknown_http2_stream_is_closed_without_an_error(package: Any) -> None:
    body = Body()
    async with client(package, body, stream_id=1) as mine, HttpxTransport(mine).stream(ASK) as stream:
        async for _ in stream:
            break
    assert body.closed


@pytest.mark.anyio
async def test_an_error_without_a_message_has_a_default_text(package: Any) -> None:
    async with client(package, Body(breaks=package.ReadError(""))) as mine, HttpxTransport(mine).stream(ASK) as stream:
        with pytest.raises(TransportError, match="ReadError: no reason given") as caught:
            [event async for event in stream]
    assert caught.value.kind == "stream"


@pytest.mark.anyio
async def test_an_exception_that_is_not_a_client_error_is_raised_unchanged(package: Any) -> None:
    async with client(package, Body(breaks=ZeroDivisionError())) as mine, HttpxTransport(mine).stream(ASK) as stream:
        with pytest.raises(ZeroDivisionError):
            [event async for event in stream]


@pytest.mark.anyio
async def test_a_request_hook_may_change_the_timeouts(package: Any) -> None:
    async def shorten(request: Any) -> None:
        request.extensions["timeout"]["read"] = 0.05

    def handler(exchange: Exchange) -> None:
        exchange.head(200, {"content-type": "text/event-stream"})
        exchange.chunk(b"data: a\n\n")
        exchange.wait_closed()

    with LoopbackServer(handler) as server:
        request = Request("POST", "http", server.host, "/v1", (), b"{}", Timeouts(idle=300))
        mine = package.AsyncClient(event_hooks={"request": [shorten]})
        async with mine, HttpxTransport(mine).stream(request) as stream:
            with anyio.fail_after(10), pytest.raises(TransportError, match="ReadTimeout"):
                [event async for event in stream]


KINDS = {
    "ConnectTimeout": "timeout",
    "ReadTimeout": "timeout",
    "WriteTimeout": "timeout",
    "PoolTimeout": "timeout",
    "ConnectError": "connect",
    "ProxyError": "connect",
    "ReadError": "stream",
    "WriteError": "stream",
    "CloseError": "stream",
    "RemoteProtocolError": "stream",
    "LocalProtocolError": "protocol",
    "UnsupportedProtocol": "protocol",
    "DecodingError": "stream",
    "TooManyRedirects": "stream",
}


@pytest.mark.anyio
@pytest.mark.parametrize("name", KINDS)
async def test_exceptions_of_httpx_and_httpx2_are_translated(package: Any, name: str) -> None:
    error = getattr(package, name)("in its own words")
    async with client(package, Body(breaks=error)) as mine, HttpxTransport(mine).stream(ASK) as stream:
        with pytest.raises(TransportError) as caught:
            [event async for event in stream]
    assert caught.value.kind == KINDS[name]


def leaves(error: type[BaseException]) -> set[str]:
    below = error.__subclasses__()
    return {name for kind in below for name in leaves(kind)} if below else {error.__name__}


def test_every_request_error_class_has_a_kind(package: Any) -> None:
    assert leaves(package.RequestError) - {"SSEError"} == KINDS.keys()  # that is of a parser that is not used


@pytest.mark.parametrize(
    "other", [*(package.Client() for package in PACKAGES), object(), "text"], ids=[*NAMES, "object", "text"]
)
def test_a_value_that_is_not_an_async_client_is_refused(other: Any) -> None:
    with pytest.raises(UsageError, match="requires an AsyncClient of httpx or httpx2, not an object of "):
        HttpxTransport(other)


@pytest.mark.anyio
async def test_a_passed_client_writes_a_request_with_one_system_call(
    package: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = import_module(package.__name__.replace("httpx", "httpcore"))
    written: list[bytes] = []
    connect = core.AnyIOBackend.connect_tcp

    async def connect_recorded(self: Any, *arguments: Any, **options: Any) -> Any:
        stream = await connect(self, *arguments, **options)
        sender = stream._stream
        # A transport of asyncio, or a stream of trio. Both make one system call for each item.
        writer, name = (sender._transport, "write") if hasattr(sender, "_transport") else (sender, "send")
        write = getattr(writer, name)

        def record(item: bytes) -> Any:
            written.append(item)
            return write(item)

        setattr(writer, name, record)
        return stream

    monkeypatch.setattr(core.AnyIOBackend, "connect_tcp", connect_recorded)
    with LoopbackServer(lambda exchange: exchange.answer()) as server:
        async with package.AsyncClient() as mine:
            await HttpxTransport(mine).send(Request("POST", "http", server.host, "/v1", (), b"{}"))

    assert len(written) == 1
    assert written[0].endswith(b"\r\n\r\n{}")


def test_a_client_with_its_own_transport_or_backend_is_not_changed(package: Any) -> None:
    def handle(_request: object) -> Any:
        return package.Response(200)

    core = import_module(package.__name__.replace("httpx", "httpcore"))
    mock = package.MockTransport(handle)
    own = package.AsyncHTTPTransport()
    own._pool._network_backend = backend = core.AnyIOBackend()
    derived = type("Derived", (package.AsyncHTTPTransport,), {})()
    before = derived._pool._network_backend

    for transport in (mock, own, derived):
        HttpxTransport(package.AsyncClient(transport=transport))

    assert own._pool._network_backend is backend
    assert derived._pool._network_backend is before
