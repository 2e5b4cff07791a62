"""The worker: takeover from a dead process, cancellation, time limits, decisions made elsewhere, stopping."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest
from anyio.abc import Process
from chat_core import ConflictError, Messages
from chat_core.approvals import Principal
from chat_service import ServiceSettings, worker
from chat_service.run_records import Run, RunEnd, session_of
from chat_service.runs import MessageRequest, Runs
from chat_store import ConversationStore, Due, MemoryStore, StoredJob
from chat_store.testing.postgres_server import PostgresServer
from service_helpers import (
    BO,
    WAIT,
    Bank,
    Client,
    Event,
    SteppedModel,
    approve,
    build_context,
    build_service,
    names,
    scripted,
    serving,
    text_of,
)
from worker_process import open_store

pytestmark = pytest.mark.anyio
QUEUED = 12
OTHER_ANSWER = "Now I have thought about the answer."


async def begin(client: Client) -> str:
    """Send a message, leave, and return the id of its run."""
    async with client.stream("POST", "/api/v1/chat/stream", {"message": "Hello."}) as events:
        return str((await anext(events)).data["run_id"])


@asynccontextmanager
async def answering_process(address: list[str], *, seconds: int = 2) -> AsyncGenerator[tuple[Process, Client]]:
    """Start a process that serves the store at an address, and kill it at the end.

    Args:
        address: the address of the store.
        seconds: the length of leases, and the interval in which the process reads the store without a notification.
    """
    command = [sys.executable, str(Path(__file__).with_name("worker_process.py")), str(seconds), *address]
    async with await anyio.open_process(command, stderr=None) as process:
        assert process.stdout is not None
        try:
            yield process, Client(int(await process.stdout.receive()))
        finally:
            with suppress(ProcessLookupError):
                process.kill()


async def read_until_stopped(events: AsyncIterator[Event]) -> list[Event]:
    """Return the events up to the piece after which the model of the process stops."""
    found: list[Event] = []
    while text_of(found) != "One moment please, ":
        found.append(await anext(events))
    return found


async def claim(store: ConversationStore, session_id: str) -> None:
    """Take the lease of a session as soon as its worker has released it."""
    async with store.open(session_id) as conversation:
        while True:
            with suppress(ConflictError):
                await conversation.claim()
                return


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """Return the address of a new store for `worker_process.py`."""
    if request.param == "sqlite":
        return [str(tmp_path / "chats.db")]
    server: PostgresServer = request.getfixturevalue("postgres")
    return [server.dsn, uuid4().hex]


async def test_another_process_takes_over_the_run_of_a_killed_one(address: list[str]) -> None:
    async with answering_process(address) as (process, client):
        async with client.stream("POST", "/api/v1/chat/stream", {"message": "Hello."}) as events:
            first = await read_until_stopped(events)
            os.kill(process.pid, signal.SIGKILL)
        await process.wait()

    run_id = first[0].data["run_id"]
    async with (
        open_store(*address) as store,
        serving(build_service(store, scripted(OTHER_ANSWER))) as client,
    ):
        headers = {"last-event-id": first[-1].id or ""}
        rest = await client.events("GET", f"/api/v1/runs/{run_id}/events", headers=headers)
        run = (await client.get(f"/api/v1/runs/{run_id}")).json
        session = (await client.get(f"/api/v1/sessions/{run['session_id']}")).json

    assert names(rest)[0] == "reset"
    assert (text_of([*first, *rest]), rest[-1].name) == (OTHER_ANSWER, "done")
    assert (run["state"], run["attempts"] > 1) == ("answered", True)
    turns = [(turn["user_message"], turn["assistant_response"]) for turn in session["turns"]]
    assert turns == [("Hello.", OTHER_ANSWER)]


async def test_a_run_is_cancelled_from_another_process(
    address: list[str], record_property: Callable[[str, object], None]
) -> None:
    # Within the time of this test, the process renews no lease and reads no run again. Only a notification of the
    # database ends its run: NOTIFY of PostgreSQL, or the version of a SQLite file, which is read ten times per second.
    async with (
        answering_process(address, seconds=100 * WAIT) as (_, client),
        client.stream("POST", "/api/v1/chat/stream", {"message": "Hello."}) as events,
    ):
        first = await read_until_stopped(events)
        async with (
            open_store(*address) as store,
            serving(build_service(store, scripted(), settings=ServiceSettings(workers=0))) as other,
        ):
            begun = anyio.current_time()
            cancelled = await other.post(f"/api/v1/runs/{first[0].data['run_id']}/cancel")
            with anyio.fail_after(WAIT):
                rest = [event async for event in events]
            record_property("seconds until a run is cancelled in another process", anyio.current_time() - begun)
            with anyio.fail_after(WAIT):
                await claim(store, cancelled.json["session_id"])

    assert cancelled.json["state"] == "cancelled"
    assert [(event.name, event.data["code"]) for event in rest] == [("error", "cancelled")]


async def test_a_run_that_takes_too_long_fails_and_leaves_the_session_usable(store: MemoryStore) -> None:
    model = SteppedModel(scripted("One moment please."), 1)
    settings = ServiceSettings(run_seconds=0.2, poll_seconds=0.2)
    async with serving(build_service(store, model, settings=settings)) as client:
        reply = await client.post("/api/v1/chat", {"message": "Hello."})
        run = (await client.get("/api/v1/sessions")).json["sessions"][0]
        model.go_on.set()
        with anyio.fail_after(WAIT):
            again = reply
            while again.status == 503:  # on a busy machine, also a run that does not stop may take too long
                again = await client.post("/api/v1/chat", {"message": "Still there?", "session_id": run["id"]})

    assert (reply.status, reply.json["message"]) == (503, "The run took too long.")
    assert (again.status, again.json["response"]) == (200, "One moment please.")


async def test_a_decision_made_elsewhere_continues_the_run(store: MemoryStore) -> None:
    bank = Bank()
    async with serving(build_service(store, scripted(), bank=bank)) as client:
        paused = (await client.post("/api/v1/chat", {"message": "Pay Bo."})).json
        async with MemoryStore(beside=store).open(paused["session_id"]) as conversation:
            conversation.messages.tool("call_1").approve(by="the inbox")
        cursor = None
        with anyio.fail_after(WAIT):
            while not bank.paid:
                cursor = (await store.changes(cursor, wait_seconds=1)).cursor
        events = await client.events("GET", f"/api/v1/runs/{paused['run_id']}/events")

    assert (bank.paid, events[-1].name) == (["500 to Bo"], "done")


async def test_queued_runs_are_not_read_again_for_each_run_that_begins(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, jobs = list[str](), store.jobs

    async def counted(**filters: Any) -> list[StoredJob]:
        if "conversation" in filters and "key_prefix" not in filters:
            reads.append(filters["conversation"])
        return await jobs(**filters)

    monkeypatch.setattr(store, "jobs", counted)
    settings = ServiceSettings(workers=1, poll_seconds=10 * WAIT)
    context = build_context(store, settings)
    runs = Runs(context)
    for _ in range(QUEUED):
        await runs.start(MessageRequest(Principal("ana"), None, "Hello.", ""))
    service = build_service(store, scripted(*["Good morning."] * QUEUED), settings=settings)
    with anyio.fail_after(WAIT):
        async with service:
            while len(await jobs(kind="chat_service.end")) < QUEUED:
                await anyio.lowlevel.checkpoint()

    assert len(set(reads)) == QUEUED
    assert len(reads) <= 3 * QUEUED


@asynccontextmanager
async def checking(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[list[str]]:
    """Open a service in which the last run of each session has failed, and provide the sessions that it has checked."""
    checked = list[str]()

    async def is_final(_runs: Runs, session_id: str) -> bool:
        checked.append(session_id)
        return True

    monkeypatch.setattr(Runs, "resume_due", is_final)
    await store.create(Messages.from_user("Hello."), id="one")
    async with build_service(store, scripted(), settings=ServiceSettings(workers=1, poll_seconds=0.01)):
        yield checked


async def test_sessions_are_checked_again_after_the_database_was_replaced(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, due = list[int](), store.due

    async def count(**filters: Any) -> list[Due]:
        looked.append(1)
        return await due(**filters)

    monkeypatch.setattr(store, "due", count)
    with anyio.fail_after(WAIT):
        async with MemoryStore() as backup, checking(store, monkeypatch) as checked:
            while len(looked) < 10:
                await anyio.lowlevel.checkpoint()
            assert checked == ["one"]
            monkeypatch.setattr(store, "changes", backup.changes)
            await store.create(Messages.from_user("Hello."), id="two")  # ends the current wait for a change
            while checked.count("one") < 2:
                await anyio.lowlevel.checkpoint()


async def test_a_session_with_a_failed_run_is_checked_again_after_a_time(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "_FINAL_SECONDS", 0.01)
    with anyio.fail_after(WAIT):
        async with checking(store, monkeypatch) as checked:
            while len(checked) < 2:
                await anyio.lowlevel.checkpoint()


async def test_a_service_that_stops_lets_its_runs_end(store: MemoryStore) -> None:
    model = SteppedModel(scripted("One moment please."), 1)
    async with serving(build_service(store, model)) as client:
        run_id = await begin(client)
        await model.reached.wait()
        model.go_on.set()
    jobs = {job.kind: job for job in await store.jobs(conversation=run_id.partition(".")[0])}

    assert RunEnd.from_payload(jobs["chat_service.end"].payload).state == "answered"


async def test_a_service_that_stops_gives_back_runs_that_do_not_end(store: MemoryStore) -> None:
    model = SteppedModel(scripted("One moment please."), 1)
    settings = ServiceSettings(grace_seconds=0.1, poll_seconds=0.2)
    async with serving(build_service(store, model, settings=settings)) as client:
        run_id = await begin(client)
        await model.reached.wait()
    jobs = await store.jobs(conversation=run_id.partition(".")[0])
    async with serving(build_service(store, scripted("One moment please."))) as client:
        events = await client.events("GET", f"/api/v1/runs/{run_id}/events")

    assert [(job.state, job.attempts) for job in jobs] == [("queued", 0)]
    assert (text_of(events), events[-1].name) == ("One moment please.", "done")


async def test_a_session_that_cannot_continue_does_not_stop_the_others(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(build_service(store, scripted())) as client:
        paused = (await client.post("/api/v1/chat", {"message": "Pay Bo."})).json["session_id"]
        apply = store.apply

        async def failing(id: str, *arguments: Any, **options: Any) -> Any:
            if id == paused and options.get("jobs"):
                msg = "the row is damaged"
                raise OSError(msg)
            return await apply(id, *arguments, **options)

        monkeypatch.setattr(store, "apply", failing)
        async with MemoryStore(beside=store).open(paused) as conversation:
            conversation.messages.tool("call_1").approve(by="the inbox")
        other = await client.as_user(BO).post("/api/v1/chat", {"message": "Pay Ana."})

    assert other.status == 202


async def test_an_answer_that_is_stored_is_not_streamed_again(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    end, failures = Runs.end, [OSError("the store is away")]

    async def failing(runs: Runs, run: Run, outcome: RunEnd) -> None:
        if failures:
            raise failures.pop()
        await end(runs, run, outcome)

    monkeypatch.setattr(Runs, "end", failing)
    settings = ServiceSettings(poll_seconds=0.2, retry_seconds=0.2)
    async with serving(build_service(store, scripted("Good morning."), settings=settings)) as client:
        events = await client.events("POST", "/api/v1/chat/stream", {"message": "Hello."})

    assert failures == []
    assert (text_of(events), events[-1].name) == ("Good morning.", "done")


# --- Redactions -------------------------------------------------------------------------------------------------------


async def test_a_queued_run_of_a_redacted_message_is_answered(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted(), settings=ServiceSettings(workers=0))) as client:
        run_id = await begin(client)
    await store.redact(session_of(run_id), 0, by="ops", reason="law")
    async with serving(build_service(store, scripted("Good morning."))) as client:
        events = await client.events("GET", f"/api/v1/runs/{run_id}/events")

    assert (text_of(events), events[-1].name) == ("Good morning.", "done")


async def test_a_paused_run_continues_after_its_message_is_redacted(store: MemoryStore) -> None:
    bank, body = Bank(), {"message": "Pay Bo."}
    async with serving(build_service(store, scripted(), bank=bank)) as client:
        paused = (await client.post("/api/v1/chat", body, idempotency_key="k1")).json
        await store.redact(paused["session_id"], 0, by="ops", reason="law")
        repeated = await client.post("/api/v1/chat", body, idempotency_key="k1")
        await client.post(f"/api/v1/sessions/{paused['session_id']}/decisions", approve(paused["waiting"]))
        events = await client.events("GET", f"/api/v1/runs/{paused['run_id']}/events")

    assert (repeated.json["run_id"], bank.paid) == (paused["run_id"], ["500 to Bo"])
    assert (text_of(events)[-11:], events[-1].name) == ("It is paid.", "done")


async def test_the_state_of_a_run_is_kept_when_its_message_is_redacted(store: MemoryStore) -> None:
    async with serving(build_service(store, scripted("Good morning."))) as client:
        run_id = (await client.post("/api/v1/chat", {"message": "answered"})).json["run_id"]
        await store.redact(session_of(run_id), 0, by="ops", reason="law")
        run = await client.get(f"/api/v1/runs/{run_id}")

    assert (run.status, run.json["state"]) == (200, "answered")
