"""A decision wakes the run of its conversation."""

from __future__ import annotations

import pytest
from chat_pipeline import wake_run
from chat_pipeline.waking import conversation_of, run_of
from dbos import DBOSClient
from pipeline_world import World, running, wait_until, workflow

pytestmark = pytest.mark.anyio

PAY = 'id = "pay"\nruntime = "tool"\nconfig = { chat = "shop", tool = "pay", arguments = { cents = 500 } }'


def test_the_id_of_a_conversation_contains_run_and_task() -> None:
    assert run_of(conversation_of("run-1", "pay")) == "run-1"
    for other in ("c", "pipeline/x", "pipeline//x", "pipeline/a/b/c", "pipeline/../b", "x/pipeline/a/b"):
        assert run_of(other) is None


async def test_a_process_without_dbos_wakes_a_run_through_a_client(world: World) -> None:
    async with running(world, world.pipelines()) as pipelines:
        run = await pipelines.start(pipelines.parse(workflow(PAY)))

        async def waits() -> bool:
            return (await pipelines.find(run)).state == "waiting"

        await wait_until(waits)
        async with world.store.open(conversation_of(run, "pay")) as conversation:
            conversation.messages.tool("pay").approve(by="ana")
        client = DBOSClient(system_database_url=world.url)
        try:
            assert await wake_run("another-conversation", client) is False
            assert await wake_run(conversation_of("unknown", "pay"), client) is False
            assert await wake_run(conversation_of(run, "pay"), client) is True
            ended = await pipelines.wait(run)
            assert await wake_run(conversation_of(run, "pay"), client) is False
        finally:
            client.destroy()
    assert (ended.state, ended.outputs, world.paid) == ("completed", {"pay": {"paid": 500}}, [500])
