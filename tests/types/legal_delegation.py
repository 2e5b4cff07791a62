"""Legal: agents of a flow pause only as the flow can."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Never, assert_type

from chat_agents import AgentEngine, AgentFlow, AgentRun, AgentSession, Delegation, SubAgent
from typing_extensions import override

from chat_core import Execute, FunctionCall, Paused, RequireApproval, ScopedCollection, ToolScope

from world import ask_if_high, pays, refuse_if_high, risky

engine = AgentEngine(pays)
plain = SubAgent(name="plain", description="", instructions="")


def ask(call: FunctionCall) -> Execute | RequireApproval:
    return RequireApproval() if call.name == "transfer" else Execute()


class Clerk(AgentFlow):
    name = "clerk"

    @override
    def scopes(self) -> Sequence[ToolScope[Never]]:
        return [ScopedCollection(risky, refuse_if_high)]

    @override
    def delegation(self) -> Delegation[Never]:
        return Delegation(agents=[plain])


class Office(AgentFlow[Paused]):
    name = "office"

    @override
    def scopes(self) -> Sequence[ToolScope[Paused]]:
        return [ScopedCollection(risky, ask_if_high)]

    @override
    def delegation(self) -> Delegation[Paused]:
        asks = SubAgent[Paused](name="asks", description="", instructions="", policy=ask)
        return Delegation[Paused](agents=[asks, plain])


def l960_agents_that_cannot_pause() -> None:
    run = engine.run(Clerk(), AgentSession(flow="clerk"), "pay")
    assert_type(run, AgentRun[Never])


def l961_agents_that_can_pause() -> None:
    run = engine.run(Office(), AgentSession(flow="office"), "pay")
    assert_type(run, AgentRun[Paused])
