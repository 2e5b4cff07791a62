"""Rules for who may decide a call, including `RequireApproval(of=...)`."""

from __future__ import annotations

from datetime import timedelta
from typing import cast

import pytest
from chat_core import (
    ChatBuilder,
    FunctionCall,
    Messages,
    Paused,
    RequireApproval,
    ScopedCollection,
    ToolCollection,
    Wait,
)
from chat_core.approvals import MayDecide, Principal, is_allowed, only_role, owner_may_decide
from chat_core.errors import UsageError
from chat_core.messages import Approved, Pending
from chat_core.testing import ScriptedProvider

pytestmark = pytest.mark.anyio
ANA, BEN = Principal("ana"), Principal("ben", frozenset({"approver"}))


def wait(*, of: str | None = None, owner: str | None = None) -> Wait:
    return Wait("approval", "a", ("a",), "pay", {}, of=of, owner=owner)


def anyone(_principal: Principal, _wait: Wait, /) -> bool:
    return True


def nobody(_principal: Principal, _wait: Wait, /) -> bool:
    return False


def test_owner_may_decide_allows_only_the_owner_of_the_call() -> None:
    assert owner_may_decide(ANA, wait(owner="ana"))
    assert not owner_may_decide(BEN, wait(owner="ana"))
    assert not owner_may_decide(ANA, wait())


def test_only_role_allows_only_principals_with_the_role() -> None:
    assert only_role("approver")(BEN, wait())
    assert not only_role("approver")(ANA, wait(owner="ana"))


def test_is_allowed_requires_the_rule_and_the_role_or_name_of_a_reserved_call() -> None:
    assert is_allowed(anyone, BEN, wait(of="approver"))
    assert is_allowed(anyone, ANA, wait(of="ana"))
    assert not is_allowed(anyone, ANA, wait(of="approver"))
    assert not is_allowed(nobody, ANA, wait(of="ana"))


@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")
def test_a_permission_rule_that_returns_no_bool_raises_usage_error() -> None:
    async def never(_principal: Principal, _wait: Wait) -> bool:
        return False

    def answer(_principal: Principal, _wait: Wait) -> str:
        return "no"

    for rule in (never, answer):
        with pytest.raises(UsageError, match=r"must return True or False without await, not a (coroutine|str)"):
            is_allowed(cast("MayDecide", rule), ANA, wait())


def test_a_principal_requires_a_name() -> None:
    assert str(ANA) == "ana"
    with pytest.raises(UsageError, match="name of a principal"):
        Principal("")


async def test_the_approver_required_by_a_policy_is_stored_with_the_call() -> None:
    tools = ToolCollection()

    @tools.tool
    def pay(cents: int) -> str:
        """Pay an amount."""
        return f"paid {cents}"

    policy = RequireApproval(timedelta(days=1), of="treasurer")
    model = ScriptedProvider(FunctionCall("pay", {"cents": 5}, id="a"))
    scope: ScopedCollection[None, Paused] = ScopedCollection(tools, lambda _call, _meta: policy)
    chat = ChatBuilder().with_model(model).with_scoped_tools(scope).build()
    messages = Messages.from_user("pay")
    outcome = await chat.complete(messages)
    assert isinstance(outcome, Paused)
    assert outcome.waiting[0].of == "treasurer"
    again = Messages.from_json(messages.to_json())
    status = again.tool("a").status
    assert isinstance(status, Pending)
    assert status.of == "treasurer"
    again.tool("a").approve(arguments={"wrong": 1})
    approved = again.tool("a").status
    assert isinstance(approved, Approved)
    assert approved.of == "treasurer"
    # The edit is invalid, so the call waits again, for the same approver.
    revoked = await chat.complete(Messages.from_json(again.to_json()))
    assert isinstance(revoked, Paused)
    assert revoked.waiting[0].of == "treasurer"
