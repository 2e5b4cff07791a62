"""The body of an answer, chunk by chunk, and its end; and a body on its way out."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import cast, final

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from chat_core.transport.content import Decoder

_FINISH_SECONDS = 0.25
_FINISH_BYTES = 65536
_PIECE = 65536


@final
class Body:
    """The chunks of a body, each of them all that has come since the one before.

    Args:
        response: the answer, whose body has not been read.
        decoder: what undoes its encoding, if it has one.
    """

    __slots__ = ("_closed", "_content", "_decoder", "_first", "_is_open_ended", "_protocol", "_response")

    def __init__(self, response: aiohttp.ClientResponse, decoder: Decoder | None) -> None:
        self._response = response
        self._content = response.content
        self._decoder = decoder
        self._first = b""
        # Where nothing but the end of the connection says that the body has ended.
        self._is_open_ended = _is_open_ended(response)
        connection = response.connection
        self._protocol = connection.protocol if connection is not None else None
        self._closed = self._protocol.closed if self._protocol is not None else None
        if self._closed is not None:
            self._closed.add_done_callback(self._lost)

    def __aiter__(self) -> Body:
        return self

    async def __anext__(self) -> bytes:
        if self._first:
            first, self._first = self._first, b""
            return first
        if self._decoder is None:
            return await self._read()
        while not (piece := self._decoder.read()):
            self._decoder.feed(await self._read())
        return piece

    async def _read(self) -> bytes:
        """What has come.

        Raises:
            StopAsyncIteration: the body has ended.
        """
        try:
            chunk = await self._content.readany()
        except Exception:
            # An exception overtakes what came before it, and that counts.
            chunk = self._overtaken()
            if not chunk:
                raise
            return chunk
        if chunk:
            return chunk
        if (
            self._is_open_ended
            and self._protocol is not None
            and isinstance(error := self._protocol.exception(), OSError)
        ):
            raise error
        raise StopAsyncIteration

    def _lost(self, closed: asyncio.Future[None]) -> None:
        """The connection is gone. aiohttp lets a reader wait for ever where it could not parse how a body goes on."""
        closed.exception()
        if not self._content.is_eof() and self._content.exception() is None:
            self._content.set_exception(aiohttp.ClientPayloadError("what came is not how a body goes on"))

    def _overtaken(self) -> bytes:
        """What stands in aiohttp's buffer, to which there is no public way behind an exception."""
        buffer = cast("deque[bytes] | None", getattr(self._content, "_buffer", None))
        if not buffer:
            return b""
        data = b"".join(buffer)
        buffer.clear()
        return data

    async def beginning(self) -> bytes:
        """The first chunk, which will be read again; nothing where the body is empty."""
        async for chunk in self:
            self._first = chunk
            break
        return self._first

    async def finish(self) -> None:
        """Read what is left of a body whose answer is whole, so that its connection can be used again.

        That is mostly the last chunk, which says that the body has ended and often comes in a packet of its own. Nobody
        waits long for it, nor for a body that goes on.
        """
        if self._content.is_eof():
            return
        # The answer was whole: how its connection ends is no news.
        with suppress(Exception):
            async with asyncio.timeout(_FINISH_SECONDS):
                left = _FINISH_BYTES
                while left >= 0 and (chunk := await self._content.readany()):
                    left -= len(chunk)

    async def aclose(self) -> None:
        """Close the connection, unless the whole body has come and it can be used again. Closing twice is allowed."""
        if self._closed is not None:
            self._closed.remove_done_callback(self._lost)
            self._closed.remove_done_callback(_hear)
            self._closed.add_done_callback(_hear)
        connection = self._response.connection
        transport = connection.transport if connection is not None else None
        self._response.close()
        if transport is not None:
            # What waits to be sent, the farewell of TLS too, would keep the socket open until the peer has read it.
            transport.abort()


def _hear(closed: asyncio.Future[None]) -> None:
    """Take note of how a connection in the pool was lost: asyncio complains where nobody does."""
    closed.exception()


def _is_open_ended(response: aiohttp.ClientResponse) -> bool:
    """Whether the body ends with its connection."""
    return "content-length" not in response.headers and "transfer-encoding" not in response.headers


@final
class LargeBody(aiohttp.Payload):
    """A body on its way out, in pieces, each of which must be taken in time: aiohttp waits for ever.

    Args:
        body: the body.
        idle: how many seconds nothing may be taken; `None` for ever.
    """

    _autoclose = True

    def __init__(self, body: bytes, idle: float | None) -> None:
        super().__init__(body, content_type="application/octet-stream")
        self._body = body
        self._size = len(body)
        self._idle = idle

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The body as text: what aiohttp asks of a payload."""
        return self._body.decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Write all of it.

        Raises:
            TimeoutError: the peer takes nothing.
        """
        for start in range(0, len(self._body), _PIECE):
            async with asyncio.timeout(self._idle):
                await writer.write(self._body[start : start + _PIECE])


def outgoing(body: bytes, idle: float | None) -> bytes | LargeBody | None:
    """What aiohttp is to send. What fits into the socket's buffer is never waited for."""
    if len(body) > _PIECE:
        return LargeBody(body, idle)
    return body or None
