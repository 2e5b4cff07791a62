"""Flows: instructions, tools, and what happens to interrupted calls."""

from __future__ import annotations

import pytest
from agent_helpers import Desk, call_find, collect, new_engine
from chat_agents import AgentFlow, AgentSession
from chat_core import Reject, RunContext

pytestmark = pytest.mark.anyio


class Plain(AgentFlow):
    name = "plain"


class Awaited(AgentFlow):
    name = "awaited"

    async def instructions(self, context: RunContext, /) -> str:
        return f"session {context.conversation_id}"


async def test_a_flow_may_have_neither_instructions_nor_tools() -> None:
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
