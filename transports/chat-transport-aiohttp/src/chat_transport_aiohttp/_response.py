"""The response of aiohttp: how its body is read, and how it is closed."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Self, cast, final

import aiohttp
from chat_core.transport.http import HttpResponse


@final
class AiohttpResponse(HttpResponse):
    """A response of aiohttp.

    Args:
        response: the response, whose body has not been read.
        is_decoded: whether the session decodes bodies itself.
    """

    __slots__ = ("_body", "_response")

    def __init__(self, response: aiohttp.ClientResponse, *, is_decoded: bool) -> None:
        self._body = BodyChunks(response)
        super().__init__(response.status, response.raw_headers, self._body, is_decoded=is_decoded)
        self._response = response

    @property
    def reason(self) -> str:
        """The reason phrase; empty if the server sent none."""
        return self._response.reason or ""

    async def drain(self) -> None:
        """Read the rest of a body behind the last event of its stream, unless it has ended."""
        if not self._response.content.is_eof():
            await super().drain()

    async def aclose(self) -> None:
        """Close the connection, unless the whole body was read and it can be used again. Closing twice is allowed."""
        self._body.stop_watching()
        connection = self._response.connection
        transport = connection.transport if connection is not None else None
        self._response.close()
        if transport is not None:
            # What waits to be sent, the farewell of TLS too, would keep the socket open until the peer has read it.
            transport.abort()


@final
class BodyChunks:
    """The chunks of a body as received, each of them all bytes that have arrived since the one before."""

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
            # aiohttp raises at once, although bytes that arrived before the error are still unread.
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
        """Stop waiting for the end of the connection, which may go back to the pool."""
        if self._closed is not None:
            self._closed.remove_done_callback(self._fail_reader)
            self._closed.remove_done_callback(_retrieve_exception)
            self._closed.add_done_callback(_retrieve_exception)

    def _fail_reader(self, closed: asyncio.Future[None]) -> None:
        """Raise in the reader when the connection is lost: aiohttp waits for ever after bytes it cannot parse."""
        closed.exception()
        if not self._content.is_eof() and self._content.exception() is None:
            self._content.set_exception(aiohttp.ClientPayloadError("what came is not how a body goes on"))

    def _take_buffered(self) -> bytes:
        """Take the bytes in aiohttp's buffer, which nothing public returns after an exception."""
        buffer = cast("deque[bytes] | None", getattr(self._content, "_buffer", None))
        if not buffer:
            return b""
        data = b"".join(buffer)
        buffer.clear()
        return data


def _retrieve_exception(closed: asyncio.Future[None]) -> None:
    """Retrieve the exception with which a pooled connection was lost: asyncio logs one that is not retrieved."""
    closed.exception()
