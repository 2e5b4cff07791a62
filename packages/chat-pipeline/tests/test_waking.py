"""A decision wakes the run of its conversation."""

from __future__ import annotations

import pytest
from chat_core.errors import UsageError
from chat_dbos import DurableChats
from chat_pipeline import Pipelines, wake_run
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


async def test_runs_without_a_launched_dbos_ask_for_the_launch(world: World) -> None:
    pipelines = world.pipelines()
    parsed = pipelines.parse(workflow(PAY))
    calls = (
        pipelines.start(parsed),
        pipelines.find("run"),
        pipelines.wait("run"),
        pipelines.runs(),
        pipelines.cancel("run"),
        pipelines.retry("run"),
        wake_run(conversation_of("run", "pay")),
    )
    for call in calls:
        with pytest.raises(UsageError, match=r"DBOS does not run in this process .* `async with launched\(config\)`"):
            await call


async def test_the_name_of_another_kind_of_workflow_is_refused(world: World) -> None:
    DurableChats(world.store, {}, name="shop")
    with pytest.raises(UsageError, match=r"another kind of workflow has the name 'shop': pass another name"):
        Pipelines(name="shop")
