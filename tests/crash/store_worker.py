"""The process that is killed while it runs a conversation in a store. It uses the code of `worker.py`."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
from chat_core import Paused
from chat_core.errors import ChatError
from chat_store import SqliteStore
from chat_store.postgres import Committer as PostgresCommitter
from chat_store.postgres import PostgresBackend, PostgresStore
from chat_store.sql.pool import Connection
from chat_store.sqlite import Committer as SqliteCommitter
from chat_store.sqlite import SqliteBackend

from .worker import (
    Ledger,
    Order,
    backend_of,
    fork_for_each_order,
    kill_later,
    make_chat,
    stop_here,
    tell,
    write_snapshots,
)

# An order has these further fields. `store`: path of a SQLite file, or with `schema` the address of a server. `ahead`:
# number of minutes by which the clock of the run is ahead. `kill_after`: microseconds until the process is killed.
# `many`: number of processes that receive the order at the same time.


class Stops:
    """A stop at one durable step, inside its transaction or after it."""

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


def main_of_child(order: Order) -> None:
    write_snapshots(order)
    kill_later(order)
    stops = Stops(int(order.get("step", 0)), str(order.get("phase")))
    SqliteBackend.committer = StoppingSqlite(stops)
    PostgresBackend.committer = StoppingPostgres(stops)
    anyio.run(run, order, backend=backend_of(order))
    if "step" in order:
        tell(event="steps", steps=stops.steps)


if __name__ == "__main__":
    make_chat(Ledger(Path(), None, None, None))  # before the children are forked, to save time
    fork_for_each_order(main_of_child, trio=True)
