"""Notifications of database changes: a thread watches a database and wakes the tasks that wait for a change."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import TypeAlias, final

from anyio import Event
from chat_core.concurrency import loop_scheduler

_LINGER_SECONDS = 5.0
"""Seconds for which the thread of a `Poller` outlives its last subscriber, which often subscribes again soon."""
_RETRY_SECONDS = 0.5
"""Seconds between attempts to watch a database that cannot be reached."""


@final
class Notifier:
    """An event for one task of an asyncio or trio event loop, which any thread may set."""

    def __init__(self) -> None:
        """Create a notifier for the current event loop. Must be called in the task that will wait."""
        self._schedule = loop_scheduler()
        self._event = Event()

    def reset(self) -> None:
        """Clear earlier notifications."""
        self._event = Event()

    async def wait(self) -> None:
        """Wait for a notification. Return at once if there was a notification after the last reset."""
        await self._event.wait()

    def notify(self) -> None:
        """Wake the task. Never blocks, and does nothing if the event loop is closed."""
        with suppress(RuntimeError):
            self._schedule(self._set_event)

    def _set_event(self) -> None:
        # If the notifier was reset after the call was scheduled, the task wakes once too often, which is harmless.
        self._event.set()


@final
class Notifiers:
    """A set of notifiers, safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._notifiers: set[Notifier] = set()

    def add(self, notifier: Notifier) -> None:
        """Add a notifier to the set."""
        with self._lock:
            self._notifiers.add(notifier)

    def remove(self, notifier: Notifier) -> None:
        """Remove a notifier if it is in the set."""
        with self._lock:
            self._notifiers.discard(notifier)

    def __len__(self) -> int:
        return len(self._notifiers)

    def notify(self) -> None:
        """Notify all notifiers in the set."""
        if self._notifiers:
            with self._lock:
                notifiers = list(self._notifiers)
            for notifier in notifiers:
                notifier.notify()


Watch: TypeAlias = Callable[[threading.Event], AbstractContextManager[Callable[[], bool]]]
"""A function that starts to watch a database until the event is set.

The context manager provides a function that blocks briefly and returns whether the database may have changed.
"""


@final
class Poller:
    """A thread that watches a database and notifies subscribers. It stops shortly after the last subscriber is removed.

    Args:
        watch: starts to watch the database. Called in the thread, and called again after an error.
    """

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._notifiers = Notifiers()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._last_used = 0.0

    def notify(self) -> None:
        """Notify all subscribers now."""
        self._notifiers.notify()

    def add(self, notifier: Notifier) -> None:
        """Add a subscriber, and start the thread if it is not running."""
        with self._lock:
            self._notifiers.add(notifier)
            self._last_used = time.monotonic()
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._run_thread, name="chat-store watches", daemon=True)
                self._thread.start()

    def remove(self, notifier: Notifier) -> None:
        """Remove a subscriber."""
        with self._lock:
            self._notifiers.remove(notifier)
            self._last_used = time.monotonic()

    def close(self) -> None:
        """Stop the thread, wait for it, and notify the remaining subscribers."""
        with self._lock:
            self._stop.set()
            thread = self._thread
        if thread is not None:
            thread.join()
        self._notifiers.notify()

    def _run_thread(self) -> None:
        while True:
            try:
                self._watch_until_idle()
            except Exception:  # noqa: BLE001 - subscribers poll the database and raise its error
                self._notifiers.notify()
                self._stop.wait(_RETRY_SECONDS)
                if self._detach_thread_if_idle():
                    return
            else:
                return

    def _watch_until_idle(self) -> None:
        with self._watch(self._stop) as changed:
            # The database may have changed before the watch began.
            self._notifiers.notify()
            while not self._detach_thread_if_idle():
                if changed():
                    self._notifiers.notify()

    def _detach_thread_if_idle(self) -> bool:
        with self._lock:
            in_use = len(self._notifiers) or time.monotonic() < self._last_used + _LINGER_SECONDS
            if in_use and not self._stop.is_set():
                return False
            self._thread = None
            return True
