"""The bounded queue of events between a session and its reader."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar, final

from chat_core import TextDelta, UsageError

from chat_realtime.notifier import Notifier
from chat_realtime.sessions._speech import Speech
from chat_realtime.sessions.events import AudioDelta, TranscriptDelta

T = TypeVar("T", bound=object)

_EVENT_BYTES = 256
"""Number of bytes that each event adds to the queue size, in addition to its audio or text."""


@final
class EventBuffer(Generic[T]):
    """A queue of events with a limit in bytes. The writer waits while the queue is full.

    Args:
        max_bytes: limit on the bytes of audio and text.
        notifier: wakes the reader and the writers after each change.
    """

    __slots__ = ("_closed", "_error", "_items", "_max_bytes", "_notifier", "_reading", "_size")

    def __init__(self, max_bytes: int, notifier: Notifier) -> None:
        self._max_bytes = max_bytes
        self._notifier = notifier
        self._items: deque[tuple[T, Speech | None]] = deque()
        self._size = 0
        self._closed = False
        self._reading = False
        self._error: Exception | None = None

    @property
    def size(self) -> int:
        """Bytes in the queue."""
        return self._size

    async def put(self, event: T, speech: Speech | None = None) -> None:
        """Append an event, then wait until the queue is below its limit.

        Args:
            event: the event.
            speech: the response to which the event belongs.
        """
        if self._closed:
            return
        self._items.append((event, speech))
        self._size += _size(event)
        self._notifier.notify()
        while self._size > self._max_bytes and not self._closed:
            await self._notifier.wait()

    def withdraw(self, speech: Speech) -> None:
        """Remove the events of a response that the reader has not taken."""
        kept = [item for item in self._items if item[1] is not speech]
        self._items = deque(kept)
        self._size = sum([_size(event) for event, _ in kept])
        self._notifier.notify()

    def close(self, error: Exception | None = None) -> None:
        """Stop accepting events. The reader receives the remaining events, then `error` or the end of the iteration.

        Args:
            error: error that ended the session.
        """
        self._error = self._error or error
        self._closed = True
        self._notifier.notify()

    async def take(self) -> tuple[T, Speech | None]:
        """Wait for an event and take it. A cancelled call takes no event.

        Raises:
            StopAsyncIteration: the queue is closed and empty.
            UsageError: another task waits for an event.
        """
        if self._reading:
            msg = "another task is already reading this session: read it in one task"
            raise UsageError(msg)
        self._reading = True
        try:
            while not self._items:
                if self._error is not None:
                    error, self._error = self._error, None
                    raise error
                if self._closed:
                    raise StopAsyncIteration
                await self._notifier.wait()
            event, speech = self._items.popleft()
        finally:
            self._reading = False
        self._size -= _size(event)
        self._notifier.notify()
        return event, speech


def _size(event: object) -> int:
    if isinstance(event, AudioDelta):
        return _EVENT_BYTES + len(event.data)
    return _EVENT_BYTES + (len(event.text) if isinstance(event, (TextDelta, TranscriptDelta)) else 0)
