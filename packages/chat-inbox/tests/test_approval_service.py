"""Decisions: recorded once, for the version that was seen, by authorized people."""

from __future__ import annotations

from datetime import UTC, datetime

import anyio
import pytest
from chat_core import ChatBuilder, FunctionCall
from chat_core.approvals import Principal
from chat_core.errors import UsageError
from chat_core.messages import Approved, Pending
from chat_core.testing import ScriptedProvider
from chat_inbox.approval_service import ApprovalService, Choice
from chat_inbox.http_errors import HTTPError
from chat_inbox.inbox import allow_everyone
from chat_inbox.tool_calls import compute_version
from chat_store import MemoryStore, SqliteStore
from inbox_helpers import CALL, Bank, anyone, messages_of

pytestmark = pytest.mark.anyio


def make_service(store: MemoryStore | SqliteStore, bank: Bank | None = None) -> ApprovalService:
    """Return a service that starts runs only if a bank is given."""
    return ApprovalService(
        store, lambda _: None if bank is None else bank.chat, allow_everyone, anyone, lambda: datetime.now(UTC)
    )


async def stored_version(store: MemoryStore | SqliteStore, *path: str) -> str:
    return compute_version((await messages_of(store)).tool(*path))


async def test_decision_is_stored_with_its_author_and_note(store: MemoryStore) -> None:
    saved = await make_service(store).decide(
        Principal("ana"),
        "chat-17",
        ("call_1",),
        await stored_version(store, "call_1"),
        Choice("approve", note="agreed"),
        resume=False,
    )

    (decision,) = saved.messages.tool("call_1").decisions
    assert (decision.by, decision.note, decision.action) == ("ana", "agreed", "approve")
    assert isinstance((await messages_of(store)).tool("call_1").status, Approved)


async def test_only_one_of_several_concurrent_decisions_is_stored(tmp_path: object) -> None:
    refusals: list[HTTPError] = []
    async with SqliteStore(f"{tmp_path}/chats.db") as store, SqliteStore(f"{tmp_path}/chats.db") as other:
        await Bank().ask(store)
        version = await stored_version(store, "call_1")

        async def decide(person: str, service: ApprovalService) -> None:
            try:
                await service.decide(Principal(person), "chat-17", ("call_1",), version, Choice("reject"), resume=False)
            except HTTPError as problem:
                refusals.append(problem)

        async with anyio.create_task_group() as group:
            for number in range(6):
                group.start_soon(decide, f"person-{number}", make_service((store, other)[number % 2]))
        (decision,) = (await messages_of(store)).tool("call_1").decisions

    assert len(refusals) == 5
    assert {problem.status for problem in refusals} == {409}
    assert all(f"{decision.by} rejected transfer" in problem.detail for problem in refusals)


async def test_decision_for_an_outdated_version_returns_409(store: MemoryStore) -> None:
    with pytest.raises(HTTPError) as caught:
        await make_service(store).decide(Principal("ana"), "chat-17", ("call_1",), "1-old", Choice("approve"))

    assert caught.value.status == 409
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)


async def test_nested_call_is_decided_by_path() -> None:
    store, bank = MemoryStore(), Bank()
    inner = bank.chat.as_tool(name="bank", description="Moves money.")
    model = ScriptedProvider(FunctionCall("bank", {"request": "pay Maria"}, id="outer"), "Done.", by_history=True)
    chat = ChatBuilder().with_model(model).with_scoped_tools(inner).build()
    async with store.open("chat-17") as conversation:
        conversation.messages.user("Please pay Maria.")
        await chat.complete(conversation)
    at_work = ApprovalService(store, lambda _: chat, allow_everyone, anyone, lambda: datetime.now(UTC))
    path, snapshot = ("outer", "call_1"), await at_work.snapshot(Principal("ana"), "chat-17")
    assert at_work.tool_definition("chat-17", snapshot.messages, path) is not None

    async with anyio.create_task_group() as group:
        at_work.runs.open(group)
        version = await stored_version(store, *path)
        with pytest.raises(HTTPError, match="does not accept these arguments"):
            wrong = Choice("approve", arguments={"to": "Maria", "cents": 0})
            await at_work.decide(Principal("ana"), "chat-17", path, version, wrong)
        await at_work.decide(
            Principal("ana"), "chat-17", path, version, Choice("approve", arguments={"to": "Ben", "cents": 5})
        )
        await at_work.runs.wait_idle()

    assert bank.paid == ["5 to Ben"]
    assert (await messages_of(store)).tool("outer").resolved


async def test_unknown_conversation_or_call_raises(store: MemoryStore) -> None:
    one = make_service(store)
    for conversation in ("none", "a\0b", "\ud800"):
        with pytest.raises(HTTPError, match="There is no such conversation"):
            await one.snapshot(Principal("ana"), conversation)
    for path in ((), ("none",), ("call_1", "none")):
        with pytest.raises(HTTPError, match="There is no such call"):
            one.find_call(await one.snapshot(Principal("ana"), "chat-17"), path)


async def test_resume_without_a_chat_raises(store: MemoryStore) -> None:
    with pytest.raises(HTTPError, match="cannot continue the conversation"):
        await make_service(store).resume(Principal("ana"), "chat-17")


async def test_conversation_is_due_after_a_decision(store: MemoryStore) -> None:
    one = make_service(store)
    assert not await one.is_due(await one.snapshot(Principal("ana"), "chat-17"))
    await one.decide(
        Principal("ana"), "chat-17", ("call_1",), await stored_version(store, "call_1"), Choice("approve"), resume=False
    )
    assert await one.is_due(await one.snapshot(Principal("ana"), "chat-17"))


async def test_waiting_lists_only_calls_of_visible_conversations() -> None:
    store = MemoryStore()
    for number in range(3):
        await Bank(CALL).ask(store, f"chat-{number}", f"person-{number % 2}")
    one = ApprovalService(
        store, lambda _: None, lambda person, owner: person == owner, anyone, lambda: datetime.now(UTC)
    )

    assert [item.conversation for item in await one.waiting(Principal("person-1"))] == ["chat-1"]
    assert len(await one.waiting(Principal("person-0"), 1)) == 1
    assert await one.waiting(Principal("nobody")) == []


async def test_decide_raises_if_the_inbox_is_not_open(store: MemoryStore, bank: Bank) -> None:
    version = await stored_version(store, "call_1")

    with pytest.raises(UsageError, match="the inbox is not open"):
        await make_service(store, bank).decide(Principal("ana"), "chat-17", ("call_1",), version, Choice("approve"))
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)


@pytest.mark.parametrize("choice", [Choice("fail", text="no"), Choice("complete", result=1), Choice("retry")])
async def test_only_interrupted_calls_can_be_completed_failed_or_retried(store: MemoryStore, choice: Choice) -> None:
    version = await stored_version(store, "call_1")

    with pytest.raises(HTTPError, match="transfer was not interrupted; approve or reject it") as caught:
        await make_service(store).decide(Principal("ana"), "chat-17", ("call_1",), version, choice, resume=False)
    assert caught.value.status == 409
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)
