"""The limit on rounds of tool calls, and the closing answer."""

from __future__ import annotations

import pytest
from agent_helpers import Desk, call_boom, call_find, call_pay, collect, new_engine, short
from chat_agents import AgentSession
from chat_agents.rounds import count_rounds
from chat_core import Content, FunctionCall, Messages, Tool, Turn

pytestmark = pytest.mark.anyio


def always_calling(count: int) -> list[FunctionCall]:
    return [call_find(f"P{number}") for number in range(1, count + 1)]


@pytest.mark.parametrize(("limit", "calls"), [(0, 1), (1, 1), (5, 5)])
async def test_a_closing_answer_is_requested_after_the_last_tool_round(limit: int, calls: int) -> None:
    flow = Desk()
    engine, provider = new_engine(*always_calling(calls), "that is all", max_tool_rounds=limit)
    session = AgentSession("s", flow="desk")

    events = short(await collect(engine, flow, session, "go"))

    assert len(provider.asked) == calls + 1
    assert [asked.options.tool_choice for asked in provider.asked] == [None] * calls + ["none"]
    assert provider.asked[-1].tools == provider.asked[0].tools  # a prompt cache holds
    assert flow.effects == [f"find P{number}" for number in range(1, limit + 1)]
    assert events[-3:] == ["text that is all", "error max_tool_rounds", "done answered"]


@pytest.mark.parametrize("limit", [1, 5])
async def test_the_closing_request_contains_every_tool_result(limit: int) -> None:
    engine, provider = new_engine(*always_calling(limit), "that is all", max_tool_rounds=limit)

    await collect(engine, Desk(), AgentSession("s", flow="desk"), "go")

    results = [tool.result_text() for _, turn in provider.asked[-1].turns for tool in turn.tools]
    assert results == [f"P{number} is in Utrecht" for number in range(1, limit + 1)]


@pytest.mark.parametrize(("limit", "calls"), [(0, 1), (1, 1), (5, 5)])
async def test_without_a_closing_answer_the_run_ends_after_the_last_round(limit: int, calls: int) -> None:
    flow = Desk()
    engine, provider = new_engine(*always_calling(calls), max_tool_rounds=limit, closing_answer=False)

    events = short(await collect(engine, flow, AgentSession("s", flow="desk"), "go"))

    assert len(provider.asked) == calls
    assert len(flow.effects) == limit
    assert events[-2:] == ["error max_tool_rounds", "done failed"]


async def test_calls_of_a_closing_answer_do_not_run() -> None:
    flow = Desk()
    engine, provider = new_engine(*always_calling(3), max_tool_rounds=2)
    session = AgentSession("s", flow="desk")

    events = short(await collect(engine, flow, session, "go"))

    assert len(provider.asked) == 3
    assert flow.effects == ["find P1", "find P2"]
    assert events[-4:] == ["find calling", "find error", "error max_tool_rounds", "done failed"]
    assert session.messages.pending() == []


async def test_the_round_limit_starts_again_with_the_next_message() -> None:
    flow = Desk()
    engine, _ = new_engine(call_find("A"), "closing", call_find("B"), "closing", max_tool_rounds=1)
    session = AgentSession("s", flow="desk")

    await collect(engine, flow, session, "go")
    events = short(await collect(engine, flow, session, "go on"))

    assert flow.effects == ["find A", "find B"]
    assert events[-3:] == ["text closing", "error max_tool_rounds", "done answered"]


async def test_rounds_before_a_pause_count_in_the_limit() -> None:
    flow = Desk()
    engine, provider = new_engine(call_find(), call_pay(1), call_find("P2"), "closing", max_tool_rounds=3)
    session = AgentSession("s", flow="desk")

    assert short(await collect(engine, flow, session, "go"))[-1] == "done paused"
    async with session.edit() as messages:
        messages.tool("pay_1").approve()
    events = short(await collect(engine, flow, session))

    assert flow.effects == ["find P1", "pay 1", "find P2"]
    assert [asked.options.tool_choice for asked in provider.asked] == [None, None, None, "none"]
    assert events[-3:] == ["text closing", "error max_tool_rounds", "done answered"]


async def test_an_answer_within_the_round_limit_has_no_error() -> None:
    engine, _ = new_engine(call_find(), "found", max_tool_rounds=2)

    events = short(await collect(engine, Desk(), AgentSession("s", flow="desk"), "go"))

    assert events[-2:] == ["text found", "done answered"]


async def test_a_failed_call_counts_as_a_round() -> None:
    engine, provider = new_engine(call_boom(1), call_boom(2), "closing", max_tool_rounds=2)

    await collect(engine, Desk(), AgentSession("s", flow="desk"), "go")

    assert provider.asked[-1].options.tool_choice == "none"


def test_engine_and_application_turns_are_not_counted_as_rounds() -> None:
    def called(number: int, by: str | None = None) -> Content:
        tool = Tool(FunctionCall("find"), id=f"call_{number}")
        tool.fail("no")
        return Content("model", [Turn([tool], by=by)])

    messages = Messages([Content.of("user", "go"), called(1), called(2, by="application")])
    messages.append("user", Turn([], by="engine"))
    messages.push(called(3))

    assert count_rounds(messages) == 2
    assert count_rounds(messages.user("more")) == 0
