"""A queue through which a writer passes items to a reader, and from which it can withdraw them."""

from __future__ import annotations

from collections import deque
from typing import Final, Generic, TypeVar, final

from chat_core import UsageError

from chat_realtime.notifier import Notifier

T = TypeVar("T", bound=object)

MAX_AHEAD: Final = 64
"""Maximum number of items that the reader has not taken yet. Switching between tasks for each item is slow."""


@final
class Handoff(Generic[T]):
    """A queue of items for one reader. The writer can withdraw the items that the reader has not taken yet.

    Args:
        notifier: wakes the reader and the writer after changes.
    """

    __slots__ = ("_closed", "_has_reader", "_items", "_notifier")

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier
        self._items: deque[T] = deque()
        self._has_reader = False
        self._closed = False

    @property
    def has_reader(self) -> bool:
        """Whether a task is waiting for an item."""
        return self._has_reader

    async def put(self, item: T) -> None:
        """Append an item for the reader, and wait until the reader has taken all items or `withdraw()` removed them."""
        self._items.append(item)
        self._notifier.notify()
        await self._wait_until_empty()

    async def put_ahead(self, item: T) -> None:
        """Append an item for the reader, and wait only while the reader has not taken `MAX_AHEAD` items."""
        self._items.append(item)
        if self._has_reader:
            self._notifier.notify()
        if len(self._items) >= MAX_AHEAD:
            await self._wait_until_empty()

    async def _wait_until_empty(self) -> None:
        while self._items:
            await self._notifier.wait()

    def withdraw(self) -> None:
        """Remove the items that the reader has not taken."""
        self._items.clear()
        self._notifier.notify()

    def close(self) -> None:
        """Close the handoff. The reader can still take the items that were offered."""
        self._closed = True
        self._notifier.notify()

    async def take(self) -> T:
        """Wait for an item and take it. A cancelled call takes no item.

        Raises:
            StopAsyncIteration: the handoff is closed and has no item.
            UsageError: another task waits for an item.
        """
        if self._has_reader:
            msg = "another task is reading this talk: only one task can read at a time"
            raise UsageError(msg)
        if not self._items:
            await self._wait_for_item()
        item = self._items.popleft()
        if not self._items:
            self._notifier.notify()
        return item

    async def _wait_for_item(self) -> None:
        self._has_reader = True
        self._notifier.notify()
        try:
            while not self._items:
                if self._closed:
                    raise StopAsyncIteration
                await self._notifier.wait()
        finally:
            self._has_reader = False
