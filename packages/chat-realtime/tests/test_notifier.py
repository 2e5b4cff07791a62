"""A notifier wakes all tasks that wait."""

from __future__ import annotations

import anyio
import pytest
from anyio import wait_all_tasks_blocked
from chat_realtime.notifier import Notifier

pytestmark = pytest.mark.anyio


async def test_a_notification_wakes_all_waiting_tasks_once() -> None:
    notifier = Notifier()
    woken: list[int] = []

    async def wait(number: int) -> None:
        await notifier.wait()
        woken.append(number)

    notifier.notify()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait, 1)
        tasks.start_soon(wait, 2)
        await wait_all_tasks_blocked()
        assert woken == []
        notifier.notify()

    assert sorted(woken) == [1, 2]
