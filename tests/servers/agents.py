"""A flow of chat-agents, which the servers of all front-end protocols serve as the scenario `agent`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from chat_agents import AgentConfig, AgentEngine, AgentFlow
from chat_core import (
    Execute,
    FunctionCall,
    Paused,
    RequireApproval,
    RunContext,
    ScopedCollection,
    StreamingChat,
    ToolCollection,
    ToolScope,
)
from chat_core.testing import ScriptedProvider


@final
class Cashier(AgentFlow[Paused]):
    """A flow that looks up a debt, and pays after an approval."""

    name = "cashier"

    def __init__(self, effects: list[str]) -> None:
        self._effects = effects

    def instructions(self, context: RunContext, /) -> str:
        return f"You pay the debts of {context.owner}."

    def scopes(self) -> Sequence[ToolScope[Paused]]:
        tools = ToolCollection()

        @tools.tool
        async def debt(to: str) -> str:
            """Return what the user owes somebody."""
            return f"30 cents to {to}"

        @tools.tool
        async def settle(cents: int) -> str:
            """Pay a debt."""
            self._effects.append(f"agent {cents}")
            return f"settled {cents}"

        return [ScopedCollection(tools, _policy)]


def _policy(call: FunctionCall, _meta: None) -> Execute | RequireApproval:
    return RequireApproval() if call.name == "settle" else Execute()


def build_agent(effects: list[str]) -> StreamingChat[object, Paused]:
    """Return the chat of the flow, with a script that looks up a debt, pays it, and reports.

    Args:
        effects: list to which each payment is added.
    """
    script = ScriptedProvider(
        ["I will look.", FunctionCall("debt", {"to": "Maria"}, id="call_1")],
        FunctionCall("settle", {"cents": 30}, id="call_2"),
        "You owe nothing.",
        by_history=True,
    )
    return AgentEngine(script, AgentConfig(max_tool_rounds=5)).chat(Cashier(effects))
