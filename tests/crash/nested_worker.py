"""Worker process whose chat contains chats: a firm with two offices in parallel, each with a clerk.

The commands are those of `store_worker.py`. A command with `path` instead of `store` uses a `FileConversation`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias

import anyio
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
from chat_core.errors import ChatError
from chat_core.testing import ScriptedProvider
from chat_store import OpenConversation
from chat_store._journal import Journal
from chat_store.file_conversation import FileConversation
from chat_store.postgres import PostgresBackend
from chat_store.sqlite import SqliteBackend

from .store_worker import StoppingPostgres, StoppingSqlite, Stops, open_store
from .worker import Ledger, Order, Risk, StoppingDisk, backend_of, fork_for_each_order, kill_later, policy, tell

Run: TypeAlias = Callable[[Order], Awaitable[None]]
"""Function that executes an order and reports its outcome."""
OFFICES = 2
EFFECTS = {"ship-firm": 1, "sign-0": OFFICES, "ship-x": OFFICES, "pay-1": OFFICES, "ship-y": OFFICES}
"""How often each effect happens in the whole story."""


def make_firm(ledger: Ledger) -> StreamingChat[ChatResponse, Paused]:
    """Build the chat. Each level calls tools and the chats of the next level, and waits for an approval."""
    tools = ToolCollection(Risk)

    @tools.tool(Risk(ask=True))
    async def pay(cents: int, context: ToolContext) -> str:
        return ledger.enter(f"pay-{cents}", context)

    @tools.tool(Risk(ask=True))
    def sign(page: int, context: ToolContext) -> str:
        return ledger.enter(f"sign-{page}", context)

    @tools.tool(Risk())
    async def ship(item: str, context: ToolContext) -> str:
        return ledger.enter(f"ship-{item}", context)

    scope = ScopedCollection(tools, policy)

    def chat(
        *script: list[FunctionCall] | str, below: StreamingChat[ChatResponse, Paused] | None = None
    ) -> StreamingChat[ChatResponse, Paused]:
        model = ScriptedProvider(*script, by_history=True)
        builder = ChatBuilder().with_model(model).with_scoped_tools(scope).with_interrupted(RequireApproval())
        if below is None:
            return builder.build()
        return builder.with_scoped_tools(below.as_tool(name="ask", description="Asks.")).build()

    clerk = chat(
        [FunctionCall("ship", {"item": "x"}, id="ship_x"), FunctionCall("pay", {"cents": 1}, id="pay")],
        [FunctionCall("ship", {"item": "y"}, id="ship_y")],
        "The clerk is done.",
    )
    office = chat(
        [FunctionCall("ask", {"request": "Pay, and ship."}, id="clerk"), FunctionCall("sign", {"page": 0}, id="sign")],
        "The office is done.",
        below=clerk,
    )
    asks = [FunctionCall("ask", {"request": "Do it."}, id=f"office_{number}") for number in range(OFFICES)]
    firm = [*asks, FunctionCall("ship", {"item": "firm"}, id="ship_firm")]
    return chat(firm, "Everything is done.", below=office)


@asynccontextmanager
async def open_conversation(order: Order) -> AsyncGenerator[OpenConversation]:
    """Open the conversation of an order."""
    if "path" in order:
        async with FileConversation.open(str(order["path"])) as conversation:
            yield conversation
        return
    async with open_store(order) as store, store.open("chat") as conversation:
        yield conversation


async def run(make_chat: Callable[[Ledger], StreamingChat[ChatResponse, Paused]], order: Order) -> None:
    """Run a chat once and report its outcome."""
    chat = make_chat(Ledger(Path(str(order["ledger"])), order.get("tool"), order.get("phase"), None))
    try:
        async with open_conversation(order) as conversation:
            if not conversation.messages:
                conversation.messages.user("Pay, and ship.")
            outcome = await chat.complete(conversation)
    except ChatError as error:
        tell(event="outcome", kind=type(error).__name__, text=str(error))
        return
    if isinstance(outcome, Paused):
        tell(event="outcome", kind="Paused", waiting=[[wait.kind, *wait.path] for wait in outcome.waiting])
    else:
        tell(event="outcome", kind="Done", text=outcome.text)


def serve(run: Run) -> None:
    """Call `run` in a forked process for each order."""

    def main_of_child(order: Order) -> None:
        kill_later(order)
        step, phase = int(order.get("step", 0)), str(order.get("phase"))
        stops = Stops(step, phase)
        Journal.disk = disk = StoppingDisk(step, phase)
        SqliteBackend.committer = StoppingSqlite(stops)
        PostgresBackend.committer = StoppingPostgres(stops)
        anyio.run(run, order, backend=backend_of(order))
        if "step" in order:
            tell(event="steps", steps=max(disk.steps, stops.steps))

    fork_for_each_order(main_of_child, trio=True)


if __name__ == "__main__":
    make_firm(Ledger(Path(), None, None, None))
    serve(partial(run, make_firm))
