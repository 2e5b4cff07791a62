"""Dry runs: predicted decisions equal the decisions of a run, and nothing is executed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeAlias, cast

import pytest
from anyio.lowlevel import checkpoint
from chat_core import ChatBuilder, Paused
from chat_core.chat import AnyChat
from chat_core.engine.dry_run import DryRun, DryRunCall, dry_run
from chat_core.errors import UsageError
from chat_core.messages import FunctionCall, Messages, Running, Tool, Turn
from chat_core.testing import MemoryConversation, ScriptedProvider
from chat_core.tools.action import Action, Execute, Reject, RequireApproval, Schedule
from chat_core.tools.collection import ToolCollection
from chat_core.tools.definition import ToolDefinition, ToolScope
from chat_core.tools.scope import ScopedCollection

pytestmark = pytest.mark.anyio

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
Said: TypeAlias = Execute | RequireApproval | Reject | Schedule


@dataclass(frozen=True)
class Risk:
    high: bool = False


class Bank:
    """Two tools that must never run, and a policy."""

    def __init__(self) -> None:
        self.tools = ToolCollection(Risk)
        self.ran: list[str] = []
        self.shown: list[FunctionCall] = []

        @self.tools.tool(Risk(high=True))
        async def pay(to: str, cents: int = 100) -> None:
            self.ran.append(to)

        @self.tools.tool(Risk())
        def balance() -> int:
            self.ran.append("balance")
            return 0

    def policy(self, call: FunctionCall, risk: Risk) -> Said:
        self.shown.append(call)
        if not risk.high:
            return Execute()
        if call.arguments["to"] == "later":
            return Schedule(NOON + HOUR)
        if call.arguments["to"] == "thief":
            return Reject("not to them")
        if call.arguments["to"] == "bug":
            raise KeyError("bug")
        return RequireApproval(expires_in=HOUR)

    async def slow_policy(self, call: FunctionCall, risk: Risk) -> Said:
        await checkpoint()
        return self.policy(call, risk)

    def scope(self) -> ScopedCollection[Risk, Paused]:
        return ScopedCollection(self.tools, self.policy)

    def chat(self, *script: FunctionCall | list[FunctionCall] | str) -> AnyChat:
        model = ScriptedProvider(*script, by_history=True)
        return ChatBuilder().with_model(model).with_scoped_tools(self.scope()).with_clock(lambda: NOON).build()


def pay(to: str) -> FunctionCall:
    return FunctionCall("pay", {"to": to}, id=to)


def outcomes(found: DryRun) -> dict[str, str]:
    return {"/".join(call.path): call.outcome for call in found}


async def test_a_dry_run_reports_each_action_with_its_terms_and_runs_nothing() -> None:
    bank = Bank()
    calls = [pay("bo"), pay("later"), pay("thief"), FunctionCall("balance", id="look")]

    found = await dry_run(bank.scope(), calls, now=lambda: NOON)

    assert outcomes(found) == {"bo": "approval", "later": "schedule", "thief": "reject", "look": "run"}
    bo, later, thief, look = found
    assert (bo.expires_at, bo.at, bo.arguments) == (NOON + HOUR, None, {"to": "bo", "cents": 100})
    assert (later.expires_at, later.at) == (None, NOON + HOUR)
    assert (thief.reason, thief.action) == ("not to them", Reject("not to them"))
    assert (look.name, look.arguments, look.action, look.reason) == ("balance", {}, Execute(), None)
    assert bank.ran == []


async def test_the_text_of_a_dry_run_has_one_line_per_call() -> None:
    calls = [pay("bo"), pay("later"), pay("thief"), pay("bug"), FunctionCall("balance", id="look")]

    found = await dry_run(Bank().scope(), calls, now=lambda: NOON)

    raised = 'bug: pay({"to":"bug","cents":100}) → reject: the policy could not decide (KeyError)'
    raised += " (the policy raised KeyError: 'bug')"
    assert str(found).splitlines() == [
        'bo: pay({"to":"bo","cents":100}) → approval, until 2030-01-01T13:00:00+00:00',
        'later: pay({"to":"later","cents":100}) → schedule, at 2030-01-01T13:00:00+00:00',
        'thief: pay({"to":"thief","cents":100}) → reject: not to them',
        raised,
        "look: balance({}) → run",
    ]
    assert len(found) == 5


async def test_a_dry_run_awaits_an_async_policy() -> None:
    bank = Bank()

    found = await dry_run([ScopedCollection(bank.tools, bank.slow_policy)], pay("bo"))

    assert outcomes(found) == {"bo": "approval"}
    assert found.calls[0].raised is None


async def test_a_dry_run_reports_the_fallback_and_the_error_if_the_policy_raises() -> None:
    bank = Bank()
    scope = ScopedCollection(bank.tools, bank.slow_policy, fallback=RequireApproval())

    (call,) = await dry_run(scope, pay("bug"))

    assert (call.outcome, call.action, call.raised) == ("approval", RequireApproval(), "KeyError: 'bug'")


async def test_a_dry_run_reports_type_error_if_the_policy_returns_none() -> None:
    bank = Bank()

    def silent(_call: FunctionCall, _risk: Risk) -> Said:
        return cast("Said", None)

    (call,) = await dry_run(ScopedCollection(bank.tools, silent), pay("bo"))

    assert (call.outcome, call.reason) == ("reject", "the policy could not decide (TypeError)")
    assert (call.raised or "").startswith("TypeError")


async def test_a_dry_run_reports_invalid_arguments_and_unknown_tools_as_failures() -> None:
    calls = [
        FunctionCall("pay", {"cents": "much"}, id="bad"),
        FunctionCall.parse("pay", '{"to": "b'),
        FunctionCall("fly", {"to": "Rome"}, id="fly"),
    ]

    bad, cut, fly = await dry_run(Bank().scope(), calls)

    assert (bad.outcome, bad.action, bad.arguments) == ("fail", None, {"cents": "much"})
    assert "The call of pay was not run" in (bad.reason or "")
    assert (cut.outcome, fly.outcome) == ("fail", "fail")
    assert "not valid JSON" in (cut.reason or "")
    assert fly.reason == "There is no tool named 'fly'. The tools are: pay, balance."


async def test_a_dry_run_applies_the_deadlines_of_waiting_calls_and_changes_nothing() -> None:
    bank = Bank()
    messages = Messages.from_user("pay")
    chat = bank.chat([pay("bo"), pay("later"), FunctionCall("balance", id="look")], "done")
    await chat.complete(messages)
    bank.ran.clear()
    before = messages.to_json()

    found = await dry_run(chat, messages)
    late = await dry_run(chat, messages, now=lambda: NOON + HOUR)

    assert outcomes(found) == {"bo": "approval", "later": "schedule", "look": "run"}
    assert found.calls[0].expires_at == NOON + HOUR
    assert outcomes(late) == {"bo": "reject", "later": "run", "look": "run"}
    assert late.calls[0].reason == "nobody approved it before 2030-01-01T13:00:00+00:00"
    assert late.calls[0].action is None
    assert messages.to_json() == before
    assert bank.ran == []


async def test_a_dry_run_asks_the_policy_about_an_approved_call_only_if_it_was_edited() -> None:
    bank = Bank()
    messages = Messages.from_user("pay")
    chat = bank.chat([pay("bo"), pay("cy"), pay("di")], "done")
    await chat.complete(messages)
    messages.tool("bo").approve(at=NOON)
    messages.tool("cy").approve(at=NOON, arguments={"to": "thief"})
    messages.tool("di").approve(at=NOON, arguments={"to": 7})

    bo, cy, di = await dry_run(chat, messages)

    assert (bo.outcome, bo.action) == ("run", None)
    assert (cy.outcome, cy.arguments, cy.reason) == ("reject", {"to": "thief", "cents": 100}, "not to them")
    assert (di.outcome, di.arguments) == ("approval", {"to": 7})
    assert "to" in (di.reason or "")


async def test_a_dry_run_applies_a_new_policy_to_an_old_history() -> None:
    bank = Bank()
    messages = Messages.from_user("pay")
    chat = bank.chat([pay("thief"), FunctionCall("balance", id="look")], pay("bo"), "done")
    await chat.complete(messages)
    messages.tool("bo").reject("no", by="ana")
    await chat.complete(messages)
    bank.shown.clear()

    found = await dry_run(ScopedCollection(bank.tools, lambda _call, _risk: Execute()), messages)
    again = await dry_run(bank.scope(), messages, conversation_id="chat-1")

    assert outcomes(found) == {"thief": "run", "look": "run", "bo": "run"}
    assert [type(call.status).__name__ for call in found] == ["Rejected", "Completed", "Rejected"]
    assert outcomes(again) == {"thief": "reject", "look": "run", "bo": "approval"}
    contexts = [call.context for call in bank.shown if call.context is not None]
    assert [context.run.conversation_id for context in contexts] == ["chat-1"] * 3
    assert [len(context.messages) for context in contexts] == [2, 2, 2]
    assert [sum(len(content.turns) for content in context.messages) for context in contexts] == [2, 2, 3]


async def test_a_dry_run_holds_a_waiting_call_that_a_new_policy_would_run() -> None:
    bank = Bank()
    messages = Messages.from_user("pay")
    await bank.chat(pay("bo"), "done").complete(messages)

    (call,) = await dry_run(ScopedCollection(bank.tools, lambda _call, _risk: Execute()), messages)

    assert (call.outcome, call.action) == ("held", Execute())
    assert str(call).endswith("→ held: the call waits for an approver or a time")


async def test_a_dry_run_applies_the_with_interrupted_rule_of_the_chat() -> None:
    bank = Bank()
    tool = Tool(FunctionCall("pay", {"to": "bo"}), id="bo")
    tool.start(NOON)
    messages = Messages.from_user("pay")
    messages.append("model", Turn([tool], finish_reason="tool_calls"))
    builder = ChatBuilder().with_model(ScriptedProvider("done")).with_scoped_tools(bank.scope())

    (without,) = await dry_run(bank.scope(), messages)
    (asks,) = await dry_run(builder.with_interrupted(RequireApproval()).build(), messages)
    (tells,) = await dry_run(builder.with_interrupted(Reject("look first")).build(), messages)

    assert (without.outcome, without.reason) == (
        "interrupted",
        "the call was interrupted, and the chat has no with_interrupted() rule",
    )
    assert (asks.outcome, asks.reason) == ("interrupted", "its process ended while it ran; it may have taken effect")
    assert (tells.outcome, tells.reason) == ("fail", "The call was interrupted and may have taken effect: look first")
    assert isinstance(tool.status, Running)


async def test_a_dry_run_reports_the_calls_of_an_inner_chat_by_path() -> None:
    bank = Bank()
    inner = bank.chat([pay("bo"), FunctionCall("balance", id="look")], "paid")
    agent = inner.as_tool(name="bank", description="Ask the bank.")
    ask = FunctionCall("bank", {"request": "pay bo"}, id="ask")
    outer = ChatBuilder().with_model(ScriptedProvider(ask, "done", by_history=True)).with_scoped_tools(agent).build()
    messages = Messages.from_user("pay")
    await outer.complete(messages)
    before = messages.to_json()

    found = await dry_run(outer, messages)
    by_scope = await dry_run(agent, messages)
    unknown = await dry_run(bank.scope(), messages)

    assert outcomes(found) == {"ask": "run", "ask/bo": "approval", "ask/look": "run"}
    assert outcomes(by_scope) == outcomes(found)
    assert outcomes(unknown) == {"ask": "held"}
    assert messages.to_json() == before


async def test_a_dry_run_predicts_the_outcomes_of_the_run() -> None:
    bank = Bank()
    script = [pay("bo"), pay("thief"), pay("bug"), pay("later"), FunctionCall("fly", id="fly"), pay("cy")]
    messages = Messages.from_user("pay")
    messages.append("model", Turn([Tool(call, id=call.id) for call in script], finish_reason="tool_calls"))
    chat = bank.chat("unused", "done")
    found = await dry_run(chat, messages)

    end = await chat.complete(messages)

    assert isinstance(end, Paused)
    assert {wait.tool_id: wait.kind for wait in end.waiting} == {
        call.path[0]: call.outcome for call in found if call.outcome in {"approval", "schedule"}
    }
    told = {call.path[0]: call.reason for call in found if call.outcome in {"reject", "fail"}}
    assert told.keys() == {"thief", "bug", "fly"}
    assert all((why or "?") in messages.tool(id).result_text() for id, why in told.items())


async def test_a_dry_run_passes_the_conversation_id_and_writes_nothing() -> None:
    bank = Bank()
    conversation = MemoryConversation(Messages.from_user("pay"), id="chat-7")
    await bank.chat(pay("bo")).complete(conversation)
    before = list(conversation.calls)

    assert outcomes(await dry_run(bank.scope(), conversation)) == {"bo": "approval"}

    assert conversation.calls == before
    context = bank.shown[-1].context
    assert context is not None
    assert context.run.conversation_id == "chat-7"


async def test_a_dry_run_without_calls_is_empty() -> None:
    assert len(await dry_run([], [])) == 0
    assert str(await dry_run(Bank().scope(), Messages())) == ""


async def test_dry_run_refuses_invalid_scopes_and_invalid_calls() -> None:
    bank = Bank()
    with pytest.raises(UsageError, match="needs a chat, a ScopedCollection, or a list"):
        await dry_run(cast("AnyChat", bank.tools), [])
    with pytest.raises(UsageError, match="needs Messages, a Conversation, or function calls, not 'pay'"):
        await dry_run(bank.scope(), cast("FunctionCall", "pay"))
    with pytest.raises(UsageError, match="add each collection only once"):
        await dry_run([bank.scope(), bank.scope()], [])


class Rude(ToolScope[Paused]):
    """Scope that violates the protocol of scopes."""

    def definitions(self) -> Sequence[ToolDefinition]:
        return Bank().scope().definitions()

    async def decide(
        self, call: FunctionCall, /, *, on_error: Callable[[BaseException], None] | None = None
    ) -> Action[Paused]:
        del on_error
        msg = f"no word about {call.name}"
        raise OSError(msg)


async def test_a_dry_run_raises_the_error_of_a_scope() -> None:
    with pytest.raises(OSError, match="no word about pay"):
        await dry_run(Rude(), pay("bo"))


def test_dry_run_calls_compare_and_hash_by_value() -> None:
    call = DryRunCall(("a",), "pay", {}, "run", Tool(FunctionCall("pay")).status)

    assert call == DryRunCall(("a",), "pay", {}, "run", Tool(FunctionCall("pay")).status)
    assert hash(call) == hash(call)
