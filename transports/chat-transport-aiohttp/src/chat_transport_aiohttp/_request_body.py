"""The bodies of requests, as aiohttp sends them."""

from __future__ import annotations

import asyncio
from typing import final

import aiohttp
from aiohttp.abc import AbstractStreamWriter

_PIECE = 65536


@final
class LargeBody(aiohttp.Payload):
    """A body that is sent in pieces, each with a timeout: aiohttp itself waits for ever.

    Args:
        body: the body.
        idle: the longest time, in seconds, in which the peer takes nothing; `None` for no limit.
    """

    _autoclose = True

    def __init__(self, body: bytes, idle: float | None) -> None:
        super().__init__(body, content_type="application/octet-stream")
        self._body = body
        self._size = len(body)
        self._idle = idle

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the body as text, as aiohttp requires of a payload."""
        return self._body.decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Write the whole body.

        Raises:
            TimeoutError: the peer takes nothing.
        """
        for start in range(0, len(self._body), _PIECE):
            async with asyncio.timeout(self._idle):
                await writer.write(self._body[start : start + _PIECE])


def request_data(body: bytes, idle: float | None) -> bytes | LargeBody | None:
    """Return the `data` of a request. A body that fits into the socket's buffer needs no timeout."""
    if len(body) > _PIECE:
        return LargeBody(body, idle)
    return body or None
