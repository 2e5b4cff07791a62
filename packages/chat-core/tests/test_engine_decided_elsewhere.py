"""Decisions that other processes store while a run examines or starts the calls."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from chat_core import (
    Action,
    ChatBuilder,
    Execute,
    FunctionCall,
    Messages,
    Paused,
    Reject,
    RequireApproval,
    ScopedCollection,
    StreamingChat,
    ToolCollection,
    Withhold,
)
from chat_core.errors import ConflictError
from chat_core.events import ToolResult
from chat_core.messages import Completed, Failed, Interrupted, Tool
from chat_core.response import ChatResponse
from chat_core.testing import MemoryConversation, ScriptedProvider
from chat_core.testing.memory_conversation import Call

pytestmark = pytest.mark.anyio

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


class Bank:
    """Two payments that `action` decides."""

    def __init__(self, action: Action[Paused] | None = None) -> None:
        self.paid: list[str] = []
        self.tools = ToolCollection()
        self.action: Action[Paused] = action or Execute()

        @self.tools.tool
        async def pay(to: str) -> str:
            self.paid.append(to)
            return f"paid {to}"

    def chat(self, interrupted: Withhold[Paused] | None = None) -> StreamingChat[ChatResponse, Paused]:
        calls = [FunctionCall("pay", {"to": name}, id=name) for name in ("ana", "bo")]
        model = ScriptedProvider(calls, "Done.", by_history=True)
        scope = ScopedCollection(self.tools, lambda _call, _meta: self.action)
        builder = ChatBuilder().with_model(model).with_scoped_tools(scope).with_clock(lambda: NOON)
        return (builder if interrupted is None else builder.with_interrupted(interrupted)).build()


async def interrupted(bank: Bank, *names: str) -> Messages:
    """Return a conversation in which the payments to `names` are interrupted, and the others wait."""
    bank.action = RequireApproval()
    messages = Messages.from_user("Pay.")
    assert isinstance(await bank.chat().complete(messages), Paused)
    for name in names:
        messages.tool(name).approve()
        messages.tool(name).start()
        messages.tool(name).lost("its process ended")
    return messages


def record(tool: Tool, outcome: str) -> None:
    """Let an approver record an outcome, or another run execute the call."""
    if outcome == "complete":
        tool.complete("looked up", by="ana")
    elif outcome == "fail":
        tool.fail("it was never sent", by="ana")
    else:
        tool.retry()
        tool.start()
        tool.complete("paid by another run")


def decided_at(messages: Messages, write: str, tool_id: str, outcome: str) -> MemoryConversation:
    """Return a conversation in which the outcome of a call is stored elsewhere just before a write of the run."""
    pending = True

    def store(call: Call) -> None:
        nonlocal pending
        if pending and str(call).startswith(write):
            pending = False
            stored = conversation.resting().tool(tool_id)
            record(stored, outcome)
            messages.adopt((tool_id,), stored)
            if tool_id in write:
                raise ConflictError("decided elsewhere")

    conversation = MemoryConversation(messages, on_call=store)
    return conversation


RULES = [Reject("look it up"), RequireApproval(expires_in=timedelta(hours=1))]


@pytest.mark.parametrize("rule", RULES, ids=["reject", "wait"])
@pytest.mark.parametrize("outcome", ["complete", "fail"])
async def test_an_outcome_recorded_elsewhere_during_the_triage_is_used(rule: Withhold[Paused], outcome: str) -> None:
    bank = Bank()
    messages = await interrupted(bank, "ana", "bo")
    messages.tool("bo").complete("looked up")
    conversation = decided_at(messages, "write_tool ana", "ana", outcome)
    async with bank.chat(rule).stream(conversation) as stream:
        events = [event async for event in stream]
    assert isinstance(stream.response, ChatResponse)
    expected = Completed("looked up") if outcome == "complete" else Failed("it was never sent")
    assert messages.tool("ana").status == expected
    assert [event.tool.id for event in events if isinstance(event, ToolResult)].count("ana") == 1
    assert bank.paid == []


async def test_a_call_executed_by_another_run_during_triage_raises_conflict_error() -> None:
    bank = Bank()
    messages = await interrupted(bank, "ana")
    conversation = decided_at(messages, "write_tool ana", "ana", "run")
    with pytest.raises(ConflictError):
        await bank.chat(Reject("look it up")).complete(conversation)


async def test_a_run_continues_if_an_interrupted_call_is_resolved_elsewhere() -> None:
    bank = Bank()
    messages = await interrupted(bank, "ana")
    bank.action = Reject("no more payments")
    conversation = decided_at(messages, "write_tool bo", "ana", "complete")
    assert isinstance(await bank.chat().complete(conversation), ChatResponse)
    assert messages.tool("ana").status == Completed("looked up")
    assert isinstance(messages.tool("bo").result_text(), str)


async def test_a_call_rejected_elsewhere_before_it_starts_is_reported_once() -> None:
    bank = Bank()
    messages = await interrupted(bank)
    for name in ("ana", "bo"):
        messages.tool(name).approve()

    def reject(call: Call) -> None:
        if str(call) == "write_tool bo Running":
            stored = conversation.resting().tool("bo")
            stored.reject("too late", by="ana")
            messages.adopt(("bo",), stored)
            raise ConflictError("decided elsewhere")

    conversation = MemoryConversation(messages, on_call=reject)
    async with bank.chat().stream(conversation) as stream:
        events = [event async for event in stream]
    assert [event.tool.id for event in events if isinstance(event, ToolResult)].count("bo") == 1
    assert bank.paid == ["ana"]
    assert not isinstance(messages.tool("ana").status, Interrupted)
