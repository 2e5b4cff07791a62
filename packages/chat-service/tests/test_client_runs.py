"""Requests of front ends and the runs that answer them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import pytest
from chat_core import Messages
from chat_core.approvals import Principal, owner_may_decide
from chat_core.messages import Text, Turn
from chat_inbox.http_errors import HTTPError
from chat_service import ServiceSettings
from chat_service.client_runs import (
    ClientRun,
    ClientRuns,
    before_run,
    check_messages,
    client_session_id,
    list_turns,
    refusing,
)
from chat_service.context import ServiceContext
from chat_service.run_records import RunEnd
from chat_service.runs import MessageRequest, Runs
from chat_store import MemoryStore, Snapshot
from chat_streams import AppliedInput, ClientInput, ClientInputError, Decider, PostedMessage, apply_input
from service_helpers import build_context

pytestmark = pytest.mark.anyio
ANA = Principal("ana")
SESSION = client_session_id("ana", "agui", "t")


def post(context: ServiceContext, *messages: tuple[str, str]) -> Callable[[Snapshot], AppliedInput]:
    """Return a function that applies user messages, each with an id."""
    given = ClientInput([PostedMessage(id, "user", (Text(text),)) for id, text in messages])
    chat = context.engine.chat(context.flow)
    return partial(apply_input, given, chat=chat, decider=Decider(ANA, owner_may_decide))


def test_the_session_of_a_client_id_depends_on_the_owner_and_the_protocol() -> None:
    ids = {client_session_id(owner, kind, "t") for owner in ("ana", "bo") for kind in ("agui", "vercel")}

    assert len(ids) == 4
    assert client_session_id("ana", "agui", "t") in ids


async def test_a_repeated_message_has_one_run(store: MemoryStore) -> None:
    context = build_context(store, ServiceSettings())
    runs = Runs(context)
    client_runs = ClientRuns(context, runs)
    apply = post(context, ("m-1", "Hello."))
    first, again = [await client_runs.submit(ANA, SESSION, apply) for _ in range(2)]

    assert first.run is not None
    assert again.run is not None
    assert (first.run.id, first.run.state) == (again.run.id, "queued")
    assert (first.applied.new_messages, again.applied.new_messages) == (1, 0)
    assert len(await runs.of_session(SESSION)) == 1


async def test_a_message_during_a_run_is_refused(store: MemoryStore) -> None:
    context = build_context(store, ServiceSettings())
    client_runs = ClientRuns(context, Runs(context))
    await client_runs.submit(ANA, SESSION, post(context, ("m-1", "Hello.")))

    with pytest.raises(ClientInputError, match="A run of this conversation is active") as refused:
        await client_runs.submit(ANA, SESSION, post(context, ("m-1", "Hello."), ("m-2", "And now?")))
    assert refused.value.status == 409


async def test_a_retry_of_a_front_end_follows_a_message_that_another_process_adds_meanwhile(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = build_context(store, ServiceSettings())
    runs, apply = Runs(context), store.apply
    client_runs = ClientRuns(context, runs)
    hello = post(context, ("m-1", "Hello."))
    first = await client_runs.submit(ANA, SESSION, hello)
    assert first.run is not None
    await runs.cancel(first.run)

    async def add_message_first(id: str, *arguments: Any, **options: Any) -> None:
        monkeypatch.setattr(store, "apply", apply)
        await runs.start(MessageRequest(ANA, id, "And now?", ""))
        await apply(id, *arguments, **options)

    monkeypatch.setattr(store, "apply", add_message_first)
    again = await client_runs.submit(ANA, SESSION, hello)

    found = await runs.of_session(SESSION)
    assert [run.state for run in found] == ["cancelled", "queued"]
    assert again.run == found[1]


async def test_the_same_request_retries_a_failed_run(store: MemoryStore) -> None:
    context = build_context(store, ServiceSettings())
    runs = Runs(context)
    client_runs = ClientRuns(context, runs)
    apply = post(context, ("m-1", "Hello."))
    first = await client_runs.submit(ANA, SESSION, apply)
    assert first.run is not None
    await runs.end(first.run, RunEnd("failed", 1, "llm_error"))
    again = await client_runs.submit(ANA, SESSION, apply)

    assert again.run is not None
    assert (again.run.id, again.run.state, len(again.run.parts)) == (first.run.id, "queued", 2)


async def test_two_equal_requests_at_once_have_one_run(store: MemoryStore) -> None:
    context = build_context(store, ServiceSettings())
    client_runs = ClientRuns(context, Runs(context))
    apply = post(context, ("m-1", "Hello."))
    found: list[ClientRun] = []

    async def submit() -> None:
        found.append(await client_runs.submit(ANA, SESSION, apply))

    async with anyio.create_task_group() as group:
        group.start_soon(submit)
        group.start_soon(submit)
    stored = await store.load(SESSION)

    assert len({item.run.id for item in found if item.run is not None}) == 1
    assert len(stored.messages.contents) == 1


async def test_a_session_of_another_user_is_not_found(store: MemoryStore) -> None:
    context = build_context(store, ServiceSettings())
    client_runs = ClientRuns(context, Runs(context))
    await client_runs.submit(ANA, SESSION, post(context, ("m-1", "Hello.")))

    assert await client_runs.find(ANA, SESSION) is not None
    with pytest.raises(HTTPError) as refused:
        await client_runs.submit(Principal("bo"), SESSION, post(context, ("m-2", "Hi.")))
    assert refused.value.status == 404


async def test_a_conversation_without_input_has_no_run(store: MemoryStore) -> None:
    context = build_context(store, ServiceSettings())
    found = await ClientRuns(context, Runs(context)).submit(ANA, SESSION, post(context))

    assert found.run is None
    assert await store.conversations() == []


def test_the_state_before_a_run_ends_with_its_message() -> None:
    turns = [("user", "m-1"), ("model", None), ("user", "m-2"), ("model", None)]
    messages = Messages()
    for role, client_id in turns:
        messages.append("user" if role == "user" else "model", Turn([Text(role)], client_id=client_id))
    snapshot = Snapshot(SESSION, messages, 4, owner="ana")
    run_id = f"{SESSION}.{'0' * 32}"

    assert len(list_turns(before_run(snapshot, f"{SESSION}.m-1").messages)) == 4
    assert len(list_turns(before_run(snapshot, "m-1").messages)) == 1
    assert len(list_turns(before_run(snapshot, "m-2").messages)) == 3
    assert before_run(snapshot, run_id).owner == "ana"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("x" * 11, "has 11 bytes; the limit is 10", id="too-long"),
        pytest.param("é" * 6, "has 12 bytes", id="too-long-in-utf-8"),
        pytest.param(" \n", "must not be blank", id="blank"),
        pytest.param("\ud800", "unpaired surrogate", id="a-surrogate"),
    ],
)
def test_an_unsuitable_message_is_refused(text: str, reason: str) -> None:
    given = ClientInput([PostedMessage("m-1", "user", (Text(text),))])

    with pytest.raises(ClientInputError, match=reason):
        check_messages(given, ServiceSettings(max_message_bytes=10))


def test_messages_at_the_limit_and_of_models_are_accepted() -> None:
    given = ClientInput(
        [PostedMessage("m-1", "user", (Text("x" * 10),)), PostedMessage("m-2", "model", (Text("x" * 11),))]
    )

    check_messages(given, ServiceSettings(max_message_bytes=10))


def test_a_refused_input_becomes_an_http_error() -> None:
    with pytest.raises(HTTPError, match="Reason") as refused, refusing():
        raise ClientInputError("forbidden", "Reason.")

    assert refused.value.status == 403
