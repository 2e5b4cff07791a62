"""Worker process whose chat contains chats: a firm with two offices in parallel, each with a clerk.

The orders are those of `store_worker.py`. An order with `path` instead of `store` uses a `FileConversation`.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, NoReturn, TypeAlias, cast

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
from .worker import Ledger, Order, Risk, StoppingDisk, policy, tell

Run: TypeAlias = Callable[[Order], Awaitable[None]]
"""Function that executes an order and reports its outcome."""
OFFICES = 2
EFFECTS = {"ship-firm": 1, "sign-0": OFFICES, "ship-x": OFFICES, "pay-1": OFFICES, "ship-y": OFFICES}
"""How often each effect happens in the whole story."""


def make_firm(ledger: Ledger) -> StreamingChat[ChatResponse, Paused]:
    """Build the chat. Every level has calls of its own beside the chats below it, and waits for an approval."""
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


async def run(order: Order) -> None:
    """Run the chat once and report its outcome."""
    chat = make_firm(Ledger(Path(str(order["ledger"])), order.get("tool"), order.get("phase"), None))
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


def main_of_child(order: Order, run: Run) -> NoReturn:
    """Execute an order in the forked process."""
    code = 1
    try:
        if "kill_after" in order:
            end = threading.Timer(int(order["kill_after"]) / 1e6, os.kill, (os.getpid(), signal.SIGKILL))
            end.daemon = True
            end.start()
        disk = StoppingDisk(int(order.get("step", 0)), str(order.get("phase")))
        stops = Stops(int(order.get("step", 0)), str(order.get("phase")))
        Journal.disk = disk
        SqliteBackend.committer = StoppingSqlite(stops)
        PostgresBackend.committer = StoppingPostgres(stops)
        backend: Literal["asyncio", "trio"] = "trio" if order.get("backend") == "trio" else "asyncio"
        anyio.run(run, order, backend=backend)
        if "step" in order:
            tell(event="steps", steps=max(disk.steps, stops.steps))
        code = 0
    finally:
        sys.stderr.flush()
        # Not sys.exit(): it would run the cleanup of the server in the child.
        os._exit(code)


def serve(run: Run) -> None:
    """Fork for each order, call `run` in the child, and report the end of each child."""
    for name in ("anyio._backends._asyncio", "anyio._backends._trio"):
        importlib.import_module(name)
    tell(event="serving")
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            main_of_child(cast("Order", json.loads(line)), run)
        _, status = os.waitpid(pid, 0)
        os.write(1, json.dumps({"pid": pid, "event": "gone", "status": status}).encode() + b"\n")


if __name__ == "__main__":
    make_firm(Ledger(Path(), None, None, None))
    serve(run)
