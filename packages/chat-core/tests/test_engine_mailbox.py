"""The mailbox of a pass."""

from __future__ import annotations

import anyio
import pytest
from chat_core.engine.mailbox import Mailbox

pytestmark = pytest.mark.anyio


async def test_everything_that_is_there_is_taken_in_order() -> None:
    mailbox: Mailbox[int] = Mailbox()
    mailbox.put(1)
    mailbox.put(2)
    assert await mailbox.take() == [1, 2]


async def test_an_empty_mailbox_is_waited_for() -> None:
    mailbox: Mailbox[int] = Mailbox()
    taken: list[int] = []
    async with anyio.create_task_group() as group:

        async def take() -> None:
            taken.extend(await mailbox.take())
            taken.extend(await mailbox.take())

        group.start_soon(take)
        await anyio.wait_all_tasks_blocked()
        mailbox.put(1)
        await anyio.wait_all_tasks_blocked()
        mailbox.put(2)
    assert taken == [1, 2]
