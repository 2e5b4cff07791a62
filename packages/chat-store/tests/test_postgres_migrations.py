"""PostgreSQL tables of any package are upgraded step by step, completely or not at all."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import LiteralString
from uuid import uuid4

import psycopg
import pytest
from chat_core.errors import NewerVersionError
from chat_store.sql.postgres_migrations import migrate
from chat_store.testing.postgres_server import PostgresServer
from psycopg import sql

WAIT = 30
"""Timeout in seconds for events that must happen."""
FIRST: Sequence[Sequence[LiteralString]] = [["CREATE TABLE budgets (cents BIGINT)", "INSERT INTO budgets VALUES (1)"]]
SECOND: Sequence[Sequence[LiteralString]] = [*FIRST, ["ALTER TABLE budgets ADD COLUMN person TEXT"]]


class Database:
    """A schema for one test, with versioned tables."""

    def __init__(self, server: PostgresServer) -> None:
        self.dsn = server.dsn
        self.schema = uuid4().hex

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        connection = psycopg.connect(self.dsn)
        connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(self.schema)))
        return connection

    def migrate(self, migrations: Sequence[Sequence[LiteralString]]) -> None:
        with self.connect() as connection:
            migrate(connection, self.schema, migrations, "budget_schema")


@pytest.fixture
def database(postgres: PostgresServer) -> Database:
    return Database(postgres)


def test_missing_migration_steps_are_applied_and_rows_are_kept(database: Database) -> None:
    for migrations in (FIRST, FIRST, SECOND):
        database.migrate(migrations)

    with database.connect() as connection:
        assert connection.execute("SELECT cents, person FROM budgets").fetchall() == [(1, None)]
        assert connection.execute("SELECT version FROM budget_schema").fetchall() == [(2,)]


def test_a_failing_migration_step_rolls_back_the_others(database: Database) -> None:
    database.migrate(FIRST)

    with pytest.raises(psycopg.errors.SyntaxError):
        database.migrate([*SECOND, ["CREATE NONSENSE"]])

    with database.connect() as connection:
        assert connection.execute("SELECT * FROM budgets").fetchall() == [(1,)]


def test_tables_of_a_later_version_are_refused(database: Database) -> None:
    database.migrate(SECOND)

    with pytest.raises(
        NewerVersionError, match="version 2, but this library reads versions up to 1: upgrade the library"
    ):
        database.migrate(FIRST)


def test_a_transaction_that_uses_the_tables_in_another_order_is_not_cancelled(database: Database) -> None:
    two: Sequence[Sequence[LiteralString]] = [*FIRST, ["CREATE TABLE people (name TEXT)"]]
    both: Sequence[Sequence[LiteralString]] = [
        *two,
        ["ALTER TABLE budgets ADD COLUMN a BIGINT", "ALTER TABLE people ADD COLUMN a BIGINT"],
    ]
    database.migrate(two)
    with database.connect() as other, ThreadPoolExecutor(1) as pool:
        other.execute("INSERT INTO people VALUES ('ana')")
        upgrade = pool.submit(database.migrate, both)
        wait_for_lock(database, "people")
        other.execute("INSERT INTO budgets VALUES (2)")
        other.commit()
        upgrade.result(WAIT)

    with database.connect() as connection:
        assert connection.execute("SELECT name, a FROM people").fetchall() == [("ana", None)]
        assert connection.execute("SELECT cents, a FROM budgets ORDER BY cents").fetchall() == [(1, None), (2, None)]


def wait_for_lock(database: Database, table: str) -> None:
    """Wait until another connection waits for a lock of a table."""
    query = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = to_regclass(%s)"
    deadline = time.monotonic() + WAIT
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        while connection.execute(query, (f'"{database.schema}".{table}',)).fetchone() is None:
            assert time.monotonic() < deadline


def test_the_lock_timeout_of_the_transaction_is_kept(database: Database) -> None:
    database.migrate(FIRST)
    with database.connect() as connection:
        connection.execute("SET LOCAL lock_timeout = '7s'")
        migrate(connection, database.schema, SECOND, "budget_schema")

        assert connection.execute("SHOW lock_timeout").fetchone() == ("7s",)
