"""Budgets of delegations: nesting, pausing and resuming do not exceed them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest
from agent_helpers import call_find, call_pay, collect, new_engine, short
from chat_agents import AgentSession, Budget, limits
from chat_core import (
    ChatOptions,
    Completed,
    FunctionCall,
    Messages,
    OutputSchema,
    Paused,
    ProviderStream,
    ScopedCollection,
    ToolCollection,
    ToolDeclarations,
    ToolScope,
)
from chat_core.testing import Answer, ScriptedProvider
from chat_core.tools import execute_all
from chat_store import SqliteStore
from test_delegate_tool import Office, agent, delegate, failure_of, result_of, run

pytestmark = pytest.mark.anyio


async def test_an_agent_stops_after_the_request_that_exceeds_its_token_budget() -> None:
    clerk = agent(call_find("P1"), call_find("P2"), "Done.", budget=Budget(tokens=20))
    office = Office(clerk)
    session, _ = await run(office, delegate(), "Sorry.")
    assert failure_of(session).startswith("Subagent 'clerk' failed: it has used its budget of 20 tokens.")
    assert office.effects == ["find P1", "find P2"]


@pytest.mark.parametrize(("tokens", "is_done"), [(14, False), (15, False), (16, True)], ids=["below", "equal", "above"])
async def test_the_request_that_reaches_the_token_budget_is_the_last_one(tokens: int, *, is_done: bool) -> None:
    clerk = agent(call_find("P1"), "Done.", budget=Budget(tokens=tokens))  # each response has 15 tokens
    office = Office(clerk)
    session, _ = await run(office, delegate(), "Good.")
    assert isinstance(clerk.model, ScriptedProvider)
    assert len(clerk.model.asked) == (2 if is_done else 1)
    assert isinstance(session.messages.tool("delegate_1").status, Completed) == is_done
    assert office.effects == ["find P1"]


@pytest.mark.parametrize(("calls", "effects"), [(2, 2), (3, 3), (4, 3)], ids=["below", "equal", "above"])
async def test_calls_over_the_call_budget_are_rejected(calls: int, effects: int) -> None:
    office = Office(agent([call_find("P1"), call_find("P2"), call_find("P3")], "Done.", budget=Budget(calls=calls)))
    session, _ = await run(office, delegate(), "Good.")
    assert sorted(office.effects) == ["find P1", "find P2", "find P3"][:effects]
    assert result_of(session) == "## Result from 'clerk'\n\nDone."


async def test_a_pause_does_not_reset_the_call_budget() -> None:
    script = [[call_find("P1"), call_pay(5)], [call_find("P2"), call_pay(6)], "Done."]
    office = Office(agent(*script, budget=Budget(calls=3)))
    engine, _ = new_engine(delegate(), "Good.")
    session = AgentSession(flow="desk")
    await collect(engine, office, session, "Go.")
    session = AgentSession.from_json(session.to_json())
    session.messages.tool("delegate_1", "pay_5").approve()
    events = await collect(engine, office, session)
    assert short(events)[-1] == "done answered"
    assert office.effects == ["find P1", "pay 5", "find P2"]


@pytest.mark.parametrize("paused", [False, True])
async def test_calls_of_nested_agents_count_in_the_budget_of_the_outer_agent(*, paused: bool) -> None:
    clerk = agent(
        delegate("helper", number=2), delegate("helper", number=3), call_find("P9"), "Done.", budget=Budget(calls=4)
    )
    inner = [call_find("P1"), call_pay(5) if paused else call_find("P2"), call_find("P3")]
    office = Office(clerk, agent(inner, "Helped.", name="helper"), max_depth=2)
    engine, _ = new_engine(delegate(), "Good.")
    session = AgentSession(flow="desk")
    await collect(engine, office, session, "Go.")
    if paused:
        session = AgentSession.from_json(session.to_json())
        session.messages.tool("delegate_1", "delegate_2", "pay_5").approve()
        await collect(engine, office, session)
    assert len(office.effects) == 3  # and the first call of `delegate`
    assert result_of(session) == "## Result from 'clerk'\n\nDone."


async def test_tokens_of_nested_agents_count_in_the_budget_of_the_outer_agent() -> None:
    clerk = agent(delegate("helper", number=2), call_find("P9"), "Done.", budget=Budget(tokens=40))
    office = Office(clerk, agent(call_find("P1"), "Helped.", name="helper"), max_depth=2)
    session, _ = await run(office, delegate(), "Sorry.")
    assert failure_of(session).startswith("Subagent 'clerk' failed: it has used its budget of 40 tokens.")
    assert office.effects == ["find P1"]


async def test_an_agent_is_stopped_after_its_time_budget() -> None:
    office = Office(agent(Answer(["x"], before=anyio.sleep_forever), budget=Budget(seconds=0.05)))
    with anyio.fail_after(10):
        session, _ = await run(office, delegate(), "Sorry.")
    assert failure_of(session) == "Subagent 'clerk' failed: it has used its budget of 0.05 seconds."


async def test_waiting_for_a_decision_does_not_use_the_time_budget() -> None:
    office = Office(agent(call_pay(), "Paid.", budget=Budget(seconds=3)))
    engine, _ = new_engine(delegate(), "Good.")
    session = AgentSession(flow="desk")
    await collect(engine, office, session, "Go.")
    document = session.to_json().replace('"active_seconds":0.', '"active_seconds":2.', 1)
    assert document != session.to_json()
    session = AgentSession.from_json(document)
    session.messages.tool("delegate_1", "pay_5").approve()
    await collect(engine, office, session)
    assert result_of(session) == "## Result from 'clerk'\n\nPaid."


@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize("depth", [1, 2])
async def test_tool_time_before_a_pause_counts_in_the_time_budget(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, depth: int, *, is_stored: bool
) -> None:
    clock = [0.0]
    monkeypatch.setattr(limits, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    class Slow(Office):
        def scopes(self) -> Sequence[ToolScope[Paused]]:
            tools = ToolCollection()

            @tools.tool
            async def wait() -> str:
                clock[0] += 50
                return "waited"

            return [*super().scopes(), ScopedCollection(tools, execute_all)]

    waits = [FunctionCall("wait", id=f"wait_{number}") for number in (1, 2)]
    script = [[waits[0], call_pay(5)], [waits[1], call_pay(6)], "Done."]
    budget = Budget(seconds=80)
    agents = [agent(*script, budget=budget if depth == 1 else Budget())]
    if depth == 2:
        agents.append(agent(delegate(number=2), "Done.", name="manager", budget=budget))
    office = Slow(*agents, max_depth=2)
    engine, _ = new_engine(delegate(agents[-1].name), "Sorry.")
    path = ["delegate_1", "delegate_2"][:depth]

    async with SqliteStore(tmp_path / "chats.db") as store:
        session = await AgentSession.open(store, "s", flow="desk") if is_stored else AgentSession(flow="desk")
        await collect(engine, office, session, "Go.")
        for number in (5, 6):
            if is_stored:
                session = await AgentSession.open(store, "s", flow="desk")
            else:
                session = AgentSession.from_json(session.to_json())
            async with session.edit() as messages:
                messages.tool(*path, f"pay_{number}").approve()
            await collect(engine, office, session)
    assert failure_of(session).startswith(f"Subagent {agents[-1].name!r} failed: it has used its budget of 80 seconds.")


async def test_active_time_before_a_pause_counts_in_the_time_budget() -> None:
    office = Office(agent(call_pay(), Answer(["Paid."], before=anyio.sleep_forever), budget=Budget(seconds=100)))
    engine, _ = new_engine(delegate(), "Good.")
    session = AgentSession(flow="desk")
    await collect(engine, office, session, "Go.")
    document = session.to_json().replace('"active_seconds":0.', '"active_seconds":99.9', 1)
    session = AgentSession.from_json(document)
    session.messages.tool("delegate_1", "pay_5").approve()
    with anyio.fail_after(10):
        await collect(engine, office, session)
    assert failure_of(session).startswith("Subagent 'clerk' failed: it has used its budget of 100 seconds.")


class SlowlyClosed:
    """A provider whose connection closes only when that of another provider does."""

    def __init__(self, number: int, closed: list[anyio.Event]) -> None:
        self._inner = ScriptedProvider([call_find(f"{number}{index}") for index in range(3)], "Helped.")
        self._mine, self._other = closed[number], closed[1 - number]
        self.metadata = self._inner.metadata
        self.complete = self._inner.complete

    @asynccontextmanager
    async def stream(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, structured_output: OutputSchema | None
    ) -> AsyncGenerator[ProviderStream]:
        async with self._inner.stream(messages, tools, options, structured_output) as stream:
            yield stream
        self._mine.set()
        await self._other.wait()


async def test_concurrent_agents_share_the_call_budget_of_the_outer_agent() -> None:
    closed = [anyio.Event(), anyio.Event()]
    clerk = agent([delegate("a", number=2), delegate("b", number=3)], "Done.", budget=Budget(calls=6))
    helpers = [agent(name=name, model=SlowlyClosed(number, closed)) for number, name in enumerate("ab")]
    office = Office(clerk, *helpers, max_depth=2)
    with anyio.fail_after(10):
        await run(office, delegate(), "Good.")
    assert len(office.effects) == 4
