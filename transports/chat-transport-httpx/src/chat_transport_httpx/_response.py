"""Responses that httpx clients return."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final, Self, cast, final

from anyio import CancelScope
from chat_core.transport.http import HttpResponse

from chat_transport_httpx._chunks import ChunkDecoder
from chat_transport_httpx._http2_reset import reset_stream
from chat_transport_httpx._packages import httpx
from chat_transport_httpx._sockets import BufferedStream

_PACKAGES: Final = frozenset({"httpx", "httpx2", "httpcore", "httpcore2"})


@final
class HttpxResponse(HttpResponse):
    """An httpx response. Its chunks are read without the decoders of httpx, and from the connection if possible.

    Args:
        response: the httpx response; this object owns it.
    """

    __slots__ = ("_body", "_closed", "_response")

    def __init__(self, response: httpx.Response) -> None:
        # An event hook of the caller's client may have read the body, which is then decoded.
        consumed = response.is_stream_consumed
        connection = response.extensions.get("network_stream")
        self._body: AsyncIterator[bytes] | ChunkedBody
        if consumed:
            self._body = response.aiter_bytes()
        elif isinstance(connection, BufferedStream) and connection.has_unread_chunks and _is_unwrapped(response.stream):
            self._body = ChunkedBody(response, connection)
        else:
            self._body = _httpx_chunks(response)
        super().__init__(response.status_code, response.headers.raw, self._body, is_decoded=consumed)
        self._response = response
        self._closed = False

    @property
    def reason(self) -> str:
        """The reason phrase of the response, or an empty string if the server sent none."""
        return self._response.reason_phrase

    async def aclose(self) -> None:
        """Close the response. Its connection is reused if the whole body was read. May be called more than once."""
        if self._closed:
            return
        self._closed = True
        chunks = self._body.httpx_chunks if isinstance(self._body, ChunkedBody) else self._body
        if chunks is not None and getattr(chunks, "ag_frame", chunks) is not None:
            # httpx reads through nested async generators. Closing the outermost one leaves the others to the garbage
            # collector. In a cancelled scope, the innermost read raises an error, so that all generators exit now.
            with CancelScope(shield=True) as scope:
                scope.cancel()
                await _discard_chunks(chunks)
        if "stream_id" in self._response.extensions:
            with CancelScope(shield=True):
                await reset_stream(self._response)
        await self._response.aclose()


@final
class ChunkedBody:
    """Async iterator over the body of a response with plain chunks, which it reads from the connection.

    httpx reads the rest of the body: the last chunk, and everything that is not a plain chunk. It also receives the
    exceptions of the connection, so that it closes the connection and translates them.

    Args:
        response: the httpx response, of which nothing was read.
        connection: the connection of the response.

    Attributes:
        httpx_chunks: the iterator of httpx over the rest of the body, or None if it is not needed yet.
    """

    __slots__ = ("_connection", "_decoder", "_response", "_timeout", "httpx_chunks")

    def __init__(self, response: httpx.Response, connection: BufferedStream) -> None:
        self._response = response
        self._connection = connection
        self._decoder = ChunkDecoder()
        self._timeout: float | None = response.request.extensions.get("timeout", {}).get("read")
        self.httpx_chunks: AsyncIterator[bytes] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while self.httpx_chunks is None:
            try:
                data = await self._connection.receive(self._timeout)
            except Exception as error:  # noqa: BLE001 - httpx raises it again
                self._connection.fail(error)
                self.httpx_chunks = _httpx_chunks(self._response)
                break
            # At the end of the connection, httpx reads it again and raises the error for a truncated body.
            body, rest = self._decoder.decode(data) if data else (b"", b"")
            if rest is not None:
                self._connection.unread(rest)
                self.httpx_chunks = _httpx_chunks(self._response)
            if body:
                return body
        return await anext(self.httpx_chunks)


def _is_unwrapped(stream: object) -> bool:
    """Return whether only httpx and httpcore read a body, and no wrapper from an event hook or another transport."""
    while stream is not None:
        if type(stream).__module__.partition(".")[0] not in _PACKAGES:
            return False
        # Private, see docs/decisions/private-httpx-parts.md.
        stream = getattr(stream, "_stream", None) or getattr(stream, "_httpcore_stream", None)
    return True


def _httpx_chunks(response: httpx.Response) -> AsyncIterator[bytes]:
    return aiter(cast("httpx.AsyncByteStream", response.stream))


async def _discard_chunks(chunks: AsyncIterator[bytes]) -> None:
    try:
        async for _ in chunks:
            pass
    except Exception:  # noqa: BLE001, S110  # the connection broke while it was being closed
        pass
