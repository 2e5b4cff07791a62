"""Request bodies that aiohttp sends."""

from __future__ import annotations

import asyncio
from typing import final

import aiohttp
from aiohttp.abc import AbstractStreamWriter

_PIECE_BYTES = 65536


@final
class LargeBody(aiohttp.Payload):
    """Request body that is sent in pieces, each with a timeout. aiohttp itself has no timeout for sending.

    Args:
        body: the bytes to send.
        idle: seconds that sending a piece may take; `None` for no limit.
    """

    _autoclose = True

    def __init__(self, body: bytes, idle: float | None) -> None:
        super().__init__(body, content_type="application/octet-stream")
        self._body = body
        self._size = len(body)
        self._idle = idle

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the body as text. aiohttp requires this method of every payload."""
        return self._body.decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Write the whole body.

        Raises:
            TimeoutError: the peer accepts no data.
        """
        for start in range(0, len(self._body), _PIECE_BYTES):
            async with asyncio.timeout(self._idle):
                await writer.write(self._body[start : start + _PIECE_BYTES])


def request_data(body: bytes, idle: float | None) -> bytes | LargeBody | None:
    """Return the `data` argument that makes aiohttp send `body`, or None for an empty body.

    A small body is sent as bytes: it fits into the socket buffer and needs no timeout.
    """
    if len(body) > _PIECE_BYTES:
        return LargeBody(body, idle)
    return body or None
