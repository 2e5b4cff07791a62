"""How a thread that sees a change tells the tasks that wait for one, whatever their event loops."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, cast, final

from anyio import Event
from anyio.lowlevel import current_token


class _Asyncio(Protocol):
    def call_soon_threadsafe(self, work: Callable[[], object], /) -> object: ...


class _Trio(Protocol):
    def run_sync_soon(self, work: Callable[[], object], /) -> object: ...


@final
class Notifier:
    """What one task waits for, and any thread may ring."""

    def __init__(self) -> None:
        """In the task."""
        self._loop = current_token().native_token
        self._event = Event()

    def reset(self) -> None:
        """Forget that it rang."""
        self._event = Event()

    async def wait(self) -> None:
        """Return when it rings, or has rung since it was reset."""
        await self._event.wait()

    def ring(self) -> None:
        """Wake the task. Waits for nobody; a loop that is closed has nobody to wake."""
        with suppress(RuntimeError):
            if hasattr(self._loop, "run_sync_soon"):
                cast("_Trio", self._loop).run_sync_soon(self._set)
            else:
                cast("_Asyncio", self._loop).call_soon_threadsafe(self._set)

    def _set(self) -> None:
        # The event of this moment: one that was reset meanwhile is rung once too often, which does no harm.
        self._event.set()


@final
class Notifiers:
    """All that are to be rung."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bells: set[Notifier] = set()

    def add(self, bell: Notifier) -> None:
        """One more."""
        with self._lock:
            self._bells.add(bell)

    def remove(self, bell: Notifier) -> None:
        """One less."""
        with self._lock:
            self._bells.discard(bell)

    def __len__(self) -> int:
        return len(self._bells)

    def ring(self) -> None:
        """Ring them all."""
        if self._bells:
            with self._lock:
                bells = list(self._bells)
            for bell in bells:
                bell.ring()
