"""Which calls of a triage may start, and how their pauses are joined."""

from __future__ import annotations

import pytest
from chat_core import FunctionCall, Paused, ToolCollection
from chat_core.engine.triage_result import ReadyCall, TriageResult, join_pauses
from chat_core.messages import Tool
from chat_core.response import Wait
from chat_core.tools.definition import ToolDefinition


def definition(*, sequential: bool = False) -> ToolDefinition:
    tools = ToolCollection()

    @tools.tool(sequential=sequential)
    def pay() -> None: ...

    return tools.snapshot()["pay"][0]


def call(name: str) -> Tool:
    return Tool(FunctionCall("pay", {}), id=name)


def pause(name: str) -> Paused:
    return Paused((Wait("approval", name, (name,), "pay", {}),))


@pytest.mark.parametrize(
    ("sequential", "waits", "started"),
    [
        (False, "first", ["second", "third"]),
        (True, "first", []),
        (True, "third", ["first", "second"]),
        (True, None, ["first", "second", "third"]),
    ],
)
def test_a_sequential_call_does_not_start_after_a_waiting_call(
    waits: str | None, started: list[str], *, sequential: bool
) -> None:
    tools = [call(name) for name in ("first", "second", "third")]
    result: TriageResult[Paused] = TriageResult()
    if waits is not None:
        result.pauses[waits] = pause(waits)
    result.ready = [ReadyCall(tool, definition(sequential=sequential), {}) for tool in tools if tool.id != waits]
    assert [ready.tool.id for ready in result.startable(tools)] == started


def test_pauses_are_joined_in_the_order_of_the_calls() -> None:
    pauses = {"second": pause("second"), "first": pause("first")}
    joined = join_pauses(pauses, ["first", "other", "second"])
    assert joined is not None
    assert [wait.tool_id for wait in joined.waiting] == ["first", "second"]
    assert join_pauses(pauses, ["other"]) is None
