"""Policies that raise on calls that wait or were decided: nothing about these calls changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from chat_core import (
    Action,
    ChatBuilder,
    ChatResponse,
    FunctionCall,
    Messages,
    Paused,
    PolicyError,
    Reject,
    RequireApproval,
    Schedule,
    ScopedCollection,
    StreamingChat,
    ToolCollection,
    Usage,
    Withhold,
)
from chat_core.approvals import dry_run
from chat_core.events import ToolResult
from chat_core.messages import Approved, Completed, Pending, Rejected, Suspended
from chat_core.testing import MemoryConversation, ScriptedProvider

pytestmark = pytest.mark.anyio

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


class Bank:
    """Payments under a policy that can break.

    Attributes:
        paid: finished payments.
        broken: ids of the calls on which the policy raises.
    """

    def __init__(self, *payments: str, fallback: Withhold[Paused] | None = None) -> None:
        self.paid: list[tuple[str, int]] = []
        self.broken: set[str] = set()
        self.fallback = fallback
        self.action: Action[Paused] = RequireApproval(expires_in=timedelta(hours=1))
        self.payments = payments

    def policy(self, call: FunctionCall, _meta: None) -> Action[Paused]:
        if call.id in self.broken:
            msg = "the list of limits"
            raise LookupError(msg)
        return self.action

    def chat(self, *, sequential: bool = False) -> StreamingChat[ChatResponse, Paused]:
        tools = ToolCollection()

        @tools.tool(sequential=sequential)
        async def pay(to: str, cents: int = 100) -> str:
            self.paid.append((to, cents))
            return f"paid {cents} to {to}"

        model = ScriptedProvider(
            [FunctionCall("pay", {"to": to}, id=to) for to in self.payments], "It is done.", by_history=True
        )
        scope = ScopedCollection(tools, self.policy, fallback=self.fallback)
        return ChatBuilder().with_model(model).with_scoped_tools(scope).with_clock(lambda: NOON).build()


async def paused(bank: Bank) -> Messages:
    messages = Messages.from_user("Pay.")
    assert isinstance(await bank.chat().complete(messages), Paused)
    return messages


@pytest.mark.parametrize("fallback", [None, Reject("not now")])
async def test_a_waiting_call_is_unchanged_if_the_policy_raises(fallback: Reject | None) -> None:
    bank = Bank("bo", fallback=fallback)
    messages = await paused(bank)
    before = messages.to_json()

    bank.broken = {"bo"}
    with pytest.raises(PolicyError, match=r"LookupError on 1 call.*\(bo\)") as caught:
        await bank.chat().complete(messages)

    assert caught.value.tool_ids == ("bo",)
    assert isinstance(caught.value.__cause__, LookupError)
    assert messages.to_json() == before
    bank.broken = set()
    assert isinstance(await bank.chat().complete(messages), Paused)
    messages.tool("bo").approve()
    assert isinstance(await bank.chat().complete(messages), ChatResponse)
    assert bank.paid == [("bo", 100)]


async def test_an_edited_approval_is_kept_if_the_policy_raises_and_runs_later() -> None:
    bank = Bank("bo")
    messages = await paused(bank)
    messages.tool("bo").approve(arguments={"to": "bo", "cents": 3}, by="ana")

    bank.broken = {"bo"}
    with pytest.raises(PolicyError):
        await bank.chat().complete(messages)
    tool = messages.tool("bo")
    assert (type(tool.status), tool.edited) == (Approved, {"to": "bo", "cents": 3})
    assert [decision.by for decision in tool.decisions] == ["ana"]
    assert bank.paid == []

    bank.broken = set()
    assert isinstance(await bank.chat().complete(messages), ChatResponse)
    assert bank.paid == [("bo", 3)]


async def test_an_approval_with_an_invalid_edit_is_kept_if_the_policy_raises() -> None:
    bank = Bank("bo")
    messages = await paused(bank)
    messages.tool("bo").approve(arguments={"to": 7})
    bank.broken = {"bo"}
    with pytest.raises(PolicyError):
        await bank.chat().complete(messages)
    assert isinstance(messages.tool("bo").status, Approved)


@pytest.mark.parametrize("fallback", [RequireApproval(), Schedule(NOON + timedelta(days=1))])
async def test_a_pausing_fallback_keeps_the_wait_and_its_deadline(fallback: Withhold[Paused]) -> None:
    bank = Bank("bo", fallback=fallback)
    messages = await paused(bank)
    bank.broken = {"bo"}
    end = await bank.chat().complete(messages)
    assert isinstance(end, Paused)
    assert messages.tool("bo").status == Pending("approval", NOON + timedelta(hours=1))
    assert end.waiting[0].expires_at == NOON + timedelta(hours=1)


async def test_a_pausing_fallback_does_not_run_an_edit_that_the_policy_has_not_seen() -> None:
    bank = Bank("bo", fallback=RequireApproval())
    messages = await paused(bank)
    messages.tool("bo").approve(arguments={"to": "bo", "cents": 3})
    bank.broken = {"bo"}
    with pytest.raises(PolicyError):
        await bank.chat().complete(messages)
    assert isinstance(messages.tool("bo").status, Approved)
    assert bank.paid == []


async def test_other_decided_calls_run_and_are_stored_before_policy_error_is_raised() -> None:
    bank = Bank("ana", "bo", "cleo", "dora")
    messages = await paused(bank)
    messages.tool("ana").approve()
    messages.tool("cleo").approve(arguments={"to": "cleo", "cents": 3})
    messages.tool("dora").reject("no")
    bank.broken = {"bo"}

    conversation = MemoryConversation(messages)
    events: list[object] = []
    with pytest.raises(PolicyError) as caught:
        async with bank.chat().stream(conversation) as stream:
            async for event in stream:
                events.append(event)

    assert caught.value.tool_ids == ("bo",)
    assert caught.value.usage == Usage()
    assert bank.paid == [("ana", 100), ("cleo", 3)]
    stored = conversation.resting()
    assert [type(stored.tool(name).status) for name in ("ana", "bo", "cleo", "dora")] == [
        Completed,
        Pending,
        Completed,
        Rejected,
    ]
    assert {event.tool.id for event in events if isinstance(event, ToolResult)} >= {"ana", "cleo"}
    assert conversation.looked_at == NOON


async def test_if_the_policy_raises_a_new_call_is_rejected_and_a_waiting_call_is_kept() -> None:
    bank = Bank("ana", "bo")
    bank.broken = {"ana"}
    messages = Messages.from_user("Pay.")
    assert isinstance(await bank.chat().complete(messages), Paused)
    assert isinstance(messages.tool("ana").status, Rejected)
    bank.broken = {"bo"}
    with pytest.raises(PolicyError):
        await bank.chat().complete(messages)
    assert isinstance(messages.tool("bo").status, Pending)


async def test_a_sequential_call_does_not_start_after_a_call_whose_policy_raised() -> None:
    bank = Bank("ana", "bo")
    messages = Messages.from_user("Pay.")
    await bank.chat(sequential=True).complete(messages)
    messages.tool("bo").approve()
    bank.broken = {"ana"}
    with pytest.raises(PolicyError):
        await bank.chat(sequential=True).complete(messages)
    assert bank.paid == []


async def test_an_inner_chat_is_suspended_if_its_policy_raises_and_resumed_later() -> None:
    bank = Bank("bo")
    siblings = ToolCollection()
    looked: list[int] = []

    @siblings.tool(sequential=True)
    async def look() -> int:
        looked.append(1)
        return 7

    def chat() -> StreamingChat[ChatResponse, Paused]:
        asks = [FunctionCall("ask", {"request": "pay"}, id="a"), FunctionCall("look", {}, id="b")]
        model = ScriptedProvider(asks, "All done.", by_history=True)
        inner = bank.chat().as_tool(name="ask", description="Asks.")
        return ChatBuilder().with_model(model).with_scoped_tools(inner).with_tools(siblings).build()

    messages = Messages.from_user("Pay.")
    assert isinstance(await chat().complete(messages), Paused)
    messages.tool("a", "bo").approve(arguments={"to": "bo", "cents": 3})
    bank.broken = {"bo"}
    with pytest.raises(PolicyError) as caught:
        await chat().complete(messages)
    assert caught.value.tool_ids == ("a/bo",)
    assert isinstance(caught.value.__cause__, LookupError)
    assert isinstance(messages.tool("a").status, Suspended)
    assert isinstance(messages.tool("a", "bo").status, Approved)

    bank.broken = set()
    assert isinstance(await chat().complete(messages), ChatResponse)
    assert (bank.paid, looked) == ([("bo", 3)], [1])


async def test_a_dry_run_reports_a_waiting_call_as_held_if_the_policy_raises() -> None:
    bank = Bank("bo")
    messages = await paused(bank)
    bank.broken = {"bo"}
    (call,) = await dry_run(bank.chat(), messages)
    assert (call.outcome, call.reason) == ("held", "the policy raised, so the call stays as it is")
    assert call.raised == "LookupError: the list of limits"
