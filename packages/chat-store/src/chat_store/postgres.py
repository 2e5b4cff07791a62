"""A store in a PostgreSQL database, shared by any number of machines.

    async with PostgresStore("postgresql://db.example.com/app") as store:
        async with store.open("chat-17") as conversation: ...

Requires the extra: `pip install "chat-store[postgres]"`, PostgreSQL 13 or newer, and the database encoding UTF8.

A write locks only the row of its conversation: writes to different conversations do not wait for each other, and reads
never wait. The tables are in a schema of their own, and their names begin with `chat_`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from hashlib import sha256
from re import fullmatch
from typing import ClassVar, cast

from chat_core.errors import UsageError

try:
    from psycopg import errors, sql
except ImportError as _error:
    _msg = 'chat_store.postgres needs psycopg: pip install "chat-store[postgres]"'
    raise UsageError(_msg) from _error

from chat_store._arguments import require_seconds, require_text, require_whole
from chat_store._backend import (
    DamagedWait,
    ListFilter,
    MetaFilter,
    PollResult,
    ReadTransaction,
    WriteTransaction,
)
from chat_store._base_store import BaseStore
from chat_store._checksums import past_time, waiting_from_columns
from chat_store._cursor import due_position, invalid_cursor_error, list_cursor, waiting_position
from chat_store._job_rules import JobFilter, JobTransaction
from chat_store._postgres_deltas import find_read, find_unmarked, mark_read, read_deltas, write_deltas
from chat_store._postgres_jobs import PostgresJobs
from chat_store._postgres_meta import count_conversations, list_conversations
from chat_store._postgres_tables import MIGRATIONS
from chat_store._postgres_transaction import PostgresTransaction, read_clock
from chat_store.deltas import ResponseDelta
from chat_store.jobs import StoredJob
from chat_store.meta import ConversationMeta
from chat_store.results import Changed, Due, Waiting
from chat_store.sql.notify import Notifier, Poller
from chat_store.sql.pool import MAX_IDLE_TRANSACTION, Connection, Pool, ServerClock
from chat_store.sql.postgres_migrations import migrate
from chat_store.sql.values import from_microseconds, to_microseconds

_MAX_SCHEMA_BYTES = 63
_WAITING = (
    "SELECT conversation, id, person, tool, place, kind, moment, wait, w.crc, owner "
    "FROM chat_waits AS w JOIN chat_conversations AS c ON conversation = c.key "
    "WHERE closed IS NULL "
    "AND (%(person)s::text IS NULL OR person = %(person)s) AND (%(kind)s::text IS NULL OR kind = %(kind)s) "
    "AND (%(before)s::bigint IS NULL OR moment < %(before)s) AND (%(key)s::bigint IS NULL OR "
    "(moment IS NULL, coalesce(moment, 0), conversation, tool, place) > "
    "(%(last)s::boolean, %(moment)s::bigint, %(key)s::bigint, %(tool)s::text, %(place)s::bigint)) "
    "ORDER BY moment NULLS LAST, conversation, tool, place LIMIT %(limit)s"
)
_DUE = (
    "SELECT key, id, person, due FROM chat_conversations WHERE due <= %(now)s AND (until IS NULL OR until <= %(now)s) "
    "AND (%(person)s::text IS NULL OR person = %(person)s) "
    "AND (%(key)s::bigint IS NULL OR (due, key) > (%(due)s::bigint, %(key)s::bigint)) ORDER BY due, key LIMIT %(limit)s"
)
_NEXT = (
    "SELECT pg_current_snapshot()::text, least((SELECT min(greatest(due, until)) FROM chat_conversations "
    "WHERE due IS NOT NULL AND greatest(due, until) > %(now)s), (SELECT min(greatest(moment, until)) FROM chat_jobs "
    "WHERE state = 'queued' AND greatest(moment, until) > %(now)s)), "
    "pg_snapshot_xmax(%(since)s::pg_snapshot) > pg_snapshot_xmax(pg_current_snapshot())"
)
# A dump restored on another server may contain transaction ids that this server has not reached yet.
_POLL = (
    "SELECT id, person FROM chat_conversations WHERE change >= pg_snapshot_xmin(%(since)s::pg_snapshot) "
    "AND change < pg_snapshot_xmax(pg_current_snapshot()) "
    "AND NOT pg_visible_in_snapshot(change, %(since)s::pg_snapshot) UNION SELECT id, person FROM chat_conversations "
    "WHERE due IS NOT NULL AND greatest(due, until) > %(after)s AND greatest(due, until) <= %(now)s "
    "UNION SELECT id, person FROM chat_conversations WHERE key IN (SELECT conversation FROM chat_jobs "
    "WHERE state = 'queued' AND greatest(moment, until) > %(after)s AND greatest(moment, until) <= %(now)s)"
)
_SNAPSHOT = r"\d{1,20}:\d{1,20}:[\d,]*"
_LISTEN_SECONDS = 0.1
"""Seconds for which the listening thread waits for a notification before it checks whether to stop."""

_SHARED_LOCK_TIMEOUT = 100
"""Milliseconds for which a transaction with several leases waits for a locked row, while its own rows stay locked."""


class PostgresStore(BaseStore):
    """A `ConversationStore` in PostgreSQL, shared by any number of machines.

    The first use creates the tables, or upgrades tables of an earlier version.

    Args:
        dsn: the address, as a libpq connection string: `postgresql://user@host/database` or `host=… dbname=…`.
        schema: the schema of the tables. It is created if it does not exist.
        lease_seconds: time after which another run can take over from a run that stalls or whose process died.
        busy_seconds: maximum number of seconds to wait for another writer of the same conversation, or for a free
            connection, before `TimeoutError` is raised; and for an unavailable server, before `OSError` is raised.
        connections: the maximum number of connections. An additional connection listens for changes while `changes()`
            waits.
        now: the clock. It returns times with a time zone. Default: the clock of the server, so that the clocks of the
            machines need not agree.
    """

    def __init__(
        self,
        dsn: str,
        *,
        schema: str = "chat",
        lease_seconds: float = 30.0,
        busy_seconds: float = 10.0,
        connections: int = 10,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        backend = PostgresBackend(dsn, schema, busy_seconds, connections)
        super().__init__(backend, lease_seconds, backend.now if now is None else now)


class Committer:
    """The operation that commits a transaction. Crash tests replace it in `PostgresBackend.committer`."""

    def commit(self, connection: Connection, then: bytes) -> None:
        """Commit the transaction durably, and notify listeners.

        `NOTIFY` is sent in the same message, but after the commit. Inside the transaction, it would serialize all
        commits of the database, since PostgreSQL delivers notifications in the order of commits.

        Args:
            connection: the connection in a transaction.
            then: SQL statements to execute after the commit, each preceded by a semicolon.
        """
        connection.execute(b"COMMIT" + then, prepare=False)


class PostgresBackend:
    """A backend that keeps rows in a PostgreSQL database.

    Args:
        dsn: the address, as a libpq connection string.
        schema: the schema of the tables.
        busy_seconds: maximum number of seconds to wait for a lock, a free connection or the server.
        connections: the maximum number of connections, without the connection that listens for changes.
    """

    committer: ClassVar[Committer] = Committer()

    def __init__(self, dsn: str, schema: str, busy_seconds: float, connections: int) -> None:
        require_text(dsn=dsn)
        require_seconds("busy_seconds", busy_seconds)
        require_whole("connections", connections, least=1)
        _require_schema(schema)
        self._schema = schema
        self._clock = ServerClock()
        self._pool = Pool(dsn, busy_seconds, connections, self._prepare_connection)
        self._poller = Poller(self._watch)
        self._ready = False
        # After a fork, the child must not close the connections of the parent.
        self._pid = os.getpid()
        channel = _quote_identifier(f"chat_{sha256(schema.encode()).hexdigest()[:16]}")
        self._listen, self._notify = b"LISTEN " + channel, b"; NOTIFY " + channel
        lock_timeout = max(1, round(busy_seconds * 1000))
        self._shared_lock_timeout = min(lock_timeout, _SHARED_LOCK_TIMEOUT)
        settings = {
            b"search_path": _quote_identifier(schema),
            b"lock_timeout": b"%d" % lock_timeout,
            b"idle_in_transaction_session_timeout": b"%d" % (MAX_IDLE_TRANSACTION * 1000),
        }
        # The settings are sent with every transaction, because a pooler may share the server connection with others.
        self._settings = b"".join([b"; SET LOCAL %s = %s" % setting for setting in settings.items()])
        self._durable_setting = b""

    def now(self) -> datetime:
        """Return the current time of the server."""
        if (now := self._clock.now()) is not None:
            return now
        with self._pool.connection(self._begin_read) as connection:
            return read_clock(connection, self._clock)

    @contextmanager
    def read_transaction(self, id: str) -> Generator[ReadTransaction]:
        """Implement `Backend.read_transaction()`."""
        with self._pool.connection(self._begin_read) as connection:
            yield PostgresTransaction(connection, id, self._clock, changing=False)

    @contextmanager
    def job_transaction(self) -> Generator[JobTransaction]:
        """Implement `JobStorage.job_transaction()`."""
        with self._pool.connection(self._begin_write) as connection:
            yield PostgresJobs(connection)
            # The waiting time of subscribers may be different now.
            self.committer.commit(connection, self._notify)

    @contextmanager
    def write_transaction(self, id: str) -> Generator[WriteTransaction]:
        """Implement `Backend.write_transaction()`."""
        with self._pool.connection(self._begin_write) as connection:
            transaction = PostgresTransaction(connection, id, self._clock, changing=True)
            yield transaction
            self.committer.commit(connection, self._notify if transaction.changed else b"")

    @contextmanager
    def lease_transaction(self, *, is_shared: bool) -> Generator[Callable[[str], WriteTransaction]]:
        """Implement `Backend.lease_transaction()`."""
        with self._pool.connection(self._begin_shared if is_shared else self._begin_write) as connection:
            yield partial(PostgresTransaction, connection, clock=self._clock, changing=True)
            self.committer.commit(connection, b"")

    def list_waiting(self, filters: ListFilter) -> Sequence[Waiting | DamagedWait]:
        """Implement `Backend.list_waiting()`."""
        values = {
            **waiting_position(filters.after),
            "person": filters.person,
            "kind": filters.kind,
            "before": to_microseconds(filters.before),
            "limit": filters.limit,
        }
        with self._pool.connection(self._begin_read) as connection:
            rows = connection.execute(_WAITING, values, binary=True).fetchall()
        return [waiting_from_columns(row[1:], list_cursor(row[6], row[0], row[3], row[4])) for row in rows]

    def list_due(self, now: datetime, filters: ListFilter) -> list[Due]:
        """Implement `Backend.list_due()`."""
        values = {
            "now": to_microseconds(now),
            "person": filters.person,
            "limit": filters.limit,
            **due_position(filters.after),
        }
        with self._pool.connection(self._begin_read) as connection:
            rows = connection.execute(_DUE, values).fetchall()
        return [Due(id, person, past_time(due, now), list_cursor(due, key)) for key, id, person, due in rows]

    def list_conversations(self, filters: MetaFilter) -> list[ConversationMeta]:
        """Implement `Backend.list_conversations()`."""
        with self._pool.connection(self._begin_read) as connection:
            return list_conversations(connection, filters)

    def count_conversations(self, filters: MetaFilter) -> int:
        """Implement `Backend.count_conversations()`."""
        with self._pool.connection(self._begin_read) as connection:
            return count_conversations(connection, filters)

    def list_jobs(self, now: datetime, filters: JobFilter) -> list[StoredJob]:
        """Implement `Backend.list_jobs()`."""
        with self._pool.connection(self._begin_read) as connection:
            return PostgresJobs(connection).list_jobs(now, filters)

    def write_deltas(self, deltas: Sequence[ResponseDelta], writer: str, now: datetime) -> Collection[str]:
        """Implement `Backend.write_deltas()`."""
        if not deltas:
            with self._pool.connection(self._begin_read) as connection:
                return find_read(connection, writer, now)
        with self._pool.connection(self._begin_write) as connection:
            write_deltas(connection, deltas, now)
            read = find_read(connection, writer, now)
            self.committer.commit(connection, b"")
        return read

    def read_deltas(self, after: Mapping[str, int], reader: str, now: datetime) -> list[ResponseDelta]:
        """Implement `Backend.read_deltas()`."""
        with self._pool.connection(self._begin_read) as connection:
            unmarked = find_unmarked(connection, after, reader, now)
        if unmarked:
            with self._pool.connection(self._begin_write) as connection:
                mark_read(connection, unmarked, reader, now)
                self.committer.commit(connection, b"")
        with self._pool.connection(self._begin_read) as connection:
            return read_deltas(connection, after)

    def poll(self, since: str | None, due_after: datetime, now: datetime) -> PollResult:
        """Implement `Backend.poll()`."""
        if since is not None and not fullmatch(_SNAPSHOT, since):
            raise invalid_cursor_error(since)
        values = {"since": since, "after": to_microseconds(due_after), "now": to_microseconds(now)}
        with self._pool.connection(self._begin_read) as connection:
            try:
                row = connection.execute(_NEXT, values).fetchone()
                rows = [] if since is None else connection.execute(_POLL, values).fetchall()
            except errors.InvalidTextRepresentation:
                raise invalid_cursor_error(str(since)) from None
        position, next_due, ahead = row or ("", None, False)
        if ahead:
            raise invalid_cursor_error(str(since))
        return PollResult(position, [Changed(id, person) for id, person in rows], from_microseconds(next_due))

    def erase_traces(self) -> None:
        """Do nothing: the server removes earlier versions of rows with `VACUUM`, as configured by its administrator."""

    def subscribe(self, notifier: Notifier) -> None:
        """Implement `Backend.subscribe()`."""
        self._poller.add(notifier)

    def unsubscribe(self, notifier: Notifier) -> None:
        """Implement `Backend.unsubscribe()`."""
        self._poller.remove(notifier)

    def close(self) -> None:
        """Close all connections. A connection in use is closed when it is returned."""
        if self._pid == os.getpid():
            self._pool.close()
            # Close the poller last: a subscriber polls once more, and must find the backend closed.
            self._poller.close()

    # --- Connections ---------------------------------------------------------------------------------------------

    def _prepare_connection(self, connection: Connection) -> None:
        if (encoding := connection.info.parameter_status("server_encoding")) != "UTF8":
            msg = f"the database has the encoding {encoding}, but must have UTF8: create it with ENCODING 'UTF8'"
            raise UsageError(msg)
        read_clock(connection, self._clock)
        if not self._ready:
            # READ COMMITTED, so that a process that waited for the migration of another process sees the tables.
            connection.execute(b"BEGIN ISOLATION LEVEL READ COMMITTED" + self._settings, prepare=False)
            migrate(connection, self._schema, MIGRATIONS)
            row = connection.execute("SHOW synchronous_commit").fetchone()
            connection.execute("COMMIT")
            if row == ("off",):
                self._durable_setting = b"; SET LOCAL synchronous_commit = on"
            self._ready = True

    def _begin_read(self) -> bytes:
        return b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY" + self._settings

    def _begin_write(self) -> bytes:
        return b"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE" + self._settings + self._durable_setting

    def _begin_shared(self) -> bytes:
        return self._begin_write() + b"; SET LOCAL lock_timeout = %d" % self._shared_lock_timeout

    @contextmanager
    def _watch(self, stop: threading.Event) -> Generator[Callable[[], bool]]:
        """Implement `Watch` with `LISTEN`. The timeout lets the thread check whether to stop."""
        del stop
        with self._pool.dedicated_connection() as connection:
            connection.execute(self._listen)

            def changed() -> bool:
                return bool(list(connection.notifies(timeout=_LISTEN_SECONDS, stop_after=1)))

            yield changed


def _quote_identifier(name: str) -> bytes:
    return sql.Identifier(name).as_bytes(None)


def _require_schema(schema: str) -> None:
    if (
        not isinstance(cast("object", schema), str)
        or not schema
        or "\0" in schema
        or len(schema.encode()) > _MAX_SCHEMA_BYTES
    ):
        msg = f"schema must be a name of 1 to {_MAX_SCHEMA_BYTES} bytes, not {schema!r}"
        raise UsageError(msg)
