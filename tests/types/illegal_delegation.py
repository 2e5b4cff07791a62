"""Illegal: an agent or a policy that pauses in a flow that cannot, and settings of a wrong type."""

from __future__ import annotations

from typing import Never

from chat_agents import AgentFlow, Budget, Delegation, SubAgent
from typing_extensions import override

from chat_core import Execute, FunctionCall, Paused, RequireApproval

pausing = SubAgent[Paused](name="asks", description="", instructions="")


def ask(call: FunctionCall, path: tuple[str, ...]) -> Execute | RequireApproval:
    return RequireApproval() if path and call.name == "transfer" else Execute()


class Hides(AgentFlow):
    name = "hides"

    @override
    def delegation(self) -> Delegation[Never]:
        return Delegation[Never](agents=[pausing])  # E: Never|Paused


class HidesInPolicy(AgentFlow):
    name = "policy"

    @override
    def delegation(self) -> Delegation[Never]:
        return Delegation[Never](agents=[], parent_policy=ask)  # E: Never|RequireApproval


class Widens(AgentFlow):
    name = "widens"

    def delegation(self) -> Delegation[Paused]:  # E: delegation
        return Delegation[Paused](agents=[pausing])


def x961_an_agent_is_not_a_name() -> None:  # R: UsageError: agents must be a list
    Delegation(agents=["clerk"])  # E: str|SubAgent|agents


def x962_a_budget_in_words() -> None:  # R: UsageError: the limit tokens
    Budget(tokens="many")  # E: str|tokens|many
