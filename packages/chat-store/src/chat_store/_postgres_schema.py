"""The tables of a `PostgresStore`, and how those of an earlier version become those of this one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

from chat_core.errors import NewerVersionError
from psycopg import Connection, sql
from psycopg.rows import TupleRow

MIGRATIONS: Sequence[Sequence[LiteralString]] = (
    (
        """
        CREATE TABLE chat_conversations (
            key BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            id TEXT COLLATE "C" NOT NULL UNIQUE,
            person TEXT COLLATE "C",
            born TEXT NOT NULL,
            entries BIGINT NOT NULL,
            revision BIGINT NOT NULL,
            fence BIGINT NOT NULL,
            holder TEXT NOT NULL,
            until BIGINT,
            due BIGINT,
            change XID8 NOT NULL
        )
        """,
        "CREATE INDEX chat_conversations_person ON chat_conversations (person)",
        "CREATE INDEX chat_conversations_due ON chat_conversations (due) WHERE due IS NOT NULL",
        "CREATE INDEX chat_conversations_moment ON chat_conversations (greatest(due, until)) WHERE due IS NOT NULL",
        "CREATE INDEX chat_conversations_change ON chat_conversations (change)",
        """
        CREATE TABLE chat_entries (
            conversation BIGINT NOT NULL REFERENCES chat_conversations (key) ON DELETE CASCADE,
            number BIGINT NOT NULL,
            entry BYTEA NOT NULL,
            PRIMARY KEY (conversation, number)
        )
        """,
        # The name of a call may be longer than what an index takes.
        """
        CREATE TABLE chat_waits (
            key BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            conversation BIGINT NOT NULL REFERENCES chat_conversations (key) ON DELETE CASCADE,
            tool TEXT COLLATE "C" NOT NULL,
            place BIGINT NOT NULL,
            kind TEXT NOT NULL,
            moment BIGINT,
            wait BYTEA NOT NULL
        )
        """,
        "CREATE INDEX chat_waits_conversation ON chat_waits (conversation)",
        "CREATE INDEX chat_waits_moment ON chat_waits (moment)",
    ),
)
"""What makes version n + 1 of version n.

Times are microseconds since 1970, in UTC. The change of a conversation is the transaction that it was last changed by:
those come to an end in another order than they began in, and a snapshot knows which of them it has seen.
"""

_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('chat-store tables in ' || %s, 0))"


def migrate(
    connection: Connection[TupleRow], schema: str, migrations: Sequence[Sequence[LiteralString]] = MIGRATIONS
) -> None:
    """Bring the tables to the version of this library; of several processes, one does it, and the others wait.

    In a transaction, which makes it as a whole or not at all.

    Raises:
        NewerVersionError: a later version of this library has made them.
    """
    if _version(connection, schema) == len(migrations):
        return
    connection.execute(_LOCK, (schema,))
    version = _version(connection, schema)
    if version > len(migrations):
        msg = f"the tables have version {version}, and this library knows {len(migrations)}: upgrade it"
        raise NewerVersionError(msg)
    if connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchone() is None:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    connection.execute("CREATE TABLE IF NOT EXISTS chat_schema (version BIGINT NOT NULL)")
    for steps in migrations[version:]:
        for step in steps:
            connection.execute(step)
    connection.execute("DELETE FROM chat_schema")
    connection.execute("INSERT INTO chat_schema VALUES (%s)", (len(migrations),))


def _version(connection: Connection[TupleRow], schema: str) -> int:
    query = "SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = 'chat_schema'"
    if connection.execute(query, (schema,)).fetchone() is None:
        return 0
    row = connection.execute("SELECT version FROM chat_schema").fetchone()
    return 0 if row is None else int(row[0])
