"""The background event loop of the blocking interface: one asyncio loop per process, started on first use.

Other threads schedule callbacks in the loop and never block while scheduling. A busy loop therefore delays neither
`KeyboardInterrupt` nor the exit of the program. The garbage collector may finalize an abandoned stream in any thread,
including the thread of the loop.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Final, Generic, TypeVar, final

from anyio import CancelScope

from chat_core.engine.tasks import hide_event_loop
from chat_core.errors import UsageError

T = TypeVar("T")

SHUTDOWN_SECONDS: Final = 5.0
"""Maximum time in seconds that the exit of the process waits for the thread of the loop."""

_POLL_SECONDS: Final = 1.0
"""Interval in seconds at which a waiting thread checks its task again, in case it missed the wake-up."""


@final
class Loop:
    """An event loop that runs in its own thread. Other threads schedule callbacks in the loop without blocking."""

    __slots__ = ("_closing", "_loop", "closed", "tasks", "thread")

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._closing = asyncio.Event()
        self.thread = threading.Thread(target=self._run_event_loop, name="chat-blocking", daemon=True)
        self.tasks: set[Task[Any]] = set()
        self.closed = False

    def _run_event_loop(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._closing.wait())
        finally:
            self.closed = True
            for task in self.tasks.copy():
                task.finish()

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Schedule `callback` in the loop with the context of the caller. Do nothing if the loop has closed."""
        context = copy_context()
        context.run(hide_event_loop)
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback, context=context)

    def in_loop_thread(self) -> bool:
        """Return whether the current thread is the thread of the loop. Waiting there would deadlock."""
        return threading.current_thread() is self.thread

    def close(self) -> None:
        """Cancel all tasks and join the thread of the loop.

        If the thread does not end within `SHUTDOWN_SECONDS`, return. The thread then ends with the process.
        """
        self.call_soon(self._closing.set)
        self.thread.join(SHUTDOWN_SECONDS)
        self.closed = True


@final
class LoopHolder:
    """Holder of the background event loop that this process uses."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: Loop | None = None

    def reset(self) -> None:
        """Discard the loop in a forked child process, which does not inherit the thread of the loop."""
        self._lock = threading.Lock()
        if self._loop is not None:
            self._loop.closed = True
            self._loop = None

    def loop(self) -> Loop:
        """Return the running loop. Start a new loop if none is running.

        Raises:
            UsageError: the caller runs in the thread of the loop. Waiting there would deadlock.
        """
        loop = self._loop
        if loop is not None and loop.in_loop_thread():
            msg = "chat.blocking was called in its own event loop, which would deadlock: await the chat itself"
            raise UsageError(msg)
        with self._lock:
            loop = self._loop
            if loop is None or loop.closed or not loop.thread.is_alive():
                loop = self._loop = Loop()
                loop.thread.start()
            return loop

    def close(self) -> None:
        """Close the loop if one is running."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.close()


loop_holder: Final = LoopHolder()
atexit.register(loop_holder.close)
if hasattr(os, "register_at_fork"):  # pragma: no branch - not on Windows
    os.register_at_fork(after_in_child=loop_holder.reset)


@final
class Task(Generic[T]):
    """A task in the background loop that other threads start, cancel and wait for.

    The loop receives the calls of a thread in order, even if an exception interrupts that thread. When
    `cancel_and_join()` returns, the task has ended or will never start.

    Attributes:
        done: whether the task has ended.
    """

    # KeyboardInterrupt may be raised between any two bytecodes. It can leave a Future or an Event locked; acquiring a
    # plain lock is atomic.
    __slots__ = (
        "_after",
        "_cancelled",
        "_done_lock",
        "_error",
        "_function",
        "_result",
        "_running",
        "_scope",
        "done",
        "loop",
    )

    def __init__(
        self, loop: Loop, function: Callable[[], Awaitable[T]], after: Callable[[], object] | None = None
    ) -> None:
        self.loop = loop
        self.done = False
        self._function = function
        self._after = after
        self._done_lock = threading.Lock()
        self._done_lock.acquire()
        self._result: list[T] = []
        self._error: BaseException | None = None
        self._scope: CancelScope | None = None
        self._running: asyncio.Task[None] | None = None
        self._cancelled = False

    def start(self) -> None:
        """Start the task in the loop."""
        self.loop.tasks.add(self)
        self.loop.call_soon(self._start_in_loop)
        if self.loop.closed:
            self.finish()

    def cancel_and_join(self) -> None:
        """Cancel the task and wait until it has ended."""
        if not self.done:
            self.loop.call_soon(self._cancel_in_loop)
            self.join()

    def join(self) -> None:
        """Wait until the task has ended. Return at once in the thread of the loop, or if the loop has closed."""
        while not (self.done or self.loop.closed or self.loop.in_loop_thread()):
            if self._done_lock.acquire(timeout=_POLL_SECONDS):
                self._done_lock.release()

    def result(self) -> T:
        """Wait until the task has ended, and return its result or raise its exception.

        Raises:
            CancelledError: the task was cancelled, or the loop has closed.
        """
        self.join()
        if self._error is not None:
            raise self._error
        if not self._result:
            raise CancelledError
        return self._result[0]

    # Called in the thread of the loop

    def finish(self) -> None:
        """Mark the task as done and wake the waiting threads. Also called for tasks that never start."""
        if not self.done:
            self.done = True
            self.loop.tasks.discard(self)
            self._done_lock.release()
            if self._after is not None:
                self._after()

    def _start_in_loop(self) -> None:
        if not self._cancelled:
            self._running = asyncio.get_running_loop().create_task(self._run_function())

    def _cancel_in_loop(self) -> None:
        self._cancelled = True
        if self._running is None:
            self.finish()
        elif self._scope is not None:
            self._scope.cancel()

    async def _run_function(self) -> None:
        try:
            with CancelScope() as self._scope:
                if self._cancelled:
                    self._scope.cancel()
                self._result.append(await self._function())
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - raised in the calling thread; the loop must survive
            self._error = error
        finally:
            self.finish()
