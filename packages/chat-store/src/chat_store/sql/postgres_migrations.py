"""Migrations of versioned PostgreSQL tables to the latest version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

from chat_core.errors import NewerVersionError
from psycopg import Connection, sql
from psycopg.rows import TupleRow

_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('chat-store tables in ' || %s, 0))"


def migrate(
    connection: Connection[TupleRow],
    schema: str,
    migrations: Sequence[Sequence[LiteralString]],
    version_table: LiteralString = "chat_schema",
) -> None:
    """Upgrade a set of tables to the latest version. Concurrent processes wait for each other.

    Must be called in a transaction whose `search_path` is the schema. A missing schema is created.

    Args:
        connection: a connection in a transaction.
        schema: the schema that contains the tables.
        migrations: `migrations[n]` are the statements that upgrade version n to version n + 1.
        version_table: the table whose only row is the version. It is created if it is missing.

    Raises:
        NewerVersionError: the tables have a later version.
    """
    if _read_version(connection, schema, version_table) == len(migrations):
        return
    connection.execute(_LOCK, (schema,))
    version = _read_version(connection, schema, version_table)
    if version > len(migrations):
        msg = f"the tables have version {version}, but this library supports {len(migrations)}: upgrade the library"
        raise NewerVersionError(msg)
    if connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchone() is None:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    connection.execute("CREATE TABLE IF NOT EXISTS " + version_table + " (version BIGINT NOT NULL)")
    for steps in migrations[version:]:
        for step in steps:
            connection.execute(step)
    connection.execute("DELETE FROM " + version_table)  # noqa: S608 - a literal
    connection.execute("INSERT INTO " + version_table + " VALUES (%s)", (len(migrations),))  # noqa: S608


def _read_version(connection: Connection[TupleRow], schema: str, version_table: LiteralString) -> int:
    query = "SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = %s"
    if connection.execute(query, (schema, version_table)).fetchone() is None:
        return 0
    row = connection.execute("SELECT version FROM " + version_table).fetchone()  # noqa: S608
    return 0 if row is None else int(row[0])
