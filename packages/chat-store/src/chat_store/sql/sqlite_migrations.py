"""Migrations of versioned SQLite tables to the latest version."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from chat_core.errors import NewerVersionError


def migrate(
    connection: sqlite3.Connection, migrations: Sequence[Sequence[str]], version_table: str = "chat_schema"
) -> None:
    """Upgrade a set of tables to the latest version in one transaction. Concurrent processes wait for each other.

    Args:
        connection: a connection in autocommit mode (`isolation_level=None`).
        migrations: `migrations[n]` are the statements that upgrade version n to version n + 1.
        version_table: the table whose only row is the version. It is created if it is missing.

    Raises:
        NewerVersionError: the tables have a later version.
    """
    if _read_version(connection, version_table) == len(migrations):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _read_version(connection, version_table)
        _require_supported(version, len(migrations))
        connection.execute(f"CREATE TABLE IF NOT EXISTS {version_table} (version INTEGER NOT NULL)")
        for steps in migrations[version:]:
            for step in steps:
                connection.execute(step)
        connection.execute(f"DELETE FROM {version_table}")  # noqa: S608 - a constant of the caller
        connection.execute(f"INSERT INTO {version_table} VALUES (?)", (len(migrations),))  # noqa: S608 - our own names
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _require_supported(version: int, supported: int) -> None:
    if version > supported:
        msg = (
            f"the tables have version {version}, but this library reads versions up to {supported}: upgrade the library"
        )
        raise NewerVersionError(msg)


def _read_version(connection: sqlite3.Connection, version_table: str) -> int:
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    if connection.execute(query, (version_table,)).fetchone() is None:
        return 0
    row = connection.execute(f"SELECT version FROM {version_table}").fetchone()  # noqa: S608 - our own names
    return 0 if row is None else int(row[0])
