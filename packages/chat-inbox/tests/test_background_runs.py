"""Background runs and their event channels."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import anyio
import pytest
from chat_core import ChatBuilder, Injected, RequireApproval, RunContext, ScopedCollection, ToolCollection
from chat_core.errors import StreamTruncatedError, UsageError
from chat_core.events import AttemptReset, NestedEvent, StepFinished, TextDelta, ToolStarted
from chat_core.messages import Messages, Tool, Turn
from chat_core.testing import ScriptedProvider
from chat_core.testing.scripted import Answer
from chat_core.usage import Usage
from chat_inbox.background_runs import BackgroundRuns, Channel
from chat_store import MemoryStore, OpenConversation
from inbox_helpers import ANSWER, CALL, OTHER, WAIT, Bank, messages_of, until_answered, until_condition

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Account:
    owner: str | None


@asynccontextmanager
async def running(store: MemoryStore, bank: Bank) -> AsyncGenerator[BackgroundRuns]:
    runs = BackgroundRuns(store, lambda _: bank.chat)
    async with anyio.create_task_group() as group:
        runs.open(group)
        yield runs
        with anyio.fail_after(WAIT):
            await runs.wait_idle()
        group.cancel_scope.cancel()


async def approved(store: MemoryStore, call: str = "call_1") -> None:
    async with store.open("chat-17") as conversation:
        conversation.messages.tool(call).approve(by="ana")


async def ended(channel: Channel) -> None:
    with anyio.fail_after(WAIT):
        while channel.outcome is None:
            await channel.wait(channel.number)


def names(channel: Channel, number: int = 0) -> list[str]:
    told = channel.events_after(number)
    assert told is not None
    return [item.name for item in told]


def test_events_after_returns_none_for_dropped_events() -> None:
    channel = Channel()
    channel.begin_run(Messages.from_user("hello"))
    place = channel.number
    for text in ("a ", "b"):
        channel.handle_event(TextDelta(text))
    assert names(channel, place) == ["text", "text"]
    assert channel.live_text == "a b"

    channel.handle_event(StepFinished(1, Usage()))
    assert channel.events_after(place) is None
    assert names(channel, channel.number - 1) == ["changed"]
    assert channel.events_after(channel.number + 1) is None
    assert channel.events_after(-1) is None
    assert channel.live_text == ""


def test_channel_buffer_is_bounded() -> None:
    channel = Channel()
    for _ in range(10_000):
        channel.publish("changed")

    assert channel.events_after(0) is None
    last = channel.events_after(channel.number - 100)
    assert last is not None
    assert [item.number for item in last] == list(range(9_901, 10_001))


def test_retry_of_an_attempt_discards_its_streamed_text() -> None:
    channel = Channel()
    channel.begin_run(Messages.from_user("hello"))
    channel.handle_event(TextDelta("half an ans"))
    channel.handle_event(AttemptReset(2, "the connection broke"))
    channel.handle_event(TextDelta("whole"))

    assert channel.live_text == "whole"


def test_live_text_is_empty_after_the_turn_is_in_the_history() -> None:
    channel, messages = Channel(), Messages.from_user("hello")
    channel.begin_run(messages)
    channel.handle_event(TextDelta("whole"))
    messages.append("model", Turn([]))

    assert channel.live_text == ""


def test_live_text_excludes_text_of_inner_chats() -> None:
    channel = Channel()
    channel.begin_run(Messages.from_user("hello"))
    place = channel.number
    channel.handle_event(NestedEvent(("outer",), TextDelta("inner")))
    channel.handle_event(NestedEvent(("outer",), ToolStarted(Tool(CALL))))

    assert channel.live_text == ""
    assert names(channel, place) == ["changed"]


async def test_approved_call_runs_and_its_outcome_is_published(store: MemoryStore, bank: Bank) -> None:
    await approved(store)
    async with running(store, bank) as runs:
        assert runs.start("chat-17")
        channel = runs.channel("chat-17")
        await ended(channel)

    assert (channel.outcome, channel.running) == ("answered", False)
    assert bank.paid == ["4000 to Maria"]


async def test_background_run_gets_values_of_the_owner_and_not_of_the_approver(store: MemoryStore) -> None:
    closed: list[bool] = []
    paid: list[str] = []
    tools = ToolCollection()

    @tools.tool
    def transfer(to: str, cents: int, account: Injected[Account]) -> str:
        paid.append(f"{cents} to {to} by {account.owner}")
        return "sent"

    @asynccontextmanager
    async def account(context: RunContext) -> AsyncGenerator[Account]:
        yield Account(context.owner)
        closed.append(True)

    chat = (
        ChatBuilder()
        .with_model(ScriptedProvider(CALL, ANSWER, by_history=True))
        .with_scoped_tools(ScopedCollection(tools, lambda _call, _meta: RequireApproval()))
        .with_values(Account, account)
        .build()
    )
    async with store.open("chat-of-carl", person="ana", owner="carl") as opened:
        opened.messages.user("Please pay Maria.")
        await chat.complete(opened)
    async with store.open("chat-of-carl") as opened:
        opened.messages.tool("call_1").approve(by="ana")

    runs = BackgroundRuns(store, lambda _: chat)
    async with anyio.create_task_group() as group:
        runs.open(group)
        runs.start("chat-of-carl")
        await ended(runs.channel("chat-of-carl"))
        group.cancel_scope.cancel()

    assert paid == ["4000 to Maria by carl"]
    assert closed == [True, True]


async def test_start_during_a_run_starts_no_second_run(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, begun = anyio.Event(), anyio.Event()

    async def wait() -> None:
        begun.set()
        await gate.wait()

    bank = Bank(CALL, Answer((ANSWER,), before=wait))
    await approved(store)
    opened, open_it = 0, store.open

    def count(conversation: str) -> AbstractAsyncContextManager[OpenConversation]:
        nonlocal opened
        opened += 1
        return open_it(conversation)

    monkeypatch.setattr(store, "open", count)
    async with running(store, bank) as runs:
        runs.start("chat-17")
        with anyio.fail_after(WAIT):
            await begun.wait()
        for _ in range(3):
            runs.start("chat-17")
        gate.set()
        await until_answered(store)

    assert opened == 2  # for the first decision, and for the decisions during the run
    assert len(bank.model.asked) == 1
    assert bank.paid == ["4000 to Maria"]


async def test_decision_at_the_end_of_a_run_is_applied_by_another_run() -> None:
    store, bank = MemoryStore(), Bank([CALL, OTHER], "Both are settled.")
    await bank.ask(store)
    await approved(store, "call_1")
    async with running(store, bank) as runs:
        runs.start("chat-17")
        await until_condition(store, "chat-17", lambda messages: messages.tool("call_1").resolved)
        await approved(store, "call_2")
        runs.start("chat-17")
        assert await until_answered(store) == "Both are settled."

    assert sorted(bank.paid) == ["4000 to Maria", "900 to Ben"]


async def test_failed_run_reports_its_error_and_can_be_resumed(store: MemoryStore) -> None:
    bank = Bank(CALL, Answer((ANSWER,), error=StreamTruncatedError("the line broke"), fail_after=1))
    await approved(store)
    async with running(store, bank) as runs:
        runs.start("chat-17")
        channel = runs.channel("chat-17")
        await ended(channel)
        assert channel.outcome == "failed"
        assert channel.detail == ("The run ended with an error: the line broke. All finished steps are stored.")

    assert (await messages_of(store)).tool("call_1").resolved
    again = Bank(CALL, ANSWER)
    async with running(store, again) as runs:
        runs.start("chat-17")
        assert await until_answered(store) == ANSWER
    assert again.paid == []


async def test_unexpected_error_of_a_run_shows_only_its_type(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    async def fall() -> None:
        msg = "secret"
        raise RuntimeError(msg)

    bank = Bank(CALL, Answer((ANSWER,), before=fall))
    await approved(store)
    async with running(store, bank) as runs:
        runs.start("chat-17")
        channel = runs.channel("chat-17")
        await ended(channel)

    assert "RuntimeError" in channel.detail
    assert "secret" not in channel.detail
    assert "secret" in caplog.text


async def test_run_starts_after_another_process_releases_the_conversation(store: MemoryStore, bank: Bank) -> None:
    await approved(store)
    async with MemoryStore(beside=store).open("chat-17") as elsewhere:
        await elsewhere.claim()
        async with running(store, bank) as runs:
            runs.start("chat-17")
            channel = runs.channel("chat-17")
            await ended(channel)
            assert channel.outcome == "elsewhere"
            assert channel.detail.startswith("Another process is running this conversation: ")
            assert bank.paid == []
            await elsewhere.release()
            assert await until_answered(store) == ANSWER

    assert bank.paid == ["4000 to Maria"]


async def test_chat_without_streaming_can_run_in_the_background(store: MemoryStore, bank: Bank) -> None:
    class Whole:
        metadata = bank.model.metadata
        complete = bank.model.complete

    scope = ScopedCollection(bank.tools, bank.policy)
    chat = ChatBuilder().with_model(Whole()).with_scoped_tools(scope).build()
    await approved(store)
    runs = BackgroundRuns(store, lambda _: chat)
    async with anyio.create_task_group() as group:
        runs.open(group)
        runs.start("chat-17")
        await ended(runs.channel("chat-17"))

    assert runs.channel("chat-17").outcome == "answered"


async def test_start_returns_false_without_a_chat(store: MemoryStore) -> None:
    runs = BackgroundRuns(store, lambda _: None)

    assert not runs.start("chat-17")
    assert not runs.can_run("chat-17")


async def test_start_raises_if_the_inbox_is_not_open(store: MemoryStore, bank: Bank) -> None:
    runs = BackgroundRuns(store, lambda _: bank.chat)

    with pytest.raises(UsageError, match="the inbox is not open: serve it directly"):
        runs.start("chat-17")


async def test_idle_channels_are_evicted_and_followed_channels_are_kept(store: MemoryStore) -> None:
    runs = BackgroundRuns(store, lambda _: None)
    kept = runs.channel("followed")
    with kept.count_follower():
        for number in range(1500):
            runs.channel(f"{number}")

    assert len(runs.channels) <= 1000
    assert runs.channel("followed") is kept
