"""The tables of a `SqliteStore`, and how those of an earlier version become those of this one."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from chat_core.errors import NewerVersionError

MIGRATIONS: Sequence[Sequence[str]] = (
    (
        """
        CREATE TABLE chat_conversations (
            key INTEGER PRIMARY KEY AUTOINCREMENT,
            id TEXT NOT NULL UNIQUE,
            person TEXT,
            born TEXT NOT NULL,
            entries INTEGER NOT NULL,
            revision INTEGER NOT NULL,
            fence INTEGER NOT NULL,
            holder TEXT NOT NULL,
            until INTEGER,
            due INTEGER
        )
        """,
        "CREATE INDEX chat_conversations_person ON chat_conversations (person)",
        "CREATE INDEX chat_conversations_due ON chat_conversations (due) WHERE due IS NOT NULL",
        """
        CREATE TABLE chat_entries (
            conversation INTEGER NOT NULL REFERENCES chat_conversations (key) ON DELETE CASCADE,
            number INTEGER NOT NULL,
            entry BLOB NOT NULL,
            PRIMARY KEY (conversation, number)
        )
        """,
        """
        CREATE TABLE chat_waits (
            conversation INTEGER NOT NULL REFERENCES chat_conversations (key) ON DELETE CASCADE,
            tool TEXT NOT NULL,
            place INTEGER NOT NULL,
            kind TEXT NOT NULL,
            moment INTEGER,
            wait BLOB NOT NULL,
            PRIMARY KEY (conversation, tool, place)
        ) WITHOUT ROWID
        """,
        "CREATE INDEX chat_waits_moment ON chat_waits (moment)",
    ),
    (
        # The number of the last change, of each conversation and of all: a deleted one takes its own with it.
        "CREATE TABLE chat_changes (last INTEGER NOT NULL)",
        "INSERT INTO chat_changes VALUES (0)",
        "ALTER TABLE chat_conversations ADD COLUMN change INTEGER NOT NULL DEFAULT 0",
        "CREATE INDEX chat_conversations_change ON chat_conversations (change)",
        """
        CREATE INDEX chat_conversations_moment ON chat_conversations (max(due, ifnull(until, due)))
        WHERE due IS NOT NULL
        """,
    ),
)
"""What makes version n + 1 of version n. Times are microseconds since 1970, in UTC."""


def migrate(connection: sqlite3.Connection, migrations: Sequence[Sequence[str]] = MIGRATIONS) -> None:
    """Bring the tables to the version of this library, as a whole or not at all; of two processes, one does it.

    Raises:
        NewerVersionError: a later version of this library has made them.
    """
    if _version(connection) == len(migrations):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _version(connection)
        _require_known(version, len(migrations))
        connection.execute("CREATE TABLE IF NOT EXISTS chat_schema (version INTEGER NOT NULL)")
        for steps in migrations[version:]:
            for step in steps:
                connection.execute(step)
        connection.execute("DELETE FROM chat_schema")
        connection.execute("INSERT INTO chat_schema VALUES (?)", (len(migrations),))
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _require_known(version: int, known: int) -> None:
    if version > known:
        msg = f"the tables have version {version}, and this library knows {known}: upgrade it"
        raise NewerVersionError(msg)


def _version(connection: sqlite3.Connection) -> int:
    table = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'chat_schema'"
    if connection.execute(table).fetchone() is None:
        return 0
    row = connection.execute("SELECT version FROM chat_schema").fetchone()
    return 0 if row is None else int(row[0])
