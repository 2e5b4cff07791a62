"""A client of the caller's, with what only such a client can have: hooks, transports of its own, headers of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
from chat_core.errors import TransportError
from chat_core.transport import Request
from chat_transport_httpx import HttpxTransport

pytestmark = pytest.mark.anyio

ASK = Request("POST", "https", "api.test", "/v1", (("Accept-Encoding", "gzip"),), b"{}")


class Body(httpx.AsyncByteStream):
    def __init__(self, *, breaks_when_closed: bool = False, breaks: Exception | None = None) -> None:
        self.closed = False
        self._breaks_when_closed = breaks_when_closed
        self._breaks = breaks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"data: a\n\n"
        if self._breaks is not None:
            raise self._breaks
        if self._breaks_when_closed:
            msg = "broken while it was being closed"
            raise httpx.ReadError(msg)
        yield b"data: b\n\n"

    async def aclose(self) -> None:
        self.closed = True


def client(body: Body, **extensions: object) -> httpx.AsyncClient:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.headers["accept-encoding"] == "gzip"
        headers = {"content-type": "text/event-stream"}
        return httpx.Response(200, headers=headers, stream=body, extensions=dict(extensions))

    return httpx.AsyncClient(transport=httpx.MockTransport(answer))


async def test_an_encoding_that_the_request_names_is_asked_for() -> None:
    body = Body()
    async with client(body) as mine, HttpxTransport(mine).stream(ASK) as stream:
        assert [event.data async for event in stream] == [b"a", b"b"]
    assert body.closed


async def test_a_body_that_a_hook_has_read_is_read_all_the_same() -> None:
    async def read(response: httpx.Response) -> None:
        await response.aread()

    async with client(Body()) as mine:
        mine.event_hooks = {"response": [read]}
        transport = HttpxTransport(mine)
        async with transport.stream(ASK) as stream:
            assert [event.data async for event in stream] == [b"a", b"b"]
        assert (await transport.send(ASK)).body == b"data: a\n\ndata: b\n\n"


async def test_a_connection_that_breaks_while_it_is_left_is_left() -> None:
    body = Body(breaks_when_closed=True)
    async with client(body) as mine, HttpxTransport(mine).stream(ASK) as stream:
        async for _ in stream:
            break
    assert body.closed


async def test_another_http2_than_httpcores_is_closed_without_a_word() -> None:
    body = Body()
    async with client(body, stream_id=1) as mine, HttpxTransport(mine).stream(ASK) as stream:
        async for _ in stream:
            break
    assert body.closed


async def test_an_error_without_a_word_is_told_as_such() -> None:
    async with client(Body(breaks=httpx.ReadError(""))) as mine, HttpxTransport(mine).stream(ASK) as stream:
        with pytest.raises(TransportError, match="ReadError: no reason given") as caught:
            [event async for event in stream]
    assert caught.value.kind == "stream"


async def test_what_is_no_error_of_http_passes_through() -> None:
    async with client(Body(breaks=ZeroDivisionError())) as mine, HttpxTransport(mine).stream(ASK) as stream:
        with pytest.raises(ZeroDivisionError):
            [event async for event in stream]


@pytest.mark.parametrize("name", ["ReadTimeout", "ConnectError", "RemoteProtocolError"])
async def test_the_errors_of_httpx_successor_are_understood_by_their_names(name: str) -> None:
    base = {"ReadTimeout": "TimeoutException", "ConnectError": "NetworkError"}.get(name, "ProtocolError")
    parent = type(base, (Exception,), {"__module__": "httpx2"})
    error = type(name, (parent,), {"__module__": "httpx2"})("from another package")
    kind = {"ReadTimeout": "timeout", "ConnectError": "connect", "RemoteProtocolError": "stream"}[name]
    async with client(Body(breaks=error)) as mine, HttpxTransport(mine).stream(ASK) as stream:
        with pytest.raises(TransportError, match="from another package") as caught:
            [event async for event in stream]
    assert caught.value.kind == kind
