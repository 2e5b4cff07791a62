"""A slot through which a writer passes items to a reader, one at a time."""

from __future__ import annotations

from typing import Generic, TypeVar, final

from chat_core import UsageError

from chat_realtime.notifier import Notifier

T = TypeVar("T", bound=object)


@final
class Handoff(Generic[T]):
    """A slot for one item. The writer waits until the reader takes the item, and can withdraw the item before that.

    Args:
        notifier: wakes the reader and the writer after each change.
    """

    __slots__ = ("_closed", "_has_reader", "_item", "_notifier")

    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier
        self._item: T | None = None
        self._has_reader = False
        self._closed = False

    @property
    def has_reader(self) -> bool:
        """Whether a task is waiting for an item."""
        return self._has_reader

    async def put(self, item: T) -> None:
        """Offer an item, and wait until the item is taken or withdrawn."""
        while self._item is not None:
            await self._notifier.wait()
        self._item = item
        self._notifier.notify()
        while self._item is item:
            await self._notifier.wait()

    def withdraw(self) -> None:
        """Remove the current item, unless the reader has taken it."""
        self._item = None
        self._notifier.notify()

    def close(self) -> None:
        """Close the handoff. The reader can still take an item that is in the slot."""
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
        self._has_reader = True
        self._notifier.notify()
        try:
            while (item := self._item) is None:
                if self._closed:
                    raise StopAsyncIteration
                await self._notifier.wait()
        finally:
            self._has_reader = False
        self._item = None
        self._notifier.notify()
        return item
