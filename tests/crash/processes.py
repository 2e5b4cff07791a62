"""The parent process: it starts runs, kills them, and records decisions between runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol, Self, TypeVar, cast, final

import anyio
from chat_core.errors import ConflictError
from chat_core.messages import Interrupted, Messages, Pending, Tool
from chat_store.file_conversation import FileConversation
from chat_store.history import HistoryEntry

Event = dict[str, object]
T = TypeVar("T")


class Sample(Protocol):
    """The fixture `sample` of `conftest.py`, which selects the cases to run."""

    def __call__(self, cases: Sequence[T], most: int, /) -> list[T]: ...


@final
class Server:
    """A process that forks a child for each order. `module` names a module other than `worker.py`."""

    def __init__(self, *command: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *(command or [str(Path(__file__).with_name("worker.py"))])],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            start_new_session=True,
        )
        assert self.event()["event"] == "serving"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._process.stdout:
            self._process.stdin.close()
            if error_type is not None:  # the process may wait for a child that never ends
                os.killpg(self._process.pid, signal.SIGKILL)
            code = self._process.wait(30)
        assert code == 0 or error_type is not None

    def order(self, **order: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({key: str_of(value) for key, value in order.items()}) + "\n")
        self._process.stdin.flush()

    def event(self) -> Event:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the worker died"
        return cast("Event", json.loads(line))

    def until(self, *names: str) -> Event:
        """Return the next event with one of these names. A run that ends without an event is a failure."""
        while True:
            event = self.event()
            if event["event"] in names:
                return event
            assert event["event"] != "gone", event

    def end(self, event: Event) -> None:
        """Kill the run that sent this event with `kill -9`."""
        os.kill(cast("int", event["pid"]), signal.SIGKILL)
        assert self.until("gone")["status"] == signal.SIGKILL

    def run(self, **order: object) -> Event:
        """Return the outcome of a run that is not interrupted."""
        self.order(**order)
        outcome = self.until("outcome")
        assert self.until("gone")["status"] == 0
        return outcome


def str_of(value: object) -> object:
    return str(value) if isinstance(value, Path) else value


# --- Decisions of approvers -------------------------------------------------------------------------------------------


def messages_of(path: Path) -> Messages:
    async def read() -> Messages:
        async with FileConversation.open(path) as conversation:
            return conversation.messages

    return anyio.run(read)


def history_of(path: Path) -> list[HistoryEntry]:
    async def read() -> list[HistoryEntry]:
        async with FileConversation.open(path) as conversation:
            return await conversation.history()

    return anyio.run(read)


def effects(ledger: Path) -> Counter[str]:
    """Return the effects outside the process with their counts."""
    lines = ledger.read_text().splitlines() if ledger.exists() else []
    return Counter([line.split()[0] for line in lines])


def name_of(tool: Tool) -> str:
    """Return the name of the effect of a call in the ledger."""
    (argument,) = tool.effective_arguments.values()
    return f"{tool.name}-{argument}"


def decide(path: Path, ledger: Path) -> list[str]:
    """Approve waiting calls, and record the outcomes of interrupted calls from the ledger. Return the ids of those."""

    async def decide() -> list[str]:
        interrupted: list[str] = []
        async with FileConversation.open(path) as conversation:
            for tool in conversation.messages.pending():
                if isinstance(tool.status, Pending) and tool.status.kind == "approval":
                    tool.approve(by="ana")
                elif isinstance(tool.status, Interrupted):
                    interrupted.append(tool.id)
                    if effects(ledger)[name_of(tool)]:
                        tool.complete("looked up: it was done", by="ben")
                    else:
                        tool.retry(by="ben")
        return interrupted

    return anyio.run(decide)


def overtake(path: Path) -> Messages:
    """Claim a conversation with a clock that is a minute ahead, release it, and return its messages."""

    async def claim() -> Messages:
        async with FileConversation.open(path) as conversation:
            try:
                await conversation.claim()
            except ConflictError:
                pass
            else:
                msg = "the lease has not run out, and was taken"
                raise AssertionError(msg)
        async with FileConversation.open(path, now=lambda: datetime.now(UTC) + timedelta(minutes=1)) as conversation:
            await conversation.claim()
            for tool in conversation.messages.pending():
                tool.lost("its process stands still")
                await conversation.write_tool((tool.id,), tool)
            await conversation.release()
            return conversation.messages

    return anyio.run(claim)
