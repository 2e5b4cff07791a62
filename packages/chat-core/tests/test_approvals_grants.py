"""Grants: the calls that they approve, the calls that they never approve, and their expiry and revocation."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from chat_core import (
    ChatBuilder,
    ChatResponse,
    FunctionCall,
    Messages,
    Paused,
    Reject,
    RequireApproval,
    Schedule,
    ScopedCollection,
    StreamingChat,
    ToolCollection,
    Wait,
)
from chat_core.approvals import approve_with_grant, dry_run
from chat_core.errors import IllegalTransitionError, PolicyError, UsageError
from chat_core.messages import Approved, Grant, Pending, Rejected, Tool, Turn
from chat_core.testing import MemoryConversation, ScriptedProvider
from chat_core.testing.memory_conversation import Call
from chat_core.testing.scripted import Scripted
from chat_core.tools import GrantRule

pytestmark = pytest.mark.anyio

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
Action = RequireApproval | Reject | Schedule


def pay(id: str, cents: int = 5, name: str = "pay") -> FunctionCall:
    return FunctionCall(name, {"cents": cents}, id=id)


class Office:
    """Two tools that need approval, a clock, and the payments made."""

    def __init__(self, policy: Callable[[FunctionCall], Action] = lambda _call: RequireApproval()) -> None:
        self.now = NOON
        self.paid: list[int] = []
        self.on_payment: Callable[[], object] = lambda: None
        tools = ToolCollection()

        @tools.tool(sequential=True)
        def pay(cents: int) -> str:
            self.paid.append(cents)
            self.on_payment()
            return "paid"

        @tools.tool
        def refund(cents: int) -> str:
            self.paid.append(-cents)
            return "refunded"

        self.scope = ScopedCollection(tools, lambda call, _meta: policy(call))

    def chat(self, *script: Scripted, rule: GrantRule | None = None) -> StreamingChat[ChatResponse, Paused]:
        model = ScriptedProvider(*script, by_history=True)
        builder = ChatBuilder().with_model(model).with_scoped_tools(self.scope).with_clock(lambda: self.now)
        return (builder if rule is None else builder.with_grant_rule(rule)).build()

    def grant(self, messages: Messages, *path: str, hours: float = 1) -> Grant:
        return approve_with_grant(messages, path, until=self.now + hours * HOUR, by="ana", at=self.now)


async def test_a_grant_approves_later_calls_until_it_expires() -> None:
    office = Office()
    chat = office.chat(pay("a"), pay("b"), pay("c"), "Done.")
    messages = Messages.from_user("pay")
    assert isinstance(await chat.complete(messages), Paused)
    grant = office.grant(messages, "a")

    office.on_payment = lambda: setattr(office, "now", office.now + HOUR / 2)
    paused = await chat.complete(messages)

    assert office.paid == [5, 5]
    assert isinstance(paused, Paused)
    assert [wait.tool_id for wait in paused.waiting] == ["c"]
    (given,), (covered,) = messages.tool("a").decisions, messages.tool("b").decisions
    assert (given.action, given.by, given.grant) == ("approve", "ana", None)
    assert (covered.action, covered.by, covered.grant, covered.at) == ("approve", "ana", grant.id, NOON + HOUR / 2)


async def test_a_grant_covers_calls_of_its_tool_that_wait_already() -> None:
    office = Office()
    chat = office.chat([pay("a"), pay("b"), pay("r", name="refund")], "Done.")
    messages = Messages.from_user("pay")
    await chat.complete(messages)
    office.grant(messages, "b")
    paused = await chat.complete(messages)
    assert isinstance(paused, Paused)
    assert [wait.tool_id for wait in paused.waiting] == ["r"]
    assert office.paid == [5, 5]


@pytest.mark.parametrize(("action", "status"), [(Reject("no"), Rejected), (Schedule(NOON + 9 * HOUR), Pending)])
async def test_a_grant_runs_no_call_that_the_policy_rejects_or_schedules(action: Action, status: type) -> None:
    office = Office(lambda call: RequireApproval() if call.id == "a" else action)
    chat = office.chat(pay("a"), pay("b", 900), "Done.")
    messages = Messages.from_user("pay")
    await chat.complete(messages)
    office.grant(messages, "a", hours=99)
    await chat.complete(messages)
    assert office.paid == [5]
    assert isinstance(messages.tool("b").status, status)
    assert messages.tool("b").decisions == ()


def small_ones(grant: Grant, wait: Wait) -> bool:
    return grant.by == "ana" and wait.arguments["cents"] in {5, 6}


async def test_a_grant_rule_is_checked_for_each_call_that_a_grant_covers() -> None:
    office = Office()
    asked: list[tuple[str, Wait]] = []

    def rule(grant: Grant, wait: Wait) -> bool:
        asked.append((grant.id, wait))
        return small_ones(grant, wait)

    chat = office.chat([pay("a"), pay("b", 6), pay("c", 900)], "Done.", rule=rule)
    messages = Messages.from_user("pay")
    await chat.complete(messages, owner="zoe")
    grant = office.grant(messages, "a")

    assert [call.outcome for call in (await dry_run(chat, messages, owner="zoe")).calls] == ["run", "run", "approval"]
    asked.clear()
    paused = await chat.complete(messages, owner="zoe")

    assert isinstance(paused, Paused)
    assert [wait.tool_id for wait in paused.waiting] == ["c"]
    assert sorted(office.paid) == [5, 6]
    assert {given for given, _ in asked} == {grant.id}
    assert [(wait.kind, wait.path, wait.arguments["cents"], wait.owner) for _, wait in asked][:2] == [
        ("approval", ("b",), 6, "zoe"),
        ("approval", ("c",), 900, "zoe"),
    ]


async def test_a_grant_rule_selects_one_of_several_grants() -> None:
    office = Office()
    chat = office.chat([pay("a"), pay("b"), pay("c")], "Done.", rule=lambda grant, _wait: grant.by == "ben")
    messages = Messages.from_user("pay")
    await chat.complete(messages)
    office.grant(messages, "a")
    later = approve_with_grant(messages, ("b",), until=NOON + HOUR, by="ben", at=NOON)
    assert isinstance(await chat.complete(messages), ChatResponse)
    assert [decision.grant for decision in messages.tool("c").decisions] == [later.id]


async def test_grant_rules_of_the_inner_and_the_outer_chat_are_checked() -> None:
    for inner_rule, outer_rule in ((small_ones, None), (None, small_ones)):
        office = Office()
        inner = office.chat([pay("a"), pay("b", 900)], "Paid.", rule=inner_rule)
        model = ScriptedProvider(FunctionCall("ask", {"request": "pay"}, id="o"), "Done.", by_history=True)
        builder = ChatBuilder().with_model(model).with_scoped_tools(inner.as_tool(name="ask", description="Ask."))
        builder = builder.with_clock(lambda: NOON)
        chat = (builder if outer_rule is None else builder.with_grant_rule(outer_rule)).build()
        messages = Messages.from_user("pay")
        await chat.complete(messages)
        office.grant(messages, "o", "a")
        outcomes = {call.path: call.outcome for call in (await dry_run(chat, messages)).calls}
        paused = await chat.complete(messages)
        assert isinstance(paused, Paused)
        assert [wait.path for wait in paused.waiting] == [("o", "b")]
        assert outcomes["o", "b"] == "approval"
        assert office.paid == [5]


async def test_a_grant_rule_that_raises_or_returns_no_bool_approves_nothing() -> None:
    office = Office()

    def broken(_grant: Grant, _wait: Wait) -> bool:
        raise LookupError

    def unclear(_grant: Grant, _wait: Wait) -> Any:
        return "yes"

    for rule, cause in ((broken, LookupError), (unclear, UsageError)):
        chat = office.chat([pay("a"), pay("b")], "Done.", rule=rule)
        messages = Messages.from_user("pay")
        await chat.complete(messages)
        office.grant(messages, "a")
        with pytest.raises(PolicyError) as caught:
            await chat.complete(messages)
        assert isinstance(caught.value.__cause__, cause)
        assert isinstance(messages.tool("b").status, Pending)
    assert office.paid == [5, 5]


async def test_a_call_waits_for_approval_after_its_grant_is_revoked() -> None:
    office = Office()
    chat = office.chat(pay("a"), pay("b"), "Done.")
    messages = Messages.from_user("pay")
    await chat.complete(messages)
    grant = office.grant(messages, "a")
    revoked = messages.grants.revoke(grant.id, by="ben", at=NOON)
    assert (revoked.revoked_by, revoked.revoked_at) == ("ben", NOON)
    assert messages.grants.revoke(grant.id, by="cleo") == revoked == messages.grants[grant.id]
    assert isinstance(await chat.complete(messages), Paused)
    assert office.paid == [5]
    assert messages.tool("b").decisions == ()


async def test_revoking_a_grant_during_a_run_stops_calls_that_have_not_started() -> None:
    office = Office()
    chat = office.chat([pay("a"), pay("b"), pay("c")], "Done.")
    messages = Messages.from_user("pay")
    await chat.complete(messages)
    grant = office.grant(messages, "a")
    office.on_payment = lambda: len(office.paid) == 2 and messages.grants.revoke(grant.id)
    paused = await chat.complete(messages)
    assert isinstance(paused, Paused)
    assert office.paid == [5, 5]
    assert [wait.tool_id for wait in paused.waiting] == ["c"]
    messages.tool("c").approve(by="ben", at=NOON)
    assert isinstance(await chat.complete(messages), ChatResponse)
    assert [decision.grant for decision in messages.tool("c").decisions] == [grant.id, None]


@pytest.mark.parametrize("ends", ["revoked", "expired"])
async def test_after_a_crash_an_approved_call_waits_again_if_its_grant_has_ended(ends: str) -> None:
    office = Office()
    chat = office.chat(pay("a"), pay("b"), "Done.")
    conversation = MemoryConversation(Messages.from_user("pay"))
    await chat.complete(conversation)
    grant = office.grant(conversation.messages, "a")
    stored: list[Messages] = []

    def see(call: Call) -> None:
        if str(call) == "write_tool b Running":
            stored.append(conversation.resting())

    conversation.on_call = see
    await chat.complete(conversation)
    office.paid.clear()
    (messages,) = stored
    assert isinstance(messages.tool("b").status, Approved)
    if ends == "revoked":
        messages.grants.revoke(grant.id)
    else:
        office.now += HOUR
    assert isinstance(await chat.complete(messages), Paused)
    assert office.paid == []


@pytest.mark.parametrize(("given", "needed", "covered"), [
    (None, None, True), ("cfo", "cfo", True), ("cfo", None, True), (None, "cfo", False), ("cfo", "ceo", False),
])  # fmt: skip
async def test_a_grant_does_not_cover_a_call_reserved_for_another_approver(
    given: str | None, needed: str | None, *, covered: bool
) -> None:
    office = Office(lambda call: RequireApproval(of=given if call.id == "a" else needed))
    chat = office.chat(pay("a"), pay("b"), "Done.")
    messages = Messages.from_user("pay")
    await chat.complete(messages)
    office.grant(messages, "a")
    await chat.complete(messages)
    assert office.paid == [5, 5][: 1 + covered]


async def test_a_waiting_call_remains_reserved_when_the_policy_changes() -> None:
    strict = Office(lambda call: RequireApproval(of="cfo" if call.id == "b" else None))
    calls = [pay("a"), pay("b")]
    messages = Messages.from_user("pay")
    await strict.chat(calls).complete(messages)
    lax = Office()
    lax.grant(messages, "a")
    assert isinstance(await lax.chat(calls, "Done.").complete(messages), Paused)
    assert lax.paid == [5]


async def test_a_grant_for_a_tool_of_an_inner_chat_covers_that_tool_only() -> None:
    office = Office()
    clerk = office.chat(pay("x"), "Paid.", pay("y"), "Paid again.")
    asks = clerk.as_tool(name="clerk", description="Pays.")
    ask = [FunctionCall("clerk", {"request": "Pay."}, id=name) for name in ("c1", "c2")]
    model = ScriptedProvider(ask[0], pay("outer"), ask[1], "Done.", by_history=True)
    builder = ChatBuilder().with_model(model).with_scoped_tools(asks).with_scoped_tools(office.scope)
    chat = builder.with_clock(lambda: office.now).build()
    messages = Messages.from_user("pay")
    await chat.complete(messages)
    grant = office.grant(messages, "c1", "x")
    assert grant.tools == ("clerk", "pay")
    paused = await chat.complete(messages)
    assert isinstance(paused, Paused)
    assert [wait.path for wait in paused.waiting] == [("outer",)], "the outer tool has the same name"
    messages.tool("outer").reject(at=NOON)
    assert isinstance(await chat.complete(messages), ChatResponse)
    assert office.paid == [5, 5]


async def test_a_document_keeps_grants_and_the_calls_they_approved() -> None:
    office = Office()
    chat = office.chat(pay("a"), pay("b"), "Done.")
    messages = Messages.from_user("pay")
    await chat.complete(messages)
    grant = office.grant(messages, "a")
    await chat.complete(messages)
    messages.grants.revoke(grant.id, by="ben", at=NOON)
    again = Messages.from_json(messages.to_json())
    assert again == messages
    assert [*again.grants] == [*messages.grants]
    assert again.tool("b").decisions[0].grant == grant.id
    assert again.to_json() == messages.to_json()


async def test_a_fork_does_not_inherit_grants() -> None:
    office = Office()
    chat = office.chat(pay("a"), "Done.", pay("b"))
    messages = Messages.from_user("pay")
    await chat.complete(messages)
    office.grant(messages, "a")
    await chat.complete(messages)
    fork = messages.fork().user("again")
    assert len(fork.grants) == 0
    assert isinstance(await chat.complete(fork), Paused)


async def test_a_dry_run_predicts_what_a_grant_covers() -> None:
    office = Office()
    chat = office.chat([pay("a"), pay("b")], "Done.")
    messages = Messages.from_user("pay")
    await chat.complete(messages)
    office.grant(messages, "a")
    assert [call.outcome for call in await dry_run(chat, messages)] == ["run", "run"]
    await chat.complete(messages)
    assert [call.outcome for call in await dry_run(chat, messages)] == ["approval", "approval"]


def waiting(kind: str = "approval") -> Messages:
    tool = Tool(pay("a"), id="a")
    if kind == "approval":
        tool.await_approval(NOON + HOUR)
    else:
        tool.schedule(NOON + HOUR)
    messages = Messages.from_user("pay")
    messages.append("model", Turn([tool], finish_reason="tool_calls"))
    return messages


def test_a_grant_requires_a_call_that_waits_for_an_approval() -> None:
    messages = waiting("schedule")
    with pytest.raises(IllegalTransitionError, match="waits for an approval"):
        approve_with_grant(messages, ("a",), until=NOON + HOUR, by="ana", at=NOON)
    messages = waiting()
    with pytest.raises(IllegalTransitionError, match="expired"):
        approve_with_grant(messages, ("a",), until=NOON + 3 * HOUR, by="ana", at=NOON + HOUR)
    approve_with_grant(messages, ("a",), until=NOON + HOUR, by="ana", at=NOON)
    with pytest.raises(IllegalTransitionError, match="is Approved"):
        approve_with_grant(messages, ("a",), until=NOON + HOUR, by="ben", at=NOON)
    assert len(messages.grants) == 1


@pytest.mark.parametrize(("until", "by"), [(NOON, "ana"), (NOON + HOUR, ""), (NOON.replace(tzinfo=None), "ana")])
def test_a_grant_requires_an_approver_and_an_end_in_the_future(until: datetime, by: str) -> None:
    messages = waiting()
    with pytest.raises(UsageError):
        approve_with_grant(messages, ("a",), until=until, by=by, at=NOON)
    assert isinstance(messages.tool("a").status, Pending)
    assert len(messages.grants) == 0


async def test_a_call_waits_and_decided_calls_run_if_a_grant_rule_raises() -> None:
    def broken(_grant: Grant, _wait: Wait) -> bool:
        raise LookupError

    office = Office()
    chat = office.chat(pay("a"), [pay("b"), pay("r", 7, name="refund")], "Done.", rule=broken)
    messages = Messages.from_user("pay")
    await chat.complete(messages)
    office.grant(messages, "a")
    with pytest.raises(PolicyError, match=r"grant rule raised LookupError on 1 call\(s\)") as caught:
        await chat.complete(messages)

    assert caught.value.tool_ids == ("b",)
    statuses = [messages.tool(name).status for name in ("b", "r")]
    assert [status.kind for status in statuses if isinstance(status, Pending)] == ["approval", "approval"]
    (call,) = [item for item in (await dry_run(chat, messages)).calls if item.path == ("b",)]
    assert (call.outcome, call.reason) == ("held", "a grant rule raised, so the call waits for an approver")
    messages.tool("r").approve(by="ben", at=NOON)
    with pytest.raises(PolicyError):
        await chat.complete(messages)
    assert office.paid == [5, -7]
    messages.tool("b").approve(by="ben", at=NOON)
    assert isinstance(await chat.complete(messages), ChatResponse)


def test_a_coroutine_function_is_refused_as_a_grant_rule() -> None:
    async def rule(_grant: Grant, _wait: Wait) -> bool:
        return True

    wrong: Any = rule
    with pytest.raises(UsageError, match=r"with_grant_rule\(\) needs a function without async"):
        Office().chat("Done.", rule=wrong)
