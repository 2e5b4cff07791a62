"""A memory in a SQLite file, shared by any number of processes on one machine.

    async with SqliteMemory("memory.db") as memory:
        await memory.scope("ana").add(Statement("user", "lives in", "Berlin"))

The names of the tables begin with `chat_memory_`. The file may also be that of a `chat_store.SqliteStore`, or contain
tables of an application. The full-text index is FTS5, which is part of SQLite. Do not use a network file system.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import cast, final

from chat_core.arguments import require_path
from chat_core.clock import utc_now
from chat_core.errors import UsageError
from chat_store.sql.sqlite_pool import SqlitePool

from chat_memory._base_memory import BaseMemory
from chat_memory._database import Row, Session, Value, require_storable
from chat_memory._sqlite_tables import MIGRATIONS

_ARRAY = re.compile(r"@(?:texts|numbers)\((\w+)\)")
_MATCH = (
    "SELECT rowid AS document, -bm25(chat_memory_texts, 0.0, 1.0) AS score FROM chat_memory_texts "
    "WHERE chat_memory_texts MATCH :match"
)
_NO_MATCH = "SELECT 0 AS document, 0.0 AS score WHERE 1 = 0"


class SqliteMemory(BaseMemory):
    """A `Memory` in a SQLite file, shared by the processes of one machine.

    The first use creates the file and its tables, or upgrades tables of an earlier version.

    Args:
        path: the file.
        busy_seconds: how long to wait for another writer before `TimeoutError` is raised.
        now: the clock. It returns times with a time zone.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, busy_seconds: float = 10.0, now: Callable[[], datetime] = utc_now
    ) -> None:
        super().__init__(SqliteDatabase(path, busy_seconds), now)


@final
class SqliteSession:
    """A transaction on a SQLite connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def execute(self, query: str, values: Mapping[str, Value]) -> Sequence[Row]:
        """Implement `Session.execute()`."""
        return cast("list[Row]", self._connection.execute(_translate_query(query), require_storable(values)).fetchall())

    def execute_many(self, query: str, rows: Sequence[Mapping[str, Value]]) -> None:
        """Implement `Session.execute_many()`."""
        self._connection.executemany(_translate_query(query), map(require_storable, rows))

    def match(self, words: Sequence[str], scope: int) -> tuple[str, Mapping[str, Value]]:
        """Implement `Session.match()`."""
        # A quoted string has no operators. A quote is escaped by doubling it.
        quoted = [f'"{word.replace(chr(34), chr(34) * 2)}"' for word in words if any(map(str.isalnum, word))]
        if not quoted:
            return _NO_MATCH, {}
        return _MATCH, {"match": f'scope : "{scope}" AND text : ({" OR ".join(quoted)})'}


class SqliteDatabase:
    """A `Database` in a SQLite file.

    Args:
        path: the file.
        busy_seconds: how long to wait for another writer before `TimeoutError` is raised.
    """

    def __init__(self, path: str | os.PathLike[str], busy_seconds: float) -> None:
        require_path("path", path)
        if os.fspath(path) in ("", ":memory:"):
            msg = f"SqliteMemory() requires the path of a file, not {path!r}: use a file in a temporary folder"
            raise UsageError(msg)
        self._pool = SqlitePool(path, busy_seconds, MIGRATIONS, "chat_memory_schema")

    @contextmanager
    def read(self) -> Generator[Session]:
        """Implement `Database.read()`."""
        with self._pool.read() as connection:
            yield SqliteSession(connection)

    @contextmanager
    def write(self) -> Generator[Session]:
        """Implement `Database.write()`."""
        with self._pool.write() as connection:
            yield SqliteSession(connection)

    def lock_predicates(self, session: Session, *, exclusive: bool) -> None:
        """Implement `Database.lock_predicates()`. A write transaction of SQLite excludes all others."""

    def close(self) -> None:
        """Implement `Database.close()`."""
        self._pool.close()


def _translate_query(query: str) -> str:
    return _ARRAY.sub(r"SELECT value FROM json_each(:\1)", query) if "@" in query else query
