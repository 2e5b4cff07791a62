"""DBOS is launched with a name and a version, and ends without interrupting a step."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from chat_core.errors import UsageError
from chat_core.messages import Completed, Interrupted
from chat_dbos import WORKFLOW_VERSION, launch, launched, require_dbos
from chat_dbos._shutdown import WorkflowTasks
from dbos import DBOS, DBOSConfig, error
from dbos_world import PATIENCE, Shop, running

pytestmark = pytest.mark.anyio


async def test_a_worker_without_an_executor_id_is_refused(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DBOS__VMID", raising=False)
    with pytest.raises(UsageError, match="needs executor_id"):
        async with launched({"name": "shop", "system_database_url": shop.url}):
            pass
    monkeypatch.setenv("DBOS__VMID", "seven")
    async with launched({"name": "shop", "system_database_url": shop.url, "log_level": "CRITICAL"}):
        assert DBOS.executor_id == "seven"


async def test_a_config_that_dbos_refuses_is_a_usage_error(shop: Shop) -> None:
    for name in ("x", 5, None):
        with pytest.raises(UsageError, match="DBOS cannot use this config"):
            async with launched(cast("DBOSConfig", {**shop.config, "name": name})):
                pass
    async with launched(shop.config):
        assert DBOS.executor_id == shop.config.get("executor_id")


async def test_an_unsupported_sqlite_version_is_refused_before_dbos_starts(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "_NEEDS_SUBSECOND_TIMES", True)
    monkeypatch.setattr(launch, "_HAS_SUBSECOND_TIMES", False)
    for config in (shop.config, {"name": "shop", "executor_id": "one"}):
        with pytest.raises(UsageError, match=r"DBOS needs SQLite 3\.42 or newer"):
            async with launched(cast("DBOSConfig", config)):
                pass


async def test_another_failure_of_dbos_is_not_reported_as_a_missing_launch() -> None:
    with pytest.raises(error.DBOSException, match="an empty workflow ID"), require_dbos():
        raise error.DBOSException("Attempted to initialize a workflow with an empty workflow ID.")


async def test_the_application_version_is_the_workflow_version_by_default(shop: Shop) -> None:
    shop.durable()
    async with launched(shop.config):
        assert DBOS.application_version == WORKFLOW_VERSION
    config = shop.config
    config["application_version"] = "mine"
    async with launched(config):
        assert DBOS.application_version == "mine"


async def test_a_schedule_that_passed_without_a_worker_runs_at_the_next_launch(shop: Shop) -> None:
    async with running(shop, shop.durable(shop.chat(seconds=1))) as durable:
        handle = await durable.start("c", chat="shop")
    async with launched(shop.config):
        await (await DBOS.retrieve_workflow_async(handle.workflow_id)).get_result()
    assert shop.paid == [5]


async def test_shutdown_waits_for_a_running_tool(shop: Shop) -> None:
    shop.gate = asyncio.Event()
    async with running(shop, shop.durable()) as durable:
        handle = await durable.start("c", chat="shop")
        await shop.until_waiting()
        await shop.approve()
        await durable.decided("c")
        await shop.begun.wait()
        asyncio.get_running_loop().call_later(0.01, shop.gate.set)
    assert (await shop.messages()).tool("call_pay").status == Completed("paid")
    async with launched(shop.config):
        await (await DBOS.retrieve_workflow_async(handle.workflow_id)).get_result()
    assert shop.paid == [5]


async def test_a_tool_that_exceeds_the_shutdown_grace_is_interrupted(shop: Shop) -> None:
    shop.gate = asyncio.Event()
    durable = shop.durable()
    async with launched(shop.config, grace_seconds=0.01):
        await durable.start("c", chat="shop")
        await shop.until_waiting()
        await shop.approve()
        await durable.decided("c")
        await shop.begun.wait()
    assert isinstance((await shop.messages()).tool("call_pay").status, Interrupted)
    shop.gate.set()
    async with launched(shop.config):
        await shop.until_waiting("interrupted")
    assert shop.paid == []


async def test_a_workflow_is_not_started_during_shutdown() -> None:
    tasks = WorkflowTasks()
    begun: list[str] = []

    async def workflow() -> None:
        with tasks.workflow():
            begun.append("begun")

    async with tasks.shut_down(PATIENCE):
        late = asyncio.create_task(workflow())
        await asyncio.wait([late])
    assert late.cancelled()
    assert begun == []
    await workflow()
    assert begun == ["begun"]


async def test_shutdown_leaves_no_asyncio_task(shop: Shop) -> None:
    before = asyncio.all_tasks()
    async with running(shop, shop.durable()) as durable:
        await durable.start("c", chat="shop")
        await shop.until_waiting()
    assert {task for task in asyncio.all_tasks() if not task.done()} == before


async def test_the_event_loop_can_use_threads_after_shutdown(shop: Shop) -> None:
    async with running(shop, shop.durable()) as durable:
        await durable.start("c", chat="shop")
        await shop.until_waiting()
    assert await asyncio.to_thread(lambda: "threads") == "threads"
