"""Items pass from a writer to a reader in order, and can be withdrawn before the reader takes them."""

from __future__ import annotations

import anyio
import pytest
from anyio import wait_all_tasks_blocked
from chat_core import UsageError
from chat_realtime.handoff import MAX_AHEAD, Handoff
from chat_realtime.notifier import Notifier

pytestmark = pytest.mark.anyio


async def test_the_writer_waits_until_the_item_is_taken() -> None:
    handoff: Handoff[str] = Handoff(Notifier())
    written: list[str] = []

    async def write() -> None:
        for item in ("a", "b"):
            await handoff.put(item)
            written.append(item)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        await wait_all_tasks_blocked()
        assert written == []
        assert [await handoff.take(), await handoff.take()] == ["a", "b"]

    assert written == ["a", "b"]


async def test_a_withdrawn_item_is_not_taken() -> None:
    handoff: Handoff[str] = Handoff(Notifier())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(handoff.put, "a")
        await wait_all_tasks_blocked()
        handoff.withdraw()
        tasks.start_soon(handoff.put, "b")
        assert await handoff.take() == "b"


async def test_readers_of_a_closed_handoff_end_after_the_last_item() -> None:
    handoff: Handoff[str] = Handoff(Notifier())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(handoff.put, "a")
        await wait_all_tasks_blocked()
        handoff.close()
        assert await handoff.take() == "a"
    with pytest.raises(StopAsyncIteration):
        await handoff.take()


async def test_a_second_reader_is_refused() -> None:
    handoff: Handoff[str] = Handoff(Notifier())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(handoff.take)
        await wait_all_tasks_blocked()
        assert handoff.has_reader
        with pytest.raises(UsageError, match="another task"):
            await handoff.take()
        await handoff.put("a")
    assert not handoff.has_reader


async def test_a_cancelled_reader_takes_no_item() -> None:
    handoff: Handoff[str] = Handoff(Notifier())

    with anyio.move_on_after(0):
        await handoff.take()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(handoff.put, "a")
        assert await handoff.take() == "a"


async def test_items_that_are_offered_ahead_are_bounded_and_keep_their_order() -> None:
    handoff: Handoff[int] = Handoff(Notifier())
    taken: list[int] = []
    written = 0

    async def write() -> None:
        nonlocal written
        for item in range(MAX_AHEAD + 2):
            await handoff.put_ahead(item)
            written += 1
        await handoff.put(-1)
        written += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(write)
        await wait_all_tasks_blocked()
        assert written == MAX_AHEAD - 1
        taken += [await handoff.take() for _ in range(MAX_AHEAD)]
        await wait_all_tasks_blocked()
        assert written == MAX_AHEAD + 2
        taken += [await handoff.take() for _ in range(3)]

    assert taken == [*range(MAX_AHEAD + 2), -1]
    assert written == MAX_AHEAD + 3


async def test_withdrawing_removes_all_items_that_were_offered_ahead() -> None:
    handoff: Handoff[str] = Handoff(Notifier())
    for item in "abc":
        await handoff.put_ahead(item)

    assert await handoff.take() == "a"
    handoff.withdraw()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(handoff.put, "d")
        assert await handoff.take() == "d"
