"""Handing a session over to another flow: who answers which message, and what stays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from agent_helpers import Desk, call_pay, collect, new_engine, short
from chat_agents import AgentFlow, AgentSession, Delegation, Handoff, PromptFlow, SubAgent
from chat_core import (
    Data,
    Execute,
    FunctionCall,
    Paused,
    RunContext,
    ScopedCollection,
    ToolCollection,
    ToolOutput,
    ToolScope,
    UsageError,
)
from chat_core.testing import ScriptedProvider
from chat_store import MemoryStore, SqliteStore
from test_delegate_tool import agent, delegate

pytestmark = pytest.mark.anyio

HAND_OVER = FunctionCall("hand_over_to_desk", id="hand_1")
BACK = FunctionCall("hand_over_to_front", id="back_1")


class Front(AgentFlow[Paused]):
    """A flow that can hand over to the desk, which can pause."""

    name = "front"

    def __init__(self, desk: AgentFlow[Paused] | None = None, *agents: SubAgent[Paused]) -> None:
        self.desk = desk or Desk()
        self.agents = agents

    def instructions(self, context: RunContext, /) -> str:
        del context
        return "You are the front."

    def scopes(self) -> Sequence[ToolScope[Paused]]:
        return [Handoff(self.desk, "Hand over payments.")]

    def delegation(self) -> Delegation[Paused] | None:
        return Delegation(agents=self.agents) if self.agents else None


class Returning(Desk):
    """A desk that can hand back."""

    front: AgentFlow[Paused]

    def scopes(self) -> Sequence[ToolScope[Paused]]:
        return [*super().scopes(), Handoff(self.front, "Hand back.")]


def tools_of(provider: ScriptedProvider) -> list[list[str]]:
    return [[tool.name for tool in asked.tools] for asked in provider.asked]


async def test_the_next_message_after_a_handoff_goes_to_the_other_flow() -> None:
    engine, model = new_engine(HAND_OVER, "The desk will help.", call_pay(0), "Paid.")
    session = AgentSession(flow="front", owner="ana")
    front = Front()

    events = short(await collect(engine, front, session, "Pay."))
    assert events == [
        "hand_over_to_desk calling",
        "data handoff",
        "hand_over_to_desk done",
        "text The desk will help.",
        "done answered",
    ]
    assert (session.flow, session.current_flow) == ("front", "desk")

    await collect(engine, front, session, "Pay 0.")
    assert tools_of(model) == [["hand_over_to_desk"]] * 2 + [["find", "pay", "boom"]] * 2
    assert str(model.asked[1].options.instructions).count("You are the front.") == 1
    assert "You help ana." in str(model.asked[2].options.instructions)
    assert [content.text for content in session.messages][::2] == ["Pay.", "Pay 0."]


async def test_a_handoff_is_restored_from_the_stored_session(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "chats.db") as store:
        engine, _ = new_engine(HAND_OVER, "The desk will help.")
        await collect(engine, Front(), await AgentSession.open(store, "s", flow="front"), "Pay.")

    async with SqliteStore(tmp_path / "chats.db") as store:
        engine, _ = new_engine(call_pay(), "Paid.")
        for flow in ("front", "desk"):
            session = await AgentSession.open(store, "s", flow=flow)
            assert (session.flow, session.current_flow) == ("front", "desk")
        assert short(await collect(engine, Front(), session, "Pay 5."))[-2:] == ["paused 1", "done paused"]
        async with session.edit() as messages:
            messages.tool("pay_5").approve()
        assert short(await collect(engine, Desk(), session))[-1] == "done answered"


async def test_an_interrupted_handoff_turn_is_finished_by_the_first_flow() -> None:
    engine, model = new_engine(HAND_OVER, "The desk will help.")
    session = AgentSession(flow="front")
    front = Front()
    async with engine.run(front, session, "Pay.") as run:
        async for event in run:
            if short([event]) == ["hand_over_to_desk done"]:
                break

    assert short(await collect(engine, front, session))[-1] == "done answered"
    assert tools_of(model) == [["hand_over_to_desk"]] * 2
    assert session.current_flow == "desk"


async def test_a_session_can_be_handed_back_to_the_first_flow() -> None:
    desk = Returning()
    front = Front(desk)
    desk.front = front
    engine, model = new_engine(HAND_OVER, "To the desk.", BACK, "And back.", "Hello again.")
    session = AgentSession(flow="front")

    for message in ("Pay.", "Back.", "Hi."):
        await collect(engine, front, session, message)

    assert session.current_flow == "front"
    assert tools_of(model)[-1] == ["hand_over_to_desk"]


async def test_a_flow_without_a_handoff_to_the_current_flow_is_refused() -> None:
    engine, _ = new_engine(HAND_OVER, "The desk will help.")
    session = AgentSession(flow="front")
    await collect(engine, Front(), session, "Pay.")

    class Alone(AgentFlow[Paused]):
        name = "front"

    with pytest.raises(UsageError, match="'front' has no Handoff that leads to it"):
        await collect(engine, Alone(), session, "Pay 5.")
    async with MemoryStore() as store:
        await session.copy_to(store)
        with pytest.raises(UsageError, match="belongs to the flow 'desk', not to 'other'"):
            await AgentSession.open(store, session.id, flow="other")


async def test_an_agent_of_a_flow_has_no_handoff_tools() -> None:
    clerk = agent("Done.")
    engine, _ = new_engine(delegate(), "Good.")
    await collect(engine, Front(None, clerk), AgentSession(flow="front"), "Go.")
    assert isinstance(clerk.model, ScriptedProvider)
    assert tools_of(clerk.model) == [[]]


@pytest.mark.parametrize("name", ["back office", "réception", "x" * 52])
def test_a_flow_name_that_fits_no_tool_name_is_refused(name: str) -> None:
    flow = AgentFlow[Paused]()
    flow.name = name
    with pytest.raises(UsageError, match="for a Handoff, a flow name is 1 to 51 of the characters"):
        Handoff(flow, "Never.")


def test_a_flow_without_a_name_is_refused() -> None:
    with pytest.raises(UsageError, match="has no name"):
        Handoff(AgentFlow[Paused](), "Never.")


async def test_data_of_other_tools_does_not_hand_a_session_over() -> None:
    tools = ToolCollection()

    @tools.tool
    async def call_person() -> ToolOutput:
        return ToolOutput("Called.", data=Data("handoff", {"to": "a person"}, keep=True))

    flow = PromptFlow("desk", "", [ScopedCollection(tools, lambda _call, _meta: Execute())])
    engine, _ = new_engine(FunctionCall("call_person", id="call_1"), "Wait.", "Hello.")
    session = AgentSession(flow="desk")
    for message in ("Go.", "Again."):
        async with engine.run(flow, session, message) as run:
            events = [event async for event in run]
        assert short(events)[-1] == "done answered"
    assert session.current_flow == "desk"


def test_a_chat_refuses_a_flow_that_can_hand_over() -> None:
    engine, _ = new_engine()
    with pytest.raises(
        UsageError, match=r"the flow 'front' has a Handoff, which chat\(\) does not follow: use run\(\)"
    ):
        engine.chat(Front())
