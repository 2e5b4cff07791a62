"""Triage of calls before any tool runs: policies, waits and decisions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from anyio.lowlevel import checkpoint
from bank_world import BALANCE, NOON, PAY, Bank, Policy, Risk, left_running, paused
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
    ScopedCollection,
    ToolCollection,
    Usage,
)
from chat_core.errors import ConflictError, IllegalTransitionError, InterruptedToolsError, PendingToolsError
from chat_core.events import ToolResult
from chat_core.messages import Completed, Pending, Rejected, Running, Tool, Turn
from chat_core.testing import MemoryConversation, ScriptedProvider
from chat_core.testing.memory_conversation import Call

pytestmark = pytest.mark.anyio


async def test_a_call_that_requires_approval_pauses_the_run_and_shows_its_arguments() -> None:
    bank = Bank()
    messages, pause = await paused(bank, Policy(RequireApproval(expires_in=timedelta(hours=24))))
    (wait,) = pause.waiting
    assert (wait.kind, wait.tool_id, wait.path, wait.name) == ("approval", "call_1", ("call_1",), "pay")
    assert wait.arguments == {"to": "bo", "cents": 100}
    assert wait.expires_at == NOON + timedelta(hours=24)
    assert pause.reason == "AwaitingApproval"
    assert pause.usage == Usage(10, 5)
    assert bank.paid == []
    assert messages.tool("call_1").status == Pending("approval", NOON + timedelta(hours=24))


async def test_the_usage_of_a_pause_includes_all_steps_before_it() -> None:
    bank = Bank()
    messages = Messages.from_user("pay bo, if there is enough")
    end = await bank.chat(ScriptedProvider(BALANCE, PAY), Policy(RequireApproval())).complete(messages)
    assert isinstance(end, Paused)
    assert end.usage == Usage(20, 10)


async def test_every_call_is_decided_before_any_of_them_runs() -> None:
    log: list[str] = []
    tools = ToolCollection()

    @tools.tool
    async def work(n: int) -> None:
        log.append(f"run {n}")

    async def policy(call: FunctionCall, _meta: None) -> Execute:
        await checkpoint()
        log.append(f"decide {call.arguments['n']}")
        return Execute()

    model = ScriptedProvider([FunctionCall("work", {"n": n}) for n in range(3)], "done")
    chat = ChatBuilder().with_model(model).with_scoped_tools(ScopedCollection(tools, policy)).build()
    await chat.complete(Messages.from_user("go"))
    assert log[:3] == ["decide 0", "decide 1", "decide 2"]
    assert sorted(log[3:]) == ["run 0", "run 1", "run 2"]


async def test_a_call_is_rejected_if_the_policy_raises_and_the_run_continues() -> None:
    bank = Bank()

    def broken(_call: FunctionCall, _risk: Risk) -> Execute:
        raise LookupError("the list of limits")

    model = ScriptedProvider(PAY, "understood")
    chat = ChatBuilder().with_model(model).with_scoped_tools(ScopedCollection(bank.tools, broken)).build()
    messages = Messages.from_user("pay bo")
    assert (await chat.complete(messages)).text == "understood"
    assert bank.paid == []
    assert isinstance(messages.tool("call_1").status, Rejected)


async def test_a_policy_receives_the_conversation_id_and_earlier_decisions() -> None:
    bank = Bank()
    messages, _ = await paused(bank, Policy(RequireApproval()))
    messages.tool("call_1").approve(arguments={"to": "cy"}, by="ana", note="to cy instead")
    policy = Policy(RequireApproval())
    conversation = MemoryConversation(messages, id="order-7")
    await bank.chat(ScriptedProvider("done"), policy).complete(conversation)
    (call,) = policy.asked
    assert call.id == "call_1"
    assert call.context is not None
    assert call.context.run.conversation_id == "order-7"
    assert [(decision.action, decision.by, decision.note) for decision in call.context.decisions] == [
        ("approve", "ana", "to cy instead")
    ]


async def test_a_policy_receives_the_validated_arguments_and_the_raw_text() -> None:
    bank = Bank()
    policy = Policy(RequireApproval())
    await paused(bank, policy, FunctionCall.parse("pay", '{"to": "bo", "cents": "250"}'))
    (call,) = policy.asked
    assert call.arguments == {"to": "bo", "cents": 250}
    assert call.raw == '{"to": "bo", "cents": "250"}'
    assert call.context is not None
    assert call.context.messages[0].text == "pay bo"


async def test_an_approved_call_runs_in_another_process_without_asking_the_policy() -> None:
    bank = Bank()
    messages, _ = await paused(bank, Policy(RequireApproval()))
    elsewhere = Messages.from_json(messages.to_json())
    elsewhere.tool("call_1").approve(by="ana@example.com", note="fine")
    policy = Policy(Reject("never asked"))
    end = await bank.chat(ScriptedProvider("done"), policy).complete(elsewhere)
    assert isinstance(end, ChatResponse)
    assert bank.paid == [("bo", 100)]
    assert policy.asked == []
    tool = elsewhere.tool("call_1")
    assert isinstance(tool.status, Completed)
    assert [(decision.action, decision.by) for decision in tool.decisions] == [("approve", "ana@example.com")]


async def test_an_edited_approval_runs_the_edited_arguments_and_informs_the_model() -> None:
    bank = Bank()
    messages, _ = await paused(bank, Policy(RequireApproval()))
    messages.tool("call_1").approve(arguments={"to": "cy", "cents": 5})
    model = ScriptedProvider("done")
    await bank.chat(model, Policy(RequireApproval())).complete(messages)
    assert bank.paid == [("cy", 5)]
    tool = model.asked[0].messages.tool("call_1")
    assert tool.call.arguments == {"to": "bo"}
    assert tool.result_text() == (
        '[The call was changed by its approver and ran with {"to":"cy","cents":5}]\npaid 5 to cy'
    )


async def test_an_edited_call_is_rejected_if_the_policy_rejects_the_edit() -> None:
    bank = Bank()
    messages, _ = await paused(bank, Policy(RequireApproval()))
    messages.tool("call_1").approve(arguments={"to": "cy", "cents": 5})
    policy = Policy(Reject("cy is blocked"))
    await bank.chat(ScriptedProvider("sorry"), policy).complete(messages)
    assert policy.asked[0].arguments == {"to": "cy", "cents": 5}
    assert messages.tool("call_1").status == Rejected("cy is blocked", "policy")
    assert bank.paid == []


async def test_an_edit_that_the_policy_schedules_waits_for_its_time() -> None:
    bank = Bank()
    messages, _ = await paused(bank, Policy(RequireApproval()))
    messages.tool("call_1").approve(arguments={"to": "cy", "cents": 5})
    later = NOON + timedelta(hours=1)
    end = await bank.chat(ScriptedProvider("done"), Policy(Schedule(later))).complete(messages)
    assert isinstance(end, Paused)
    assert (end.reason, end.waiting[0].at, end.waiting[0].arguments) == ("Scheduled", later, {"to": "cy", "cents": 5})
    bank.now = later
    await bank.chat(ScriptedProvider("done"), Policy(Schedule(later))).complete(messages)
    assert bank.paid == [("cy", 5)]


async def test_a_call_with_an_invalid_edit_waits_again_with_the_error() -> None:
    bank = Bank()
    messages, _ = await paused(bank, Policy(RequireApproval(expires_in=timedelta(hours=1))))
    messages.tool("call_1").approve(at=NOON, arguments={"to": "cy", "cents": "many"})
    end = await bank.chat(ScriptedProvider("done"), Policy(RequireApproval(timedelta(hours=1)))).complete(messages)
    assert isinstance(end, Paused)
    assert end.waiting[0].error is not None
    assert "cents" in end.waiting[0].error
    assert end.waiting[0].arguments == {"to": "cy", "cents": "many"}
    messages.tool("call_1").approve(at=NOON, arguments={"to": "cy", "cents": 6})
    await bank.chat(ScriptedProvider("done"), Policy(RequireApproval())).complete(messages)
    assert bank.paid == [("cy", 6)]


async def test_the_model_receives_the_reason_of_a_rejection_by_an_approver() -> None:
    bank = Bank()
    messages, _ = await paused(bank, Policy(RequireApproval()))
    messages.tool("call_1").reject("not this month", by="ana")
    model = ScriptedProvider("understood")
    await bank.chat(model, Policy(Execute())).complete(messages)
    assert model.asked[0].messages.tool("call_1").result_text() == ("The call was rejected by a person: not this month")
    assert bank.paid == []


async def test_the_result_of_a_call_rejected_by_policy_names_the_policy() -> None:
    bank = Bank()
    model = ScriptedProvider([PAY], "understood")
    messages = Messages.from_user("pay")
    await bank.chat(model, Policy(Reject("above the limit"))).complete(messages)
    assert messages.tool("call_1").result_text() == "The call was rejected by policy: above the limit"


async def test_siblings_are_run_and_recorded_before_a_pause_is_returned() -> None:
    bank = Bank()
    messages, pause = await paused(bank, Policy(RequireApproval()), PAY, BALANCE)
    assert [wait.tool_id for wait in pause.waiting] == ["call_1"]
    assert messages.tool("call_2").status == Completed(7)


async def test_some_calls_can_be_decided_while_others_wait() -> None:
    bank = Bank()
    second = FunctionCall("pay", {"to": "cy"}, id="call_3")
    messages, pause = await paused(bank, Policy(RequireApproval()), PAY, second)
    assert len(pause.waiting) == 2
    messages.tool("call_3").approve()
    model = ScriptedProvider("done")
    end = await bank.chat(model, Policy(RequireApproval())).complete(messages)
    assert isinstance(end, Paused)
    assert [wait.tool_id for wait in end.waiting] == ["call_1"]
    assert bank.paid == [("cy", 100)]
    assert model.asked == []
    messages.tool("call_1").approve()
    await bank.chat(model, Policy(RequireApproval())).complete(messages)
    assert bank.paid == [("cy", 100), ("bo", 100)]


async def test_a_waiting_call_keeps_its_deadline_when_the_run_is_repeated() -> None:
    bank = Bank()
    messages, first = await paused(bank, Policy(RequireApproval(expires_in=timedelta(hours=1))))
    bank.now = NOON + timedelta(minutes=30)
    again = await bank.chat(ScriptedProvider(), Policy(RequireApproval(timedelta(hours=9)))).complete(messages)
    assert isinstance(again, Paused)
    assert again.waiting == first.waiting


async def test_a_run_raises_if_the_policy_now_executes_a_waiting_call() -> None:
    bank = Bank()
    messages, _ = await paused(bank, Policy(RequireApproval()))
    with pytest.raises(PendingToolsError) as caught:
        await bank.chat(ScriptedProvider(), Policy(Execute())).complete(messages)
    assert caught.value.tool_ids == ("call_1",)
    assert bank.paid == []
    assert messages.tool("call_1").status == Pending("approval")


async def test_a_waiting_call_is_rejected_if_the_policy_now_rejects_it() -> None:
    bank = Bank()
    messages, _ = await paused(bank, Policy(RequireApproval()))
    await bank.chat(ScriptedProvider("ok"), Policy(Reject("frozen"))).complete(messages)
    assert messages.tool("call_1").status == Rejected("frozen", "policy")


async def test_an_approval_after_the_deadline_is_refused_and_the_call_is_rejected() -> None:
    bank = Bank()
    messages, pause = await paused(bank, Policy(RequireApproval(expires_in=timedelta(hours=1))))
    deadline = pause.waiting[0].expires_at
    assert deadline is not None
    with pytest.raises(IllegalTransitionError, match="expired"):
        messages.tool("call_1").approve(at=deadline)
    bank.now = deadline
    await bank.chat(ScriptedProvider("too late"), Policy(RequireApproval())).complete(messages)
    status = messages.tool("call_1").status
    assert isinstance(status, Rejected)
    assert status.source == "expiry"
    assert bank.paid == []


async def test_a_scheduled_call_waits_until_its_time_and_then_runs() -> None:
    bank = Bank()
    at = NOON + timedelta(hours=8)
    messages, pause = await paused(bank, Policy(Schedule(at)))
    assert (pause.reason, pause.waiting[0].at) == ("Scheduled", at)
    bank.now = at - timedelta(seconds=1)
    end = await bank.chat(ScriptedProvider(), Policy(Schedule(at + timedelta(days=1)))).complete(messages)
    assert isinstance(end, Paused)
    assert end.waiting[0].at == at
    bank.now = at
    await bank.chat(ScriptedProvider("done"), Policy(Reject("not asked"))).complete(messages)
    assert bank.paid == [("bo", 100)]


async def test_each_wait_of_a_mixed_pause_keeps_its_own_kind_and_time() -> None:
    bank = Bank()
    at = NOON + timedelta(hours=1)

    def policy(call: FunctionCall, risk: Risk) -> RequireApproval | Schedule:
        del risk
        return Schedule(at) if call.arguments["to"] == "cy" else RequireApproval()

    scope = ScopedCollection(bank.tools, policy)
    model = ScriptedProvider([PAY, FunctionCall("pay", {"to": "cy"}, id="call_3")])
    chat = ChatBuilder().with_model(model).with_scoped_tools(scope).with_clock(lambda: NOON).build()
    end = await chat.complete(Messages.from_user("pay"))
    assert isinstance(end, Paused)
    assert end.reason == "Mixed"
    assert [(wait.kind, wait.at) for wait in end.waiting] == [("approval", None), ("schedule", at)]


async def test_an_unresolved_call_before_the_last_turn_is_executed() -> None:
    bank = Bank()
    messages = Messages.from_user("pay")
    messages.append("model", Turn([Tool(PAY, call_id="call_1")]))
    messages.append("user", Turn([]))
    await bank.chat(ScriptedProvider("done"), Policy(Execute())).complete(messages)
    assert bank.paid == [("bo", 100)]


async def test_a_new_message_is_refused_until_the_waiting_calls_are_cancelled() -> None:
    bank = Bank()
    messages, _ = await paused(bank, Policy(RequireApproval()))
    with pytest.raises(PendingToolsError) as caught:
        messages.user("never mind")
    assert caught.value.tool_ids == ("call_1",)
    messages.cancel_pending("the user moved on")
    messages.user("never mind")
    model = ScriptedProvider("fine")
    await bank.chat(model, Policy(Execute())).complete(messages)
    assert model.asked[0].messages.tool("call_1").result_text() == "The call was cancelled: the user moved on"


# --- Decisions during a triage -------------------------------------------------------------------------------------


async def test_a_call_rejected_while_the_policy_runs_is_not_executed() -> None:
    bank = Bank()
    messages = Messages.from_user("pay bo")

    async def slow(call: FunctionCall, _risk: Risk) -> Execute:
        await checkpoint()
        messages.tool(call.id).reject("no")
        return Execute()

    chat = (
        ChatBuilder().with_model(ScriptedProvider(PAY, "ok")).with_scoped_tools(ScopedCollection(bank.tools, slow))
    ).build()
    assert (await chat.complete(messages)).text == "ok"
    assert bank.paid == []
    assert messages.tool("call_1").status == Rejected("no")


async def test_a_call_edited_while_the_policy_runs_is_decided_again() -> None:
    bank = Bank()
    messages = Messages.from_user("pay bo")
    shown: list[object] = []

    async def slow(call: FunctionCall, _risk: Risk) -> Execute:
        shown.append(call.arguments["cents"])
        if len(shown) == 1:
            await checkpoint()
            messages.tool(call.id).approve(arguments={"to": "cy", "cents": 5})
        return Execute()

    chat = (
        ChatBuilder().with_model(ScriptedProvider(PAY, "ok")).with_scoped_tools(ScopedCollection(bank.tools, slow))
    ).build()
    await chat.complete(messages)
    assert shown == [100, 5]
    assert bank.paid == [("cy", 5)]


async def test_an_approval_stored_elsewhere_overrides_a_rejection_by_the_policy() -> None:
    bank = Bank()
    messages, _ = await paused(bank, Policy(RequireApproval()))
    elsewhere = Messages.from_json(messages.to_json()).tool("call_1")
    elsewhere.approve(by="ana")

    def store(call: Call) -> None:
        if str(call) == "write_tool call_1 Rejected":
            messages.tool("call_1").adopt(elsewhere)
            raise ConflictError("ana has decided")

    conversation = MemoryConversation(messages, on_call=store)
    end = await bank.chat(ScriptedProvider("done"), Policy(Reject("too late"))).complete(conversation)
    assert isinstance(end, ChatResponse)
    assert bank.paid == [("bo", 100)]


async def test_a_call_started_by_another_run_raises_conflict_error() -> None:
    bank = Bank()
    messages, _ = await paused(bank, Policy(RequireApproval()))
    elsewhere = Messages.from_json(messages.to_json()).tool("call_1")
    elsewhere.approve()
    elsewhere.start()

    def store(call: Call) -> None:
        if str(call) == "write_tool call_1 Rejected":
            messages.tool("call_1").adopt(elsewhere)
            raise ConflictError("another run is at it")

    conversation = MemoryConversation(messages, on_call=store)
    with pytest.raises(ConflictError):
        await bank.chat(ScriptedProvider(), Policy(Reject("too late"))).complete(conversation)
    assert bank.paid == []
    assert isinstance(messages.tool("call_1").status, Running)


# --- Events before an error is raised --------------------------------------------------------------------------------


async def test_result_events_are_yielded_before_interrupted_tools_error_is_raised() -> None:
    bank = Bank()
    messages = left_running(bank)
    messages.append("model", Turn([Tool(FunctionCall("unheard_of"), id="u")]))
    results: list[str] = []
    with pytest.raises(InterruptedToolsError):
        async with bank.chat(ScriptedProvider(), Policy(Execute())).stream(messages) as stream:
            async for event in stream:
                if isinstance(event, ToolResult):
                    results.append(event.tool.id)
    assert results == ["u"]


async def test_result_events_are_yielded_before_pending_tools_error_is_raised() -> None:
    bank = Bank()
    messages, _ = await paused(bank, Policy(RequireApproval()))
    messages.append("model", Turn([Tool(FunctionCall("unheard_of"), id="u")]))
    results: list[str] = []
    with pytest.raises(PendingToolsError):
        async with bank.chat(ScriptedProvider(), Policy(Execute())).stream(messages) as stream:
            async for event in stream:
                if isinstance(event, ToolResult):
                    results.append(event.tool.id)
    assert results == ["u"]


async def test_a_call_waiting_after_an_invalid_edit_is_kept_if_the_policy_now_executes() -> None:
    bank = Bank()
    messages, _ = await paused(bank, Policy(RequireApproval()))
    messages.tool("call_1").approve(arguments={"cents": "many"})
    await bank.chat(ScriptedProvider(), Policy(RequireApproval())).complete(messages)
    with pytest.raises(PendingToolsError):
        await bank.chat(ScriptedProvider(), Policy(Execute())).complete(messages)
    assert isinstance(messages.tool("call_1").status, Pending)


async def test_a_policy_cannot_change_the_arguments_of_a_call() -> None:
    bank = Bank()

    def meddling(call: FunctionCall, _risk: Risk) -> Execute:
        assert isinstance(call.arguments, dict)
        call.arguments["cents"] = 1_000_000
        return Execute()

    scope = ScopedCollection(bank.tools, meddling)
    messages = Messages.from_user("pay")
    await ChatBuilder().with_model(ScriptedProvider(PAY, "ok")).with_scoped_tools(scope).build().complete(messages)
    assert bank.paid == []
    assert messages.tool("call_1").status == Rejected("the policy could not decide (TypeError)", "policy")


async def test_the_arguments_shown_to_an_approver_are_read_only_and_are_executed() -> None:
    ran: list[object] = []
    tools = ToolCollection()

    @tools.tool
    async def pay(lines: list[dict[str, int]], note: str = "none") -> str:
        ran.append((lines, note))
        return "paid"

    def ask(_call: FunctionCall, _meta: None) -> RequireApproval:
        return RequireApproval()

    model = ScriptedProvider(FunctionCall("pay", {"lines": [{"cents": 5}]}, id="call_1"), "done")
    chat = ChatBuilder().with_model(model).with_scoped_tools(ScopedCollection(tools, ask)).build()
    messages = Messages.from_user("pay")
    pause = await chat.complete(messages)
    assert isinstance(pause, Paused)
    for shown in (messages.tool("call_1").effective_arguments, pause.waiting[0].arguments):
        arguments: Any = shown
        assert arguments == {"lines": [{"cents": 5}], "note": "none"}
        with pytest.raises(TypeError, match="read-only"):
            arguments["note"] = "changed"
        with pytest.raises(TypeError, match="read-only"):
            arguments["lines"].append({"cents": 9})
        with pytest.raises(TypeError, match="read-only"):
            arguments["lines"][0]["cents"] = 9
    messages.tool("call_1").approve()
    await chat.complete(messages)
    assert ran == [([{"cents": 5}], "none")]
    assert messages.tool("call_1").decisions[0].arguments is None


async def test_a_policy_cannot_change_the_history() -> None:
    bank = Bank()

    def meddling(call: FunctionCall, _risk: Risk) -> Execute:
        assert call.context is not None
        history: Any = call.context.messages
        for content in history:
            content.turns.clear()
        return Execute()

    messages = Messages.from_user("pay")
    scope = ScopedCollection(bank.tools, meddling)
    await ChatBuilder().with_model(ScriptedProvider(PAY, "ok")).with_scoped_tools(scope).build().complete(messages)
    assert messages.contents[0].text == "pay"
    assert bank.paid == []


# --- Chats that changed during a pause -----------------------------------------------------------------------------


async def test_a_call_with_an_invalid_edit_is_rejected_if_the_policy_rejects_it() -> None:
    bank = Bank()
    messages, _ = await paused(bank, Policy(RequireApproval()))
    messages.tool("call_1").approve(arguments={"cents": "many"})
    await bank.chat(ScriptedProvider("sorry"), Policy(Reject("frozen"))).complete(messages)
    assert messages.tool("call_1").status == Rejected("frozen", "policy")


async def test_a_call_with_an_invalid_edit_fails_if_the_policy_now_executes() -> None:
    bank = Bank()
    messages, _ = await paused(bank, Policy(RequireApproval()))
    messages.tool("call_1").approve(arguments={"cents": "many"})
    await bank.chat(ScriptedProvider("sorry"), Policy(Execute())).complete(messages)
    assert "The arguments that the approver gave are not valid" in messages.tool("call_1").result_text()
    assert bank.paid == []


async def test_a_call_scheduled_for_the_current_time_runs_immediately() -> None:
    bank = Bank()
    messages = Messages.from_user("pay bo")
    end = await bank.chat(ScriptedProvider(PAY, "done"), Policy(Schedule(NOON))).complete(messages)
    assert isinstance(end, ChatResponse)
    assert bank.paid == [("bo", 100)]
