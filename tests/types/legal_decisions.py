"""Legal: rules about who may decide, tokens that ask them, and grants."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Never, assert_type

from chat_core import ChatBuilder, ChatResponse, FunctionCall, Messages, Tool, Turn, Wait
from chat_core.approvals import (
    ApprovalKeys,
    MayDecide,
    Principal,
    approve_with_grant,
    is_allowed,
    only_role,
    owner_may_decide,
)
from chat_core.messages import Grant

from world import true

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def waiting() -> Messages:
    tool = Tool(FunctionCall("pay", {}), id="a")
    tool.await_approval()
    messages = Messages.from_user("Pay.")
    messages.append("model", Turn([tool], finish_reason="tool_calls"))
    return messages


def own_rule(principal: Principal, wait: Wait) -> bool:
    return wait.name == "pay" and principal.name == "ana"


def l310_rules_of_the_library_and_of_the_application() -> None:
    rules: list[MayDecide] = [owner_may_decide, only_role("approver"), own_rule]
    wait = Wait.from_tool(waiting().tool("a"), ("a",), conversation="c", owner="ana")
    assert_type(wait, Wait)
    true([is_allowed(rule, Principal("ana"), wait) for rule in rules] == [True, False, True])


def l311_tokens_with_a_rule_or_for_whoever_has_them() -> None:
    for rule in (own_rule, None):
        keys = ApprovalKeys("k", {"k": b"k" * 32}, may_decide=rule, now=lambda: NOON)
        messages = waiting()
        token = keys.bind("c", messages, ("a",))
        assert_type(keys.approve(token, "c", messages, by=Principal("ana"), owner="ana"), Tool)


def l312_grants_are_given_listed_and_revoked() -> None:
    messages = waiting()
    grant = approve_with_grant(messages, ("a",), until=NOON + timedelta(days=1), by="ana", at=NOON)
    assert_type(grant, Grant)
    assert_type(next(iter(messages.grants)), Grant)
    assert_type(messages.grants.revoke(grant.id, by="ben"), Grant)
    assert_type(messages.tool("a").decisions[0].grant, str | None)


def l313_a_rule_is_asked_about_each_call_of_a_grant() -> None:
    def rule(grant: Grant, wait: Wait) -> bool:
        return own_rule(Principal(grant.by), wait)

    assert_type(ChatBuilder().with_grant_rule(rule), ChatBuilder[ChatResponse, Never])
