"""Sessions in memory and in stores, and their documents."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from agent_helpers import Desk, call_find, call_pay, collect, new_engine, short
from chat_agents import AgentSession
from chat_core import ConversationBusyError, InvalidDocumentError, Messages, NewerVersionError, UsageError
from chat_store import ConversationClosedError, MemoryStore, UnknownConversationError

pytestmark = pytest.mark.anyio


def test_a_new_session_is_empty() -> None:
    session = AgentSession(flow="desk")

    assert len(session.id) == 32
    assert (session.owner, len(session.messages), dict(session.state)) == (None, 0, {})
    assert session.created_at == session.last_active
    assert session.created_at.tzinfo is UTC


def test_a_session_without_a_flow_name_is_refused() -> None:
    with pytest.raises(UsageError, match="needs the name of its flow"):
        AgentSession(flow="")


def test_a_session_with_both_state_and_messages_is_refused() -> None:
    with pytest.raises(UsageError, match="not both"):
        AgentSession(flow="desk", state={}, messages=Messages())


async def test_a_session_is_restored_from_its_json_document() -> None:
    engine, _ = new_engine(call_find(), "found", "again")
    session = AgentSession('ü/"1"', flow="desk", owner="ana", state={"cart": 1})
    await collect(engine, Desk(), session, "go")

    loaded = AgentSession.from_json(session.to_json())

    assert loaded.to_json() == session.to_json()
    assert (loaded.id, loaded.flow, loaded.owner, dict(loaded.state)) == (
        'ü/"1"', "desk", "ana", {"cart": 1, "last": "P1"},
    )  # fmt: skip
    assert loaded.messages == session.messages
    assert short(await collect(engine, Desk(), loaded, "go on"))[-1] == "done answered"


def test_unknown_fields_of_a_session_document_are_kept() -> None:
    document = {**json.loads(AgentSession("s", flow="desk").to_json()), "theme": {"dark": True}, "color": None}

    written = AgentSession.from_json(json.dumps(document)).to_json()

    assert json.loads(written) == document


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"version": 2}, NewerVersionError, "version 2"),
        ({"version": 0}, InvalidDocumentError, "version"),
        ({"version": True}, InvalidDocumentError, "version"),
        ({"id": 5}, InvalidDocumentError, "id"),
        ({"flow": ""}, InvalidDocumentError, "flow"),
        ({"owner": 5}, InvalidDocumentError, "owner"),
        ({"created_at": "yesterday"}, InvalidDocumentError, "created_at"),
        ({"last_active": "2026-11-23T10:00:00"}, InvalidDocumentError, "last_active"),
        ({"messages": []}, InvalidDocumentError, "object"),
    ],
)
def test_a_malformed_session_document_is_refused(
    changes: dict[str, object], error: type[InvalidDocumentError], message: str
) -> None:
    document = {**json.loads(AgentSession("s", flow="desk").to_json()), **changes}

    with pytest.raises(error, match=message):
        AgentSession.from_json(json.dumps(document))


@pytest.mark.parametrize("document", ["", "[]", "null", b"\xff"])
def test_a_session_document_that_is_not_an_object_is_refused(document: str | bytes) -> None:
    with pytest.raises(InvalidDocumentError):
        AgentSession.from_json(document)


def test_a_time_with_another_offset_is_read_as_utc() -> None:
    document = json.loads(AgentSession("s", flow="desk").to_json())
    document["created_at"] = "2026-11-23T10:00:00+05:30"

    assert AgentSession.from_json(json.dumps(document)).created_at == datetime(2026, 11, 23, 4, 30, tzinfo=UTC)


async def test_a_stored_session_is_a_conversation_in_the_store() -> None:
    async with MemoryStore() as store:
        engine, _ = new_engine(call_find(), "found")
        session = await AgentSession.open(store, "u-17", flow="desk", owner="ana", state={"cart": 1})
        await collect(engine, Desk(), session, "go")

        meta = await store.meta("u-17")
        stored = await store.load("u-17")
        again = await AgentSession.open(store, "u-17", flow="desk", owner="ana")

    assert (meta.flow, meta.owner) == ("desk", "ana")
    assert stored.messages == session.messages == again.messages
    assert dict(again.state) == {"cart": 1, "last": "P1"}
    assert again.created_at == session.created_at


async def test_a_session_of_another_flow_or_owner_is_refused() -> None:
    async with MemoryStore() as store:
        await AgentSession.open(store, "u-17", flow="desk", owner="ana")

        with pytest.raises(UsageError, match="belongs to the flow 'desk', not to 'other'"):
            await AgentSession.open(store, "u-17", flow="other")
        with pytest.raises(UsageError, match="another owner") as caught:
            await AgentSession.open(store, "u-17", flow="desk", owner="bob")
        assert "ana" not in str(caught.value)


async def test_a_call_is_approved_in_an_edit_block() -> None:
    async with MemoryStore() as store:
        engine, _ = new_engine(call_pay(), "paid")
        session = await AgentSession.open(store, flow="desk")
        flow = Desk()
        await collect(engine, flow, session, "go")

        async with session.edit() as messages:
            messages.tool("pay_5").approve(by="bob")

        assert short(await collect(engine, flow, session)) == ["pay calling", "pay done", "text paid", "done answered"]
        assert flow.effects == ["pay 5"]


async def test_an_exception_in_an_edit_block_discards_its_changes() -> None:
    async with MemoryStore() as store:
        engine, _ = new_engine(call_pay())
        session = await AgentSession.open(store, flow="desk")
        await collect(engine, Desk(), session, "go")

        with pytest.raises(LookupError):
            async with session.edit() as messages:
                messages.tool("pay_5").approve()
                raise LookupError

        assert (await store.load(session.id)).messages.tool("pay_5").decisions == ()
        assert session.messages.tool("pay_5").decisions == ()


async def test_editing_a_session_during_a_run_is_refused() -> None:
    engine, _ = new_engine("hello")
    session = AgentSession(flow="desk")

    async with engine.run(Desk(), session, "hi"):
        with pytest.raises(ConversationBusyError, match=r"edit\(\) is not possible"):
            async with session.edit():
                pass


async def test_a_closed_session_runs_only_after_it_is_reopened() -> None:
    async with MemoryStore() as store:
        engine, _ = new_engine("hello")
        session = await AgentSession.open(store, flow="desk")
        await store.close(session.id)

        with pytest.raises(ConversationClosedError, match="is closed"):
            async with engine.run(Desk(), session, "hi"):
                pass
        await store.reopen(session.id)

        assert short(await collect(engine, Desk(), session, "hi"))[-1] == "done answered"


async def test_a_deleted_session_does_not_run() -> None:
    async with MemoryStore() as store:
        engine, _ = new_engine("hello")
        session = await AgentSession.open(store, flow="desk")
        await store.delete(session.id)

        with pytest.raises(UnknownConversationError):
            async with engine.run(Desk(), session, "hi"):
                pass
        assert await store.conversations() == []
