"""Helpers for event loops: detect who cancelled a task, finish work in any case, and call into a loop from a thread."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar, cast

import anyio
from anyio import CancelScope, CapacityLimiter, to_thread
from anyio.lowlevel import EventLoopToken, checkpoint_if_cancelled, current_token

T = TypeVar("T")


async def finish(work: Callable[[], Awaitable[None]]) -> None:
    """Await `work()` to its end even if this task is cancelled. Raise the exception of `work()`, if any.

    The work runs in a separate task, because asyncio's `Task.cancel()` ignores the cancel scopes of the cancelled task.
    """
    failure: list[Exception] = []

    async def shielded() -> None:
        with CancelScope(shield=True):
            try:
                await work()
            except Exception as error:  # noqa: BLE001 - carried to the task that waits
                failure.append(error)

    with CancelScope(shield=True):
        async with anyio.create_task_group() as group:
            group.start_soon(shielded)
    if failure:
        raise failure[0]


async def finish_in_thread(work: Callable[[], T]) -> T:
    """Run a blocking function in a worker thread and return its result.

    A cancellation takes effect only before the function starts. A started function always runs to its end. The function
    uses a separate thread limiter, so that it never waits for the threads of the application.
    """
    done: list[T] = []

    async def run() -> None:
        done.append(await to_thread.run_sync(work, limiter=CapacityLimiter(1)))

    await checkpoint_if_cancelled()
    await finish(run)
    return done[0]


def aligned_pause(seconds: float, now: float) -> float:
    """Return a pause of about `seconds`. Equal pauses of several tasks end at the same multiples of a tenth of it.

    Args:
        seconds: the longest pause. The result is at least 0.9 of it, and 0 if `seconds` is not positive.
        now: the current time of any clock, in seconds.
    """
    if seconds <= 0:
        return 0
    step = seconds / 10
    return math.floor((now + seconds) / step) * step - now


class _AsyncioLoop(Protocol):
    def call_soon_threadsafe(self, work: Callable[[], object], /) -> object: ...


class _TrioToken(Protocol):
    def run_sync_soon(self, work: Callable[[], object], /) -> object: ...


def loop_scheduler() -> Callable[[Callable[[], object]], object]:
    """Return a function that schedules a callback in the current event loop, from any thread, without waiting.

    The returned function raises `RuntimeError` if the loop is closed.
    """
    loop = current_token().native_token
    if hasattr(loop, "run_sync_soon"):
        return cast("_TrioToken", loop).run_sync_soon
    return cast("_AsyncioLoop", loop).call_soon_threadsafe


def current_asyncio_task() -> asyncio.Task[Any] | None:
    """Return the current task of asyncio, or None in another event loop."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def is_cancelled(token: EventLoopToken | None = None, task: asyncio.Task[Any] | None = None) -> bool:
    """Return whether the current task is being cancelled from outside.

    On asyncio, awaiting another task that was cancelled also raises `CancelledError`. In that case, this function
    returns False. On trio, a cancellation always comes from outside.

    Args:
        token: token of the running event loop. With it, anyio does not detect the event loop, which takes as long as
            the rest of this check.
        task: the result of `current_asyncio_task()`, if the caller has it.
    """
    backend = anyio if token is None else token.backend_class
    if backend.current_effective_deadline() == -math.inf:
        return True
    task = task or current_asyncio_task()
    return task is not None and task.cancelling() > 0


async def absorb_own_cancellation() -> None:
    """Absorb a cancellation that this task requested of itself, unless it is also cancelled from outside.

    If the request stays pending, asyncio treats the ended task as cancelled and cancels its task group.
    """
    task = current_asyncio_task()
    if task is None or not task.cancelling() or anyio.current_effective_deadline() == -math.inf:
        return
    try:
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        task.uncancel()
