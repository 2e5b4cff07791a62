"""Worker process whose chat runs a program of code mode. The commands are those of `nested_worker.py`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from chat_core import (
    ChatBuilder,
    ChatResponse,
    FunctionCall,
    Paused,
    RequireApproval,
    ScopedCollection,
    StreamingChat,
    ToolCollection,
    ToolContext,
)
from chat_core.testing import ScriptedProvider
from chat_pipeline import code_tool

from .nested_worker import run, serve
from .worker import Ledger, Risk, policy

EFFECTS: Final = {"ship-a": 1, "pay-500": 1, "ship-b": 1, "pay-600": 1}
"""How often each effect of the program happens."""
PROGRAM: Final = """
import asyncio
first = await asyncio.gather(ship('a'), pay(500))
second = await ship('b')
[*first, second, await pay(600)]
"""


def make_office(ledger: Ledger) -> StreamingChat[ChatResponse, Paused]:
    """Build the chat, whose model writes the program."""
    tools = ToolCollection(Risk)

    @tools.tool(Risk(ask=True))
    async def pay(cents: int, context: ToolContext) -> str:
        return ledger.enter(f"pay-{cents}", context)

    @tools.tool(Risk())
    def ship(item: str, context: ToolContext) -> str:
        return ledger.enter(f"ship-{item}", context)

    call = FunctionCall("run_code", {"program": PROGRAM}, id="run")
    return (
        ChatBuilder()
        .with_model(ScriptedProvider(call, "Everything is done.", by_history=True))
        .with_scoped_tools(code_tool(ScopedCollection(tools, policy), interrupted=RequireApproval()))
        .build()
    )


if __name__ == "__main__":
    make_office(Ledger(Path(), None, None, None))
    serve(partial(run, make_office))
