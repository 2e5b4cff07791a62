"""Decisions are announced to the workflow, with and without a client."""

from __future__ import annotations

import pytest
from chat_core.errors import UsageError
from chat_dbos import decided
from dbos import DBOS, DBOSClient
from dbos_world import Shop, running, wait_until

pytestmark = pytest.mark.anyio


async def test_decided_wakes_a_workflow_through_a_dbos_client(shop: Shop) -> None:
    async with running(shop, shop.durable()) as durable:
        handle = await durable.start("c", chat="shop")
        await shop.until_waiting()
        await shop.approve()
        client = DBOSClient(system_database_url=shop.url)
        try:
            assert await decided("c", client) == 1
            await handle.get_result()
            assert await decided("c", client) == 0
            assert await decided("nobody", client) == 0
        finally:
            client.destroy()
    assert shop.paid == [5]


async def test_wake_due_finds_decisions_made_without_dbos(
    shop: Shop,
) -> None:
    async with running(shop, shop.durable()) as durable:
        handle = await durable.start("c", chat="shop")
        await shop.until_waiting()

        async def rests() -> bool:
            """Return whether a conversation waits and no run is active."""
            steps = await DBOS.list_workflow_steps_async(handle.workflow_id)
            return {"kind": "halted", "until": None} in [step["output"] for step in steps]

        await wait_until(rests)
        assert await durable.wake_due() == 0
        await shop.approve()
        assert await durable.wake_due() == 1
        await handle.get_result()
    assert shop.paid == [5]


@pytest.mark.parametrize("created", [False, True])
async def test_waking_without_a_launched_dbos_asks_for_the_launch(shop: Shop, *, created: bool) -> None:
    durable = shop.durable()
    if created:
        DBOS(config=shop.config)
    for call in (decided("c"), durable.decided("c"), durable.start("c", chat="shop"), durable.take_over("one")):
        with pytest.raises(UsageError, match=r"DBOS does not run in this process .* `async with launched\(config\)`"):
            await call
