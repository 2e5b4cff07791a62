"""The service starts workflows when sessions are closed, and reloads their files."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any, final

import anyio
import pytest
from chat_core import Messages, UsageError
from chat_pipeline import WorkflowFolder
from chat_service.workflows import ServiceWorkflows
from chat_store import MemoryStore
from dbos import DBOS
from service_helpers import WAIT, Client
from workflow_helpers import ANA, CLOSED, STAFF, Office, follow_until

pytestmark = pytest.mark.anyio


@pytest.fixture
def office(tmp_path: Path, store: MemoryStore) -> Office:
    return Office(tmp_path, store)


@final
class FolderCalls:
    """The results of a method of `WorkflowFolder`, in order. The method may be called in another thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        loop, original = asyncio.get_running_loop(), getattr(WorkflowFolder, name)
        self._results: asyncio.Queue[Any] = asyncio.Queue()

        def put(result: object) -> None:
            loop.call_soon_threadsafe(self._results.put_nowait, result)

        def call(folder: WorkflowFolder, *arguments: object) -> object:
            result = original(folder, *arguments)
            put(result)
            return result

        async def await_call(folder: WorkflowFolder, *arguments: object) -> object:
            result = await original(folder, *arguments)
            put(result)
            return result

        monkeypatch.setattr(WorkflowFolder, name, await_call if inspect.iscoroutinefunction(original) else call)

    async def next(self) -> Any:
        """Wait for the next result that is not empty or false, and return it."""
        with anyio.fail_after(WAIT):
            while not (result := await self._results.get()):
                pass
            return result


async def runs_of(client: Client, run_id: str) -> list[dict[str, Any]]:
    """Return the runs of the workflow `closed` when a run has completed."""
    await follow_until(client, run_id, "completed")
    runs: list[dict[str, Any]] = (await client.get("/api/v1/workflow-runs?workflow=closed")).json["runs"]
    return runs


async def test_each_close_of_a_session_starts_a_run_once(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    started = FolderCalls(monkeypatch, "trigger")
    async with office.serving() as client:
        ana = client.as_user(ANA)
        session = (await ana.post("/api/v1/chat", {"message": "Hello."})).json["session_id"]
        assert (await ana.request("DELETE", f"/api/v1/sessions/{session}")).status == 204
        first = await runs_of(client, *await started.next())
        await ana.post(f"/api/v1/sessions/{session}/reopen")
        await ana.request("DELETE", f"/api/v1/sessions/{session}")
        second = await runs_of(client, *await started.next())

    assert (len(first), len(second)) == (1, 2)
    assert first[0]["tasks"]["note"]["output"] == {
        "session_id": session,
        "owner": "ana",
        "title": first[0]["input"]["title"],
    }


async def test_a_run_that_an_event_started_is_shown_to_operators_alone(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = FolderCalls(monkeypatch, "trigger")
    async with office.serving() as client:
        sam = client.as_user(STAFF)  # may start workflows, and closes the session
        session = (await sam.post("/api/v1/chat", {"message": "Hello."})).json["session_id"]
        await sam.request("DELETE", f"/api/v1/sessions/{session}")
        (run_id,) = await started.next()
        (run,) = await runs_of(client, run_id)
        url = f"/api/v1/workflow-runs/{run_id}"
        hidden = {
            (await sam.request(method, f"{url}{path}", {} if method == "POST" else None)).status
            for method, path in (("GET", ""), ("GET", "/events"), ("POST", "/cancel"), ("POST", "/retry"))
        }
        listed = (await sam.get("/api/v1/workflow-runs")).json["runs"]

    assert (run["id"], run["owner"], run["input"]["owner"]) == (run_id, None, "sam")
    assert (hidden, listed) == ({404}, [])


async def test_a_conversation_of_an_ended_run_is_reported_once(
    office: Office, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken: list[str] = []
    last = asyncio.Event()

    async def wake(conversation: str) -> bool:
        woken.append(conversation)
        if conversation.endswith("last"):
            last.set()
        return False

    monkeypatch.setattr("chat_service.workflows.wake_run", wake)
    await store.create(Messages.from_user("Pay."), id="pipeline/ended/first")
    async with office.serving():
        for name in ("second", "last"):
            await store.create(Messages.from_user("Pay."), id=f"pipeline/ended/{name}")
        with anyio.fail_after(WAIT):
            await last.wait()

    assert sorted(woken) == [f"pipeline/ended/{name}" for name in ("first", "last", "second")]


async def test_a_new_file_is_available_while_the_service_runs(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = FolderCalls(monkeypatch, "reload")
    async with office.serving() as client:
        await changed.next()  # the files of the office
        (office.folder / "new.toml").write_text(CLOSED.replace('"closed"', '"new"'), encoding="utf-8")
        await changed.next()
        assert (await client.get("/api/v1/workflows/new")).status == 200
        (office.folder / "new.toml").unlink()
        await changed.next()
        assert (await client.get("/api/v1/workflows/new")).status == 404


async def test_a_role_is_needed(office: Office) -> None:
    workflows = office.workflows()
    DBOS.destroy(destroy_registry=True)
    for role, user_role in (("", None), ("operator", "")):
        with pytest.raises(UsageError, match="operator"):
            ServiceWorkflows(pipelines=workflows.pipelines, folder=workflows.folder, role=role, user_role=user_role)
