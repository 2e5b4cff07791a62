"""Flows: instructions, tools, and what happens to interrupted calls."""

from __future__ import annotations

from typing import cast

import pytest
from agent_helpers import Desk, call_find, call_pay, collect, new_engine, short
from chat_agents import AgentFlow, AgentSession, PromptFlow
from chat_core import FunctionCall, Reject, RunContext, ScopedCollection, ToolCollection, ToolContext
from chat_core.tools import execute_all

pytestmark = pytest.mark.anyio


class Plain(AgentFlow):
    name = "plain"


class Awaited(AgentFlow):
    name = "awaited"

    async def instructions(self, context: RunContext, /) -> str:
        return f"session {context.conversation_id}"


async def test_a_flow_without_instructions_and_tools_runs() -> None:
    engine, provider = new_engine("hello")

    await collect(engine, Plain(), AgentSession("s", flow="plain"), "hi")

    assert provider.asked[0].options.instructions is None
    assert list(provider.asked[0].tools) == []
    assert isinstance(Plain().interrupted(), Reject)


async def test_instructions_are_evaluated_once_per_run() -> None:
    flow = Desk()
    engine, provider = new_engine(call_find(), "found", "again")
    session = AgentSession("s", flow="desk", owner="ana")

    await collect(engine, flow, session, "Where is P1?")
    assert flow.prompts == 1
    await collect(engine, flow, session, "And now?")

    assert flow.prompts == 2
    assert ["You help ana." in str(asked.options.instructions) for asked in provider.asked] == [True, True, True]


async def test_instructions_may_be_a_coroutine_function() -> None:
    engine, provider = new_engine("hello")

    await collect(engine, Awaited(), AgentSession("s-1", flow="awaited"), "hi")

    assert "session s-1" in str(provider.asked[0].options.instructions)


async def test_a_prompt_flow_runs_with_a_prompt_and_tools() -> None:
    flow = PromptFlow("desk", "You are brief.", Desk().scopes())
    engine, provider = new_engine(call_find(), "found", call_pay(), "paid")
    session = AgentSession(flow="desk")

    assert short(await collect(engine, flow, session, "go"))[-1] == "done answered"
    assert short(await collect(engine, flow, session, "pay"))[-1] == "done paused"
    assert "You are brief." in str(provider.asked[0].options.instructions)


@pytest.mark.parametrize("is_async", [False, True])
async def test_the_prompt_of_a_flow_may_be_a_function(*, is_async: bool) -> None:
    async def ask_later(context: RunContext) -> str:
        return f"You help {context.owner}."

    flow = PromptFlow("desk", ask_later if is_async else lambda context: f"You help {context.owner}.")
    engine, provider = new_engine("hello")

    await collect(engine, flow, AgentSession(flow="desk", owner="ana"), "hi")

    assert "You help ana." in str(provider.asked[0].options.instructions)


async def test_a_tool_cannot_change_the_session_through_its_context() -> None:
    tools = ToolCollection()

    @tools.tool
    async def take(context: ToolContext) -> str:
        state = cast("dict[str, object]", context.state)
        state["mine"] = True
        return "taken"

    flow = PromptFlow("desk", "", [ScopedCollection(tools, execute_all)])
    engine, _ = new_engine(FunctionCall("take", id="take_1"), "no")
    session = AgentSession(flow="desk", state={"cart": {"items": [1]}})

    assert "take error" in short(await collect(engine, flow, session, "go"))
    assert dict(session.state) == {"cart": {"items": [1]}}
