"""Rejection of calls that were not approved in time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
from chat_core.approvals import expire
from chat_core.errors import UsageError
from chat_core.messages import Completed, FunctionCall, Messages, Rejected, Suspended, Tool, Turn

NOON: Final = datetime(2030, 1, 1, 12, tzinfo=UTC)
ARGUMENTS: Final[Mapping[str, object]] = {"to": "Maria", "cents": 4000}


def call(id: str, expires_at: datetime = NOON + timedelta(hours=12)) -> Tool:
    tool = Tool(FunctionCall("transfer", ARGUMENTS), id=id)
    tool.await_approval(expires_at)
    return tool


def waiting(*calls: Tool) -> Messages:
    messages = Messages.from_user("Please pay Maria 40 euros.")
    messages.append("model", Turn(calls, finish_reason="tool_calls", created_at=NOON))
    return messages


def test_expire_rejects_calls_that_were_not_approved_in_time_at_any_depth() -> None:
    agent = Tool(FunctionCall("ask_bank", {"request": "pay Maria"}), id="outer")
    agent.start(NOON)
    agent.suspend(waiting(call("inner")))
    scheduled = Tool(FunctionCall("transfer", ARGUMENTS), id="at")
    scheduled.schedule(NOON)
    done = call("done", NOON)
    done.approve(at=NOON - timedelta(seconds=1))
    messages = waiting(call("call_1"), agent, call("later", NOON + timedelta(hours=13)), scheduled, done)

    assert expire(messages, now=NOON + timedelta(hours=11)) == []
    assert expire(messages, now=NOON + timedelta(hours=12)) == [("call_1",), ("outer", "inner")]
    assert expire(messages, now=NOON + timedelta(hours=12)) == []

    assert messages.tool("call_1").status == Rejected("nobody approved it before 2030-01-02T00:00:00+00:00", "expiry")
    assert isinstance(messages.tool("outer").status, Suspended)
    assert [tool.id for tool in messages.pending()] == ["outer", "later", "at", "done"]


def test_expire_uses_the_current_time_by_default_and_refuses_a_naive_time() -> None:
    assert expire(waiting(call("call_1", datetime(2001, 1, 1, tzinfo=UTC)))) == [("call_1",)]
    assert expire(Messages()) == []
    assert expire(waiting(Tool(FunctionCall("transfer", ARGUMENTS), status=Completed("sent")))) == []
    with pytest.raises(UsageError, match="now must be timezone-aware"):
        expire(Messages(), now=datetime(2030, 1, 1))  # noqa: DTZ001 - that is the point
