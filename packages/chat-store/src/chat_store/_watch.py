"""A thread that watches a database for those who wait for a change."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeAlias, final

from chat_store._bells import Notifier, Notifiers

_LINGERS = 5.0
"""Seconds for which nobody must have waited before the thread ends: those who wait mostly come back at once."""
_PAUSE = 0.5
"""Seconds between two attempts to watch a database that cannot be reached."""


Watch: TypeAlias = Callable[[threading.Event], AbstractContextManager[Callable[[], bool]]]
"""Begins to watch: gives what waits for a while, or until the event is set, and tells whether there may be a change."""


@final
class Poller:
    """Rings bells when a database was changed, in a thread that lives while somebody waits, and a little longer."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._bells = Notifiers()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._used = 0.0

    def ring(self) -> None:
        """Ring every bell."""
        self._bells.ring()

    def add(self, bell: Notifier) -> None:
        """Ring this bell, too."""
        with self._lock:
            self._bells.add(bell)
            self._used = time.monotonic()
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._run, name="chat-store watches", daemon=True)
                self._thread.start()

    def remove(self, bell: Notifier) -> None:
        """Ring it no more."""
        with self._lock:
            self._bells.remove(bell)
            self._used = time.monotonic()

    def close(self) -> None:
        """End the thread. Whoever waits on is rung, and finds out."""
        with self._lock:
            self._stop.set()
            thread = self._thread
        if thread is not None:
            thread.join()
        self._bells.ring()

    def _run(self) -> None:
        while True:
            try:
                with self._watch(self._stop) as changed:
                    # What was changed before it was watched.
                    self._bells.ring()
                    while not self._ends():
                        if changed():
                            self._bells.ring()
                    return
            except Exception:  # noqa: BLE001 - whoever waits looks for himself, and meets it there
                self._bells.ring()
                self._stop.wait(_PAUSE)
                if self._ends():
                    return

    def _ends(self) -> bool:
        with self._lock:
            if not self._stop.is_set() and (len(self._bells) or time.monotonic() < self._used + _LINGERS):
                return False
            self._thread = None
            return True
