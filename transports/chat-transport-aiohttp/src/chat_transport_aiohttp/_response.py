"""Responses that aiohttp sessions return."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Self, cast, final

import aiohttp
from chat_core.transport.http import HttpResponse


@final
class AiohttpResponse(HttpResponse):
    """An aiohttp response, adapted to the interface `HttpResponse`.

    Args:
        response: the aiohttp response, before its body is read; this object owns it.
        is_decoded: whether the session decodes bodies.
    """

    __slots__ = ("_body", "_response")

    def __init__(self, response: aiohttp.ClientResponse, *, is_decoded: bool) -> None:
        self._body = BodyChunks(response)
        super().__init__(response.status, response.raw_headers, self._body, is_decoded=is_decoded)
        self._response = response

    @property
    def reason(self) -> str:
        """The reason phrase of the response, or an empty string if the server sent none."""
        return self._response.reason or ""

    async def drain(self) -> None:
        """Override `HttpResponse.drain`: do nothing if the body has already ended."""
        if not self._response.content.is_eof():
            await super().drain()

    async def aclose(self) -> None:
        """Close the response. Its connection is reused if the whole body was read. May be called more than once."""
        self._body.stop_watching()
        if self._response.closed:
            return  # aiohttp closes a response at the end of its body
        connection = self._response.connection
        transport = connection.transport if connection is not None else None
        self._response.close()
        if transport is not None:
            # Otherwise unsent data, such as a TLS close alert, keeps the socket open until the peer reads it.
            transport.abort()


@final
class BodyChunks:
    """Async iterator over the chunks of a body. Each chunk has all data that arrived since the previous chunk."""

    __slots__ = ("_closed", "_content", "_ends_with_connection", "_protocol")

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._content = response.content
        self._ends_with_connection = (
            "content-length" not in response.headers and "transfer-encoding" not in response.headers
        )
        connection = response.connection
        self._protocol = connection.protocol if connection is not None else None
        self._closed = self._protocol.closed if self._protocol is not None else None
        if self._closed is not None:
            self._closed.add_done_callback(self._fail_reader)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await self._content.readany()
        except Exception:
            # aiohttp raises at once, although data that arrived before the error is still unread.
            chunk = self._take_buffered()
            if not chunk:
                raise
            return chunk
        if chunk:
            return chunk
        if (
            self._ends_with_connection
            and self._protocol is not None
            and isinstance(error := self._protocol.exception(), OSError)
        ):
            raise error
        raise StopAsyncIteration

    def stop_watching(self) -> None:
        """Stop observing the connection of this response, because the pool may reuse it."""
        if self._closed is not None:
            self._closed.remove_done_callback(self._fail_reader)
            self._closed.remove_done_callback(_retrieve_exception)
            self._closed.add_done_callback(_retrieve_exception)

    def _fail_reader(self, closed: asyncio.Future[None]) -> None:
        """Make a pending read raise when the connection is lost, because aiohttp may otherwise wait forever."""
        closed.exception()
        if not self._content.is_eof() and self._content.exception() is None:
            self._content.set_exception(aiohttp.ClientPayloadError("the connection was lost within the body"))

    def _take_buffered(self) -> bytes:
        """Return and clear the private buffer of aiohttp. After an exception, no public method returns this data."""
        buffer = cast("deque[bytes] | None", getattr(self._content, "_buffer", None))
        if not buffer:
            return b""
        data = b"".join(buffer)
        buffer.clear()
        return data


def _retrieve_exception(closed: asyncio.Future[None]) -> None:
    """Retrieve the exception of a closed pooled connection, because asyncio logs exceptions that are not retrieved."""
    closed.exception()
