"""Detecting the source of a cancellation, work that must not be interrupted, and calls into an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import anyio
import pytest
from anyio.lowlevel import checkpoint
from chat_core.concurrency import (
    absorb_own_cancellation,
    aligned_pause,
    finish,
    finish_in_thread,
    is_cancelled,
    loop_scheduler,
)

pytestmark = pytest.mark.anyio


async def test_finish_raises_the_error_of_its_function_unchanged() -> None:
    async def fail() -> None:
        await checkpoint()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await finish(fail)


async def test_finish_completes_its_function_when_the_scope_is_cancelled() -> None:
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
async def test_finish_completes_its_function_when_the_task_is_cancelled_repeatedly() -> None:
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


async def test_finish_in_thread_waits_for_its_thread_when_cancelled() -> None:
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


async def test_finish_in_thread_does_not_start_for_a_cancelled_caller() -> None:
    begun: list[int] = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        await finish_in_thread(lambda: begun.append(1))
    assert scope.cancelled_caught
    assert begun == []


async def test_is_cancelled_is_false_for_a_task_that_was_not_cancelled() -> None:
    assert not is_cancelled()


async def test_is_cancelled_is_true_in_a_cancelled_scope_unless_shielded() -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        assert is_cancelled()
        with anyio.CancelScope(shield=True):
            await checkpoint()
            assert not is_cancelled()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_is_cancelled_is_true_for_a_task_that_asyncio_cancels() -> None:
    seen: list[bool] = []

    async def wait() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            seen.append(is_cancelled())
            raise

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert seen == [True]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_is_cancelled_is_false_for_a_task_that_awaits_a_cancelled_future() -> None:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    with pytest.raises(asyncio.CancelledError):
        await future
    assert not is_cancelled()


async def test_absorb_own_cancellation_does_not_yield_if_nothing_is_cancelled() -> None:
    turns: list[str] = []

    async def another() -> None:
        turns.append("another")

    async with anyio.create_task_group() as group:
        group.start_soon(another)
        await absorb_own_cancellation()
        turns.append("this one")
    assert turns == ["this one", "another"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_absorb_own_cancellation_lets_a_task_that_cancelled_itself_return() -> None:
    async def work() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await absorb_own_cancellation()
        await asyncio.sleep(0)
        return "done"

    assert await asyncio.create_task(work()) == "done"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_absorb_own_cancellation_keeps_the_cancellation_of_a_scope() -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await absorb_own_cancellation()
        await checkpoint()
    assert scope.cancelled_caught


async def test_a_scheduled_callback_runs_in_the_loop_when_another_thread_schedules_it() -> None:
    schedule, called, threads = loop_scheduler(), anyio.Event(), list[int]()

    def call() -> None:
        threads.append(threading.get_ident())
        called.set()

    await anyio.to_thread.run_sync(schedule, call)
    with anyio.fail_after(30):
        await called.wait()

    assert threads == [threading.get_ident()]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_scheduling_a_callback_in_a_closed_loop_raises_runtime_error(backend: str) -> None:
    async def create() -> Callable[[Callable[[], object]], object]:
        await checkpoint()
        return loop_scheduler()

    schedule = anyio.run(create, backend=backend)
    with pytest.raises(RuntimeError):
        schedule(list)


def test_equal_pauses_that_begin_at_different_times_end_at_the_same_time() -> None:
    pauses = {now: aligned_pause(10, now) for now in (7.0, 7.25, 7.99)}
    assert {now + pause for now, pause in pauses.items()} == {17.0}
    assert all(9 <= pause <= 10 for pause in pauses.values())


@pytest.mark.parametrize("seconds", [0, 0.0, -1])
def test_no_interval_is_no_pause(seconds: float) -> None:
    assert aligned_pause(seconds, 7.0) == 0
