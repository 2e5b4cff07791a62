"""Whoever asks, a decision is made once, about what was seen, by somebody who may."""

from __future__ import annotations

from datetime import UTC, datetime

import anyio
import pytest
from chat_core import ChatBuilder, FunctionCall
from chat_core.errors import UsageError
from chat_core.messages import Approved, Pending
from chat_core.testing import ScriptedProvider
from chat_inbox.approval_service import ApprovalService, Choice
from chat_inbox.http_errors import HTTPError
from chat_inbox.inbox import allow_everyone
from chat_inbox.tool_calls import compute_version
from chat_store import MemoryStore, SqliteStore
from inbox_helpers import CALL, Bank, messages_of

pytestmark = pytest.mark.anyio


def desk(store: MemoryStore | SqliteStore, bank: Bank | None = None) -> ApprovalService:
    """A desk that decides, and leaves running to others."""
    return ApprovalService(
        store, lambda _: None if bank is None else bank.chat, allow_everyone, lambda: datetime.now(UTC)
    )


async def seen(store: MemoryStore | SqliteStore, *path: str) -> str:
    return compute_version((await messages_of(store)).tool(*path))


async def test_a_decision_is_stored_with_who_made_it(store: MemoryStore) -> None:
    saved = await desk(store).decide(
        "ana", "chat-17", ("call_1",), await seen(store, "call_1"), Choice("approve", note="agreed"), resume=False
    )

    (decision,) = saved.messages.tool("call_1").decisions
    assert (decision.by, decision.note, decision.action) == ("ana", "agreed", "approve")
    assert isinstance((await messages_of(store)).tool("call_1").status, Approved)


async def test_of_many_who_decide_at_once_one_is_heard_and_the_others_hear_of_it(tmp_path: object) -> None:
    told: list[HTTPError] = []
    async with SqliteStore(f"{tmp_path}/chats.db") as store, SqliteStore(f"{tmp_path}/chats.db") as other:
        await Bank().ask(store)
        version = await seen(store, "call_1")

        async def decide(person: str, desk: ApprovalService) -> None:
            try:
                await desk.decide(person, "chat-17", ("call_1",), version, Choice("reject"), resume=False)
            except HTTPError as problem:
                told.append(problem)

        async with anyio.create_task_group() as group:
            for number in range(6):
                group.start_soon(decide, f"person-{number}", desk((store, other)[number % 2]))
        (decision,) = (await messages_of(store)).tool("call_1").decisions

    assert len(told) == 5
    assert {problem.status for problem in told} == {409}
    assert all(f"{decision.by} rejected transfer" in problem.detail for problem in told)


async def test_a_version_that_is_old_decides_nothing(store: MemoryStore) -> None:
    with pytest.raises(HTTPError) as caught:
        await desk(store).decide("ana", "chat-17", ("call_1",), "1-old", Choice("approve"))

    assert caught.value.status == 409
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)


async def test_a_call_within_a_chat_that_is_a_tool_is_decided_by_its_path() -> None:
    store, bank = MemoryStore(), Bank()
    inner = bank.chat.as_tool(name="bank", description="Moves money.")
    model = ScriptedProvider(FunctionCall("bank", {"request": "pay Maria"}, id="outer"), "Done.", by_history=True)
    chat = ChatBuilder().with_model(model).with_scoped_tools(inner).build()
    async with store.open("chat-17") as conversation:
        conversation.messages.user("Please pay Maria.")
        await chat.complete(conversation)
    at_work = ApprovalService(store, lambda _: chat, allow_everyone, lambda: datetime.now(UTC))
    path, snapshot = ("outer", "call_1"), await at_work.snapshot("ana", "chat-17")
    assert at_work.tool_definition("chat-17", snapshot.messages, path) is not None

    async with anyio.create_task_group() as group:
        at_work.runs.open(group)
        version = await seen(store, *path)
        with pytest.raises(HTTPError, match="does not take these arguments"):
            wrong = Choice("approve", arguments={"to": "Maria", "cents": 0})
            await at_work.decide("ana", "chat-17", path, version, wrong)
        await at_work.decide("ana", "chat-17", path, version, Choice("approve", arguments={"to": "Ben", "cents": 5}))
        await at_work.runs.wait_idle()

    assert bank.paid == ["5 to Ben"]
    assert (await messages_of(store)).tool("outer").resolved


async def test_what_is_not_there_is_a_problem(store: MemoryStore) -> None:
    one = desk(store)
    for conversation in ("none", "a\0b", "\ud800"):
        with pytest.raises(HTTPError, match="There is no such conversation"):
            await one.snapshot("ana", conversation)
    for path in ((), ("none",), ("call_1", "none")):
        with pytest.raises(HTTPError, match="There is no such call"):
            one.find_call(await one.snapshot("ana", "chat-17"), path)


async def test_a_conversation_goes_on_only_where_there_is_a_chat(store: MemoryStore) -> None:
    with pytest.raises(HTTPError, match="has no chat to go on with"):
        await desk(store).resume("ana", "chat-17")


async def test_a_conversation_is_due_when_somebody_has_decided(store: MemoryStore) -> None:
    one = desk(store)
    assert not await one.is_due(await one.snapshot("ana", "chat-17"))
    await one.decide("ana", "chat-17", ("call_1",), await seen(store, "call_1"), Choice("approve"), resume=False)
    assert await one.is_due(await one.snapshot("ana", "chat-17"))


async def test_only_what_a_person_may_see_waits_for_them() -> None:
    store = MemoryStore()
    for number in range(3):
        await Bank(CALL).ask(store, f"chat-{number}", f"person-{number % 2}")
    one = ApprovalService(store, lambda _: None, lambda person, owner: person == owner, lambda: datetime.now(UTC))

    assert [item.conversation for item in await one.waiting("person-1")] == ["chat-1"]
    assert len(await one.waiting("person-0", 1)) == 1
    assert await one.waiting("nobody") == []


async def test_an_inbox_that_is_not_open_decides_nothing(store: MemoryStore, bank: Bank) -> None:
    version = await seen(store, "call_1")

    with pytest.raises(UsageError, match="the inbox is not open"):
        await desk(store, bank).decide("ana", "chat-17", ("call_1",), version, Choice("approve"))
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)


@pytest.mark.parametrize("choice", [Choice("fail", text="no"), Choice("complete", result=1), Choice("retry")])
async def test_only_what_was_interrupted_is_told_how_it_ended(store: MemoryStore, choice: Choice) -> None:
    version = await seen(store, "call_1")

    with pytest.raises(HTTPError, match="transfer was not interrupted; approve or reject it") as caught:
        await desk(store).decide("ana", "chat-17", ("call_1",), version, choice, resume=False)
    assert caught.value.status == 409
    assert isinstance((await messages_of(store)).tool("call_1").status, Pending)
