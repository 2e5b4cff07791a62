"""A process that dies at any statement of a transaction leaves the state before or after it, in both databases."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias
from uuid import uuid4

import anyio
import pytest
from chat_memory import Entity, Memory, MemoryScope, Outcome, Passage, Source, SqliteMemory, Statement, UserCitation
from chat_memory._database import Row, Session, Value
from chat_memory.postgres import PostgresMemory
from chat_store.testing.postgres_server import PostgresServer

Opens: TypeAlias = Callable[[], SqliteMemory | PostgresMemory]
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def home(city: str, year: int, source: Source = "stated") -> Statement:
    since = datetime(year, 1, 1, tzinfo=UTC)
    return Statement("user", "lives in", city, source=source, valid_from=since, said_at=since, key=f"{city} {year}")


class Counter:
    """Counts the statements of all sessions, and kills the process before the one with a number."""

    def __init__(self, fatal: int) -> None:
        self.number = 0
        self.fatal = fatal

    def step(self) -> None:
        self.number += 1
        if self.number == self.fatal:
            os.kill(os.getpid(), 9)


class Counting:
    """A session that counts its statements."""

    def __init__(self, session: Session, counter: Counter) -> None:
        self._session = session
        self._counter = counter

    def execute(self, query: str, values: Mapping[str, Value]) -> Sequence[Row]:
        self._counter.step()
        return self._session.execute(query, values)

    def execute_many(self, query: str, rows: Sequence[Mapping[str, Value]]) -> None:
        for row in rows:
            self._counter.step()
            self._session.execute_many(query, [row])

    def match(self, words: Sequence[str], scope: int) -> tuple[str, Mapping[str, Value]]:
        return self._session.match(words, scope)


def count_writes(memory: SqliteMemory | PostgresMemory, counter: Counter) -> None:
    """Count the statements of each write transaction of a memory, and its commit as one more."""
    database = memory._database  # pyright: ignore[reportPrivateUsage] - where a crash is simulated
    write = database.write

    @contextmanager
    def counted() -> Generator[Session]:
        with write() as session:
            yield Counting(session, counter)
            counter.step()
        counter.step()

    database.write = counted  # type: ignore[method-assign]  # the test replaces it


async def _superseding(scope: MemoryScope) -> Outcome:
    return await scope.add(home("Paris", 2024))


async def _promoting(scope: MemoryScope) -> Outcome:
    (candidate,) = await scope.facts(status="candidate")
    return await scope.promote(candidate.id, UserCitation("ana"))


async def _forgetting(scope: MemoryScope) -> bool:
    (current,) = await scope.facts()
    return await scope.forget(current.id)


async def _deleting(scope: MemoryScope) -> None:
    await scope.delete_all()


WRITES = {"supersede": _superseding, "promote": _promoting, "forget": _forgetting, "delete": _deleting}


async def fill(memory: Memory) -> None:
    scope = memory.scope("ana")
    await scope.add_entity(Entity("Berlin", "city"))
    await scope.add_passages([Passage("I moved.", "chat-17")])
    await scope.add(home("Berlin", 2020))
    await scope.add(home("Rome", 2025, "inferred"))
    await scope.put_vectors("m", {item.id: [1.0] for item in await scope.documents()})


async def state(open_memory: Opens) -> str:
    async with open_memory() as memory:
        scope = memory.scope("ana")
        stats = await scope.stats()
        found = [len(await scope.search_text([word])) for word in ("lives", "moved", "Berlin", "Paris", "Rome")]
        return repr((await scope.export(), stats, found, len((await scope.vectors("m"))[0])))


def run_child(open_memory: Opens, write: str, fatal: int) -> bool:
    """Write in a forked process, and return whether it was killed."""
    child = os.fork()
    if child == 0:
        status = 1
        try:

            async def main() -> None:
                async with open_memory() as memory:
                    await memory.scopes()
                    count_writes(memory, Counter(fatal))
                    await WRITES[write](memory.scope("ana"))

            anyio.run(main)
            status = 0
        finally:
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    assert os.WIFSIGNALED(ended) or os.waitstatus_to_exitcode(ended) == 0
    return os.WIFSIGNALED(ended)


def check(new_memory: Callable[[], Opens], write: str, every: int) -> None:
    """Kill the writer at every statement, or at every `every`-th one and the last ones."""
    reference = new_memory()
    anyio.run(run_fill, reference)
    before = anyio.run(state, reference)
    assert not run_child(reference, write, 0)
    after = anyio.run(state, reference)
    assert before != after
    results: list[str] = []
    fatal = 1
    while True:
        memory = new_memory()
        anyio.run(run_fill, memory)
        killed = run_child(memory, write, fatal)
        results.append(anyio.run(state, memory))
        if not killed:
            break
        fatal += every
    assert set(results) == {before, after}
    # The change becomes visible once, and not before the last statement.
    assert results == sorted(results, key=lambda result: result == after)
    assert len(results) >= 2


async def run_fill(open_memory: Opens) -> None:
    async with open_memory() as memory:
        await fill(memory)


EVERY = 1 if os.environ.get("CHAT_THOROUGH") else 2
"""The distance between two killed statements. The thorough suite kills at each one."""


def new_files(folder: Path) -> Callable[[], Opens]:
    """Return a function that creates memories in new files."""

    def new_memory() -> Opens:
        path = folder / f"{uuid4().hex}.db"
        return lambda: SqliteMemory(path, now=lambda: NOW)

    return new_memory


def test_a_writer_killed_during_supersede_leaves_a_consistent_file(tmp_path: Path) -> None:
    check(new_files(tmp_path), "supersede", EVERY)


@pytest.mark.parametrize("write", ["promote", "forget", "delete"])
def test_a_writer_killed_at_any_statement_leaves_a_consistent_file(tmp_path: Path, write: str) -> None:
    check(new_files(tmp_path), write, EVERY)


@pytest.mark.parametrize("write", WRITES if EVERY == 1 else ["supersede"])
def test_a_postgresql_client_killed_at_any_statement_leaves_consistent_rows(
    postgres: PostgresServer, write: str
) -> None:
    def new_memory() -> Opens:
        schema = f"memory_{uuid4().hex}"
        return lambda: PostgresMemory(postgres.dsn, schema=schema, now=lambda: NOW)

    check(new_memory, write, 1 if EVERY == 1 else 6)
