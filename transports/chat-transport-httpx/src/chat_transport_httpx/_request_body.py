"""The bodies of requests, as httpx reads them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Self, final

import httpx


class BodyIterable:
    """The body of a request, in one piece.

    httpx's own stream is read through a generator, which nothing closes where writing it fails, and trio complains when
    it is collected.
    """

    __slots__ = ("_body",)

    def __init__(self, body: bytes) -> None:
        self._body = body

    def __aiter__(self) -> AsyncIterator[bytes]:
        return _BodyIterator(self._body)


@final
class HttpxBody(BodyIterable, httpx.AsyncByteStream):
    """The body of a request for a client of httpx."""

    __slots__ = ()


@final
class _BodyIterator:
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
