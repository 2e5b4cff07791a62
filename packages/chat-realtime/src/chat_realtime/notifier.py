"""A notifier that wakes all tasks that wait for a change."""

from __future__ import annotations

from typing import final

import anyio


@final
class Notifier:
    """An event that can be set repeatedly. Each time, the waiting tasks check again whether they can continue."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event: anyio.Event | None = None

    def notify(self) -> None:
        """Wake all waiting tasks."""
        if self._event is not None:
            self._event.set()
            self._event = None

    async def wait(self) -> None:
        """Wait for the next `notify()`."""
        if self._event is None:
            self._event = anyio.Event()
        await self._event.wait()
