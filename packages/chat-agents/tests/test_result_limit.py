"""The limit of the results of tools in agents."""

from __future__ import annotations

from typing import Any

import pytest
from agent_helpers import collect, new_engine
from chat_agents import AgentSession, Delegation, PromptFlow, SubAgent
from chat_core import FunctionCall, Paused, ScopedCollection, ToolCollection
from chat_core.tools.scope import execute_all

pytestmark = pytest.mark.anyio

KILOBYTE = 1024
CALL = FunctionCall("read", id="read")


def reader(value: object) -> ScopedCollection[None, Paused]:
    tools = ToolCollection()

    @tools.tool
    async def read() -> object:
        """Read a value."""
        return value

    return ScopedCollection(tools, execute_all)


async def result_text(value: object, **config: Any) -> str:
    engine, provider = new_engine(CALL, "done", **config)
    session = AgentSession(flow="reader")
    await collect(engine, PromptFlow("reader", "Read.", [reader(value)]), session, "go")
    text = session.messages.tool("read").result_text()
    assert text in str(provider.asked[1].turns[1][1].tools[0].result_text())
    return text


async def test_an_agent_receives_at_most_100_kilobytes_of_a_result_by_default() -> None:
    text = await result_text("é" * 5_000_000)

    assert 99 * KILOBYTE < len(text.encode()) <= 100 * KILOBYTE
    assert f"[... {5_000_000 - text.count('é')} characters omitted ...]" in text


async def test_an_agent_receives_results_without_control_characters_by_default() -> None:
    assert await result_text("a\0b\x1b[1m") == "ab[1m"


async def test_the_limit_of_results_can_be_changed_or_switched_off() -> None:
    assert len(await result_text("x" * 5_000, max_result_bytes=1_000)) <= 1_000
    assert len(await result_text("x" * 500_000 + "\0", max_result_bytes=None)) == 500_001


async def test_the_limit_of_results_applies_to_delegated_agents() -> None:
    task = FunctionCall("delegate", {"agent": "clerk", "task": "Read."}, id="task")
    engine, provider = new_engine(task, CALL, "It is long.", "done")
    clerk = SubAgent[Paused](name="clerk", description="Reads.", instructions="Read.")
    flow = PromptFlow("reader", "Read.", [reader("x" * 5_000_000)], delegation=Delegation(agents=[clerk]))
    await collect(engine, flow, AgentSession(flow="reader"), "go")

    shown = provider.asked[2].turns[-1][1].tools[0].result_text()
    assert len(shown) <= 100 * KILOBYTE
