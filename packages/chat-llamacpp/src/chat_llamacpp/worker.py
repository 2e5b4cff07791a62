"""The thread of one model: it does one job after another, and is gone when none is left.

The thread is a daemon, since a program must be able to end while a model talks. It must not end under the thread's feet
though: llama.cpp would call back into an interpreter that is going, and take the process down. So whatever runs is told
to stop when the program ends, and waited for.
"""

from __future__ import annotations

import atexit
import threading
from collections import deque
from typing import Final, Protocol, final

_busy: Final[set[Worker]] = set()
"""The workers that have a thread."""


class Job(Protocol):
    """Something to be done in the thread."""

    def run(self) -> None:
        """Do it. Called once, in the thread; it must not raise."""
        ...

    def stop(self) -> None:
        """Make `run()` return soon. Called from any thread, at any time, and any number of times."""
        ...


@final
class Worker:
    """Does jobs in the order in which they are submitted, one at a time."""

    __slots__ = ("_current", "_jobs", "_lock", "_thread")

    def __init__(self) -> None:
        self._jobs: deque[Job] = deque()
        self._current: Job | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def submit(self, job: Job) -> None:
        """Have a job done, behind those that wait. Never blocks."""
        with self._lock:
            self._jobs.append(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="llama.cpp", daemon=True)
                _busy.add(self)
                atexit.register(_leave)  # the same function again: it finds nothing left to do
                self._thread.start()

    def withdraw(self, job: Job) -> bool:
        """Take back a job that waits. `False` where it has begun, or is over."""
        with self._lock:
            if job not in self._jobs:
                return False
            self._jobs.remove(job)
        return True

    def close(self) -> None:
        """Forget what waits, stop what runs, and wait for the end of the thread."""
        with self._lock:
            self._jobs.clear()
            current, thread = self._current, self._thread
        if current is not None:
            current.stop()
        if thread is not None:
            thread.join()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            job.run()

    def _next(self) -> Job | None:
        with self._lock:
            self._current = self._jobs.popleft() if self._jobs else None
            if self._current is None:
                self._thread = None
                _busy.discard(self)
            return self._current


def _leave() -> None:
    """The program ends."""
    for worker in list(_busy):
        worker.close()
