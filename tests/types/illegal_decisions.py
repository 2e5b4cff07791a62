"""Illegal: rules about who may decide, tokens without a rule, and grants without an end."""

from __future__ import annotations

from chat_core import ChatBuilder, Wait
from chat_core.approvals import ApprovalKeys, Principal, approve_with_grant, is_allowed, owner_may_decide
from legal_decisions import NOON, waiting

SECRETS = {"k": b"k" * 32}


def vague(principal: Principal, wait: Wait) -> str | None:
    return wait.owner if wait.owner == principal.name else None


def x310_keys_without_a_rule() -> None:  # R: TypeError: .*may_decide
    ApprovalKeys("k", SECRETS)  # E: may_decide


def x311_a_rule_that_returns_no_bool() -> None:  # R: UsageError: may_decide must return
    wait = Wait.from_tool(waiting().tool("a"), ("a",), conversation="c", owner="ana")
    is_allowed(vague, Principal("ana"), wait)  # E: vague|bool|MayDecide


def x312_a_grant_without_an_end() -> None:  # R: TypeError: .*until
    approve_with_grant(waiting(), ("a",), by="ana")  # E: until


def x313_a_grant_by_nobody() -> None:  # R: TypeError: .*by
    approve_with_grant(waiting(), ("a",), until=NOON)  # E: by


def x314_a_wait_without_its_conversation() -> None:  # R: TypeError: .*conversation
    Wait.from_tool(waiting().tool("a"), ("a",), owner="ana")  # E: conversation


def x315_a_rule_about_decisions_for_a_rule_about_grants() -> None:
    ChatBuilder().with_grant_rule(owner_may_decide)  # E: Principal|owner_may_decide
