"""A run of a workflow on PostgreSQL waits for a decision, and continues in another launch of DBOS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from chat_pipeline import wake_run
from chat_pipeline.waking import conversation_of
from chat_store.postgres import PostgresStore
from chat_store.testing.postgres_server import PostgresServer, shared_server
from dbos import DBOS
from pipeline_world import World, probe, running, wait_until, workflow

pytestmark = pytest.mark.anyio

PAY = """id = "pay"
runtime = "tool"
dependencies = ["first"]
config = { chat = "shop", tool = "pay", arguments = { cents = "{{ first.output }}" } }
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with shared_server() as postgres:
        yield postgres


async def test_a_waiting_run_on_postgresql_continues_after_a_restart(postgres: PostgresServer, tmp_path: Path) -> None:
    folder = postgres.dsn.split()[0].removeprefix("host=")
    database = f"postgresql://postgres@/pipelines_{uuid4().hex}?host={folder}"
    async with PostgresStore(postgres.dsn) as store:
        world = World(tmp_path, store, database=database)
        try:
            async with running(world, world.pipelines()) as pipelines:
                flow = pipelines.parse(workflow(probe("first", value="500"), PAY))
                run_id = await pipelines.start(flow)

                async def waits() -> bool:
                    return (await pipelines.find(run_id)).state == "waiting"

                await wait_until(waits)
            async with store.open(conversation_of(run_id, "pay")) as conversation:
                conversation.messages.tool("pay").approve(by="ana")
            DBOS.destroy(destroy_registry=True)
            async with running(world, world.pipelines()) as pipelines:
                await wake_run(conversation_of(run_id, "pay"))
                run = await pipelines.wait(run_id)
        finally:
            DBOS.destroy(destroy_registry=True)
    assert (run.state, run.outputs["pay"]) == ("completed", {"paid": 500})
    assert (world.paid, world.probe.calls) == ([500], ["first"])
