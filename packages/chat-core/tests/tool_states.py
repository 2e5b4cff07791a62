"""A tool call in each status."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from chat_core.messages import (
    Approved,
    Completed,
    Failed,
    FunctionCall,
    Interrupted,
    Messages,
    Pending,
    Rejected,
    Running,
    Suspended,
    Tool,
    ToolStatus,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)

STATUSES: list[ToolStatus] = [
    Pending(),
    Pending("approval", LATER),
    Pending("schedule", at=LATER),
    Pending("result", LATER),
    Approved(),
    Running("a", 2, NOON),
    Suspended(Messages(), "a", 2),
    Interrupted("a", 2, "gone"),
    Completed(1),
    Failed("no"),
    Rejected("no"),
]


def call(raw: str = '{"cents": 500}') -> FunctionCall:
    return FunctionCall.parse("transfer", raw)


def tool(status: ToolStatus | None = None) -> Tool:
    return Tool(call(), call_id="call_1", status=status)
