"""Events of a chat as events of an agent."""

from __future__ import annotations

import pytest
from agent_helpers import Desk, call_boom, call_find, call_pay, collect, new_engine, short
from chat_agents import AgentSession, Data, ToolStatus
from chat_agents.translation import Translation
from chat_core import (
    AuthenticationError,
    FunctionCall,
    InvalidResponseError,
    LeaseLostError,
    MaxStepsExceededError,
    NetworkError,
    Paused,
    PolicyError,
    Reasoning,
    StepFinished,
    StreamTruncatedError,
    TextDelta,
    ToolCallDelta,
    Usage,
)

pytestmark = pytest.mark.anyio


async def test_a_call_has_a_calling_event_then_data_then_done() -> None:
    engine, _ = new_engine(["Let me see. ", call_find(doing="Looking for it")], "found")

    events = await collect(engine, Desk(), AgentSession(flow="desk"), "go")

    assert short(events) == [
        "text Let me see. ", "find calling", "data map", "find done", "text found", "done answered",
    ]  # fmt: skip
    assert events[3] == ToolStatus("find", "find_P1", "calling", "Looking for it")
    assert events[4] == Data("map", {"parcel": "P1"})


async def test_a_failed_call_ends_with_an_error_status() -> None:
    engine, _ = new_engine(call_boom(), "sorry")

    events = short(await collect(engine, Desk(), AgentSession(flow="desk"), "go"))

    assert events == ["boom calling", "boom error", "error tool_error", "text sorry", "done answered"]


@pytest.mark.parametrize(
    "call", [FunctionCall("nope"), FunctionCall("find", {"parcel": 5}), FunctionCall("find", {"wrong": "P1"})]
)
async def test_a_call_that_does_not_match_its_declaration_fails_without_running(call: FunctionCall) -> None:
    flow = Desk()
    engine, provider = new_engine(call, "sorry")

    events = short(await collect(engine, flow, AgentSession(flow="desk"), "go"))

    assert events[:3] == [f"{call.name} calling", f"{call.name} error", "error tool_error"]
    assert flow.effects == []
    assert provider.asked[1].turns[-1][1].tools[0].failed


async def test_a_rejected_call_has_an_error_status_and_no_tool_error_event() -> None:
    engine, _ = new_engine(call_pay(0), "nothing")

    events = short(await collect(engine, Desk(), AgentSession(flow="desk"), "go"))

    assert events == ["pay calling", "pay error", "text nothing", "done answered"]


async def test_a_pending_call_has_a_calling_and_a_waiting_event() -> None:
    engine, _ = new_engine([call_find(), call_pay()])

    events = await collect(engine, Desk(), AgentSession("s-1", flow="desk", owner="ana"), "go")

    assert short(events) == [
        "find calling", "pay calling", "data map", "find done", "pay waiting", "paused 1", "done paused",
    ]  # fmt: skip
    pause = events[5]
    assert isinstance(pause, Paused)
    wait = pause.waiting[0]
    assert (wait.conversation, wait.owner, wait.name, dict(wait.arguments)) == ("s-1", "ana", "pay", {"amount": 5})


async def test_each_parallel_call_has_one_first_and_one_last_status() -> None:
    engine, _ = new_engine([call_find("A"), call_boom(), call_find("B"), call_pay(), call_pay(0)])

    events = await collect(engine, Desk(), AgentSession(flow="desk"), "go")
    statuses: dict[str, list[str]] = {}
    for event in events:
        if isinstance(event, ToolStatus):
            statuses.setdefault(event.call_id, []).append(event.status)

    assert statuses == {
        "find_A": ["calling", "done"],
        "boom_1": ["calling", "error"],
        "find_B": ["calling", "done"],
        "pay_5": ["calling", "waiting"],
        "pay_0": ["calling", "error"],
    }


async def test_reasoning_is_not_sent_to_the_client() -> None:
    engine, _ = new_engine([Reasoning("secret thoughts"), "hello"])

    assert short(await collect(engine, Desk(), AgentSession(flow="desk"), "go")) == ["text hello", "done answered"]


@pytest.mark.parametrize(
    ("error", "before", "after"),
    [
        (AuthenticationError("no"), "llm_error", "stream_error"),
        (NetworkError("no"), "llm_error", "stream_error"),
        (InvalidResponseError("no"), "llm_error", "stream_error"),
        (StreamTruncatedError("no"), "stream_error", "stream_error"),
        (MaxStepsExceededError("no"), "max_tool_rounds", "max_tool_rounds"),
        (PolicyError("no", ["c1"]), "internal", "internal"),
        (LeaseLostError("no"), "internal", "internal"),
        (OSError("disk full"), "internal", "internal"),
    ],
)
def test_the_error_code_depends_on_the_error_and_the_output_so_far(error: Exception, before: str, after: str) -> None:
    translation = Translation("s")
    assert translation.error_code(error) == before

    translation.events(TextDelta("hel"))
    assert translation.error_code(error) == after

    translation.events(StepFinished(1, Usage()))
    assert translation.error_code(error) == before

    translation.events(ToolCallDelta("{", 0, "find", "c1"))
    assert translation.error_code(error) == after
