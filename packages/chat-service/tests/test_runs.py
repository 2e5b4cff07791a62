"""Ids of sessions, messages counted in their descriptions, and requests that wait."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from chat_core import ConflictError, FunctionCall, Messages
from chat_core.approvals import Principal
from chat_core.messages import Pending, Rejected, Running, Tool, Turn
from chat_inbox.http_errors import HTTPError
from chat_service import ServiceSettings
from chat_service.run_records import first_part, new_run_id
from chat_service.runs import MessageRequest, Runs, is_session_id, turn_count
from chat_store import MemoryStore
from service_helpers import CALL, UNKNOWN_ID, WAIT, build_context


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (UNKNOWN_ID, True),
        (UNKNOWN_ID.replace("-", ""), False),
        (UNKNOWN_ID.upper(), False),
        ("", False),
        ("../x", False),
    ],
)
def test_only_a_uuid_in_its_usual_form_is_a_session_id(text: str, expected: bool) -> None:
    assert is_session_id(text) is expected


def test_messages_of_the_user_are_counted() -> None:
    messages = Messages()
    messages.user("One.")
    messages.user("Two.")

    assert turn_count(messages) == {"turn_count": 2}


@pytest.mark.anyio
async def test_a_request_waits_for_a_change_after_a_conflict(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = build_context(store, ServiceSettings(poll_seconds=WAIT))
    runs, calls = Runs(context), list[object]()
    session_id = await store.create(Messages(), id=UNKNOWN_ID, owner="ana", meta={"flow": "clerk"})

    async def failing(id: str, *_: object, **__: object) -> None:
        calls.append(id)
        assert len(calls) < WAIT
        await anyio.lowlevel.checkpoint()
        raise ConflictError

    monkeypatch.setattr(store, "apply", failing)
    async with anyio.create_task_group() as group:
        group.start_soon(runs.start, MessageRequest(Principal("ana"), session_id, "Hello.", ""))
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()

    assert calls == [session_id]

    calls.clear()
    runs = Runs(build_context(store, ServiceSettings(poll_seconds=0.01)))
    with pytest.raises(HTTPError, match="at the same time"):
        await runs.start(MessageRequest(Principal("ana"), session_id, "Hello.", "", waits=False))
    assert calls == [session_id, session_id]


@pytest.mark.anyio
async def test_only_requests_that_wait_are_queued(store: MemoryStore) -> None:
    runs = Runs(build_context(store, ServiceSettings(poll_seconds=WAIT)))
    session_id = await store.create(Messages(), id=UNKNOWN_ID, owner="ana", meta={"flow": "clerk"})
    first = MessageRequest(Principal("ana"), session_id, "Hello.", "", "k1")
    run = await runs.start(first)
    async with anyio.create_task_group() as group:
        group.start_soon(runs.start, replace(first, message="And now?", key=None))
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(5):
            assert await runs.start(first) == run
            with pytest.raises(HTTPError, match="is active"):
                await runs.start(replace(first, message="Or now?", key=None, waits=False))
        group.cancel_scope.cancel()


async def session_in_two_processes(store: MemoryStore, poll_seconds: float) -> tuple[str, Runs, Runs]:
    """Return the id of a new session, and the runs of two processes."""
    session_id = await store.create(Messages(), id=UNKNOWN_ID, owner="ana", meta={"flow": "clerk"})
    runs, others = [Runs(build_context(store, ServiceSettings(poll_seconds=poll_seconds))) for _ in range(2)]
    return session_id, runs, others


def interrupt(
    monkeypatch: pytest.MonkeyPatch, store: MemoryStore, read: str, add: Callable[[], Awaitable[Any]]
) -> None:
    """Change the session as another process would, directly after the first call of the method `read` of the store."""
    original = getattr(store, read)

    async def reading(*arguments: Any, **options: Any) -> Any:
        found = await original(*arguments, **options)
        monkeypatch.setattr(store, read, original)
        await add()
        return found

    monkeypatch.setattr(store, read, reading)


@pytest.mark.anyio
@pytest.mark.parametrize("read", ["jobs", "load"])
async def test_a_message_that_another_process_adds_meanwhile_is_answered_first(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, read: str
) -> None:
    session_id, runs, others = await session_in_two_processes(store, WAIT)
    request = MessageRequest(Principal("ana"), session_id, "Two.", "", "k2")
    interrupt(monkeypatch, store, read, partial(others.start, replace(request, message="One.", key="k1")))

    async with anyio.create_task_group() as group:
        group.start_soon(runs.start, request)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()

    assert [turn.text for _, turn in (await store.load(session_id)).messages.turns] == ["One."]


@pytest.mark.anyio
@pytest.mark.parametrize("read", ["jobs", "load"])
async def test_a_request_that_does_not_wait_is_refused_if_another_process_adds_a_message_meanwhile(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, read: str
) -> None:
    session_id, runs, others = await session_in_two_processes(store, 0.01)
    request = MessageRequest(Principal("ana"), session_id, "Two.", "", "k2", waits=False)
    interrupt(monkeypatch, store, read, partial(others.start, replace(request, message="One.", key="k1")))

    with pytest.raises(HTTPError, match="A run of this session is active"):
        await runs.start(request)

    assert [turn.text for _, turn in (await store.load(session_id)).messages.turns] == ["One."]


@pytest.mark.anyio
@pytest.mark.parametrize("read", ["jobs", "load"])
async def test_the_same_request_in_two_processes_has_one_run(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, read: str
) -> None:
    session_id, runs, others = await session_in_two_processes(store, 0.01)
    request = MessageRequest(Principal("ana"), session_id, "One.", "", "k1", waits=False)
    interrupt(monkeypatch, store, read, partial(others.start, request))

    run = await runs.start(request)

    assert [item.id for item in await runs.of_session(session_id)] == [run.id]
    assert [turn.text for _, turn in (await store.load(session_id)).messages.turns] == ["One."]


@pytest.mark.anyio
async def test_a_retry_is_refused_if_another_process_adds_a_message_meanwhile(store: MemoryStore) -> None:
    session_id, runs, others = await session_in_two_processes(store, WAIT)
    request = MessageRequest(Principal("ana"), session_id, "One.", "")
    cancelled = await runs.cancel(await runs.start(request))
    known = await runs.of_session(session_id)
    added = await others.start(replace(request, message="Two."))

    assert not await runs.resume(known)
    assert [(run.id, run.state) for run in await runs.of_session(session_id)] == [
        (cancelled.id, "cancelled"),
        (added.id, "queued"),
    ]


@pytest.mark.anyio
@pytest.mark.parametrize("read", ["jobs", "load"])
async def test_a_message_waits_if_another_process_retries_the_last_run_meanwhile(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, read: str
) -> None:
    session_id, runs, others = await session_in_two_processes(store, 0.01)
    request = MessageRequest(Principal("ana"), session_id, "One.", "")
    retried = await runs.cancel(await runs.start(request))
    known = await runs.of_session(session_id)
    interrupt(monkeypatch, store, read, partial(others.resume, known))

    with pytest.raises(HTTPError, match="A run of this session is active"):
        await runs.start(replace(request, message="Two.", waits=False))

    assert [(run.id, run.state) for run in await runs.of_session(session_id)] == [(retried.id, "queued")]
    assert [turn.text for _, turn in (await store.load(session_id)).messages.turns] == ["One."]


async def session_with_approved_calls(store: MemoryStore, *names: str) -> tuple[str, list[str]]:
    """Return the ids of a session with an active run and of its approved calls."""
    messages = Messages.from_user("Pay Bo.")
    messages.append("model", Turn([Tool(FunctionCall("pay", id=name)) for name in names]))
    for call in messages.pending():
        call.await_approval()
        call.approve(by="ana")
    job = first_part(new_run_id(UNKNOWN_ID, "1"), datetime.now(UTC), "", None, ServiceSettings())
    session_id = await store.create(messages, id=UNKNOWN_ID, owner="ana", meta={"flow": "clerk"}, jobs=[job])
    return session_id, [call.id for call in messages.pending()]


@pytest.mark.anyio
async def test_cancelling_a_run_also_cancels_approved_calls_that_have_not_started(store: MemoryStore) -> None:
    runs = Runs(build_context(store, ServiceSettings()))
    session_id, (call_id,) = await session_with_approved_calls(store, "a")
    (run,) = await runs.of_session(session_id)

    assert (await runs.cancel(run)).state == "cancelled"

    request = MessageRequest(Principal("ana"), session_id, "Never mind.", "")
    assert (await runs.start(request)).state == "queued"
    status = (await store.load(session_id)).messages.tool(call_id).status
    assert isinstance(status, Rejected)
    assert status.source == "cancelled"


@pytest.mark.anyio
async def test_a_message_that_waits_for_a_cancelled_run_is_accepted(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = Runs(build_context(store, ServiceSettings()))
    session_id, _ = await session_with_approved_calls(store, "a")
    (run,) = await runs.of_session(session_id)
    request = MessageRequest(Principal("ana"), session_id, "Never mind.", "")

    interrupt(monkeypatch, store, "cancel_job", partial(runs.start, request))  # the end of the run is stored
    await runs.cancel(run)

    assert [found.state for found in await runs.of_session(session_id)] == ["cancelled", "queued"]


@pytest.mark.anyio
async def test_cancelling_a_run_cancels_the_other_calls_if_the_worker_starts_one_meanwhile(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = Runs(build_context(store, ServiceSettings()))
    session_id, (started, other) = await session_with_approved_calls(store, "a", "b")
    (run,) = await runs.of_session(session_id)

    async def start_call() -> None:
        snapshot = await store.load(session_id)
        tool = snapshot.messages.tool(started)
        tool.start()
        await store.apply(session_id, snapshot.revision, tools=[tool])

    interrupt(monkeypatch, store, "load", start_call)
    await runs.cancel(run)

    messages = (await store.load(session_id)).messages
    assert isinstance(messages.tool(started).status, Running)
    assert isinstance(messages.tool(other).status, Rejected)


@pytest.mark.anyio
@pytest.mark.parametrize("is_retry", [True, False])
async def test_cancelling_a_run_keeps_the_calls_of_a_run_that_begins_meanwhile(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, is_retry: bool
) -> None:
    session_id, runs, others = await session_in_two_processes(store, WAIT)
    request = MessageRequest(Principal("ana"), session_id, "One.", "")
    run = await runs.start(request)

    async def begin_another() -> None:
        if is_retry:
            assert await others.resume(await others.of_session(session_id))
        else:
            await others.start(replace(request, message="Two."))
        async with store.open(session_id) as conversation:
            conversation.messages.append("model", Turn([Tool(CALL)]))
            conversation.messages.pending()[0].await_approval()
            await conversation.save()

    interrupt(monkeypatch, store, "cancel_job", begin_another)
    await runs.cancel(run)

    (call,) = (await store.load(session_id)).messages.pending()
    assert isinstance(call.status, Pending)
