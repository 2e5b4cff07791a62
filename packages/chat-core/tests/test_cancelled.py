"""A cancellation from outside, told from one that was raised by what was called."""

from __future__ import annotations

import asyncio

import anyio
import pytest
from anyio.lowlevel import checkpoint
from chat_core._cancelled import ignore_own, is_cancelled

pytestmark = pytest.mark.anyio


async def test_nobody_cancels_a_task_that_goes_its_way() -> None:
    assert not is_cancelled()


async def test_a_task_in_a_scope_that_was_cancelled_is_cancelled_unless_it_is_shielded() -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        assert is_cancelled()
        with anyio.CancelScope(shield=True):
            await checkpoint()
            assert not is_cancelled()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_that_asyncio_cancels_is_cancelled() -> None:
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
async def test_a_task_that_awaits_what_was_cancelled_is_not() -> None:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    with pytest.raises(asyncio.CancelledError):
        await future
    assert not is_cancelled()


async def test_where_nothing_is_cancelled_ignoring_it_takes_no_turn_of_the_loop() -> None:
    turns: list[str] = []

    async def another() -> None:
        turns.append("another")

    async with anyio.create_task_group() as group:
        group.start_soon(another)
        await ignore_own()
        turns.append("this one")
    assert turns == ["this one", "another"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_that_has_cancelled_itself_may_end_in_order_all_the_same() -> None:
    async def work() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await ignore_own()
        await asyncio.sleep(0)
        return "done"

    assert await asyncio.create_task(work()) == "done"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancellation_from_a_scope_is_not_ignored() -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await ignore_own()
        await checkpoint()
    assert scope.cancelled_caught
