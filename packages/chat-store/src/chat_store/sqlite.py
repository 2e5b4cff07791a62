"""A store in one SQLite file: for one machine, and any number of processes on it.

    async with SqliteStore("chats.db") as store:
        async with store.open("chat-17") as conversation: ...

The file is in WAL mode: readers wait for nobody, and writers for one another, each for the milliseconds of a commit.
A commit is on the disk before it is told (`synchronous=FULL`). Beside the file stand `-wal` and `-shm`, which belong to
it; a copy is made with `VACUUM INTO`. The file may hold tables of an application, too: those of the store begin with
`chat_`. Not for a file system of a network, where SQLite's locks do not hold.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import ClassVar, final

from chat_core.errors import InvalidDocumentError, UsageError

from chat_store._backend import Head, ListFilter, PollResult, ReadTransaction, Waits, WriteTransaction
from chat_store._base_store import BaseStore, utc_now
from chat_store._cursor import invalid_cursor_error
from chat_store._sqlite_tables import MIGRATIONS
from chat_store._waits import deadline_of
from chat_store.sql.notify import Notifier, Poller
from chat_store.sql.sqlite_migrations import migrate
from chat_store.sql.values import from_microseconds, name_to_column, to_microseconds, wait_from_columns, wait_to_column
from chat_store.store import Changed, Due, Waiting

_MOST_IDLE = 8
_COLUMNS = ("person", "born", "entries", "revision", "fence", "holder", "until", "due")
_INSERT = f"INSERT INTO chat_conversations ({', '.join(_COLUMNS)}, id) VALUES (?{', ?' * len(_COLUMNS)})"  # noqa: S608
_UPDATE = f"UPDATE chat_conversations SET {' = ?, '.join(_COLUMNS)} = ? WHERE key = ?"  # noqa: S608 - our own names
_CHANGE = "UPDATE chat_conversations SET change = (SELECT last FROM chat_changes) WHERE key = ?"
_MOMENT = "max(due, ifnull(until, due))"
"""When a conversation becomes due: not before a lease has run out that somebody has. There is an index of it."""
_POLL = (
    "SELECT id, person FROM chat_conversations WHERE change > CAST(:since AS INTEGER) "  # noqa: S608 - our own names
    f"OR (due IS NOT NULL AND {_MOMENT} > :after AND {_MOMENT} <= :now)"
)
_NEXT = f"SELECT min({_MOMENT}) FROM chat_conversations WHERE due IS NOT NULL AND {_MOMENT} > :now"  # noqa: S608


class SqliteStore(BaseStore):
    """A `ConversationStore` in one file, safe between processes. The first use makes it, or brings it to this version.

    Args:
        path: the file.
        lease_seconds: how long a run may stand still before it can be overtaken; and how long one that died keeps
            others out.
        busy_seconds: how long to wait for another process that writes, before `TimeoutError` is raised.
        poll_seconds: how long what another process changed may go unseen by `changes()`.
        now: the clock, with a zone.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        lease_seconds: float = 30.0,
        busy_seconds: float = 10.0,
        poll_seconds: float = 0.1,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        super().__init__(SqliteBackend(path, busy_seconds, poll_seconds), lease_seconds, now)


class Committer:
    """Commits transactions. Tests of crashes replace `SqliteBackend.committer`."""

    def commit(self, connection: sqlite3.Connection) -> None:
        """Return when everything written is durable."""
        connection.execute("COMMIT")


@final
class _Transaction:
    def __init__(self, connection: sqlite3.Connection, id: str) -> None:  # noqa: A002
        self._connection = connection
        self._id = id
        self._key: int | None = None

    def read_head(self) -> Head | None:
        query = f"SELECT key, {', '.join(_COLUMNS)} FROM chat_conversations WHERE id = ?"  # noqa: S608 - our own names
        row = self._connection.execute(query, (self._id,)).fetchone()
        if row is None:
            return None
        self._key, person, born, entries, revision, fence, holder, until, due = row
        return Head(
            self._id, person, born, entries, revision, fence, holder, from_microseconds(until), from_microseconds(due)
        )

    def read_entries(self, after: int) -> list[bytes]:
        query = (
            "SELECT entry FROM chat_entries JOIN chat_conversations ON conversation = key "
            "WHERE id = ? AND number > ? ORDER BY number"
        )
        return [entry for (entry,) in self._connection.execute(query, (self._id, after))]

    def write_head(self, head: Head, *, is_change: bool = False) -> None:
        values = (
            head.person,
            head.incarnation,
            head.entries,
            head.revision,
            head.fence,
            head.holder,
            to_microseconds(head.lease_until),
            to_microseconds(head.due),
        )
        if self._key is None:
            self._key = self._connection.execute(_INSERT, (*values, self._id)).lastrowid
        else:
            self._connection.execute(_UPDATE, (*values, self._key))
        if is_change:
            self._connection.execute("UPDATE chat_changes SET last = last + 1")
            self._connection.execute(_CHANGE, (self._key,))

    def append_entry(self, head: Head, entry: bytes, waits: Waits) -> None:
        self.write_head(head, is_change=True)
        self._connection.execute("INSERT INTO chat_entries VALUES (?, ?, ?)", (self._key, head.entries, entry))
        for tool, found in waits.items():
            name = name_to_column(tool)
            self._connection.execute("DELETE FROM chat_waits WHERE conversation = ? AND tool = ?", (self._key, name))
            rows = [
                (self._key, name, place, wait.kind, to_microseconds(deadline_of(wait)), wait_to_column(wait))
                for place, wait in enumerate(found)
            ]
            self._connection.executemany("INSERT INTO chat_waits VALUES (?, ?, ?, ?, ?, ?)", rows)

    def delete(self) -> None:
        self._connection.execute("DELETE FROM chat_conversations WHERE key = ?", (self._key,))


class SqliteBackend:
    """Rows in a SQLite file. A connection for each thread that is at it; those not in use are kept."""

    committer: ClassVar[Committer] = Committer()

    def __init__(self, path: str | os.PathLike[str], busy_seconds: float, poll_seconds: float = 0.1) -> None:
        if os.fspath(path) in ("", ":memory:"):
            msg = f"SqliteStore() needs a file, not {path!r}; MemoryStore() needs none"
            raise UsageError(msg)
        self._path = Path(path).resolve()
        self._busy_seconds = busy_seconds
        self._poll_seconds = poll_seconds
        self._poller = Poller(self._watch)
        self._pid = os.getpid()
        self._idle: list[sqlite3.Connection] = []
        self._closed = False
        # Threads wait for each other here, and in order; only processes wait by asking again.
        self._writing = threading.Lock()
        self._opening = threading.Lock()
        self._file: os.stat_result | None = None

    @contextmanager
    def read_transaction(self, id: str) -> Generator[ReadTransaction]:  # noqa: A002 - the field's own name
        """Read a consistent state of a conversation."""
        with self._connection() as connection:
            connection.execute("BEGIN")
            try:
                yield _Transaction(connection, id)
            finally:
                connection.execute("COMMIT")

    @contextmanager
    def write_transaction(self, id: str) -> Generator[WriteTransaction]:  # noqa: A002
        """Change a conversation."""
        if not self._writing.acquire(timeout=self._busy_seconds):
            raise self._busy()
        try:
            with self._connection() as connection:
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield _Transaction(connection, id)
                    self.committer.commit(connection)
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
        finally:
            self._writing.release()
        # Subscribers of this process need not wait for the next poll.
        self._poller.notify()

    def list_waiting(self, which: ListFilter) -> list[Waiting]:
        """List the calls that wait."""
        query = (
            "SELECT id, person, kind, wait FROM chat_waits JOIN chat_conversations ON conversation = key "
            "WHERE (:person IS NULL OR person = :person) AND (:kind IS NULL OR kind = :kind) "
            "AND (:before IS NULL OR moment < :before) "
            "ORDER BY moment IS NULL, moment, conversation, tool, place LIMIT :limit"
        )
        values = {
            "person": which.person,
            "kind": which.kind,
            "before": to_microseconds(which.before),
            "limit": -1 if which.limit is None else which.limit,
        }
        with self._connection() as connection:
            rows = connection.execute(query, values).fetchall()
        return [Waiting(id, person, wait_from_columns(kind, wait)) for id, person, kind, wait in rows]  # noqa: A001

    def list_due(self, now: datetime, which: ListFilter) -> list[Due]:
        """List the conversations that are due."""
        query = (
            "SELECT id, person, due FROM chat_conversations WHERE due <= :now AND (until IS NULL OR until <= :now) "
            "AND (:person IS NULL OR person = :person) ORDER BY due, key LIMIT :limit"
        )
        values = {
            "now": to_microseconds(now),
            "person": which.person,
            "limit": -1 if which.limit is None else which.limit,
        }
        with self._connection() as connection:
            rows = connection.execute(query, values).fetchall()
        return [Due(id, person, from_microseconds(int(due))) for id, person, due in rows]  # noqa: A001

    def poll(self, since: str | None, due_after: datetime, now: datetime) -> PollResult:
        """List what was changed or became due."""
        values = {"since": since, "after": to_microseconds(due_after), "now": to_microseconds(now)}
        with self._connection() as connection:
            connection.execute("BEGIN")
            try:
                (last,) = connection.execute("SELECT last FROM chat_changes").fetchone()
                if since is not None and not (since.isdecimal() and int(since) <= last):
                    raise invalid_cursor_error(since)
                rows = [] if since is None else connection.execute(_POLL, values).fetchall()
                (next_due,) = connection.execute(_NEXT, values).fetchone()
            finally:
                connection.execute("COMMIT")
        return PollResult(str(last), [Changed(id, person) for id, person in rows], from_microseconds(next_due))  # noqa: A001

    def subscribe(self, notifier: Notifier) -> None:
        """Notify with every change: of this process at once, of others with the next poll."""
        self._poller.add(notifier)

    def unsubscribe(self, notifier: Notifier) -> None:
        """Notify no longer."""
        self._poller.remove(notifier)

    def close(self) -> None:
        """Close every connection; one in use, as soon as it is not."""
        if self._pid != os.getpid():
            # They are the parent's, who goes on with them; and what SQLite knows of its locks is not true here.
            return
        with self._opening:
            self._closed = True
            while self._idle:
                self._idle.pop().close()
        # Last: a subscriber polls once more, and must find the backend closed.
        self._poller.close()

    @contextmanager
    def _watch(self, stop: threading.Event) -> Generator[Callable[[], bool]]:
        """SQLite tells nobody of a commit, but it counts those of others, and to ask costs microseconds."""
        with self._connection() as connection:
            (seen,) = connection.execute("PRAGMA data_version").fetchone()

            def changed() -> bool:
                nonlocal seen
                stop.wait(self._poll_seconds)
                before = seen
                (seen,) = connection.execute("PRAGMA data_version").fetchone()
                return bool(before != seen)

            yield changed

    # --- Below: connections --------------------------------------------------------------------------------------

    @contextmanager
    def _connection(self) -> Generator[sqlite3.Connection]:
        if self._pid != os.getpid():
            msg = "the store was made before this process was forked; make one here"
            raise UsageError(msg)
        with self._translated():
            connection = self._take()
            try:
                yield connection
            finally:
                self._give_back(connection)

    def _take(self) -> sqlite3.Connection:
        with self._opening:
            if self._closed:
                msg = f"the store in {self._path} is closed"
                raise UsageError(msg)
            self._require_the_same_file()
            if self._idle:
                return self._idle.pop()
            connection = sqlite3.connect(
                self._path, timeout=self._busy_seconds, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            return connection

    def _require_the_same_file(self) -> None:
        """SQLite goes on with a file that has no name any more, and what is written there is lost."""
        if self._file is None:
            return
        try:
            same = os.path.samestat(self._file, self._path.stat())
        except FileNotFoundError:
            same = False
        if not same:
            msg = f"{self._path} was removed or replaced while it was open; open it again"
            raise InvalidDocumentError(msg)

    def _give_back(self, connection: sqlite3.Connection) -> None:
        with self._opening:
            if self._closed or len(self._idle) >= _MOST_IDLE:
                connection.close()
            else:
                self._idle.append(connection)

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")
        # On macOS nothing less reaches the medium; elsewhere it is of no effect.
        connection.execute("PRAGMA fullfsync = ON")
        if self._file is None:
            self._use_wal(connection)
            migrate(connection, MIGRATIONS)
            self._file = self._path.stat()

    def _use_wal(self, connection: sqlite3.Connection) -> None:
        """Two processes that do so at once do not wait for each other: SQLite tells one of them to ask again."""
        deadline = time.monotonic() + self._busy_seconds
        while True:
            try:
                (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            except sqlite3.OperationalError as error:
                if not _is_busy(error) or time.monotonic() >= deadline:
                    raise
                time.sleep(0.005)
                continue
            if mode != "wal":
                msg = f"{self._path} cannot be used by several processes: SQLite offers the journal mode {mode!r} there"
                raise OSError(msg)
            return

    @contextmanager
    def _translated(self) -> Generator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            if _is_busy(error):
                raise self._busy() from error
            if _code(error) in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                msg = f"{self._path} is not a database of SQLite, or is damaged: {error}"
                raise InvalidDocumentError(msg) from error
            msg = f"{self._path} cannot be read or written: {error}"
            raise OSError(msg) from error

    def _busy(self) -> TimeoutError:
        msg = f"somebody else has been writing to {self._path} for {self._busy_seconds:g} seconds; is it stopped?"
        return TimeoutError(msg)


def _code(error: sqlite3.Error) -> int:
    # The lower byte is the kind of error; the others say more about it.
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def _is_busy(error: sqlite3.Error) -> bool:
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
