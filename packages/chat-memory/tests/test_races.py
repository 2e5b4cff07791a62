"""Processes that store contradicting statements at the same time agree on the facts, in both databases."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import anyio
from chat_memory import SqliteMemory, Statement
from chat_memory.postgres import PostgresMemory
from chat_store.testing.postgres_server import PostgresServer

Opens: TypeAlias = Callable[[], SqliteMemory | PostgresMemory]

RACES = 200 if os.environ.get("CHAT_THOROUGH") else 20
WRITERS = 3
MANY_RACES = 20 if os.environ.get("CHAT_THOROUGH") else 2
MANY_WRITERS = 20


def statement(race: int, writer: int, writers: int) -> Statement:
    """Return the statement of a writer. The writer of the latest statement alternates. Every second pair agrees."""
    since = datetime(2020, 1, 1 + (race + writer) % writers, tzinfo=UTC)
    city = "Berlin" if race % 2 else f"city {writer}"
    return Statement("user", "lives in", city, valid_from=since, said_at=since, key=f"writer {writer}")


async def write_all(open_memory: Opens, writer: int, writers: int, races: int) -> None:
    async with open_memory() as memory:
        for race in range(races):
            await memory.scope(f"race {race}").add(statement(race, writer, writers))


async def check_all(open_memory: Opens, writers: int, races: int) -> None:
    async with open_memory() as memory:
        for race in range(races):
            scope = memory.scope(f"race {race}")
            expected = statement(race, (writers - 1 - race) % writers, writers)
            (fact,) = await scope.facts()
            stats = await scope.stats()
            assert fact.object == expected.object
            assert stats.statements == writers
            assert stats.facts == (1 if race % 2 else writers)


def assert_racing_processes_leave_one_fact(open_memory: Opens, writers: int = WRITERS, races: int = RACES) -> None:
    async def create() -> None:
        async with open_memory() as memory:
            await memory.scopes()

    anyio.run(create)
    start, go = os.pipe()
    children: list[int] = []
    for writer in range(writers):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.close(go)
                os.read(start, 1)  # all begin when the parent closes its end
                anyio.run(write_all, open_memory, writer, writers, races)
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    os.close(start)
    os.close(go)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * writers
    anyio.run(check_all, open_memory, writers, races)


def test_processes_with_contradicting_statements_leave_one_current_fact(tmp_path: Path) -> None:
    assert_racing_processes_leave_one_fact(lambda: SqliteMemory(tmp_path / "memory.db"))


def test_twenty_processes_with_contradicting_statements_leave_one_current_fact(tmp_path: Path) -> None:
    assert_racing_processes_leave_one_fact(lambda: SqliteMemory(tmp_path / "memory.db"), MANY_WRITERS, MANY_RACES)


def test_postgresql_clients_that_state_contradicting_facts_leave_one_current_fact(postgres: PostgresServer) -> None:
    assert_racing_processes_leave_one_fact(lambda: PostgresMemory(postgres.dsn, schema="memory_races"))


def test_twenty_postgresql_clients_leave_one_current_fact(postgres: PostgresServer) -> None:
    assert_racing_processes_leave_one_fact(
        lambda: PostgresMemory(postgres.dsn, schema="memory_many_races"), MANY_WRITERS, MANY_RACES
    )
