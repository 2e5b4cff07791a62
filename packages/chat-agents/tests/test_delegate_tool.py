"""The tools `delegate` and `read_result`: results, pauses by path, policies, failures and cancellation."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from agent_helpers import Desk, call_find, call_pay, collect, new_engine, short
from chat_agents import AgentSession, Delegation, SubAgent
from chat_agents import Done as AgentDone
from chat_core import (
    Completed,
    Failed,
    FunctionCall,
    Paused,
    UsageError,
)
from chat_core.testing import Answer, ScriptedProvider

pytestmark = pytest.mark.anyio


class Office(Desk):
    """A desk whose model can delegate to agents."""

    def __init__(self, *agents: SubAgent[Paused], **settings: Any) -> None:
        super().__init__()
        self.settings = Delegation[Paused](agents=agents, **settings)

    def delegation(self) -> Delegation[Paused]:
        return self.settings


def delegate(agent: str = "clerk", task: str = "Do it.", number: int = 1, **more: object) -> FunctionCall:
    return FunctionCall("delegate", {"agent": agent, "task": task, **more}, id=f"delegate_{number}")


def agent(*script: Any, name: str = "clerk", **settings: Any) -> SubAgent[Paused]:
    model = ScriptedProvider(*script, by_history=True)
    given: dict[str, Any] = {"description": "Works.", "instructions": "You work.", "model": model, **settings}
    return SubAgent(name=name, **given)


def result_of(session: AgentSession, *path: str) -> str:
    status = session.messages.tool(*(path or ("delegate_1",))).status
    assert isinstance(status, Completed), status
    return str(status.result)


def failure_of(session: AgentSession, *path: str) -> str:
    status = session.messages.tool(*(path or ("delegate_1",))).status
    assert isinstance(status, Failed), status
    return status.error


async def run(office: Office, *script: Any) -> tuple[AgentSession, list[str]]:
    engine, _ = new_engine(*script)
    session = AgentSession(flow="desk")
    events = await collect(engine, office, session, "Go.")
    return session, short(events)


async def test_the_result_of_an_agent_is_the_result_of_the_delegate_call() -> None:
    session, events = await run(Office(agent("It is done.")), delegate(), "Good.")
    assert result_of(session) == "## Result from 'clerk'\n\nIt is done."
    assert events == ["delegate calling", "data delegation", "delegate done", "text Good.", "done answered"]


async def test_an_agent_receives_its_task_and_a_truncated_context() -> None:
    clerk = agent("Done.")
    await run(Office(clerk), delegate(task="Count.", context="apples " * 1000), "Good.")
    assert isinstance(clerk.model, ScriptedProvider)
    text = clerk.model.asked[0].turns[-1][1].text
    assert text.startswith("Count.\n\n## Context\n\napples apples")
    context = text.partition("## Context\n\n")[2]
    assert context.endswith("apples...(truncated)")
    assert len(context) <= 4000 + len("...(truncated)")


@pytest.mark.parametrize(("length", "sent"), [(9, 9), (10, 10), (11, 10 + len("...(truncated)"))])
async def test_max_context_limits_the_context_of_an_agent(length: int, sent: int) -> None:
    clerk = agent("Done.")
    await run(Office(clerk, max_context=10), delegate(task="Count.", context="x" * length), "Good.")
    assert isinstance(clerk.model, ScriptedProvider)
    text = clerk.model.asked[0].turns[-1][1].text
    assert len(text.partition("## Context\n\n")[2]) == sent


async def test_delegating_to_an_unknown_agent_fails_and_lists_the_agents() -> None:
    session, _ = await run(Office(agent("x"), agent("y", name="writer")), delegate("ghost"), "Sorry.")
    assert failure_of(session) == "Unknown agent 'ghost'. Available agents: clerk, writer"


async def test_delegating_without_agents_fails() -> None:
    session, _ = await run(Office(), delegate("ghost"), "Sorry.")
    assert failure_of(session) == "Unknown agent 'ghost'. Available agents: none configured"


async def test_an_agent_has_only_the_tools_that_it_lists() -> None:
    clerk = agent(call_pay(0), "Done.", tools=["find"])
    session, _ = await run(Office(clerk), delegate(), "Good.")
    assert isinstance(clerk.model, ScriptedProvider)
    assert [tool.name for tool in clerk.model.asked[0].tools] == ["find"]
    assert result_of(session) == "## Result from 'clerk'\n\nDone."


async def test_an_agent_with_a_tool_unknown_to_the_flow_is_refused() -> None:
    engine, _ = new_engine("x")
    with pytest.raises(UsageError, match="lists the tool 'shell', but the flow has only"):
        engine.chat(Office(agent("x", tools=["shell"])))


async def test_a_waiting_call_of_an_agent_pauses_the_run_and_is_resumed_by_path() -> None:
    office = Office(agent(call_pay(), "Paid."))
    engine, _ = new_engine(delegate(), "Good.")
    session = AgentSession(flow="desk")
    async with engine.run(office, session, "Pay.") as first:
        events = [event async for event in first]
    pause = next(event for event in events if isinstance(event, Paused))
    assert [wait.path for wait in pause.waiting] == [("delegate_1", "pay_5")]
    session = AgentSession.from_json(session.to_json())
    session.messages.tool("delegate_1", "pay_5").approve(arguments={"amount": 4}, by="bob")
    assert short(await collect(engine, office, session))[-1] == "done answered"
    assert office.effects == ["pay 4"]
    assert result_of(session) == "## Result from 'clerk'\n\nPaid."


async def test_a_rejected_call_of_an_agent_does_not_run() -> None:
    office = Office(agent(call_pay(), "I could not."))
    engine, _ = new_engine(delegate(), "Good.")
    session = AgentSession(flow="desk")
    await collect(engine, office, session, "Pay.")
    session.messages.tool("delegate_1", "pay_5").reject("no")
    await collect(engine, office, session)
    assert office.effects == []


async def test_an_agent_at_the_maximum_depth_has_no_delegate_tool() -> None:
    clerk = agent(delegate(number=2), "I had to do it myself.")
    session, _ = await run(Office(clerk), delegate(), "Good.")
    assert isinstance(clerk.model, ScriptedProvider)
    assert "delegate" not in [tool.name for tool in clerk.model.asked[0].tools]
    assert result_of(session) == "## Result from 'clerk'\n\nI had to do it myself."


@pytest.mark.parametrize("max_depth", [1, 2, 3])
async def test_agents_delegate_only_above_the_maximum_depth(max_depth: int) -> None:
    names = ["a", "b", "c", "d"]
    agents = [agent(delegate(names[number + 1], number=number + 2), "x", name=names[number]) for number in range(3)]
    await run(Office(*agents, agent("x", name="d"), max_depth=max_depth), delegate("a"), "Good.")
    models = [item.model for item in agents if isinstance(item.model, ScriptedProvider) and item.model.asked]
    found = ["delegate" in [tool.name for tool in model.asked[0].tools] for model in models]
    assert found == [True] * (max_depth - 1) + [False]


def two_levels() -> Office:
    clerk = agent(delegate("payer", number=2), "Paid, says the payer.")
    return Office(clerk, agent(call_pay(), "Paid.", name="payer"), max_depth=2)


async def test_a_call_two_levels_deep_pauses_and_resumes_by_path() -> None:
    office = two_levels()
    engine, _ = new_engine(delegate(), "Good.")
    session = AgentSession(flow="desk")
    await collect(engine, office, session, "Pay.")
    session = AgentSession.from_json(session.to_json())
    session.messages.tool("delegate_1", "delegate_2", "pay_5").approve(by="bob")
    await collect(engine, office, session)
    assert office.effects == ["pay 5"]
    assert result_of(session) == "## Result from 'clerk'\n\nPaid, says the payer."


async def test_the_usage_of_agents_is_added_to_the_run_and_the_session() -> None:
    engine, _ = new_engine(delegate(), "Good.")
    session = AgentSession(flow="desk")
    events = await collect(engine, Office(agent(call_find(), "Done.")), session, "Go.")
    done = events[-1]
    assert isinstance(done, AgentDone)
    assert done.usage.total_tokens == 4 * 15
    assert session.usage.totals.total_tokens == 4 * 15


@pytest.mark.parametrize(("max_turns", "is_done"), [(1, False), (2, True), (3, True)], ids=["below", "equal", "above"])
async def test_an_agent_may_use_all_its_turns(max_turns: int, *, is_done: bool) -> None:
    session, _ = await run(Office(agent(call_find(), "Done.", max_turns=max_turns)), delegate(), "Good.")
    assert isinstance(session.messages.tool("delegate_1").status, Completed) == is_done


@pytest.mark.parametrize("asked", [None, 2, 50])
async def test_an_agent_is_stopped_after_its_maximum_turns(asked: int | None) -> None:
    loop = [FunctionCall("find", {"parcel": "P"}, id=f"find_{number}") for number in range(50)]
    office = Office(agent(*loop, max_turns=3))
    call = delegate() if asked is None else delegate(max_turns=asked)
    session, _ = await run(office, call, "Sorry.")
    turns = 2 if asked == 2 else 3
    assert failure_of(session).startswith(f"Subagent 'clerk' failed: it has no answer after {turns} turns.")
    assert len(office.effects) == turns - 1


async def test_the_last_turn_of_an_agent_is_requested_without_tools() -> None:
    clerk = agent(call_find(), "Done.", max_turns=2)
    session, _ = await run(Office(clerk), delegate(), "Good.")
    assert isinstance(clerk.model, ScriptedProvider)
    assert [asked.options.tool_choice for asked in clerk.model.asked][-1] == "none"
    assert result_of(session) == "## Result from 'clerk'\n\nDone."


async def test_parallel_delegations_run_concurrently() -> None:
    barrier = [anyio.Event(), anyio.Event()]

    async def meet(mine: int) -> None:
        barrier[mine].set()
        await barrier[1 - mine].wait()

    first = agent(Answer(["one"], before=lambda: meet(0)))
    second = agent(Answer(["two"], before=lambda: meet(1)), name="writer")
    with anyio.fail_after(5):
        session, _ = await run(Office(first, second), [delegate(), delegate("writer", number=2)], "Good.")
    assert result_of(session, "delegate_2") == "## Result from 'writer'\n\ntwo"


async def test_cancelling_a_run_cancels_its_agents_at_any_depth() -> None:
    started, cancelled = anyio.Event(), anyio.Event()

    async def hang() -> None:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    clerk = agent(delegate("payer", number=2), "x")
    office = Office(clerk, agent(Answer(["x"], before=hang), name="payer"), max_depth=2)
    engine, _ = new_engine(delegate(), "Good.")
    session = AgentSession(flow="desk")
    with anyio.move_on_after(5) as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(collect, engine, office, session, "Go.")
            await started.wait()
            group.cancel_scope.cancel()
    assert cancelled.is_set()
    assert not scope.cancelled_caught


async def test_a_removed_agent_with_a_waiting_call_can_be_added_again() -> None:
    engine, _ = new_engine(delegate(), "Good.")
    session = AgentSession(flow="desk")
    office = Office(agent(call_pay(), "Paid."))
    await collect(engine, office, session, "Pay.")
    session.messages.tool("delegate_1", "pay_5").approve()
    without = Office(agent("x", name="writer"))
    assert short(await collect(engine, without, session))[-1] == "done failed"
    await collect(engine, office, session)
    assert office.effects == ["pay 5"]
