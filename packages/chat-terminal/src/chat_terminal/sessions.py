"""Sessions of the terminal: conversations in one SQLite file, and a table with their titles and settings.

A `SqliteStore` stores the conversations, so other programs can use it to decide waiting calls in the same file.
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
    """An entry in the list of sessions.

    Attributes:
        id: name of the session, and id of its conversation.
        title: beginning of the first question.
        last_used: time of the last question.
        settings: model and tools of the last question.
    """

    id: str
    title: str
    last_used: datetime
    settings: Mapping[str, object]


@final
class Sessions:
    """The list of sessions in a session file.

    Args:
        path: the file. On first use, it and its directory are created if necessary, accessible only to this user.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def store(self) -> SqliteStore:
        """Return a store for the conversations of all sessions."""
        return SqliteStore(self._prepare_path())

    def record_use(self, session: str | None, title: str, settings: Mapping[str, object]) -> str:
        """Record that a session is used now, and create the session if necessary.

        Args:
            session: name of the session; None creates a session with a random name.
            title: title of a new session.
            settings: settings to remember.

        Returns:
            The name of the session.
        """
        name = session or secrets.token_hex(4)
        with self._open_table() as table:
            table.execute(
                "INSERT INTO cli_sessions (id, title, used, settings) VALUES (?, ?, ?, ?) "
                "ON CONFLICT (id) DO UPDATE SET used = excluded.used, settings = excluded.settings",
                (name, " ".join(title.split())[:_TITLE_LENGTH], datetime.now(UTC).isoformat(), json.dumps(settings)),
            )
        return name

    def last(self) -> Session:
        """Return the session that was used last.

        Raises:
            click.UsageError: there are no sessions.
        """
        found = self.list_all()
        if not found:
            msg = 'there is no session yet: begin one with chat "a question"'
            raise click.UsageError(msg)
        return found[0]

    def get(self, session: str) -> Session:
        """Return a session by name.

        Raises:
            click.UsageError: the session does not exist.
        """
        found = next((known for known in self.list_all() if known.id == session), None)
        if found is None:
            msg = f"there is no session {session!r}; `chat sessions` lists them"
            raise click.UsageError(msg)
        return found

    def list_all(self) -> list[Session]:
        """Return all sessions, most recently used first."""
        with self._open_table() as table:
            rows = table.execute("SELECT id, title, used, settings FROM cli_sessions ORDER BY used DESC, id").fetchall()
        return [
            Session(name, title, datetime.fromisoformat(used), cast("dict[str, object]", json.loads(settings)))
            for name, title, used, settings in rows
        ]

    def remove(self, session: str) -> None:
        """Remove a session from the list, but keep its conversation in the store."""
        with self._open_table() as table:
            table.execute("DELETE FROM cli_sessions WHERE id = ?", (session,))

    @contextmanager
    def _open_table(self) -> Generator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self._prepare_path(), timeout=10)) as connection, connection:
                connection.execute(_TABLE)
                yield connection
        except sqlite3.Error as error:
            msg = f"the sessions in {self._path} cannot be read or written: {error}"
            raise OSError(msg) from error

    def _prepare_path(self) -> Path:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._path.exists():
                self._path.touch(mode=0o600)  # SQLite would create a file that other users can read
        except OSError as error:
            msg = (
                f"the sessions in {self._path} cannot be read or written: {error.strerror}; choose a file with --store"
            )
            raise OSError(msg) from error
        return self._path
