"""The bodies of a request and of an answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Self, cast, final

import httpx
from anyio import CancelScope, move_on_after
from chat_core.transport.content import Decoder

from chat_transport_httpx._http2 import reset

_FINISH_SECONDS = 0.25
_FINISH_BYTES = 65536


class InOnePiece:
    """The body of a request, in one piece.

    httpx's own is read through a generator, which is left open where writing it fails: nobody closes it, and trio
    complains when it is collected.
    """

    __slots__ = ("_body",)

    def __init__(self, body: bytes) -> None:
        self._body = body

    def __aiter__(self) -> AsyncIterator[bytes]:
        return _Piece(self._body)


@final
class Sent(InOnePiece, httpx.AsyncByteStream):
    """Such a body, for a client of httpx."""

    __slots__ = ()


@final
class _Piece:
    """An iterator of one item."""

    __slots__ = ("_body",)

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        body, self._body = self._body, None
        if body is None:
            raise StopAsyncIteration
        return body


@final
class Body:
    """The chunks of a body. It is an object around httpx's generators, and not one more of them.

    Args:
        response: the answer, whose body has not been read.
        decoder: what undoes its encoding, if it has one.
    """

    __slots__ = ("_closed", "_decoder", "_first", "_raw", "_response")

    def __init__(self, response: httpx.Response, decoder: Decoder | None) -> None:
        self._response = response
        if response.is_stream_consumed:
            # A hook of the caller's client has read it; what it left is decoded.
            self._raw, self._decoder = response.aiter_bytes(), None
        else:
            self._raw, self._decoder = aiter(cast("httpx.AsyncByteStream", response.stream)), decoder
        self._first = b""
        self._closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        # In the common case httpx's own generator is read, with nothing between.
        return self._raw if self._decoder is None and not self._first else self

    async def __anext__(self) -> bytes:
        if self._first:
            first, self._first = self._first, b""
            return first
        if self._decoder is None:
            return await anext(self._raw)
        while not (piece := self._decoder.read()):
            self._decoder.feed(await anext(self._raw))
        return piece

    async def beginning(self) -> bytes:
        """The first chunk, which will be read again; nothing where the body is empty."""
        async for chunk in self:
            if chunk:
                self._first = chunk
                break
        return self._first

    async def finish(self) -> None:
        """Read what is left of a body whose answer is whole, so that its connection can be used again.

        That is mostly the last chunk, which says that the body has ended and often comes in a packet of its own. Nobody
        waits long for it, nor for a body that goes on.
        """
        with move_on_after(_FINISH_SECONDS):
            left = _FINISH_BYTES
            try:
                async for chunk in self._raw:
                    left -= len(chunk)
                    if left < 0:
                        break
            except Exception:  # noqa: BLE001, S110  # the answer was whole: how its connection ends is no news
                pass

    async def aclose(self) -> None:
        """Close the connection, unless the whole body has come and it can be used again. Closing twice is allowed."""
        if self._closed:
            return
        self._closed = True
        if getattr(self._raw, "ag_frame", self._raw) is not None:
            # httpx reads through a chain of generators. Closing the outermost one leaves the others to the garbage
            # collector and, later, to a task; in a scope that is cancelled the innermost read fails instead, and all of
            # them unwind now.
            with CancelScope(shield=True) as scope:
                scope.cancel()
                await self._unwind()
        if "stream_id" in self._response.extensions:
            with CancelScope(shield=True):
                await reset(self._response)
        await self._response.aclose()

    async def _unwind(self) -> None:
        try:
            async for _ in self._raw:
                pass
        except Exception:  # noqa: BLE001, S110  # the connection broke while it was being closed
            pass
