"""Workers and approvers as processes that can be killed. A server forks them, which saves the time to start Python.

The server reads commands from its standard input, one JSON object per line. All processes write events to its standard
output.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NoReturn, TypedDict, cast

from chat_core import (
    Chat,
    ChatBuilder,
    ChatResponse,
    Execute,
    FunctionCall,
    Paused,
    RequireApproval,
    Schedule,
    ScopedCollection,
    ToolCollection,
    ToolContext,
)
from chat_core.testing import ScriptedProvider
from chat_dbos import DurableChats, WorkflowTiming, decided, launched
from chat_store import SqliteStore
from dbos import DBOSClient

ID = "orders/17"
"""With a slash, as an id may have one."""


class Place(TypedDict):
    role: str
    folder: str
    url: str


class Order(Place, total=False):
    """The role of the process, and the point at which it stops.

    Attributes:
        role: `worker` or `person`.
        folder: contains the store and the ledger.
        url: the database of DBOS.
        executor, version: the name and the version of a worker.
        lease: seconds of the lease of a run.
        look: seconds between two polls of a worker for due conversations.
        take: the worker whose workflows this one takes over.
        start: whether to start a conversation.
        stop: where to wait to be killed: in the tool, `begun` or `done`; as a person, `decided`, before the workflow is
            woken.
        expires, at: seconds from now.
    """

    executor: str
    version: str
    lease: float
    look: float
    take: list[str]
    start: bool
    wake: bool
    stop: str
    expires: float
    at: float


def tell(**event: object) -> None:
    """Write one line with a single write, so that lines of several processes do not mix."""
    os.write(1, json.dumps({"pid": os.getpid(), **event}).encode() + b"\n")


def stop_here() -> NoReturn:
    tell(event="reached")
    while True:
        threading.Event().wait(60)


def make_chat(order: Order) -> Chat[ChatResponse, Paused]:
    ledger = Path(order["folder"]) / "ledger"
    tools = ToolCollection()

    @tools.tool()
    def pay(cents: int, context: ToolContext) -> str:
        if order.get("stop") == "begun":
            stop_here()
        # The effects outside the conversation are lines in a file.
        fd = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(fd, f"pay {cents} {context.idempotency_key}\n".encode())
        os.close(fd)
        if order.get("stop") == "done":
            stop_here()
        return "paid"

    def policy(_: FunctionCall, __: None) -> RequireApproval | Schedule | Execute:
        if "at" in order:
            return Schedule(datetime.now(UTC) + timedelta(seconds=order["at"]))
        return RequireApproval(timedelta(seconds=order["expires"]) if "expires" in order else None)

    model = ScriptedProvider(FunctionCall("pay", {"cents": 5}, id="call_pay"), "All is said.", by_history=True)
    scope = ScopedCollection(tools, policy)
    return ChatBuilder().with_model(model).with_scoped_tools(scope).with_interrupted(RequireApproval()).build()


async def work(order: Order) -> None:
    timing = WorkflowTiming(first=0.2, busy=0.2, look_every=order.get("look", 3_600.0))
    async with SqliteStore(Path(order["folder"]) / "chats.db", lease_seconds=order.get("lease", 30.0)) as store:
        durable = DurableChats(store, {"shop": make_chat(order)}, timing=timing)
        async with launched(
            {
                "name": "shop",
                "system_database_url": order["url"],
                "executor_id": order.get("executor"),
                "application_version": order.get("version"),
                "log_level": "CRITICAL",
                "notification_listener_polling_interval_sec": 0.05,
            }
        ):
            for executor in order.get("take", []):
                tell(event="taken", taken=await durable.take_over(executor))
            if order.get("start"):
                tell(event="started", workflow=(await durable.start(ID, chat="shop")).workflow_id)
            if order.get("wake"):
                tell(event="woken", workflows=await durable.wake_due())
            tell(event="ready")
            await asyncio.Event().wait()


async def decide(order: Order) -> None:
    """Approve the waiting calls, record the outcome of interrupted ones, and notify the workflows."""
    ledger = Path(order["folder"]) / "ledger"
    async with SqliteStore(Path(order["folder"]) / "chats.db") as store:
        for item in await store.waiting():
            async with store.open(item.conversation) as conversation:
                tool = conversation.messages.tool(*item.wait.path)
                if item.wait.kind == "approval":
                    tool.approve(by="ana")
                elif ledger.exists():
                    tool.complete("looked up: it was paid", by="ben")
                else:
                    tool.retry(by="ben")
    if order.get("stop") == "decided":
        stop_here()
    client = DBOSClient(system_database_url=order["url"])
    try:
        tell(event="told", workflows=await decided(ID, client))
    finally:
        client.destroy()


def main_of_child(order: Order) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        asyncio.run((work if order["role"] == "worker" else decide)(order))
    except Exception as error:  # noqa: BLE001 - the test that waits is to know
        tell(event="failed", error=repr(error))
    finally:
        sys.stderr.flush()
        # Not sys.exit(), because the child must not run the cleanup of the server.
        os._exit(0)


def serve() -> None:
    """Fork for each order."""
    # The child processes are not awaited: the system removes those that ended.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    tell(event="serving")
    for line in sys.stdin:
        order = cast("Order", json.loads(line))
        if os.fork() == 0:
            main_of_child(order)


if __name__ == "__main__":
    serve()
