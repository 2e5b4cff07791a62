"""Work that is finished once it has begun."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
from anyio import CancelScope, CapacityLimiter, to_thread
from anyio.lowlevel import checkpoint_if_cancelled

T = TypeVar("T")


async def finish(work: Callable[[], Awaitable[None]]) -> None:
    """Await `work` to its end, and raise what it raises, however often the task is cancelled meanwhile.

    It gets a task of its own: `Task.cancel()` of asyncio passes every shield of the task that it hits.
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
    """Run what blocks. Once begun it is waited for even if the caller is cancelled: whether it was done must be known.

    It does not queue behind the application's own threads, which may all hang.
    """
    done: list[T] = []

    async def run() -> None:
        done.append(await to_thread.run_sync(work, limiter=CapacityLimiter(1)))

    await checkpoint_if_cancelled()
    await finish(run)
    return done[0]
