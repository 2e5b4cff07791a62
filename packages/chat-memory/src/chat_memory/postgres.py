"""A memory in a PostgreSQL database, shared by any number of machines.

    async with PostgresMemory("postgresql://db.example.com/app") as memory:
        await memory.scope("ana").add(Statement("user", "lives in", "Berlin"))

Requires the extra: `pip install "chat-memory[postgres]"`, PostgreSQL 14 or newer, and the database encoding UTF8.
Writers of the same scope wait for each other, writers of different scopes do not. Reads never wait.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from typing import final

from chat_core.clock import utc_now
from chat_core.errors import UsageError

try:
    from psycopg import errors, sql
except ImportError as _error:
    _msg = 'chat_memory.postgres needs psycopg: pip install "chat-memory[postgres]"'
    raise UsageError(_msg) from _error

from chat_store.sql.pool import MAX_IDLE_TRANSACTION, Connection, Pool
from chat_store.sql.postgres_migrations import migrate

from chat_memory._base_memory import BaseMemory
from chat_memory._database import Row, Session, Value, require_storable
from chat_memory._postgres_tables import MIGRATIONS

_MAX_SCHEMA_BYTES = 63
_PARAMETER = re.compile(r"(?<!:):([a-z_]+)")
_TEXTS = re.compile(r"@texts\((\w+)\)")
_NUMBERS = re.compile(r"@numbers\((\w+)\)")
_MATCH = (
    "SELECT key AS document, ts_rank(words, to_tsquery('english', :either))::float8 AS score "
    "FROM chat_memory_documents WHERE scope = :in_scope AND words @@ to_tsquery('english', :match)"
)
_IN_TEXT = "to_tsvector('english', text) @@ to_tsquery('english', :either)"
_NO_MATCH = "SELECT 0::bigint AS document, 0::float8 AS score WHERE false"
_LOCK = "SELECT pg_advisory_xact_lock{kind}(hashtextextended('chat-memory predicates in ' || :schema, 0))"


class PostgresMemory(BaseMemory):
    """A `Memory` in PostgreSQL, shared by any number of machines.

    The first use creates the tables, or upgrades tables of an earlier version.

    Args:
        dsn: the address, as a libpq connection string: `postgresql://user@host/database` or `host=… dbname=…`.
        schema: the schema of the tables. It is created if it does not exist.
        busy_seconds: maximum time to wait for another writer of the same scope or for a free connection, after which
            `TimeoutError` is raised, and to wait for an unavailable server, after which `OSError` is raised.
        connections: the maximum number of connections.
        now: the clock. It returns times with a time zone.
    """

    def __init__(
        self,
        dsn: str,
        *,
        schema: str = "chat",
        busy_seconds: float = 10.0,
        connections: int = 10,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        super().__init__(PostgresDatabase(dsn, schema, busy_seconds, connections), now)


@final
class PostgresSession:
    """A transaction on a PostgreSQL connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def execute(self, query: str, values: Mapping[str, Value]) -> Sequence[Row]:
        """Implement `Session.execute()`."""
        try:
            cursor = self._connection.execute(_translate_query(query), require_storable(values))
        except errors.ProgramLimitExceeded as error:
            msg = f"PostgreSQL cannot store a value because it is too long: {error}"
            raise UsageError(msg) from error
        return cursor.fetchall() if cursor.description else []

    def execute_many(self, query: str, rows: Sequence[Mapping[str, Value]]) -> None:
        """Implement `Session.execute_many()`."""
        with self._connection.cursor() as cursor:
            cursor.executemany(_translate_query(query), map(require_storable, rows))

    def match(self, words: Sequence[str], scope: int) -> tuple[str, Mapping[str, Value]]:
        """Implement `Session.match()`."""
        lexemes = [f"'{_escape_literal(word)}'" for word in words if any(map(str.isalnum, word))]
        if not lexemes:
            return _NO_MATCH, {}
        either = " | ".join(lexemes)
        # The scope is a word of each text, so that the index reads only the texts of one scope.
        # A question for the word "scope7" must not find all texts of scope 7.
        query = f"{_MATCH} AND {_IN_TEXT}" if f"scope{scope}" in either.lower() else _MATCH
        return query, {"either": either, "match": f"({either}) & scope{scope}", "in_scope": scope}


class PostgresDatabase:
    """A `Database` in PostgreSQL.

    Args:
        dsn: the address, as a libpq connection string.
        schema: the schema of the tables.
        busy_seconds: maximum time to wait for a lock, a free connection or the server.
        connections: the maximum number of connections.
    """

    def __init__(self, dsn: str, schema: str, busy_seconds: float, connections: int) -> None:
        if not schema or "\0" in schema or len(schema.encode()) > _MAX_SCHEMA_BYTES:
            msg = f"schema must be a name of 1 to {_MAX_SCHEMA_BYTES} bytes, not {schema!r}"
            raise UsageError(msg)
        self._schema = schema
        self._pool = Pool(dsn, busy_seconds, connections, self._prepare_connection)
        self._ready = False
        self._pid = os.getpid()
        settings = {
            b"search_path": sql.Identifier(schema).as_bytes(None),
            b"lock_timeout": b"%d" % max(1, round(busy_seconds * 1000)),
            b"idle_in_transaction_session_timeout": b"%d" % (MAX_IDLE_TRANSACTION * 1000),
        }
        # The settings are sent with every transaction, because a pooler may share the server connection with others.
        self._settings = b"".join([b"; SET LOCAL %s = %s" % setting for setting in settings.items()])

    @contextmanager
    def read(self) -> Generator[Session]:
        """Implement `Database.read()`."""
        with self._pool.connection(self._begin_read) as connection:
            yield PostgresSession(connection)

    @contextmanager
    def write(self) -> Generator[Session]:
        """Implement `Database.write()`."""
        with self._pool.connection(self._begin_write) as connection:
            yield PostgresSession(connection)
            connection.execute(b"COMMIT", prepare=False)

    def lock_predicates(self, session: Session, *, exclusive: bool) -> None:
        """Implement `Database.lock_predicates()`."""
        session.execute(_LOCK.format(kind="" if exclusive else "_shared"), {"schema": self._schema})

    def close(self) -> None:
        """Implement `Database.close()`."""
        # After a fork, the child must not close the connections of the parent.
        if self._pid == os.getpid():
            self._pool.close()

    def _prepare_connection(self, connection: Connection) -> None:
        if (encoding := connection.info.parameter_status("server_encoding")) != "UTF8":
            msg = (
                f"the database must have the encoding UTF8, not {encoding}: use a database created with ENCODING 'UTF8'"
            )
            raise UsageError(msg)
        if not self._ready:
            # READ COMMITTED, so that a process that waited for the migration of another process sees the tables.
            connection.execute(b"BEGIN ISOLATION LEVEL READ COMMITTED" + self._settings, prepare=False)
            migrate(connection, self._schema, MIGRATIONS, "chat_memory_schema")
            connection.execute("COMMIT")
            self._ready = True

    def _begin_read(self) -> bytes:
        return b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY" + self._settings

    def _begin_write(self) -> bytes:
        return b"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL synchronous_commit = on" + self._settings


@cache
def _translate_query(query: str) -> bytes:
    """Translate a query to the SQL dialect of PostgreSQL and the placeholders of psycopg."""
    query = _TEXTS.sub(r"SELECT json_array_elements_text(:\1::json)", query.replace("%", "%%"))
    query = _NUMBERS.sub(r"SELECT json_array_elements_text(:\1::json)::bigint", query)
    return _PARAMETER.sub(r"%(\1)s", query).encode()


def _escape_literal(word: str) -> str:
    return word.replace("\\", "\\\\").replace("'", "''")
