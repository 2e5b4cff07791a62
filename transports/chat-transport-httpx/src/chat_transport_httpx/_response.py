"""Responses of httpx clients and of their connection pools."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Mapping
from typing import Any, Final, Self, TypeAlias, cast, final

from anyio import CancelScope
from chat_core.transport.http import HttpResponse

from chat_transport_httpx._chunks import ChunkDecoder
from chat_transport_httpx._http2_reset import reset_stream
from chat_transport_httpx._packages import httpcore, httpx
from chat_transport_httpx._sockets import BufferedStream

Received: TypeAlias = "httpx.Response | httpcore.Response"
"""A response of a client, or of the connection pool of the transport's own client."""

_PACKAGES: Final = frozenset({"httpx", "httpx2", "httpcore", "httpcore2"})


def reason_phrase(status: int, extensions: Mapping[str, Any]) -> str:
    """Return the reason phrase that the server sent, or that of the status for HTTP/2, which has none.

    Args:
        status: the status code.
        extensions: the extensions of the response.
    """
    sent: bytes | None = extensions.get("reason_phrase")
    return httpx.codes.get_reason_phrase(status) if sent is None else sent.decode("ascii", errors="ignore")


@final
class HttpxResponse(HttpResponse):
    """A response. Its chunks are read without the decoders of httpx, and from the connection if possible.

    Args:
        response: the response of a client or of a connection pool; this object owns it.
        timeout: the limit on the time to wait for each part of the body, in seconds; None for no limit.
    """

    __slots__ = ("_body", "_closed", "_response")

    def __init__(self, response: Received, timeout: float | None) -> None:
        connection = response.extensions.get("network_stream")
        self._body: AsyncIterator[bytes] | ChunkedBody
        is_decoded = False
        if isinstance(response, httpcore.Response):
            status, headers = response.status, response.headers
        else:
            status, headers = response.status_code, response.headers.raw
            # An event hook of the caller's client may have read the body, which is then decoded.
            is_decoded = response.is_stream_consumed
        if is_decoded:
            self._body = cast("httpx.Response", response).aiter_bytes()
        elif isinstance(connection, BufferedStream) and connection.has_unread_chunks and _is_unwrapped(response.stream):
            self._body = ChunkedBody(response, connection, timeout)
        else:
            self._body = _rest_of_body(response)
        super().__init__(status, headers, self._body, is_decoded=is_decoded)
        self._response = response
        self._closed = False

    @property
    def reason(self) -> str:
        """The reason phrase of the response, or an empty string if the server sent none."""
        return reason_phrase(self.status, self._response.extensions)

    async def aclose(self) -> None:
        """Close the response. Its connection is reused if the whole body was read. May be called more than once."""
        if self._closed:
            return
        self._closed = True
        chunks = self._body.rest if isinstance(self._body, ChunkedBody) else self._body
        if chunks is not None and getattr(chunks, "ag_frame", chunks) is not None:
            # httpx reads through nested async generators. Closing the outermost one leaves the others to the garbage
            # collector. In a cancelled scope, the innermost read raises an error, so that all generators exit now.
            with CancelScope(shield=True) as scope:
                scope.cancel()
                await _discard_chunks(chunks)
        if "stream_id" in self._response.extensions:
            with CancelScope(shield=True):
                await reset_stream(self._response)
        elif not getattr(self._response, "is_closed", False):  # a hook that reads the body also closes the response
            _forbid_reuse_after_unread_bytes(self._response.stream)
        await self._response.aclose()


@final
class ChunkedBody:
    """Async iterator over the body of a response with plain chunks, which it reads from the connection.

    httpx reads the rest of the body: the last chunk, and everything that is not a plain chunk. It also receives the
    exceptions of the connection, so that it closes the connection and translates them.

    Args:
        response: the response, of which nothing was read.
        connection: the connection of the response.
        timeout: the limit on the time to wait for each part of the body, in seconds; None for no limit.

    Attributes:
        rest: the iterator of httpx over the rest of the body, or None if it is not needed yet.
    """

    __slots__ = ("_connection", "_decoder", "_response", "_timeout", "rest")

    def __init__(self, response: Received, connection: BufferedStream, timeout: float | None) -> None:
        self._response = response
        self._connection = connection
        self._decoder = ChunkDecoder()
        self._timeout = timeout
        self.rest: AsyncIterator[bytes] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while self.rest is None:
            try:
                data = await self._connection.receive(self._timeout)
            except Exception as error:  # noqa: BLE001 - httpx raises it again
                self._connection.fail(error)
                self.rest = _rest_of_body(self._response)
                break
            # At the end of the connection, httpx reads it again and raises the error for a truncated body.
            body, rest = self._decoder.decode(data) if data else (b"", b"")
            if rest is not None:
                self._connection.unread(rest)
                self.rest = _rest_of_body(self._response)
            if body:
                return body
        return await anext(self.rest)


def _is_unwrapped(stream: object) -> bool:
    """Return whether only httpx and httpcore read a body, and no wrapper from an event hook or another transport."""
    while stream is not None:
        if type(stream).__module__.partition(".")[0] not in _PACKAGES:
            return False
        # Private, see docs/decisions/private-httpx-parts.md.
        stream = getattr(stream, "_stream", None) or getattr(stream, "_httpcore_stream", None)
    return True


def _forbid_reuse_after_unread_bytes(stream: object) -> None:
    """Let httpcore close an HTTP/1.1 connection if the server has sent more than the response.

    Otherwise, its parser would take these bytes as the response to the next request on the connection.

    Args:
        stream: the stream of the response, before it is closed.
    """
    # Private, see docs/decisions/private-httpx-parts.md.
    while (inner := getattr(stream, "_stream", None) or getattr(stream, "_httpcore_stream", None)) is not None:
        stream = inner
    parser: Any = getattr(getattr(stream, "_connection", None), "_h11_state", None)
    if parser is not None and parser.trailing_data[0]:
        parser.send_failed()  # a connection whose request failed is not used again


def _rest_of_body(response: Received) -> AsyncIterator[bytes]:
    return aiter(cast("AsyncIterable[bytes]", response.stream))


async def _discard_chunks(chunks: AsyncIterator[bytes]) -> None:
    try:
        async for _ in chunks:
            pass
    except Exception:  # noqa: BLE001, S110  # the connection broke while it was being closed
        pass
