"""SQLite tables are upgraded step by step, completely or not at all."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from chat_core.errors import NewerVersionError
from chat_store._sqlite_tables import MIGRATIONS
from chat_store.sql.sqlite_migrations import migrate

NEXT = [*MIGRATIONS, ["ALTER TABLE chat_conversations ADD COLUMN colour TEXT"], ["CREATE TABLE chat_more (x)"]]


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        yield connection


def tables(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def version(connection: sqlite3.Connection) -> list[tuple[int]]:
    return connection.execute("SELECT version FROM chat_schema").fetchall()


def test_new_tables_have_the_current_schema_version(connection: sqlite3.Connection) -> None:
    migrate(connection, MIGRATIONS)
    migrate(connection, MIGRATIONS)

    assert {"chat_conversations", "chat_entries", "chat_waits", "chat_schema"} <= tables(connection)
    assert version(connection) == [(len(MIGRATIONS),)]


def test_tables_of_an_earlier_version_are_upgraded_and_keep_their_rows(
    connection: sqlite3.Connection,
) -> None:
    migrate(connection, MIGRATIONS)
    connection.execute(
        "INSERT INTO chat_conversations (key, id, born, entries, revision, fence, holder) "
        "VALUES (1, 'a', '', 1, 0, 0, '')"
    )

    migrate(connection, NEXT)

    assert connection.execute("SELECT id, colour FROM chat_conversations").fetchall() == [("a", None)]
    assert "chat_more" in tables(connection)
    assert version(connection) == [(len(NEXT),)]


def test_a_failing_migration_step_rolls_back_the_others(connection: sqlite3.Connection) -> None:
    migrate(connection, MIGRATIONS)

    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, [*NEXT, ["CREATE NONSENSE"]])

    assert "chat_more" not in tables(connection)
    assert version(connection) == [(len(MIGRATIONS),)]


def test_tables_of_a_later_version_are_refused(connection: sqlite3.Connection) -> None:
    migrate(connection, NEXT)

    with pytest.raises(NewerVersionError, match="upgrade"):
        migrate(connection, MIGRATIONS)

    assert not connection.in_transaction
