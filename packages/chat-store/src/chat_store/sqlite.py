"""A store in a SQLite file, shared by any number of processes on one machine.

    async with SqliteStore("chats.db") as store:
        async with store.open("chat-17") as conversation: ...

The file is in WAL mode: readers never wait, and writers wait for one another for the milliseconds of a commit. A commit
is on disk before the method returns (`synchronous=FULL`). The files `-wal` and `-shm` next to the database belong to
it; use `VACUUM INTO` to copy the database. A new file can be read by its owner alone. The file may also contain tables
of an application: the names of the store's tables begin with `chat_`. Do not use a network file system, where the locks
of SQLite do not work.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import ClassVar, final

from chat_core.clock import utc_now

from chat_store._arguments import require_path, require_seconds
from chat_store._backend import (
    DamagedWait,
    Head,
    ListFilter,
    MetaFilter,
    PollResult,
    ReadTransaction,
    Waits,
    WriteTransaction,
)
from chat_store._base_store import BaseStore
from chat_store._checksums import (
    META_COLUMNS,
    entry_checksum,
    entry_from_columns,
    head_checksum,
    head_from_columns,
    meta_to_columns,
    past_time,
    wait_checksum,
    waiting_from_columns,
)
from chat_store._cursor import due_position, invalid_cursor_error, list_cursor, waiting_position
from chat_store._job_rules import JobFilter, JobTransaction
from chat_store._sqlite_deltas import (
    drop_deltas,
    find_read,
    find_unmarked,
    mark_read,
    read_deltas,
    write_deltas,
)
from chat_store._sqlite_jobs import JOB_MOMENT, SqliteJobs
from chat_store._sqlite_meta import count_conversations, list_conversations
from chat_store._sqlite_tables import MIGRATIONS
from chat_store._waits import wait_deadline
from chat_store.deltas import ResponseDelta
from chat_store.jobs import StoredJob
from chat_store.meta import ConversationMeta
from chat_store.results import Changed, Due, Waiting
from chat_store.sql.notify import Notifier, Poller
from chat_store.sql.sqlite_pool import SqlitePool
from chat_store.sql.values import call_id_to_column, from_microseconds, to_microseconds, wait_to_column

_COLUMNS = ("person", "born", "entries", "revision", "fence", "holder", "until", "due", "crc", *META_COLUMNS)
_INSERT = f"INSERT INTO chat_conversations ({', '.join(_COLUMNS)}, id) VALUES (?{', ?' * len(_COLUMNS)})"  # noqa: S608 - our own names
_UPDATE = f"UPDATE chat_conversations SET {' = ?, '.join(_COLUMNS)} = ? WHERE key = ?"  # noqa: S608 - our own names
_HEAD = (
    "SELECT key, (SELECT max(number) FROM chat_entries WHERE conversation = key AND snapshot IS NOT NULL), "  # noqa: S608 - our own names
    f"{', '.join(_COLUMNS)} FROM chat_conversations WHERE id = ?"
)
_INSERT_ENTRY = "INSERT INTO chat_entries (conversation, number, entry, crc, snapshot) VALUES (?, ?, ?, ?, ?)"
_INSERT_WAIT = (
    "INSERT INTO chat_waits (conversation, tool, place, kind, moment, wait, crc) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_CHANGE = "UPDATE chat_conversations SET change = (SELECT last FROM chat_changes) WHERE key = ?"
_MOMENT = "max(due, ifnull(until, due))"
"""The indexed SQL expression for the time at which a conversation becomes due, not before its lease expires."""
_POLL = (
    "SELECT id, person FROM chat_conversations WHERE change > CAST(:since AS INTEGER) "  # noqa: S608 - our own names
    f"OR (due IS NOT NULL AND {_MOMENT} > :after AND {_MOMENT} <= :now) "
    "OR key IN (SELECT conversation FROM chat_jobs WHERE state = 'queued' "
    f"AND {JOB_MOMENT} > :after AND {JOB_MOMENT} <= :now)"
)
_NEXT = (
    f"SELECT min(moment) FROM (SELECT min({_MOMENT}) AS moment FROM chat_conversations "  # noqa: S608 - our own names
    f"WHERE due IS NOT NULL AND {_MOMENT} > :now UNION ALL "
    f"SELECT min({JOB_MOMENT}) FROM chat_jobs WHERE state = 'queued' AND {JOB_MOMENT} > :now)"
)


class SqliteStore(BaseStore):
    """A `ConversationStore` in a SQLite file, shared by the processes of one machine.

    The first use creates the file and its tables, or upgrades tables of an earlier version.

    Args:
        path: path of the file.
        lease_seconds: time after which another run can take over from a run that stalls or whose process died.
        busy_seconds: maximum number of seconds to wait for another writer before `TimeoutError` is raised.
        poll_seconds: interval in seconds at which `changes()` checks for writes of other processes.
        now: the clock. It returns times with a time zone.
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
    """The operation that commits a transaction. Crash tests replace it in `SqliteBackend.committer`."""

    def commit(self, connection: sqlite3.Connection) -> None:
        """Commit the transaction durably."""
        connection.execute("COMMIT")


@final
class _Transaction:
    def __init__(self, connection: sqlite3.Connection, id: str) -> None:
        self._connection = connection
        self._id = id
        self._key: int | None = None

    def read_head(self) -> Head | None:
        row = self._connection.execute(_HEAD, (self._id,)).fetchone()
        if row is None:
            return None
        self._key, snapshot, *columns = row
        return replace(head_from_columns(self._id, columns), snapshot=snapshot or 0)

    def read_entries(self, after: int) -> list[bytes]:
        query = (
            "SELECT number, entry, crc FROM chat_entries WHERE conversation = "
            "(SELECT key FROM chat_conversations WHERE id = ?) AND number > ? ORDER BY number"
        )
        # All rows are fetched first: an error would leave the statement open, and `VACUUM` would fail.
        rows = self._connection.execute(query, (self._id, after)).fetchall()
        return [entry_from_columns(self._id, number, entry, checksum) for number, entry, checksum in rows]

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
            head_checksum(head),
            *meta_to_columns(head.id, head.meta),
        )
        if self._key is None:
            self._key = self._connection.execute(_INSERT, (*values, self._id)).lastrowid
        else:
            self._connection.execute(_UPDATE, (*values, self._key))
        if is_change:
            self._connection.execute("UPDATE chat_changes SET last = last + 1")
            self._connection.execute(_CHANGE, (self._key,))

    def append_entry(self, head: Head, entry: bytes, waits: Waits, *, adds_turns: bool = False) -> None:
        self.write_head(head, is_change=True)
        if adds_turns:
            drop_deltas(self._connection, self._key)
        snapshot = 1 if head.snapshot == head.entries else None
        self._connection.execute(_INSERT_ENTRY, (self._key, head.entries, entry, entry_checksum(entry), snapshot))
        for tool, found in waits.items():
            name = call_id_to_column(tool)
            self._connection.execute("DELETE FROM chat_waits WHERE conversation = ? AND tool = ?", (self._key, name))
            rows = [
                (name, place, wait.kind, to_microseconds(wait_deadline(wait)), wait_to_column(wait))
                for place, wait in enumerate(found)
            ]
            self._connection.executemany(_INSERT_WAIT, [(self._key, *row, wait_checksum(*row)) for row in rows])

    def add_jobs(self, jobs: Sequence[StoredJob]) -> None:
        SqliteJobs(self._connection).add(self._key, jobs)

    def list_job_names(self) -> list[tuple[str, str]]:
        return SqliteJobs(self._connection).list_names(self._key)

    def rewrite(self, head: Head, entries: Sequence[bytes], clean_job: Callable[[StoredJob], StoredJob]) -> None:
        self.write_head(head, is_change=True)
        self._connection.execute("DELETE FROM chat_entries WHERE conversation = ?", (self._key,))
        drop_deltas(self._connection, self._key)
        for number, entry in enumerate(entries, 1):
            self._connection.execute(_INSERT_ENTRY, (self._key, number, entry, entry_checksum(entry), None))
        SqliteJobs(self._connection).rewrite(self._key, clean_job)

    def delete(self) -> None:
        self._connection.execute("DELETE FROM chat_conversations WHERE key = ?", (self._key,))


class SqliteBackend:
    """A backend that keeps rows in a SQLite file, with a pool of connections.

    Args:
        path: path of the file.
        busy_seconds: maximum number of seconds to wait for another writer before `TimeoutError` is raised.
        poll_seconds: interval in seconds between checks for writes of other processes while there are subscribers.
    """

    committer: ClassVar[Committer] = Committer()

    def __init__(self, path: str | os.PathLike[str], busy_seconds: float, poll_seconds: float = 0.1) -> None:
        require_path(path)
        require_seconds("busy_seconds", busy_seconds)
        require_seconds("poll_seconds", poll_seconds, zero=False)
        self._pool = SqlitePool(path, busy_seconds, MIGRATIONS)
        self._poll_seconds = poll_seconds
        self._poller = Poller(self._watch)

    @contextmanager
    def read_transaction(self, id: str) -> Generator[ReadTransaction]:
        """Implement `Backend.read_transaction()`."""
        with self._pool.read() as connection:
            yield _Transaction(connection, id)

    @contextmanager
    def write_transaction(self, id: str) -> Generator[WriteTransaction]:
        """Implement `Backend.write_transaction()`."""
        with self._write_and_notify() as connection:
            yield _Transaction(connection, id)

    @contextmanager
    def lease_transaction(self, *, is_shared: bool) -> Generator[Callable[[str], WriteTransaction]]:
        """Implement `Backend.lease_transaction()`."""
        del is_shared  # the transaction locks the whole file
        with self._pool.write(self.committer.commit) as connection:
            yield partial(_Transaction, connection)

    @contextmanager
    def job_transaction(self) -> Generator[JobTransaction]:
        """Implement `JobStorage.job_transaction()`."""
        with self._write_and_notify() as connection:
            yield SqliteJobs(connection)

    @contextmanager
    def _write_and_notify(self) -> Generator[sqlite3.Connection]:
        with self._pool.write(self.committer.commit) as connection:
            yield connection
        # Subscribers of this process need not wait for the next poll.
        self._poller.notify()

    def list_waiting(self, filters: ListFilter) -> Sequence[Waiting | DamagedWait]:
        """Implement `Backend.list_waiting()`."""
        query = (
            "SELECT conversation, id, person, tool, place, kind, moment, wait, w.crc, owner FROM chat_waits AS w "
            "JOIN chat_conversations ON conversation = key "
            "WHERE closed IS NULL AND (:person IS NULL OR person = :person) AND (:kind IS NULL OR kind = :kind) "
            "AND (:before IS NULL OR moment < :before) AND (:key IS NULL OR "
            "(moment IS NULL, ifnull(moment, 0), conversation, tool, place) > (:last, :moment, :key, :tool, :place)) "
            "ORDER BY moment IS NULL, moment, conversation, tool, place LIMIT :limit"
        )
        values = {
            **waiting_position(filters.after),
            "person": filters.person,
            "kind": filters.kind,
            "before": to_microseconds(filters.before),
            "limit": -1 if filters.limit is None else filters.limit,
        }
        with self._pool.connection() as connection:
            rows = connection.execute(query, values).fetchall()
        return [waiting_from_columns(row[1:], list_cursor(row[6], row[0], row[3], row[4])) for row in rows]

    def list_due(self, now: datetime, filters: ListFilter) -> list[Due]:
        """Implement `Backend.list_due()`."""
        query = (
            "SELECT key, id, person, due FROM chat_conversations WHERE due <= :now "
            "AND (until IS NULL OR until <= :now) AND (:person IS NULL OR person = :person) "
            "AND (:key IS NULL OR (due, key) > (:due, :key)) ORDER BY due, key LIMIT :limit"
        )
        values = {
            **due_position(filters.after),
            "now": to_microseconds(now),
            "person": filters.person,
            "limit": -1 if filters.limit is None else filters.limit,
        }
        with self._pool.connection() as connection:
            rows = connection.execute(query, values).fetchall()
        return [Due(id, person, past_time(due, now), list_cursor(due, key)) for key, id, person, due in rows]

    def list_conversations(self, filters: MetaFilter) -> list[ConversationMeta]:
        """Implement `Backend.list_conversations()`."""
        with self._pool.connection() as connection:
            return list_conversations(connection, filters)

    def count_conversations(self, filters: MetaFilter) -> int:
        """Implement `Backend.count_conversations()`."""
        with self._pool.connection() as connection:
            return count_conversations(connection, filters)

    def list_jobs(self, now: datetime, filters: JobFilter) -> list[StoredJob]:
        """Implement `Backend.list_jobs()`."""
        with self._pool.connection() as connection:
            return SqliteJobs(connection).list_jobs(now, filters)

    def write_deltas(self, deltas: Sequence[ResponseDelta], writer: str, now: datetime) -> Collection[str]:
        """Implement `Backend.write_deltas()`."""
        if not deltas:
            with self._pool.connection() as connection:
                return find_read(connection, writer, now)
        with self._pool.write() as connection:
            write_deltas(connection, deltas, now)
            return find_read(connection, writer, now)

    def read_deltas(self, after: Mapping[str, int], reader: str, now: datetime) -> list[ResponseDelta]:
        """Implement `Backend.read_deltas()`."""
        with self._pool.connection() as connection:
            unmarked = find_unmarked(connection, after, reader, now)
        if unmarked:
            # If another process writes, the next read marks the conversations.
            with suppress(TimeoutError), self._pool.write() as connection:
                mark_read(connection, unmarked, reader, now)
        with self._pool.connection() as connection:
            return read_deltas(connection, after)

    def poll(self, since: str | None, due_after: datetime, now: datetime) -> PollResult:
        """Implement `Backend.poll()`."""
        values = {"since": since, "after": to_microseconds(due_after), "now": to_microseconds(now)}
        with self._pool.connection() as connection:
            connection.execute("BEGIN")
            try:
                (last,) = connection.execute("SELECT last FROM chat_changes").fetchone()
                if since is not None and not (since.isdecimal() and int(since) <= last):
                    raise invalid_cursor_error(since)
                rows = [] if since is None else connection.execute(_POLL, values).fetchall()
                (next_due,) = connection.execute(_NEXT, values).fetchone()
            finally:
                connection.execute("COMMIT")
        return PollResult(str(last), [Changed(id, person) for id, person in rows], from_microseconds(next_due))

    def erase_traces(self) -> None:
        """Implement `Backend.erase_traces()`."""
        self._pool.vacuum()

    def subscribe(self, notifier: Notifier) -> None:
        """Implement `Backend.subscribe()`. Changes by other processes are found by polling, with a delay."""
        self._poller.add(notifier)

    def unsubscribe(self, notifier: Notifier) -> None:
        """Implement `Backend.unsubscribe()`."""
        self._poller.remove(notifier)

    def close(self) -> None:
        """Close all connections. A connection in use is closed when it is returned."""
        if not self._pool.close():
            return
        # Close the poller last: a subscriber polls once more, and must find the backend closed.
        self._poller.close()

    @contextmanager
    def _watch(self, stop: threading.Event) -> Generator[Callable[[], bool]]:
        """Implement `Watch` by polling `PRAGMA data_version`, since SQLite has no notifications."""
        with self._pool.connection() as connection:
            (version,) = connection.execute("PRAGMA data_version").fetchone()

            def changed() -> bool:
                nonlocal version
                stop.wait(self._poll_seconds)
                previous = version
                (version,) = connection.execute("PRAGMA data_version").fetchone()
                return bool(previous != version)

            yield changed
