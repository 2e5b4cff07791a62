"""Calls that a crash interrupted, and waits whose time has passed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from bank_world import NOON, PAY, Bank, Policy, left_running, paused
from chat_core import (
    ChatBuilder,
    ChatResponse,
    Execute,
    FunctionCall,
    Messages,
    Paused,
    Reject,
    RequireApproval,
    Schedule,
    StreamingChat,
    ToolCollection,
    ToolContext,
)
from chat_core.errors import InterruptedToolsError
from chat_core.messages import Approved, Completed, Failed, Interrupted, Pending, Rejected, Running
from chat_core.testing import MemoryConversation, ScriptedProvider

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("before", "minutes"),
    [("2030-03-31T01:30:00", 90), ("2030-10-27T01:30:00", 90), ("2030-10-27T02:30:00", 90)],
    ids=["to summer time", "to winter time", "in the hour that is repeated"],
)
@pytest.mark.parametrize("fold", [0, 1])
async def test_approval_deadlines_are_exact_across_daylight_saving_changes(
    before: str, minutes: int, fold: int
) -> None:
    bank = Bank()
    bank.now = datetime.fromisoformat(before).replace(tzinfo=ZoneInfo("Europe/Berlin"), fold=fold)
    messages, pause = await paused(bank, Policy(RequireApproval(expires_in=timedelta(minutes=minutes))))
    start = bank.now.astimezone(UTC)
    (wait,) = pause.waiting
    assert wait.expires_at == start + timedelta(minutes=minutes)
    for passed, kind in ((minutes - 1, Pending), (minutes, Rejected)):
        bank.now = (start + timedelta(minutes=passed)).astimezone(ZoneInfo("Europe/Berlin"))
        await bank.chat(ScriptedProvider(PAY, "ok", by_history=True), Policy(RequireApproval())).complete(messages)
        assert isinstance(messages.tool("call_1").status, kind)


async def test_a_call_scheduled_in_the_second_repeated_hour_does_not_run_in_the_first() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    bank = Bank()
    bank.now = datetime(2030, 10, 27, 2, 30, tzinfo=berlin, fold=0)
    second = datetime(2030, 10, 27, 2, 30, tzinfo=berlin, fold=1)
    messages, _ = await paused(bank, Policy(Schedule(second)))
    assert isinstance(await bank.chat(ScriptedProvider(), Policy(Schedule(second))).complete(messages), Paused)
    bank.now = second
    await bank.chat(ScriptedProvider("ok"), Policy(Schedule(second))).complete(messages)
    assert bank.paid == [("bo", 100)]


async def test_an_approval_that_would_expire_after_the_year_9999_has_no_deadline() -> None:
    bank = Bank()
    _, pause = await paused(bank, Policy(RequireApproval(expires_in=timedelta.max)))
    assert pause.waiting[0].expires_at is None


async def test_an_interrupted_call_is_not_run_again_and_the_error_names_it() -> None:
    bank = Bank()
    messages = left_running(bank)
    with pytest.raises(InterruptedToolsError, match="call_1") as caught:
        await bank.chat(ScriptedProvider(), Policy(Execute())).complete(messages)
    assert caught.value.tool_ids == ("call_1",)
    assert isinstance(messages.tool("call_1").status, Interrupted)
    assert bank.paid == []


async def test_a_chat_pauses_on_an_interrupted_call_if_its_rule_requires_approval() -> None:
    bank = Bank()
    messages = left_running(bank)
    chat = (
        ChatBuilder().with_model(ScriptedProvider("done")).with_tools(bank.tools).with_interrupted(RequireApproval())
    ).build()
    end = await chat.complete(messages)
    assert isinstance(end, Paused)
    assert (end.reason, end.waiting[0].kind, end.waiting[0].tool_id) == ("Interrupted", "interrupted", "call_1")
    assert end.waiting[0].error is not None
    messages.tool("call_1").complete("it was paid", by="ana")
    done = await chat.complete(messages)
    assert isinstance(done, ChatResponse)
    assert bank.paid == []


async def test_retry_by_an_approver_runs_an_interrupted_call_again() -> None:
    bank = Bank()
    messages = left_running(bank)
    chat = bank.chat(ScriptedProvider("done"), Policy(RequireApproval()))
    with pytest.raises(InterruptedToolsError):
        await chat.complete(messages)
    messages.tool("call_1").retry(by="ana")
    assert isinstance(messages.tool("call_1").status, Approved)
    await chat.complete(messages)
    assert bank.paid == [("bo", 100)]


async def test_a_failure_recorded_for_an_interrupted_call_is_sent_to_the_model() -> None:
    bank = Bank()
    messages = left_running(bank)
    model = ScriptedProvider("sorry")
    chat = bank.chat(model, Policy(Execute()))
    with pytest.raises(InterruptedToolsError):
        await chat.complete(messages)
    messages.tool("call_1").fail("the bank knows of no payment", by="ana")
    await chat.complete(messages)
    assert model.asked[0].messages.tool("call_1").result_text() == "the bank knows of no payment"
    assert bank.paid == []


async def test_interrupted_calls_fail_if_the_with_interrupted_rule_rejects() -> None:
    bank = Bank()
    messages = left_running(bank)
    builder = ChatBuilder().with_model(ScriptedProvider("sorry")).with_tools(bank.tools)
    end = await builder.with_interrupted(Reject("look it up")).build().complete(messages)
    assert end.text == "sorry"
    assert isinstance(messages.tool("call_1").status, Failed)
    assert "may have taken effect" in messages.tool("call_1").result_text()


def resolving(
    bank: Bank, action: RequireApproval | Schedule, model: ScriptedProvider
) -> StreamingChat[ChatResponse, Paused]:
    builder = ChatBuilder().with_model(model).with_tools(bank.tools).with_interrupted(action)
    return builder.with_clock(lambda: bank.now).build()


@pytest.mark.parametrize(
    ("action", "expires_at", "at"),
    [
        (RequireApproval(expires_in=timedelta(hours=1)), NOON + timedelta(hours=1), None),
        (Schedule(NOON + timedelta(hours=1)), None, NOON + timedelta(hours=1)),
    ],
    ids=["expires_in", "at"],
)
async def test_an_interrupted_call_waits_for_its_outcome_until_a_deadline_and_then_fails(
    action: RequireApproval | Schedule, expires_at: datetime | None, at: datetime | None
) -> None:
    bank = Bank()
    messages = left_running(bank)
    chat = resolving(bank, action, ScriptedProvider("sorry"))
    for _ in range(2):
        paused = await chat.complete(messages)
        assert isinstance(paused, Paused)
        (wait,) = paused.waiting
        assert (wait.kind, wait.expires_at, wait.at) == ("interrupted", expires_at, at)
        messages = Messages.from_json(messages.to_json())
        bank.now += timedelta(minutes=30)
    end = await chat.complete(messages)
    assert isinstance(end, ChatResponse)
    status = messages.tool("call_1").status
    assert isinstance(status, Failed)
    assert status.error == (
        "The call was interrupted and may have taken effect: "
        "nobody recorded its outcome before 2030-01-01T13:00:00+00:00"
    )
    assert bank.paid == []


async def test_an_interrupted_call_resolved_before_its_deadline_keeps_its_outcome() -> None:
    bank = Bank()
    messages = left_running(bank)
    chat = resolving(bank, RequireApproval(expires_in=timedelta(hours=1)), ScriptedProvider("done"))
    assert isinstance(await chat.complete(messages), Paused)
    messages.tool("call_1").complete("it was paid", by="ana")
    bank.now += timedelta(hours=2)
    assert isinstance(await chat.complete(messages), ChatResponse)
    assert messages.tool("call_1").status == Completed("it was paid")


async def test_resuming_with_an_interrupted_call_without_deadline_writes_nothing() -> None:
    bank = Bank()
    conversation = MemoryConversation(left_running(bank))
    chat = resolving(bank, RequireApproval(), ScriptedProvider())
    await chat.complete(conversation)
    conversation.calls.clear()
    await chat.complete(conversation)
    assert [str(call) for call in conversation.calls] == ["claim", "release"]


async def test_an_interrupted_idempotent_call_runs_again_with_the_same_key() -> None:
    keys: list[tuple[str, int]] = []
    tools = ToolCollection()

    @tools.tool(idempotent=True)
    async def put(context: ToolContext) -> None:
        keys.append((context.idempotency_key, context.attempt))

    messages = left_running(Bank(), FunctionCall("put", {}, id="call_1"))
    key = messages.tool("call_1").idempotency_key
    assert key
    await ChatBuilder().with_model(ScriptedProvider("done")).with_tools(tools).build().complete(messages)
    assert keys == [(key, 2)]


async def test_a_started_call_is_running_with_attempt_and_start_time() -> None:
    messages = left_running(Bank())
    status = messages.tool("call_1").status
    assert isinstance(status, Running)
    assert (status.attempt, status.started_at) == (1, NOON)


async def test_a_call_with_an_invalid_edit_waits_with_its_original_deadline() -> None:
    bank = Bank()
    messages, _ = await paused(bank, Policy(RequireApproval(timedelta(hours=1))))
    messages.tool("call_1").approve(at=NOON, arguments={"cents": 5})
    first = await bank.chat(ScriptedProvider(), Policy(RequireApproval())).complete(messages)
    again = await bank.chat(ScriptedProvider(), Policy(RequireApproval())).complete(messages)
    assert isinstance(first, Paused)
    assert isinstance(again, Paused)
    assert again.waiting == first.waiting
    assert again.waiting[0].expires_at == NOON + timedelta(hours=1)


async def test_the_arguments_shown_by_a_stored_pause_are_the_arguments_that_run() -> None:
    bank = Bank()
    messages, pause = await paused(bank, Policy(RequireApproval()), FunctionCall.parse("pay", '{"to":"bo"}'))
    stored = Messages.from_json(messages.to_json())
    (tool,) = stored.pending()
    assert tool.effective_arguments == pause.waiting[0].arguments == {"to": "bo", "cents": 100}
    assert tool.call.arguments == {"to": "bo"}
    tool.approve()
    model = ScriptedProvider("done")
    await bank.chat(model, Policy(RequireApproval())).complete(stored)
    assert bank.paid == [("bo", 100)]
    assert stored[1].tools[0].result_text() == "paid 100 to bo"
