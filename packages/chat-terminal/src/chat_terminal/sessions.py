"""The sessions of a terminal: conversations in one SQLite file, with a list of what they are about.

The conversations are those of a `SqliteStore`: other programs find there what waits. The list is a table beside them.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, cast, final

import click
from chat_store import SqliteStore

_TITLE_LENGTH: Final = 60
_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS cli_sessions "
    "(id TEXT PRIMARY KEY, title TEXT NOT NULL, used TEXT NOT NULL, settings TEXT NOT NULL)"
)


@final
@dataclass(frozen=True, slots=True)
class Session:
    """A session.

    Attributes:
        title: how it began.
        used: when it was last used.
        settings: which model and which tools it was last asked with.
    """

    id: str
    title: str
    used: datetime
    settings: Mapping[str, object]


@final
class Sessions:
    """The sessions in one file.

    Args:
        path: the file. Its folder is made, for this user alone, where it is missing, when it is first used.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def store(self) -> SqliteStore:
        """The store of their conversations."""
        return SqliteStore(self._place())

    def use(self, session: str | None, title: str, settings: Mapping[str, object]) -> str:
        """Note that a session is used now, a new one where none is named, and return its id."""
        name = session or secrets.token_hex(4)
        with self._table() as table:
            table.execute(
                "INSERT INTO cli_sessions (id, title, used, settings) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (id) DO UPDATE SET used = excluded.used, settings = excluded.settings",
                (name, " ".join(title.split())[:_TITLE_LENGTH], datetime.now(UTC).isoformat(), json.dumps(settings)),
            )
        return name

    def last(self) -> Session:
        """The session that was used last.

        Raises:
            click.UsageError: there is none.
        """
        found = self.all()
        if not found:
            msg = 'there is no session yet: begin one with chat "a question"'
            raise click.UsageError(msg)
        return found[0]

    def require(self, session: str) -> Session:
        """A session that exists.

        Raises:
            click.UsageError: it does not.
        """
        found = next((known for known in self.all() if known.id == session), None)
        if found is None:
            msg = f"there is no session {session!r}; `chat sessions` lists them"
            raise click.UsageError(msg)
        return found

    def all(self) -> list[Session]:
        """Every session, the last used one first."""
        with self._table() as table:
            rows = table.execute("SELECT id, title, used, settings FROM cli_sessions ORDER BY used DESC, id").fetchall()
        return [
            Session(name, title, datetime.fromisoformat(used), cast("dict[str, object]", json.loads(settings)))
            for name, title, used, settings in rows
        ]

    def forget(self, session: str) -> None:
        """Take a session off the list."""
        with self._table() as table:
            table.execute("DELETE FROM cli_sessions WHERE id = ?", (session,))

    @contextmanager
    def _table(self) -> Generator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._place(), timeout=10)) as connection, connection:
            connection.execute(_TABLE)
            yield connection

    def _place(self) -> Path:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._path
