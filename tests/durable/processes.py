"""The parent process: it starts and kills workers and approvers, and reads the results."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from functools import cached_property
from pathlib import Path
from typing import IO, Self, TypeVar, cast, final

import anyio
from chat_core.messages import Messages, Tool
from chat_store import SqliteStore
from dbos import DBOSClient, WorkflowStatus

from .worker import ID

T = TypeVar("T")

Event = dict[str, object]
PATIENCE = 120.0
BETWEEN = 0.02


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait until another process has made a condition true in a database."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"after {PATIENCE} s, still not: {what}"
        time.sleep(BETWEEN)


@final
class Server:
    """The process that forks, and the events of all its children."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.durable.worker"],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self._events: queue.Queue[Event] = queue.Queue()
        self._heard: list[Event] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.event("serving")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Its children hold the pipe, too, so they must have ended before.
        cast("IO[str]", self._process.stdin).close()
        self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        cast("IO[str]", self._process.stdout).close()

    def _read(self) -> None:
        for line in cast("IO[str]", self._process.stdout):
            self._events.put(cast("Event", json.loads(line)))

    def order(self, **order: object) -> None:
        stdin = cast("IO[str]", self._process.stdin)
        stdin.write(json.dumps(order) + "\n")
        stdin.flush()

    def event(self, name: str) -> Event:
        """Return the next event with this name. Other events are kept for later calls."""
        for number, event in enumerate(self._heard):
            if event["event"] == name:
                return self._heard.pop(number)
        while True:
            event = self._events.get(timeout=PATIENCE)
            assert event["event"] != "failed", event
            if event["event"] == name:
                return event
            self._heard.append(event)


@final
class Shop:
    """A conversation, its ledger, its DBOS, and the processes that use it."""

    def __init__(self, server: Server, folder: Path, url: str) -> None:
        self._server = server
        self._folder = folder
        self.url = url
        self.ledger = folder / "ledger"
        self._living: set[int] = set()
        self.within(self._begin)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pid in list(self._living):
            self.kill(pid)
        if "_dbos" in vars(self):
            self._dbos.destroy()

    @cached_property
    def _dbos(self) -> DBOSClient:
        return DBOSClient(system_database_url=self.url)

    async def _begin(self, store: SqliteStore) -> None:
        async with store.open(ID) as conversation:
            conversation.messages.user("Pay, please.")

    def worker(self, executor: str, *, until: str = "ready", **order: object) -> int:
        """Start a worker, wait for its event `until`, and return the id of its process."""
        return self._process(until, role="worker", executor=executor, **order)

    def person(self, *, until: str = "told", **order: object) -> int:
        """Start a process that decides all waiting calls, wait for its event `until`, and return its process id."""
        return self._process(until, role="person", **order)

    def until(self, name: str) -> Event:
        return self._server.event(name)

    def _process(self, until: str, **order: object) -> int:
        self._server.order(folder=str(self._folder), url=self.url, **order)
        pid = cast("int", self.until(until)["pid"])
        self._living.add(pid)
        return pid

    def kill(self, pid: int) -> None:
        """Kill the process with `kill -9`, and wait until it has ended."""
        self._living.discard(pid)
        while True:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                return
            time.sleep(0.005)

    # --- Results ----------------------------------------------------------------------------------------------------

    def within(self, work: Callable[[SqliteStore], Coroutine[object, object, T]]) -> T:
        async def open_and_work() -> T:
            async with SqliteStore(self._folder / "chats.db") as store:
                return await work(store)

        return anyio.run(open_and_work)

    def messages(self) -> Messages:
        async def read(store: SqliteStore) -> Messages:
            return (await store.load(ID)).messages

        return self.within(read)

    def waits(self, kind: str) -> bool:
        async def read(store: SqliteStore) -> bool:
            return [item.wait.kind for item in await store.waiting()] == [kind]

        return self.within(read)

    def call(self) -> Tool:
        return self.messages().tool("call_pay")

    def answered(self) -> bool:
        last = self.messages().last
        return last is not None and last.role == "model" and last.turns[-1].text == "All is said."

    def workflows(self) -> list[WorkflowStatus]:
        return self._dbos.list_workflows(workflow_id_prefix="chat/")

    def rests(self) -> bool:
        """Return whether a run has ended with a wait.

        Waiting calls are visible before that, but an active run is not due.
        """
        return self._ended_as({"kind": "halted", "until": None})

    def found_busy(self) -> bool:
        """Return whether a run was refused because another run was active."""
        return self._ended_as({"kind": "busy"})

    def _ended_as(self, end: dict[str, object]) -> bool:
        return any(
            step["output"] == end
            for item in self.workflows()
            for step in self._dbos.list_workflow_steps(item.workflow_id)
        )

    def paid(self) -> int:
        return len(self.ledger.read_text().splitlines()) if self.ledger.exists() else 0

    def require_finished(self, *, paid: int = 1) -> None:
        """Check that the effects happened once, and that the conversation and a workflow have ended."""
        wait_until(self.answered, "an answer")
        wait_until(lambda: any(item.status == "SUCCESS" for item in self.workflows()), "the end of the workflow")
        assert self.paid() == paid
        answers = [turn for content in self.messages() for turn in content.turns if turn.text == "All is said."]
        assert len(answers) == 1
