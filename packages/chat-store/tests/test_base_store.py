"""Checks and guarantees of stores that do not depend on the database."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from chat_core import ChatBuilder, FinishReason, FunctionCall, ToolCollection
from chat_core.errors import ConflictError, ConversationBusyError, LeaseLostError, UsageError
from chat_core.messages import Approved, Messages, Tool, Turn
from chat_core.testing import Answer, ScriptedProvider
from chat_store import ConversationStore, MemoryStore, OpenConversation, UnknownConversationError
from chat_store.sweep import sweep
from chat_store.testing._fixtures import Clock, answer, paused

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("seconds", [0, -1, 1e12, float("inf"), float("nan")])
def test_lease_seconds_must_be_positive_and_fit_into_a_date(seconds: float) -> None:
    with pytest.raises(UsageError, match="lease_seconds must be positive"):
        MemoryStore(lease_seconds=seconds)


async def test_a_time_outside_the_years_1_to_9999_is_refused() -> None:
    edge = datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-12)))
    with pytest.raises(UsageError, match="years 1 to 9999"):
        await MemoryStore().waiting(before=edge)
    with pytest.raises(UsageError, match="years 1 to 9999"):
        await sweep(MemoryStore(), now=edge)
    assert await sweep(MemoryStore(), now=datetime.max.replace(tzinfo=UTC)) == []


async def test_a_lease_keeps_its_length_across_a_summer_time_change() -> None:
    clock = Clock()
    clock.time = datetime(2030, 10, 27, 2, 59, 50, tzinfo=ZoneInfo("Europe/Berlin"), fold=0)
    async with MemoryStore(now=clock) as store, store.open("a") as run, store.open("a") as other:
        await run.claim()
        start = clock.time.astimezone(UTC)
        clock.time = (start + timedelta(seconds=29)).astimezone(ZoneInfo("Europe/Berlin"))
        with pytest.raises(ConflictError):
            await other.claim()
        clock.time = (start + timedelta(seconds=31)).astimezone(ZoneInfo("Europe/Berlin"))
        await other.claim()


async def test_a_time_without_a_time_zone_is_refused() -> None:
    with pytest.raises(UsageError, match="zone"):
        await MemoryStore().waiting(before=datetime(2030, 1, 1))  # noqa: DTZ001 - that is the point


@pytest.mark.parametrize("name", ["a\0b", "\ud83d"])
async def test_a_name_with_a_nul_or_a_surrogate_is_refused(name: str) -> None:
    store = MemoryStore()
    with pytest.raises(UsageError, match="cannot be stored"):
        store.open(name)
    with pytest.raises(UsageError, match="cannot be stored"):
        await store.create(Messages(), person=name)


async def test_ids_are_random_unless_given() -> None:
    store = MemoryStore()
    first, second = await store.create(paused("a")), await store.create(paused("a"))
    async with store.open() as third:
        assert len({first, second, third.id}) == 3


async def test_memory_store_and_its_conversations_implement_the_protocols() -> None:
    async with MemoryStore() as store, store.open() as conversation:
        assert isinstance(store, ConversationStore)
        assert isinstance(conversation, OpenConversation)
        assert conversation.renew_every == 10


async def test_open_conversation_history_equals_store_history() -> None:
    store = MemoryStore()
    async with store.open("a") as conversation:
        conversation.messages.user("Hello.")
        await conversation.save()
        assert await conversation.history() == await store.history("a")


async def test_saving_messages_that_a_run_is_using_is_refused() -> None:
    store = MemoryStore()
    name = await store.create(paused("a"))
    found = await store.load(name)
    with found.messages.lend(), pytest.raises(ConversationBusyError, match="while a run is using these messages"):
        await store.save(name, found.messages, revision=found.revision)


async def test_saving_an_open_empty_conversation_merges_one_created_since_then() -> None:
    store = MemoryStore()
    async with store.open("a") as late:
        await store.create(paused("x"), id="a")
        await late.save()
        assert late.messages.tool("x")
        late.messages.tool("x").approve()
    assert isinstance((await store.load("a")).messages.tool("x").status, Approved)


async def test_closing_a_conversation_releases_its_lease() -> None:
    store = MemoryStore()
    name = await store.create(paused("a"))
    async with store.open(name) as conversation:
        await conversation.claim()
    async with store.open(name) as conversation:
        await conversation.claim()


async def test_saving_decisions_after_a_claim_keeps_the_lease() -> None:
    clock = Clock()
    store = MemoryStore(now=clock)
    name = await store.create(paused("a"))
    async with store.open(name) as conversation:
        await conversation.claim()
        conversation.messages.tool("a").approve()
        await conversation.save()
        assert isinstance((await store.load(name)).messages.tool("a").status, Approved)
        assert await store.due() == []
        await conversation.renew()


async def test_writing_a_turn_or_renewing_without_a_claim_is_refused() -> None:
    store = MemoryStore()
    async with store.open("a") as conversation:
        turn = answer()
        conversation.messages.append("model", turn)
        with pytest.raises(UsageError, match="claim"):
            await conversation.write_turn((), "model", turn)
        with pytest.raises(UsageError, match="claim"):
            await conversation.renew()


async def test_releasing_a_deleted_conversation_does_nothing() -> None:
    clock = Clock()
    store = MemoryStore(now=clock)
    name = await store.create(paused("a"))
    with pytest.raises(UnknownConversationError, match="was deleted"):
        async with store.open(name) as conversation:
            await conversation.claim()
            clock.advance(days=1)
            await store.delete(name)
            await conversation.release()
            await conversation.release()


async def test_a_new_conversation_differs_from_a_deleted_one_with_the_same_id() -> None:
    store = MemoryStore()
    await store.create(paused("a"), id="1")
    with pytest.raises(UnknownConversationError, match="was deleted"):
        async with store.open("1") as conversation:
            conversation.messages.tool("a").approve()
            await store.delete("1")
            await store.create(paused("b"), id="1")
    assert (await store.load("1")).revision == 0


async def test_renewing_after_another_run_took_over_raises_lease_lost() -> None:
    clock = Clock()
    store = MemoryStore(now=clock)
    name = await store.create(paused("a"))
    async with store.open(name) as run, store.open(name) as other:
        await run.claim()
        clock.advance(days=1)
        await other.claim()
        with pytest.raises(LeaseLostError, match=r"lease 1 of the conversation .* took over"):
            await run.renew()
        with pytest.raises(LeaseLostError):
            await run.write_tool(("a",), run.messages.tool("a"))
    assert [entry.event for entry in await store.history(name) if entry.event == "late"] == []


async def test_a_conversation_opened_before_a_fork_is_refused_in_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    async with MemoryStore().open("a") as conversation:
        with monkeypatch.context() as child, pytest.raises(UsageError, match=r"before os\.fork\(\)"):
            child.setattr(os, "getpid", lambda: 1)
            await conversation.save()


async def test_due_times_are_returned_in_utc() -> None:
    store = MemoryStore(now=lambda: datetime(2030, 1, 1, tzinfo=UTC))
    await store.create(Messages.from_user("Hello."), id="a")
    (due,) = await store.due()
    assert due.since == datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("reason", ["content_filter", "refusal"])
async def test_a_response_withdrawn_by_the_provider_leaves_nothing_due(reason: FinishReason) -> None:
    tools = ToolCollection()

    @tools.tool
    def pay(cents: int) -> str:
        return f"paid {cents}"

    withdrawn = Answer([FunctionCall("pay", {"cents": 5}, id="p")], finish_reason=reason)
    chat = ChatBuilder().with_model(ScriptedProvider(withdrawn)).with_tools(tools).build()
    async with MemoryStore() as store:
        name = await store.create(Messages.from_user("Pay."))
        async with store.open(name) as conversation:
            await chat.complete(conversation)

        assert await store.due() == []


@pytest.mark.parametrize("texts", [["\ud83d\ude00"], ["\ud83d"], ["\ud83d\ude00\ud83d", "\ude00"]])
async def test_messages_with_the_halves_of_an_emoji_are_saved_after_they_were_created(texts: list[str]) -> None:
    messages = Messages.from_user(*texts)
    tool = Tool(FunctionCall("pay", {}), id="pay")
    tool.await_approval()
    messages.append("model", Turn([tool]))
    async with MemoryStore() as store:
        id = await store.create(messages)
        tool.approve(by="bo")
        saved = await store.save(id, messages, revision=0)
    assert isinstance(saved.messages.tool("pay").status, Approved)
