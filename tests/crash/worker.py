"""The process that is killed. A server forks it for each run, which saves the time to start Python.

The server reads commands from its standard input, one JSON object per line. All processes write events to its standard
output. A run that has reached the stopping point of its command writes `reached`, and waits there until it is killed.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import anyio
from chat_core import (
    ChatBuilder,
    ChatResponse,
    Execute,
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
from chat_store import _compaction
from chat_store._journal import Disk, Journal
from chat_store.file_conversation import FileConversation

Order = dict[str, str | int | bool]
"""What to run and where to stop.

`path` of the conversation, `ledger` of the effects, `step` or `tool` with a `phase` to stop at, `resume` for a file
whose appearance ends that stop, `gate` for one to wait for at the beginning, `snapshots` to end each run with a
snapshot, and the `backend`.
"""

FOREVER = threading.Event()


def tell(**event: object) -> None:
    """Write one line with a single write, so that lines of several processes do not mix."""
    os.write(1, json.dumps({"pid": os.getpid(), **event}).encode() + b"\n")


def stop_here(gate: Path | None = None) -> None:
    """Wait until the process is killed, or until the gate opens."""
    tell(event="reached")
    while gate is None or not gate.exists():
        FOREVER.wait(0.001 if gate else None)


class StoppingDisk(Disk):
    """Stops at one durable step: before it, in the middle of its line, after the write, or after the sync."""

    def __init__(self, step: int, phase: str) -> None:
        self.step = step
        self.phase = phase
        self.steps = 0

    def write(self, fd: int, data: bytes) -> None:
        self.steps += 1
        if self.steps != self.step:
            super().write(fd, data)
            return
        if self.phase == "before":
            stop_here()
        if self.phase == "half":
            super().write(fd, data[: len(data) // 2])
            stop_here()
        super().write(fd, data)
        if self.phase == "written":
            stop_here()

    def sync(self, fd: int) -> None:
        super().sync(fd)
        if self.steps == self.step and self.phase == "synced":
            stop_here()


@dataclass(frozen=True)
class Risk:
    ask: bool = False


@dataclass(frozen=True)
class Ledger:
    """The effects outside the conversation: each effect of a tool is a line in a file."""

    path: Path
    tool: object
    phase: object
    resume: Path | None

    def enter(self, tool: str, context: ToolContext) -> str:
        if (self.tool, self.phase) == (tool, "begun"):
            self._stop()
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(fd, f"{tool} {context.idempotency_key} {context.attempt}\n".encode())
        os.fsync(fd)
        os.close(fd)
        if (self.tool, self.phase) == (tool, "done"):
            self._stop()
        return f"{tool} done"

    def _stop(self) -> None:
        # Once: the next process with the same order continues.
        mark = self.path.with_name(f"{self.path.name}.stopped")
        if not mark.exists():
            mark.touch()
            stop_here(self.resume)


def policy(_: FunctionCall, risk: Risk) -> Execute | RequireApproval:
    return RequireApproval() if risk.ask else Execute()


def make_chat(ledger: Ledger) -> StreamingChat[ChatResponse, Paused]:
    tools = ToolCollection(Risk)

    @tools.tool(Risk(ask=True))
    async def pay(cents: int, context: ToolContext) -> str:
        return ledger.enter(f"pay-{cents}", context)

    @tools.tool(Risk(), idempotent=True)
    def note(text: str, context: ToolContext) -> str:
        return ledger.enter(f"note-{text}", context)

    @tools.tool(Risk())
    def ship(item: str, context: ToolContext) -> str:
        return ledger.enter(f"ship-{item}", context)

    model = ScriptedProvider(
        [FunctionCall("pay", {"cents": 1}, id="call_pay"), FunctionCall("note", {"text": "a"}, id="call_note")],
        [
            "Paid.",
            FunctionCall("ship", {"item": "x"}, id="call_ship"),
            FunctionCall("pay", {"cents": 2}, id="call_pay_2"),
        ],
        "Everything is done.",
        by_history=True,
    )
    scope = ScopedCollection(tools, policy)
    return ChatBuilder().with_model(model).with_scoped_tools(scope).with_interrupted(RequireApproval()).build()


async def run(order: Order) -> None:
    resume = Path(str(order["resume"])) if "resume" in order else None
    chat = make_chat(Ledger(Path(str(order["ledger"])), order.get("tool"), order.get("phase"), resume))
    path = str(order["path"])
    try:
        async with FileConversation.open(path) as conversation:
            if not conversation.messages:
                conversation.messages.user("Pay, and ship.")
            if order.get("gate"):
                tell(event="ready")
                # The appearance of the file resumes all waiting processes at once.
                while not Path(str(order["gate"])).exists():  # noqa: ASYNC110, ASYNC240 - there is nothing to wait on
                    await anyio.sleep(0.001)
            outcome = await chat.complete(conversation)
    except ChatError as error:
        tell(event="outcome", kind=type(error).__name__, text=str(error))
        return
    if isinstance(outcome, Paused):
        waiting = [[wait.kind, wait.tool_id] for wait in outcome.waiting]
        tell(event="outcome", kind="Paused", reason=outcome.reason, waiting=waiting)
    else:
        tell(event="outcome", kind="Done", text=outcome.text)


def write_snapshots(order: Order) -> None:
    """Write a snapshot at the end of each run if the order requests it."""
    if order.get("snapshots"):
        _compaction.SMALLEST_TAIL = _compaction.LARGEST_RATIO = 0


def main_of_child(order: Order) -> None:
    """Run the order's conversation in a forked process."""
    write_snapshots(order)
    if "step" in order:
        Journal.disk = StoppingDisk(int(order["step"]), str(order["phase"]))
    anyio.run(run, order, backend=backend_of(order))
    disk = Journal.disk
    if isinstance(disk, StoppingDisk):
        tell(event="steps", steps=disk.steps)


def backend_of(order: Order) -> Literal["asyncio", "trio"]:
    return "trio" if order.get("backend") == "trio" else "asyncio"


def kill_later(order: Order) -> None:
    """Kill this process after the time in `order["kill_after"]`, in microseconds. Without that key, do nothing."""
    if "kill_after" in order:
        end = threading.Timer(int(order["kill_after"]) / 1e6, os.kill, (os.getpid(), signal.SIGKILL))
        end.daemon = True
        end.start()


def fork_for_each_order(main_of_child: Callable[[Order], None], *, trio: bool = False) -> None:
    """Read orders from standard input, fork for each one, and report the end of each child.

    Args:
        main_of_child: function that executes an order in the forked process.
        trio: whether orders may ask for Trio, which is then imported before the first fork to save time.
    """
    for name in ("asyncio", "trio") if trio else ("asyncio",):
        importlib.import_module(f"anyio._backends._{name}")
    tell(event="serving")
    for line in sys.stdin:
        order = cast("Order", json.loads(line))
        children = [_fork(main_of_child, order) for _ in range(int(order.get("many", 1)))]
        ends = [os.waitpid(child, 0) for child in children]
        for pid, status in ends:
            tell(pid=pid, event="gone", status=status)


def _fork(main_of_child: Callable[[Order], None], order: Order) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        main_of_child(order)
        code = 0
    finally:
        sys.stderr.flush()
        # Not sys.exit(): it would run the cleanup of the server in the child.
        os._exit(code)


if __name__ == "__main__":
    make_chat(Ledger(Path(), None, None, None))  # before the children are forked, to save time
    fork_for_each_order(main_of_child, trio=True)
