"""Request bodies for httpx clients and their connection pools."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Self, final


class RequestBody:
    """A request body that is sent as one chunk.

    The stream class of httpx uses an async generator instead. If sending fails, the generator stays open, and trio
    warns when it is garbage-collected.
    """

    __slots__ = ("_body",)

    def __init__(self, body: bytes) -> None:
        self._body = body

    def __aiter__(self) -> AsyncIterator[bytes]:
        return _BodyIterator(self._body)


@final
class _BodyIterator:
    """Async iterator that returns a request body as one chunk."""

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
