"""Task group, mailbox and worker threads of a run.

A synchronous tool that hangs must delay neither the chat nor the end of the program. A thread pool cannot promise that:
its workers are joined when the loop or the interpreter ends, and one that hangs keeps its place in the pool. So each
call has a daemon thread of its own, and the tool pass bounds how many of them there are.
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
    """A task group that raises an error of its block as it is, not in an `ExceptionGroup`.

    Its tasks are cancelled when the block exits. They never raise themselves.
    """

    __slots__ = ("_group",)

    async def __aenter__(self) -> TaskGroup:
        self._group = anyio.create_task_group()
        return await self._group.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> bool | None:
        self._group.cancel_scope.cancel()
        cancelled = anyio.get_cancelled_exc_class()
        if error is None or isinstance(error, cancelled):
            return await self._group.__aexit__(kind, error, trace)
        if isinstance(error, BaseExceptionGroup):
            return await self._exit_with_group(kind, error, trace)  # pyright: ignore[reportUnknownArgumentType] - of any errors
        await self._group.__aexit__(None, None, None)
        return None

    async def _exit_with_group(
        self, kind: type[BaseException] | None, error: BaseException, trace: TracebackType | None
    ) -> bool | None:
        """Exit with an exception group that a nursery in the block raised; it may hold cancellations by this group."""
        try:
            return await self._group.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            rest = group.exceptions[0]
        raise rest


@final
class Mailbox(Generic[T]):
    """A queue with one reader, without a cancel scope or a lock: the reader takes everything there is."""

    __slots__ = ("_items", "_notified", "_ready")

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._ready: anyio.Event | None = None
        self._notified = False

    def __bool__(self) -> bool:
        """Whether there are items."""
        return bool(self._items)

    def put(self, item: T) -> None:
        """Add an item without blocking. Call it in the thread of the event loop."""
        self._items.append(item)
        self.notify()

    def notify(self) -> None:
        """Wake the reader, even if there is no item."""
        self._notified = True
        if self._ready is not None:
            self._ready.set()

    async def take_all(self) -> list[T]:
        """Wait for an item or for `notify()`, and return all items."""
        if not self._notified:
            self._ready = anyio.Event()
            await self._ready.wait()
            self._ready = None
        self._notified = False
        items = list(self._items)
        self._items.clear()
        return items


async def call_in_thread(function: Callable[[], T]) -> T:
    """Call `function` in a thread of its own, in this task's context. Cancelling abandons it and its late result."""
    token = current_token()
    finished = anyio.Event()
    outcome: list[T] = []
    failure: list[BaseException] = []
    context = copy_context()

    def work() -> None:
        try:
            context.run(hide_event_loop)
            outcome.append(context.run(function))
        except BaseException as error:  # noqa: BLE001 - carried to the task that waits
            failure.append(error)
        call_in_loop(token, finished.set)

    threading.Thread(target=work, name=f"chat tool {getattr(function, '__name__', '')}", daemon=True).start()
    await finished.wait()
    if failure:
        raise failure[0]
    return outcome[0]


def call_in_loop(token: EventLoopToken, callback: Callable[[], object]) -> None:
    """Call `callback` in the event loop of `token`, from another thread. Do nothing if the loop has ended."""
    try:
        anyio.from_thread.run_sync(callback, token=token)
    except RuntimeError:
        # It has ended, or ends just now, which asyncio and trio say in words of their own.
        return


def hide_event_loop() -> None:
    """Hide the event loop from this context, so that a function called in it can run a loop of its own."""
    sniffio: Any = sys.modules.get("sniffio")
    if sniffio is not None:
        sniffio.current_async_library_cvar.set(None)
