"""One event loop for a whole process, in a thread of its own: asyncio's, begun when it is first needed.

Threads tell it what to do, and never wait for that. So a loop that is busy holds up neither a ctrl-C nor the end of the
program, and a stream that was forgotten may be collected anywhere, in the loop's own thread too.
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
"""Seconds that the end of the process waits for the end of the loop."""

_POLL_SECONDS: Final = 1.0
"""Seconds after which one that waits looks again, where another one that waited was interrupted."""


@final
class Loop:
    """An event loop, and the thread that it runs in. Other threads tell it what to do, and never wait for that."""

    __slots__ = ("_closing", "_loop", "over", "tasks", "thread")

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._closing = asyncio.Event()
        self.thread = threading.Thread(target=self._serve, name="chat-blocking", daemon=True)
        self.tasks: set[Task[Any]] = set()
        self.over = False

    def _serve(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._closing.wait())
        finally:
            self.over = True
            for task in self.tasks.copy():
                task.end()

    def soon(self, callback: Callable[[], object]) -> None:
        """Call it in the loop, in the context of the caller. What has ended is left alone."""
        context = copy_context()
        context.run(hide_event_loop)
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback, context=context)

    def is_here(self) -> bool:
        """Whether this is the loop's own thread, which would wait for itself."""
        return threading.current_thread() is self.thread

    def close(self) -> None:
        """Cancel what is there, and end the thread; one that does not end is left to die with the process."""
        self.soon(self._closing.set)
        self.thread.join(SHUTDOWN_SECONDS)
        self.over = True


@final
class LoopHolder:
    """Where the loop of this process is."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: Loop | None = None

    def reset(self) -> None:
        """Begin anew: a child that was forked has none of its parent's threads."""
        self._lock = threading.Lock()
        if self._loop is not None:
            self._loop.over = True
            self._loop = None

    def loop(self) -> Loop:
        """The loop, begun where none runs.

        Raises:
            UsageError: this is the loop's own thread, which would wait for itself.
        """
        loop = self._loop
        if loop is not None and loop.is_here():
            msg = "chat.blocking was called by a task of its own loop, and would wait for itself: await the chat"
            raise UsageError(msg)
        with self._lock:
            loop = self._loop
            if loop is None or loop.over or not loop.thread.is_alive():
                loop = self._loop = Loop()
                loop.thread.start()
            return loop

    def close(self) -> None:
        """End the loop, where one runs."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.close()


loop_holder: Final = LoopHolder()
atexit.register(loop_holder.close)
if hasattr(os, "register_at_fork"):  # pragma: no branch - not on Windows
    os.register_at_fork(after_in_child=loop_holder.reset)


@final
class Task(Generic[T]):
    """One task of the loop, which other threads begin, end and wait for.

    Whatever interrupts such a thread, what it tells the loop comes there in order: a task that it leaves has ended when
    `cancel_and_join()` returns, or never begins.

    Attributes:
        done: whether it has ended.
    """

    # A ctrl-C may be raised between any two lines of Python: in the midst of a `Future` or an `Event`, which it leaves
    # locked. A bare lock is one step.
    __slots__ = (
        "_after",
        "_cancelled",
        "_error",
        "_function",
        "_gate",
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
        self._gate = threading.Lock()
        self._gate.acquire()
        self._result: list[T] = []
        self._error: BaseException | None = None
        self._scope: CancelScope | None = None
        self._running: asyncio.Task[None] | None = None
        self._cancelled = False

    def start(self) -> None:
        """Begin it."""
        self.loop.tasks.add(self)
        self.loop.soon(self._start)
        if self.loop.over:
            self.end()

    def cancel_and_join(self) -> None:
        """Cancel it, and wait for its end."""
        if not self.done:
            self.loop.soon(self._cancel)
            self.join()

    def join(self) -> None:
        """Wait for its end; not in the loop's own thread, and not for a loop that is gone."""
        while not (self.done or self.loop.over or self.loop.is_here()):
            if self._gate.acquire(timeout=_POLL_SECONDS):
                self._gate.release()

    def result(self) -> T:
        """What it ended in.

        Raises:
            CancelledError: it was cancelled, or the loop has ended.
        """
        self.join()
        if self._error is not None:
            raise self._error
        if not self._result:
            raise CancelledError
        return self._result[0]

    # In the loop

    def end(self) -> None:
        """It is over, or nobody will run it any more."""
        if not self.done:
            self.done = True
            self.loop.tasks.discard(self)
            self._gate.release()
            if self._after is not None:
                self._after()

    def _start(self) -> None:
        if not self._cancelled:
            self._running = asyncio.get_running_loop().create_task(self._run())

    def _cancel(self) -> None:
        self._cancelled = True
        if self._running is None:
            self.end()
        elif self._scope is not None:
            self._scope.cancel()

    async def _run(self) -> None:
        try:
            with CancelScope() as self._scope:
                if self._cancelled:
                    self._scope.cancel()
                self._result.append(await self._function())
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - raised where the caller waits; the loop is for others too
            self._error = error
        finally:
            self.end()
