"""The task group, the mailbox and the worker threads of a run.

A synchronous tool that hangs must not delay the chat or the exit of the program. A thread pool cannot ensure this: the
event loop or the interpreter joins its workers on exit, and a hung worker occupies its slot. Each call therefore runs
in a separate daemon thread. The tool pass limits the number of threads.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from types import TracebackType
from typing import Any, Generic, TypeVar, final

import anyio
import anyio.from_thread
from anyio.abc import TaskGroup
from anyio.lowlevel import EventLoopToken, current_token

T = TypeVar("T")


@final
class RunTaskGroup:
    """A task group that raises an exception of its block unchanged, without an `ExceptionGroup`.

    When the block exits, the tasks are cancelled. The tasks must not raise exceptions.

    Args:
        cancel_on_exit: whether to cancel the tasks also if the block raises no exception. A group whose tasks end by
            themselves should wait for them instead, because anyio formats the current task for each cancellation.
    """

    __slots__ = ("_cancel_on_exit", "_group")

    def __init__(self, *, cancel_on_exit: bool = True) -> None:
        self._cancel_on_exit = cancel_on_exit

    async def __aenter__(self) -> TaskGroup:
        self._group = anyio.create_task_group()
        return await self._group.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> bool | None:
        if self._cancel_on_exit or error is not None:
            self._group.cancel_scope.cancel()
        cancelled = anyio.get_cancelled_exc_class()
        if error is None or isinstance(error, cancelled):
            return await self._group.__aexit__(kind, error, trace)
        if isinstance(error, BaseExceptionGroup):
            return await self._exit_with_first_error(kind, error, trace)  # pyright: ignore[reportUnknownArgumentType] - of any errors
        await self._group.__aexit__(None, None, None)
        return None

    async def _exit_with_first_error(
        self, kind: type[BaseException] | None, error: BaseException, trace: TracebackType | None
    ) -> bool | None:
        """Exit the block after an exception group was raised in it, and raise the first error of the group.

        The group may also contain cancellations caused by this task group, which are removed.
        """
        try:
            return await self._group.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            first_error = group.exceptions[0]
        raise first_error


@final
class Mailbox(Generic[T]):
    """A queue whose single reader takes all items at once. It needs no cancel scope and no lock."""

    __slots__ = ("_items", "_notified", "_ready")

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._ready: anyio.Event | None = None
        self._notified = False

    def __bool__(self) -> bool:
        """Return whether the mailbox contains items."""
        return bool(self._items)

    def put(self, item: T) -> None:
        """Add an item without blocking. Must be called in the thread of the event loop."""
        self._items.append(item)
        self.notify()

    def notify(self) -> None:
        """Wake the reader without adding an item."""
        self._notified = True
        if self._ready is not None:
            self._ready.set()

    async def take_all(self) -> list[T]:
        """Wait for an item or for `notify()`, then remove and return all items."""
        if not self._notified:
            self._ready = anyio.Event()
            await self._ready.wait()
            self._ready = None
        self._notified = False
        items = list(self._items)
        self._items.clear()
        return items


async def call_in_thread(function: Callable[[], T]) -> T:
    """Call `function` in a new thread with the context of this task, and return the result.

    If this task is cancelled, the thread keeps running, and its result is ignored.
    """
    token = current_token()
    finished = anyio.Event()
    outcome: list[T] = []
    failure: list[BaseException] = []
    context = copy_context()

    def work() -> None:
        try:
            context.run(hide_event_loop)
            outcome.append(context.run(function))
        except BaseException as error:  # noqa: BLE001 - raised in the waiting task
            failure.append(error)
        call_in_loop(token, finished.set)

    threading.Thread(target=work, name=f"chat tool {getattr(function, '__name__', '')}", daemon=True).start()
    await finished.wait()
    if failure:
        raise failure[0]
    return outcome[0]


def call_in_loop(token: EventLoopToken, callback: Callable[[], object]) -> None:
    """Call `callback` in an event loop from another thread. Do nothing if the loop has ended.

    Args:
        token: token of the event loop.
        callback: function to call in the loop.
    """
    try:
        anyio.from_thread.run_sync(callback, token=token)
    except RuntimeError:
        # The loop has ended or is closing. asyncio and trio raise different messages.
        return


def hide_event_loop() -> None:
    """Hide the running event loop from the current context, so that code in this context can run its own event loop."""
    sniffio: Any = sys.modules.get("sniffio")
    if sniffio is not None:
        sniffio.current_async_library_cvar.set(None)
