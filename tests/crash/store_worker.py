"""The process that is killed, with its conversation in a store: as `worker.py`, which has the rest of it."""

from __future__ import annotations

import importlib
import json
import os
import signal
import sqlite3
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, NoReturn, cast

import anyio
from chat_core import Paused
from chat_core.errors import ChatError
from chat_store import SqliteStore
from chat_store.postgres import Committer as PostgresCommitter
from chat_store.postgres import PostgresBackend, PostgresStore
from chat_store.sql.pool import Connection
from chat_store.sqlite import Committer as SqliteCommitter
from chat_store.sqlite import SqliteBackend

from .worker import Ledger, Order, make_chat, stop_here, tell, write_snapshots

# An order says besides: `store`, the path of a SQLite file, or with `schema` the address of a server; `ahead`, by how
# many minutes the clock of the run is ahead; `kill_after`, how many microseconds it has to live; `many`, how many
# processes get the order at once.


class Stops:
    """Where to stop: at one durable step, in its transaction or behind it."""

    def __init__(self, step: int, phase: str) -> None:
        self.step = step
        self.phase = phase
        self.steps = 0

    @contextmanager
    def commit(self) -> Generator[None]:
        self.steps += 1
        if self.steps == self.step and self.phase == "written":
            stop_here()
        yield
        if self.steps == self.step and self.phase == "committed":
            stop_here()


class StoppingSqlite(SqliteCommitter):
    def __init__(self, stops: Stops) -> None:
        self.stops = stops

    def commit(self, connection: sqlite3.Connection) -> None:
        with self.stops.commit():
            super().commit(connection)


class StoppingPostgres(PostgresCommitter):
    def __init__(self, stops: Stops) -> None:
        self.stops = stops

    def commit(self, connection: Connection, then: bytes) -> None:
        with self.stops.commit():
            super().commit(connection, then)


def open_store(order: Order) -> SqliteStore | PostgresStore:
    ahead = timedelta(minutes=int(order.get("ahead", 0)))

    def now() -> datetime:
        return datetime.now(UTC) + ahead

    if "schema" in order:
        return PostgresStore(str(order["store"]), schema=str(order["schema"]), busy_seconds=120, now=now)
    return SqliteStore(str(order["store"]), busy_seconds=120, now=now)


async def run(order: Order) -> None:
    resume = Path(str(order["resume"])) if "resume" in order else None
    chat = make_chat(Ledger(Path(str(order["ledger"])), order.get("tool"), order.get("phase"), resume))
    try:
        async with open_store(order) as store, store.open("chat") as conversation:
            if not conversation.messages:
                conversation.messages.user("Pay, and ship.")
            if order.get("gate"):
                tell(event="ready")
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


def main_of_child(order: Order) -> NoReturn:
    code = 1
    try:
        write_snapshots(order)
        if "kill_after" in order:
            end = threading.Timer(int(order["kill_after"]) / 1e6, os.kill, (os.getpid(), signal.SIGKILL))
            end.daemon = True
            end.start()
        stops = Stops(int(order.get("step", 0)), str(order.get("phase")))
        SqliteBackend.committer = StoppingSqlite(stops)
        PostgresBackend.committer = StoppingPostgres(stops)
        backend: Literal["asyncio", "trio"] = "trio" if order.get("backend") == "trio" else "asyncio"
        anyio.run(run, order, backend=backend)
        if "step" in order:
            tell(event="steps", steps=stops.steps)
        code = 0
    finally:
        sys.stderr.flush()
        # Not sys.exit(): what the server would do at its end is not the child's to do.
        os._exit(code)


def serve() -> None:
    """Fork for each order; say when a child is gone."""
    for name in ("anyio._backends._asyncio", "anyio._backends._trio"):
        importlib.import_module(name)
    make_chat(Ledger(Path(), None, None, None))
    tell(event="serving")
    for line in sys.stdin:
        order = cast("Order", json.loads(line))
        children: list[int] = []
        for _ in range(int(order.get("many", 1))):
            pid = os.fork()
            if pid == 0:
                main_of_child(order)
            children.append(pid)
        ends = [os.waitpid(child, 0) for child in children]
        for pid, status in ends:
            os.write(1, json.dumps({"pid": pid, "event": "gone", "status": status}).encode() + b"\n")


if __name__ == "__main__":
    serve()
