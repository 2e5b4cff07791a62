"""Work that is finished once it has begun."""

from __future__ import annotations

import asyncio
import threading

import anyio
import pytest
from anyio.lowlevel import checkpoint
from chat_core._finish import finish, finish_in_thread

pytestmark = pytest.mark.anyio


async def test_what_it_raises_is_raised_as_it_is() -> None:
    async def fail() -> None:
        await checkpoint()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await finish(fail)


async def test_a_scope_that_is_cancelled_waits_for_its_end() -> None:
    done: list[int] = []

    async def work() -> None:
        for step in range(5):
            await checkpoint()
            done.append(step)

    with anyio.CancelScope() as scope:
        scope.cancel()
        await finish(work)
        await checkpoint()
    assert scope.cancelled_caught
    assert done == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_that_is_cancelled_again_and_again_waits_for_its_end() -> None:
    done: list[int] = []
    begun, gate = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        await gate.wait()
        done.append(1)

    task = asyncio.create_task(finish(work))
    await begun.wait()
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done()
    gate.set()
    await asyncio.wait([task])
    assert task.cancelled()
    assert done == [1]


async def test_what_blocks_is_done_in_a_thread_and_waited_for() -> None:
    begun, done = threading.Event(), threading.Event()

    def work() -> str:
        begun.set()
        assert done.wait(10)
        return "done"

    outcome: list[str] = []

    async def wait() -> None:
        outcome.append(await finish_in_thread(work))

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await anyio.to_thread.run_sync(begun.wait)
        group.cancel_scope.cancel()
        done.set()
    assert outcome == ["done"]


async def test_what_blocks_does_not_begin_for_a_caller_that_is_cancelled() -> None:
    begun: list[int] = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        await finish_in_thread(lambda: begun.append(1))
    assert scope.cancelled_caught
    assert begun == []
