"""Measure a memory of many facts in one scope or in many: insert, recall and size. Vectors are given, not computed.

python benchmarks/memory_size.py FACTS SCOPES FILE
python benchmarks/memory_size.py FACTS SCOPES postgresql

The file is kept. If it exists, only recall is measured. `postgresql` starts an empty server.
"""

from __future__ import annotations

import random
import statistics
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TypeAlias

import anyio
import numpy as np
import psycopg
from chat_core import ChatOptions
from chat_core.provider import EmbeddingsResponse, ProviderMeta
from chat_memory import SqliteMemory, Statement
from chat_memory.postgres import PostgresMemory
from chat_memory.recall import Recall
from chat_store.testing.postgres_server import shared_server

OpenMemory: TypeAlias = Callable[[], SqliteMemory | PostgresMemory]

_DIMENSIONS = 384
_WORDS = [f"word{number}" for number in range(20_000)]
_QUESTIONS = 200


class GivenVectors:
    """An embedder that returns prepared vectors, so that the model does not count."""

    metadata = ProviderMeta("given", "vectors")

    def __init__(self) -> None:
        self._vectors = np.random.default_rng(1).standard_normal((1000, _DIMENSIONS)).tolist()

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:  # noqa: ARG002
        """Return a vector for each text."""
        return EmbeddingsResponse(tuple(self._vectors[sum(text.encode()) % len(self._vectors)] for text in texts))


async def insert(open_memory: OpenMemory, facts: int, names: Sequence[str]) -> None:
    """Insert facts, each in a transaction, and their vectors."""
    chosen = random.Random(1)  # noqa: S311 - a measurement
    async with open_memory() as memory:
        begun = perf_counter()
        for number in range(facts):
            words = chosen.sample(_WORDS, 4)
            statement = Statement(f"item {number}", words[0], " ".join(words[1:]))
            await memory.scope(names[number % len(names)]).add(statement)
        inserted = perf_counter() - begun
        print(f"insert: {inserted:.0f} s, {1000 * inserted / facts:.1f} ms each", flush=True)
        recall = Recall(memory, GivenVectors())
        for name in names:
            await recall.embed(name, batch=1000)
        print(f"vectors: {perf_counter() - begun - inserted:.0f} s", flush=True)


async def search(open_memory: OpenMemory, names: Sequence[str]) -> None:
    """Measure the first search in up to 50 scopes, and then searches in the same scopes."""
    chosen = random.Random(2)  # noqa: S311 - a measurement
    first: list[float] = []
    times: list[float] = []
    async with open_memory() as memory:
        recall = Recall(memory, GivenVectors())
        for number in range(_QUESTIONS):
            question = " ".join(chosen.sample(_WORDS, 4))
            begun = perf_counter()
            await recall.search(names[number % len(names)], question)
            (first if number < len(names) else times).append(1000 * (perf_counter() - begun))
    print(f"first recall of a scope: median {statistics.median(first):.0f} ms")
    print(f"recall: median {statistics.median(times):.1f} ms, p99 {statistics.quantiles(times, n=100)[98]:.1f} ms")


async def main(facts: int, scopes: int, open_memory: OpenMemory, *, new: bool) -> None:
    """Print the figures."""
    names = [f"owner {number}" for number in range(scopes)]
    print(f"{facts} facts in {scopes} scopes")
    if new:
        await insert(open_memory, facts, names)
    await search(open_memory, names[:50])


if __name__ == "__main__":
    sizes = int(sys.argv[1]), int(sys.argv[2])
    if sys.argv[3] == "postgresql":
        with shared_server() as server:
            anyio.run(partial(main, *sizes, lambda: PostgresMemory(server.dsn), new=True))
            with psycopg.connect(server.dsn) as connection:
                row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
            print(f"database: {row[0] / 1e6 if row else 0:.0f} MB")
    else:
        file = Path(sys.argv[3])
        anyio.run(partial(main, *sizes, lambda: SqliteMemory(file), new=not file.exists()))
        print(f"file: {file.stat().st_size / 1e6:.0f} MB")
