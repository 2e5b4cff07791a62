"""Worker thread for one model. It runs one job after another and ends when no job is left.

The thread is a daemon, so that a program can exit while a model generates text. If the interpreter shut down under a
running job, a callback from llama.cpp would crash the process. An exit handler therefore stops the running job and
waits for the thread.
"""

from __future__ import annotations

import atexit
import threading
from collections import deque
from typing import Final, Protocol, final

_busy: Final[set[Worker]] = set()
"""Workers with a running thread."""


class Job(Protocol):
    """A job that the thread of a `Worker` runs."""

    def run(self) -> None:
        """Do the work. The worker's thread calls this method once. It must not raise."""
        ...

    def stop(self) -> None:
        """Make `run()` return soon. May be called repeatedly, at any time and from any thread."""
        ...


@final
class Worker:
    """Worker that runs jobs in a thread, one at a time, in the order of submission. All methods are thread-safe."""

    __slots__ = ("_current", "_jobs", "_lock", "_thread")

    def __init__(self) -> None:
        self._jobs: deque[Job] = deque()
        self._current: Job | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def submit(self, job: Job) -> None:
        """Append a job to the queue and return without waiting for it. Start the thread if none is running."""
        with self._lock:
            self._jobs.append(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run_jobs, name="llama.cpp", daemon=True)
                _busy.add(self)
                atexit.register(_close_busy_workers)  # a repeated registration has no effect
                self._thread.start()

    def withdraw(self, job: Job) -> bool:
        """Remove a job from the queue and return True. Return False if the job has already started or ended."""
        with self._lock:
            if job not in self._jobs:
                return False
            self._jobs.remove(job)
        return True

    def close(self) -> None:
        """Clear the queue, stop the running job and wait until the thread has ended."""
        with self._lock:
            self._jobs.clear()
            current, thread = self._current, self._thread
        if current is not None:
            current.stop()
        if thread is not None:
            thread.join()

    def _run_jobs(self) -> None:
        while (job := self._next_job()) is not None:
            job.run()

    def _next_job(self) -> Job | None:
        with self._lock:
            self._current = self._jobs.popleft() if self._jobs else None
            if self._current is None:
                self._thread = None
                _busy.discard(self)
            return self._current


def _close_busy_workers() -> None:
    """Close all workers that have a running thread. Called when the interpreter exits."""
    for worker in list(_busy):
        worker.close()
