"""Tools that are added to a run: which ones the model gets, their policies, pauses and handoffs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, cast

import pytest
from agent_helpers import Desk, call_find, new_engine, short
from chat_agents import AgentEngine, AgentFlow, AgentSession, Handoff
from chat_core import (
    Execute,
    FunctionCall,
    Paused,
    RequireApproval,
    ScopedCollection,
    ToolCollection,
    ToolScope,
    UsageError,
)
from chat_core.testing import ScriptedProvider

pytestmark = pytest.mark.anyio


class Source(Desk):
    """A source whose tools record their effects with the name of the source. The tool `ship` needs an approval."""

    def __init__(self, name: str, *names: str) -> None:
        super().__init__()
        self.tools = ToolCollection()
        for tool in names:
            self._add(name, tool)

    def _add(self, name: str, tool: str) -> None:
        @self.tools.tool(name=tool, description="")
        async def run(parcel: str = "") -> str:
            self.effects.append(f"{name} {tool}")
            return parcel

    @property
    def scope(self) -> ToolScope[Paused]:
        return ScopedCollection(self.tools, lambda call, _meta: RequireApproval() if call.name == "ship" else Execute())


async def run(
    engine: AgentEngine, flow: AgentFlow[Paused], session: AgentSession, message: str | None, *sources: Source
) -> list[str]:
    scopes = [source.scope for source in sources]
    async with engine.run(flow, session, message, sources=scopes) as run:
        return short([event async for event in run])


def names(model: ScriptedProvider, request: int = -1) -> list[str]:
    return [tool.name for tool in model.asked[request].tools]


async def test_the_flow_and_then_the_first_source_keep_a_name(caplog: pytest.LogCaptureFixture) -> None:
    desk, first, second = Desk(), Source("first", "find", "track"), Source("second", "track", "weigh", "pay")
    calls = [call_find(), FunctionCall("track", {}, id="t"), FunctionCall("weigh", {}, id="w")]
    engine, model = new_engine(calls, "Done.", "Hello.")
    session = AgentSession(flow="desk")
    with caplog.at_level(logging.WARNING, "chat_agents"):
        events = await run(engine, desk, session, "Go.", first, second)

    assert events[-1] == "done answered"
    assert names(model) == ["find", "pay", "boom", "track", "weigh"]
    assert (desk.effects, first.effects, second.effects) == (["find P1"], ["first track"], ["second weigh"])
    assert [record.args for record in caplog.records] == [("find",), ("track",), ("pay",)]

    await run(engine, desk, session, "And now?")
    assert names(model) == ["find", "pay", "boom"]


async def test_a_call_of_a_source_waits_under_its_policy_until_the_source_is_there() -> None:
    desk, source = Desk(), Source("dhl", "ship", "find")
    engine, _ = new_engine(FunctionCall("ship", {}, id="s"), "Shipped.")
    session = AgentSession(flow="desk")
    assert (await run(engine, desk, session, "Go.", source))[-1] == "done paused"
    session.messages.tool("s").approve()

    assert (await run(engine, desk, session, None))[-1] == "done failed"
    assert source.effects == []

    assert (await run(engine, desk, session, None, source))[-1] == "done answered"
    assert source.effects == ["dhl ship"]


async def test_the_flow_after_a_handoff_has_the_sources_too() -> None:
    class Front(AgentFlow[Paused]):
        name = "front"

        def scopes(self) -> Sequence[ToolScope[Paused]]:
            return [Handoff(Desk(), "Always.")]

    engine, model = new_engine(FunctionCall("hand_over_to_desk", {}, id="h"), "The desk will help.", "Hello.")
    session, source = AgentSession(flow="front"), Source("dhl", "track")
    for message in ("Go.", "Hello?"):
        await run(engine, Front(), session, message, source)
    assert names(model) == ["find", "pay", "boom", "track"]


def test_a_source_that_is_no_scope_is_refused() -> None:
    engine, _ = new_engine()
    with pytest.raises(UsageError, match="sources must be a list of tool scopes"):
        engine.run(Desk(), AgentSession(flow="desk"), "Go.", sources=cast("Any", [ToolCollection()]))
