"""Limit on the size of the responses of MCP servers over HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Final, final

import httpx2

MAX_RESPONSE_BYTES: Final = 8 * 1024 * 1024
"""Default limit on a response."""


def limit_message(limit: int) -> str:
    """Return the error message for a response that exceeds the limit."""
    return f"the response exceeded the {limit} byte limit"


def is_limit_error(message: str, limit: int) -> bool:
    """Return whether an error message of the SDK is about a response or an event that exceeds the limit."""
    return f"exceeded the {limit} byte limit" in message


def limit_response(limit: int) -> Callable[[httpx2.Response], Awaitable[None]]:
    """Return a response hook that limits the size of each body after decompression.

    Event streams have no limit in total. The SDK limits each of their events.

    Args:
        limit: maximum number of bytes.
    """

    async def hook(response: httpx2.Response) -> None:
        if not response.headers.get("content-type", "").lower().startswith("text/event-stream"):
            encoded = httpx2.Response(response.status_code, headers=response.headers, stream=response.stream)
            response.stream = _LimitedStream(encoded, limit)
            # The limited stream is decompressed already.
            response.headers.pop("content-encoding", None)

    return hook


@final
class _LimitedStream(httpx2.AsyncByteStream):
    """The decompressed body of a response. Reading it raises `httpx2.StreamError` if it is longer than the limit.

    Args:
        encoded: the response with the compressed body.
        limit: maximum number of bytes.
    """

    def __init__(self, encoded: httpx2.Response, limit: int) -> None:
        self._encoded = encoded
        self._limit = limit

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        size = 0
        async with aclosing(self._encoded.aiter_bytes()) as chunks:
            async for chunk in chunks:
                size += len(chunk)
                if size > self._limit:
                    raise httpx2.StreamError(limit_message(self._limit))
                yield chunk

    async def aclose(self) -> None:
        await self._encoded.aclose()
