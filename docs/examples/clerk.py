"""The agent and the model of the examples `agent.py` and `service.py`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from chat_agents import AgentFlow
from chat_core import (
    ChatOptions,
    ChatProvider,
    Data,
    FunctionCall,
    Paused,
    RequireApproval,
    RunContext,
    ScopedCollection,
    ToolCollection,
    ToolOutput,
    ToolScope,
)
from chat_core.testing import ScriptedProvider

QUESTION = "Pay 500 cents to Bo."
tools = ToolCollection()


@tools.tool
def pay(to: str, cents: int) -> ToolOutput:
    """Pay somebody.

    Args:
        to: who is paid.
        cents: the amount in cents.
    """
    return ToolOutput(f"paid {cents} cents to {to}", data=Data("receipt", {"to": to, "cents": cents}))


def require_approval(call: FunctionCall, meta: None) -> RequireApproval:
    """Let an approver decide about each payment."""
    del call, meta
    return RequireApproval()


class Clerk(AgentFlow[Paused]):
    """An agent that pays, after an approval."""

    name = "clerk"

    def instructions(self, context: RunContext, /) -> str:
        del context
        return "You are a clerk. Use the tool to pay. Answer in one short sentence."

    def scopes(self) -> Sequence[ToolScope[Paused]]:
        return [ScopedCollection(tools, require_approval)]


@asynccontextmanager
async def open_model(*, script: bool) -> AsyncGenerator[tuple[ChatProvider, ChatOptions]]:
    """Open the local model, or a scripted one."""
    if script:
        call = FunctionCall("pay", {"to": "Bo", "cents": 500})
        yield ScriptedProvider(["I will pay Bo. ", call], "That is settled.", by_history=True), ChatOptions()
        return
    from chat_llamacpp import LlamaCppBuilder  # noqa: PLC0415 - not needed with --script

    async with LlamaCppBuilder().with_bundled_model().build() as model:
        yield model, ChatOptions(temperature=0, max_tokens=60)
