"""Items pass from a writer to a reader one at a time."""

from __future__ import annotations

import anyio
import pytest
from anyio import wait_all_tasks_blocked
from chat_core import UsageError
from chat_realtime.handoff import Handoff
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
