"""Migrations of versioned PostgreSQL tables to the latest version."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Final, LiteralString

from chat_core.errors import NewerVersionError
from psycopg import Connection, sql
from psycopg.errors import LockNotAvailable
from psycopg.rows import TupleRow

_LOCK_SECONDS: Final = 60.0
"""Time that a migration tries to lock its tables."""
_LOCK_TIMEOUT: Final = (
    "100ms"  # shorter than `deadlock_timeout`, after which the server cancels any of the transactions
)
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('chat-store tables in ' || %s, 0))"


def migrate(
    connection: Connection[TupleRow],
    schema: str,
    migrations: Sequence[Sequence[LiteralString]],
    version_table: LiteralString = "chat_schema",
) -> None:
    """Upgrade a set of tables to the latest version. Concurrent processes wait for each other.

    Other processes can use the tables meanwhile. Their transactions wait until the upgrade is committed.

    Must be called in a transaction whose `search_path` is the schema. A missing schema is created.

    Args:
        connection: a connection in a transaction.
        schema: the schema that contains the tables.
        migrations: `migrations[n]` are the statements that upgrade version n to version n + 1.
        version_table: the table whose only row is the version. It is created if it is missing.

    Raises:
        NewerVersionError: the tables have a later version.
        psycopg.errors.LockNotAvailable: other transactions have locked the tables for a minute.
    """
    if _read_version(connection, schema, version_table) == len(migrations):
        return
    connection.execute(_LOCK, (schema,))
    version = _read_version(connection, schema, version_table)
    if version > len(migrations):
        supported = len(migrations)
        msg = (
            f"the tables have version {version}, but this library reads versions up to {supported}: upgrade the library"
        )
        raise NewerVersionError(msg)
    if connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchone() is None:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    connection.execute("CREATE TABLE IF NOT EXISTS " + version_table + " (version BIGINT NOT NULL)")
    steps: list[LiteralString] = [step for upgrade in migrations[version:] for step in upgrade]
    _lock_tables(connection, schema, steps)
    for step in steps:
        connection.execute(step)
    connection.execute("DELETE FROM " + version_table)  # noqa: S608 - a literal
    connection.execute("INSERT INTO " + version_table + " VALUES (%s)", (len(migrations),))  # noqa: S608 - our own names


def _lock_tables(connection: Connection[TupleRow], schema: str, steps: Sequence[LiteralString]) -> None:
    """Lock the existing tables that the steps name, before the first step.

    Another transaction may have locked one of the tables and wait for another one. The steps would then wait for this
    transaction, and it would wait for them. Therefore, all locks are released and requested again after a short time.
    """
    words = set(re.findall(r"\w+", " ".join(steps)))
    rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,)).fetchall()
    names = [sql.Identifier(str(name)) for (name,) in rows if name in words]
    if not names:
        return
    lock = sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(sql.SQL(", ").join(names))
    before = connection.execute("SELECT current_setting('lock_timeout')").fetchone()
    deadline = time.monotonic() + _LOCK_SECONDS
    _set_lock_timeout(connection, _LOCK_TIMEOUT)
    while True:
        try:
            with connection.transaction():
                connection.execute(lock)
            break
        except LockNotAvailable:
            if time.monotonic() > deadline:
                raise
            connection.execute("SELECT pg_sleep(0.05 + 0.1 * random())")  # the waiting transactions go first
    _set_lock_timeout(connection, "0" if before is None else str(before[0]))


def _set_lock_timeout(connection: Connection[TupleRow], value: str) -> None:
    connection.execute("SELECT set_config('lock_timeout', %s, true)", (value,))


def _read_version(connection: Connection[TupleRow], schema: str, version_table: LiteralString) -> int:
    query = "SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = %s"
    if connection.execute(query, (schema, version_table)).fetchone() is None:
        return 0
    row = connection.execute("SELECT version FROM " + version_table).fetchone()  # noqa: S608 - our own names
    return 0 if row is None else int(row[0])
