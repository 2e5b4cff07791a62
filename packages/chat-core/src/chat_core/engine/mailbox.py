"""Where the tools of a pass leave what the stream's consumer is to see."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar, final

import anyio

T = TypeVar("T")


@final
class Mailbox(Generic[T]):
    """A queue with one reader, without a cancel scope or a lock: the reader takes everything there is."""

    __slots__ = ("_items", "_ready", "_rung")

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._ready: anyio.Event | None = None
        self._rung = False

    def __bool__(self) -> bool:
        """Whether there is anything to take."""
        return bool(self._items)

    def put(self, item: T) -> None:
        """Leave something; never blocks. Only from the event loop's own thread."""
        self._items.append(item)
        self.ring()

    def ring(self) -> None:
        """Let the reader look up, though nothing may be there."""
        self._rung = True
        if self._ready is not None:
            self._ready.set()

    async def take(self) -> list[T]:
        """Everything that is there, once there is anything or it was rung since the last time."""
        if not self._rung:
            self._ready = anyio.Event()
            await self._ready.wait()
            self._ready = None
        self._rung = False
        items = list(self._items)
        self._items.clear()
        return items
