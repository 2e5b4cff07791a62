"""The service starts workflows when sessions are closed, and reloads their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from chat_core import UsageError
from chat_service.workflows import ServiceWorkflows
from chat_store import MemoryStore
from dbos import DBOS
from service_helpers import WAIT, Client
from workflow_helpers import ANA, CLOSED, Office

pytestmark = pytest.mark.anyio


@pytest.fixture
def office(tmp_path: Path, store: MemoryStore) -> Office:
    return Office(tmp_path, store)


async def runs_of(client: Client, workflow: str, count: int) -> list[dict[str, Any]]:
    """Return the runs of a workflow as soon as so many have ended."""
    with anyio.fail_after(WAIT):
        while True:
            runs: list[dict[str, Any]] = (await client.get(f"/api/v1/workflow-runs?workflow={workflow}")).json["runs"]
            if len([run for run in runs if run["state"] == "completed"]) >= count:
                return runs
            await anyio.lowlevel.checkpoint()


async def test_each_close_of_a_session_starts_a_run_once(office: Office) -> None:
    async with office.serving() as client:
        ana = client.as_user(ANA)
        session = (await ana.post("/api/v1/chat", {"message": "Hello."})).json["session_id"]
        assert (await ana.request("DELETE", f"/api/v1/sessions/{session}")).status == 204
        first = await runs_of(client, "closed", 1)
        await ana.post(f"/api/v1/sessions/{session}/reopen")
        await ana.request("DELETE", f"/api/v1/sessions/{session}")
        second = await runs_of(client, "closed", 2)

    assert (len(first), len(second)) == (1, 2)
    assert first[0]["tasks"]["note"]["output"] == {
        "session_id": session,
        "owner": "ana",
        "title": first[0]["input"]["title"],
    }


async def test_a_new_file_is_available_while_the_service_runs(office: Office) -> None:
    async with office.serving() as client:
        (office.folder / "new.toml").write_text(CLOSED.replace('"closed"', '"new"'), encoding="utf-8")
        with anyio.fail_after(WAIT):
            while (await client.get("/api/v1/workflows/new")).status != 200:
                await anyio.lowlevel.checkpoint()
        (office.folder / "new.toml").unlink()
        with anyio.fail_after(WAIT):
            while (await client.get("/api/v1/workflows/new")).status != 404:
                await anyio.lowlevel.checkpoint()


async def test_a_role_is_needed(office: Office) -> None:
    workflows = office.workflows()
    DBOS.destroy(destroy_registry=True)
    with pytest.raises(UsageError, match="operator"):
        ServiceWorkflows(pipelines=workflows.pipelines, folder=workflows.folder, role="")
