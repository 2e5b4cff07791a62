"""Measure a memory of many facts in one scope or in many: insert, recall and size. Vectors are given, not computed.

python benchmarks/memory_size.py FACTS SCOPES FILE
python benchmarks/memory_size.py FACTS SCOPES postgresql

The last thousand facts are inserted with `add()`, and measured. The others are written by a few large statements
before, because a hundred thousand transactions take long. The file is kept. If it exists, only recall is measured.
`postgresql` starts an empty server.
"""

from __future__ import annotations

import random
import statistics
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Protocol, TypeAlias, cast

import anyio
import numpy as np
import psycopg
from chat_core import ChatOptions
from chat_core.provider import EmbeddingsResponse, ProviderMeta
from chat_memory import SqliteMemory, Statement, normalize
from chat_memory.postgres import PostgresMemory
from chat_memory.recall import Recall
from chat_store.testing.postgres_server import shared_server


class Measurement(Protocol):
    """A function that measures a memory, and prints the figures."""

    def __call__(self, open_memory: OpenMemory, *, new: bool) -> Awaitable[None]:
        """Measure the memory that a function opens.

        Args:
            open_memory: opens the memory.
            new: whether the memory is empty.
        """
        ...


AnyMemory: TypeAlias = SqliteMemory | PostgresMemory
OpenMemory: TypeAlias = Callable[[], AnyMemory]

_DIMENSIONS = 384
_WORDS = [f"word{number}" for number in range(20_000)]
_QUESTIONS = 200
_MEASURED = 1000
_NO_END = 1 << 62
"""The value of the column `valid_to` of a fact that has no end."""
_FILL = """
    INSERT INTO chat_memory_statements (fact, name, subject, predicate, object, text, source, rank, confidence, said,
        valid_from, valid_to, recorded, outcome)
    SELECT key, 'filled', subject, predicate, object, replace(subject || ' ' || predicate || ' ' || object, '_', ' '),
        'stated', 3, 1.0, 0, 0, :no_end, 0, '{"outcome": "inserted"}' FROM chat_memory_facts;
    INSERT INTO chat_memory_periods (scope, kind, fact, begins, ends, statement)
    SELECT f.scope, 'current', f.key, s.valid_from, s.valid_to, s.key
        FROM chat_memory_facts f JOIN chat_memory_statements s ON s.fact = f.key;
    INSERT INTO chat_memory_links (scope, fact, entity)
    SELECT scope, key, subject FROM chat_memory_facts UNION ALL SELECT scope, key, object FROM chat_memory_facts;
    INSERT INTO chat_memory_documents (scope, kind, fact, said, text)
    SELECT f.scope, 'fact', f.key, s.said, s.text
        FROM chat_memory_facts f JOIN chat_memory_statements s ON s.fact = f.key
"""


class GivenVectors:
    """An embedder that returns prepared vectors, so that the model does not count."""

    metadata = ProviderMeta("given", "vectors")

    def __init__(self) -> None:
        self._vectors = np.random.default_rng(1).standard_normal((1000, _DIMENSIONS)).tolist()

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:  # noqa: ARG002 - as the protocol
        """Return a vector for each text."""
        return EmbeddingsResponse(tuple(self._vectors[sum(text.encode()) % len(self._vectors)] for text in texts))


def random_statement(chosen: random.Random, number: int) -> Statement:
    """Return a statement about a subject of its own."""
    words = chosen.sample(_WORDS, 4)
    return Statement(f"item {number}", words[0], " ".join(words[1:]))


def fill(memory: AnyMemory, facts: int, names: Sequence[str]) -> None:
    """Write the rows that `add()` writes for new facts, in one transaction."""
    chosen = random.Random(1)
    # There is no public way to write many rows at once.
    with memory._database.write() as session:  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - see above
        insert = "INSERT INTO chat_memory_scopes (scope, revision) VALUES (:name, 1) RETURNING key"
        keys = [session.execute(insert, {"name": name})[0][0] for name in names]
        statements = [random_statement(chosen, number) for number in range(facts)]
        session.execute_many(
            "INSERT INTO chat_memory_facts (scope, id, subject, predicate, object) "
            "VALUES (:scope, :id, :subject, :predicate, :object)",
            [
                {
                    "scope": cast("int", keys[number % len(keys)]),
                    "id": f"fact {number}",
                    "subject": normalize(statement.subject),
                    "predicate": normalize(statement.predicate),
                    "object": normalize(statement.object),
                }
                for number, statement in enumerate(statements)
            ],
        )
        for query in _FILL.split(";"):
            session.execute(query, {"no_end": _NO_END})


async def insert(memory: AnyMemory, facts: int, names: Sequence[str]) -> None:
    """Insert facts, the last thousand of them each in a transaction, and the vectors of all facts."""
    begun = perf_counter()
    fill(memory, facts - _MEASURED, names)
    print(f"filled in {perf_counter() - begun:.0f} s", flush=True)
    chosen = random.Random(3)
    begun, cpu = perf_counter(), process_time()
    for number in range(facts - _MEASURED, facts):
        await memory.scope(names[number % len(names)]).add(random_statement(chosen, number))
    each = 1000 * (perf_counter() - begun) / _MEASURED
    used = 1000 * (process_time() - cpu) / _MEASURED
    print(f"insert: {each:.1f} ms each, {used:.1f} ms of CPU time in this process", flush=True)
    begun = perf_counter()
    recall = Recall(memory, GivenVectors())
    for name in names:
        await recall.embed(name, batch=1000)
    print(f"vectors: {perf_counter() - begun:.0f} s", flush=True)


async def search(open_memory: OpenMemory, names: Sequence[str]) -> None:
    """Measure the first search in up to 50 scopes, and then searches in the same scopes."""
    chosen = random.Random(2)
    first: list[float] = []
    times: list[float] = []
    cpu: list[float] = []
    async with open_memory() as memory:
        recall = Recall(memory, GivenVectors())
        for number in range(_QUESTIONS):
            question = " ".join(chosen.sample(_WORDS, 4))
            begun, used = perf_counter(), process_time()
            await recall.search(names[number % len(names)], question)
            (first if number < len(names) else times).append(1000 * (perf_counter() - begun))
            cpu.append(1000 * (process_time() - used))
    print(f"first recall of a scope: median {statistics.median(first):.0f} ms")
    cpu = cpu[len(names) :]
    print(f"recall: median {statistics.median(times):.1f} ms, p99 {statistics.quantiles(times, n=100)[98]:.1f} ms")
    print(f"CPU time: median {statistics.median(cpu):.1f} ms, p99 {statistics.quantiles(cpu, n=100)[98]:.1f} ms")


async def main(facts: int, scopes: int, open_memory: OpenMemory, *, new: bool) -> None:
    """Print the figures."""
    names = [f"owner {number}" for number in range(scopes)]
    print(f"{facts} facts in {scopes} scopes")
    if new:
        async with open_memory() as memory:
            await insert(memory, facts, names)
    await search(open_memory, names[:50])


def measure_in(target: str, measure: Measurement) -> None:
    """Measure a memory in the file `target` or, for "postgresql", in an empty server, and print its size.

    Args:
        target: the path of a SQLite file, or "postgresql".
        measure: measures the memory.
    """
    if target == "postgresql":
        with shared_server() as server:
            anyio.run(partial(measure, partial(PostgresMemory, server.dsn), new=True))
            with psycopg.connect(server.dsn) as connection:
                row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
            print(f"database: {row[0] / 1e6 if row else 0:.0f} MB")
    else:
        file = Path(target)
        anyio.run(partial(measure, partial(SqliteMemory, file), new=not file.exists()))
        print(f"file: {file.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    measure_in(sys.argv[3], partial(main, int(sys.argv[1]), int(sys.argv[2])))
