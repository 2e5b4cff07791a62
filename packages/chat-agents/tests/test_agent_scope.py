"""Policies for the calls of agents: the most restrictive decision applies."""

from __future__ import annotations

import pytest
from agent_helpers import call_find, call_pay, collect, new_engine
from chat_agents import AgentSession
from chat_core import Action, Execute, FunctionCall, Paused, Reject, RequireApproval
from test_delegate_tool import Office, agent, delegate, run

pytestmark = pytest.mark.anyio


def ask_boss(_call: FunctionCall) -> Action[Paused]:
    return RequireApproval(of="boss")


def ask_ana(_call: FunctionCall) -> Action[Paused]:
    return RequireApproval(of="ana")


@pytest.mark.parametrize(
    ("own", "parent", "expected"),
    [
        (Execute(), Execute(), ["find P1"]),
        (Reject("no"), Execute(), []),
        (Execute(), Reject("no"), []),
        (RequireApproval(), Reject("no"), []),
    ],
)
async def test_a_call_of_an_agent_runs_only_if_all_policies_allow_it(
    own: Action[Paused], parent: Action[Paused], expected: list[str]
) -> None:
    def decide_own(_call: FunctionCall) -> Action[Paused]:
        return own

    def decide_parent(_call: FunctionCall, _path: tuple[str, ...]) -> Action[Paused]:
        return parent

    office = Office(agent(call_find(), "Done.", policy=decide_own), parent_policy=decide_parent)
    await run(office, delegate(), "Good.")
    assert office.effects == expected


@pytest.mark.parametrize("place", ["own", "parent"])
async def test_a_call_of_an_agent_waits_if_any_policy_requires_an_approval(place: str) -> None:
    seen: list[tuple[str, tuple[str, ...]]] = []

    def parent(call: FunctionCall, path: tuple[str, ...]) -> Action[Paused]:
        seen.append((call.name, path))
        return RequireApproval(of="boss") if place == "parent" else Execute()

    own = None if place == "parent" else ask_boss
    office = Office(agent(call_find(), "Done.", policy=own), parent_policy=parent)
    _, events = await run(office, delegate(), "Good.")
    assert events[-1] == "done paused"
    assert office.effects == []
    assert seen == [("find", ("clerk",))]


async def test_a_call_with_two_different_approvers_is_rejected() -> None:
    def parent(_call: FunctionCall, _path: tuple[str, ...]) -> Action[Paused]:
        return RequireApproval(of="boss")

    office = Office(agent(call_find(), "Done.", policy=ask_ana), parent_policy=parent)
    _, events = await run(office, delegate(), "Good.")
    assert (events[-1], office.effects) == ("done answered", [])


async def test_a_parent_policy_that_raises_rejects_the_call() -> None:
    def parent(_call: FunctionCall, _path: tuple[str, ...]) -> Action[Paused]:
        raise LookupError

    office = Office(agent(call_find(), "Done."), parent_policy=parent)
    _, events = await run(office, delegate(), "Good.")
    assert (events[-1], office.effects) == ("done answered", [])


async def test_a_resumed_agent_uses_only_the_parent_policy_of_its_path() -> None:
    asked: list[str] = []

    def parent(call: FunctionCall, path: tuple[str, ...]) -> Action[Paused]:
        asked.append(f"{'/'.join(path)}: {call.name}")
        return Execute()

    office = Office(agent(call_pay(), "Paid."), agent("x", name="writer"), parent_policy=parent)
    engine, _ = new_engine(delegate(), "Good.")
    session = AgentSession(flow="desk")
    await collect(engine, office, session, "Pay.")
    await collect(engine, office, session)
    assert asked == ["clerk: pay", "clerk: pay"]
