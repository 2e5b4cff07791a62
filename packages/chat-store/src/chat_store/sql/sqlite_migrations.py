"""Migrations of tables in SQLite: the version of a set of tables, and the steps from one version to the next."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from chat_core.errors import NewerVersionError


def migrate(
    connection: sqlite3.Connection, migrations: Sequence[Sequence[str]], version_table: str = "chat_schema"
) -> None:
    """Bring a set of tables to the newest version, as a whole or not at all. Of several processes, one does it.

    Args:
        connection: a connection in autocommit mode (`isolation_level=None`).
        migrations: `migrations[n]` are the statements that make version n + 1 out of version n.
        version_table: the table that has the version in its only row. It is created if it is missing.

    Raises:
        NewerVersionError: the tables have a later version.
    """
    if _version(connection, version_table) == len(migrations):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _version(connection, version_table)
        _require_known(version, len(migrations))
        connection.execute(f"CREATE TABLE IF NOT EXISTS {version_table} (version INTEGER NOT NULL)")
        for steps in migrations[version:]:
            for step in steps:
                connection.execute(step)
        connection.execute(f"DELETE FROM {version_table}")  # noqa: S608 - a name in the code of the caller
        connection.execute(f"INSERT INTO {version_table} VALUES (?)", (len(migrations),))  # noqa: S608
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _require_known(version: int, known: int) -> None:
    if version > known:
        msg = f"the tables have version {version}, and this library knows {known}: upgrade it"
        raise NewerVersionError(msg)


def _version(connection: sqlite3.Connection, version_table: str) -> int:
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    if connection.execute(query, (version_table,)).fetchone() is None:
        return 0
    row = connection.execute(f"SELECT version FROM {version_table}").fetchone()  # noqa: S608
    return 0 if row is None else int(row[0])
