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
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from re import fullmatch
from typing import ClassVar, LiteralString, cast, final

from chat_core.errors import UsageError

try:
    from psycopg import errors, sql
except ImportError as _error:
    _msg = 'chat_store.postgres needs psycopg: pip install "chat-store[postgres]"'
    raise UsageError(_msg) from _error

from chat_store._arguments import require_seconds, require_text, require_whole
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
from chat_store._postgres_jobs import PostgresJobs
from chat_store._postgres_meta import list_conversations
from chat_store._postgres_tables import MIGRATIONS
from chat_store._waits import wait_deadline
from chat_store.jobs import StoredJob
from chat_store.meta import ConversationMeta
from chat_store.results import Changed, Due, Waiting
from chat_store.sql.notify import Notifier, Poller
from chat_store.sql.pool import MAX_IDLE_TRANSACTION, Connection, Pool, ServerClock
from chat_store.sql.postgres_migrations import migrate
from chat_store.sql.values import from_microseconds, name_to_column, to_microseconds, wait_to_column

_MAX_SCHEMA_BYTES = 63
_HEAD: LiteralString = (
    "SELECT key, person, born, entries, revision, fence, holder, until, due, crc, "
    "owner, title, flow, data, created, active, closed, meta_crc, "
    "(SELECT max(number) FROM chat_entries WHERE conversation = key AND snapshot IS NOT NULL), "
    "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM chat_conversations WHERE id = %s"
)
_HEAD_LOCKED: LiteralString = _HEAD + " FOR UPDATE"
_CLOCK: LiteralString = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_ENTRIES = (
    "SELECT number, entry, e.crc FROM chat_entries AS e JOIN chat_conversations ON conversation = key "
    "WHERE id = %s AND number > %s ORDER BY number"
)
_LOCK_NAME: LiteralString = (
    "WITH lock AS MATERIALIZED (SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '/' || %s, 0))) "
    "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM lock"
)
_INSERT = (
    "INSERT INTO chat_conversations (person, born, entries, revision, fence, holder, until, due, crc, "
    "owner, title, flow, data, created, active, closed, meta_crc, id, change) "
    "VALUES (%(person)s, %(born)s, %(entries)s, %(revision)s, %(fence)s, %(holder)s, %(until)s, %(due)s, %(crc)s, "
    "%(owner)s, %(title)s, %(flow)s, %(data)s, %(created)s, %(active)s, %(closed)s, %(meta_crc)s, "
    "%(id)s, pg_current_xact_id()) RETURNING key"
)
_UPDATE: LiteralString = (
    "UPDATE chat_conversations SET person = %(person)s, born = %(born)s, entries = %(entries)s, "
    "revision = %(revision)s, fence = %(fence)s, holder = %(holder)s, until = %(until)s, due = %(due)s, "
    "crc = %(crc)s, owner = %(owner)s, title = %(title)s, flow = %(flow)s, data = %(data)s, created = %(created)s, "
    "active = %(active)s, closed = %(closed)s, meta_crc = %(meta_crc)s, "
    "change = CASE WHEN %(changed)s THEN pg_current_xact_id() ELSE change END WHERE key = %(key)s"
)
# One statement instead of several, to save round trips to a remote server.
_APPEND: LiteralString = (
    "WITH head AS (" + _UPDATE + " RETURNING key), "  # noqa: S608 - our own names
    "entry AS (INSERT INTO chat_entries (conversation, number, entry, crc, snapshot) "
    "SELECT key, %(entries)s, %(entry)s, %(entry_crc)s, %(snapshot)s::boolean FROM head), "
    "gone AS (DELETE FROM chat_waits WHERE conversation = %(key)s AND tool = ANY(%(tools)s::text[])) "
    "INSERT INTO chat_waits (conversation, tool, place, kind, moment, wait, crc) SELECT head.key, found.* FROM head, "
    "unnest(%(names)s::text[], %(places)s::bigint[], %(kinds)s::text[], %(moments)s::bigint[], %(waits)s::bytea[], "
    "%(crcs)s::bigint[]) AS found"
)
_INSERT_ENTRY = "INSERT INTO chat_entries (conversation, number, entry, crc) VALUES (%s, %s, %s, %s)"
_WAIT_ARRAYS = ("names", "places", "kinds", "moments", "waits", "crcs")
"""The parameters of `_APPEND` for the new waits, one array for each column."""
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
"""How long the listening thread waits for a notification before it checks whether to stop."""


class PostgresStore(BaseStore):
    """A `ConversationStore` in PostgreSQL, shared by any number of machines.

    The first use creates the tables, or upgrades tables of an earlier version.

    Args:
        dsn: the address, as a libpq connection string: `postgresql://user@host/database` or `host=… dbname=…`.
        schema: the schema of the tables. It is created if it does not exist.
        lease_seconds: how long a run may stall, or its process be dead, before another run can take over.
        busy_seconds: how long to wait for another writer of the same conversation, or for a free connection, before
            `TimeoutError` is raised; and for an unavailable server, before `OSError` is raised.
        connections: the maximum number of connections. One more listens for changes while `changes()` waits.
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
            then: the statements to execute after the commit, each preceded by a semicolon.
        """
        connection.execute(b"COMMIT" + then, prepare=False)


@final
class _Transaction:
    def __init__(self, connection: Connection, id: str, clock: ServerClock, *, changing: bool) -> None:  # noqa: A002
        self._connection = connection
        self._id = id
        self._clock = clock
        self._changing = changing
        self._key: int | None = None
        self._entries: int | None = None
        self.changed = False

    def read_head(self) -> Head | None:
        requested_at = time.monotonic()
        row = self._connection.execute(_HEAD_LOCKED if self._changing else _HEAD, (self._id,)).fetchone()
        if row is None and self._changing:
            # The row lock prevents changes of an existing row; this advisory lock prevents the creation of a new one.
            read_clock(self._connection, self._clock, _LOCK_NAME, self._id)
            row = self._connection.execute(_HEAD_LOCKED, (self._id,)).fetchone()
        if row is None:
            return None
        self._key, *columns, snapshot, now = row
        self._clock.set(from_microseconds(int(now)), requested_at)
        head = replace(head_from_columns(self._id, columns), snapshot=snapshot or 0)
        self._entries = head.entries
        return head

    def read_entries(self, after: int) -> list[bytes]:
        if self._entries is not None and after >= self._entries:
            return []
        rows = self._connection.execute(_ENTRIES, (self._id, after), binary=True)
        return [entry_from_columns(self._id, number, entry, checksum) for number, entry, checksum in rows]

    def write_head(self, head: Head, *, is_change: bool = False) -> None:
        self.changed |= is_change
        values = self._row_values(head, changed=is_change)
        if self._key is not None:
            self._connection.execute(_UPDATE, values)
            return
        row = self._connection.execute(_INSERT, values).fetchone()
        self._key = None if row is None else row[0]

    def append_entry(self, head: Head, entry: bytes, waits: Waits) -> None:
        if self._key is None:
            self.write_head(head)
        self.changed = True
        rows = [
            (name_to_column(tool), place, wait.kind, to_microseconds(wait_deadline(wait)), wait_to_column(wait))
            for tool in waits
            for place, wait in enumerate(waits[tool])
        ]
        columns = zip(*[(*row, wait_checksum(*row)) for row in rows], strict=True) if rows else [()] * len(_WAIT_ARRAYS)
        values = {
            **self._row_values(head, changed=True),
            "entry": entry,
            "entry_crc": entry_checksum(entry),
            "snapshot": True if head.snapshot == head.entries else None,
            "tools": [name_to_column(tool) for tool in waits],
            **{name: list(column) for name, column in zip(_WAIT_ARRAYS, columns, strict=True)},
        }
        self._connection.execute(_APPEND, values)

    def _row_values(self, head: Head, *, changed: bool) -> dict[str, object]:
        return {
            "id": self._id,
            "key": self._key,
            "person": head.person,
            "born": head.incarnation,
            "entries": head.entries,
            "revision": head.revision,
            "fence": head.fence,
            "holder": head.holder,
            "until": to_microseconds(head.lease_until),
            "due": to_microseconds(head.due),
            "crc": head_checksum(head),
            "changed": changed,
            **dict(zip(META_COLUMNS, meta_to_columns(head.id, head.meta), strict=True)),
        }

    def add_jobs(self, jobs: Sequence[StoredJob]) -> None:
        PostgresJobs(self._connection).add(self._key, jobs)

    def rewrite(self, head: Head, entries: Sequence[bytes], clean_job: Callable[[StoredJob], StoredJob]) -> None:
        self.write_head(head, is_change=True)
        self._connection.execute("DELETE FROM chat_entries WHERE conversation = %s", (self._key,))
        for number, entry in enumerate(entries, 1):
            values = (self._key, number, entry, entry_checksum(entry))
            self._connection.execute(_INSERT_ENTRY, values)
        PostgresJobs(self._connection).rewrite(self._key, clean_job)

    def delete(self) -> None:
        self._connection.execute("DELETE FROM chat_conversations WHERE key = %s", (self._key,))


class PostgresBackend:
    """A backend that keeps rows in a PostgreSQL database.

    Args:
        dsn: the address, as a libpq connection string.
        schema: the schema of the tables.
        busy_seconds: how long to wait for a lock, a free connection or the server.
        connections: the maximum number of connections, without the one that listens for changes.
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
        settings = {
            b"search_path": _quote_identifier(schema),
            b"lock_timeout": b"%d" % max(1, round(busy_seconds * 1000)),
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
    def read_transaction(self, id: str) -> Generator[ReadTransaction]:  # noqa: A002 - the field's own name
        """Implement `Backend.read_transaction()`."""
        with self._pool.connection(self._begin_read) as connection:
            yield _Transaction(connection, id, self._clock, changing=False)

    @contextmanager
    def job_transaction(self) -> Generator[JobTransaction]:
        """Implement `JobStorage.job_transaction()`."""
        with self._pool.connection(self._begin_write) as connection:
            yield PostgresJobs(connection)
            # The waiting time of subscribers may be different now.
            self.committer.commit(connection, self._notify)

    @contextmanager
    def write_transaction(self, id: str) -> Generator[WriteTransaction]:  # noqa: A002
        """Implement `Backend.write_transaction()`."""
        with self._pool.connection(self._begin_write) as connection:
            transaction = _Transaction(connection, id, self._clock, changing=True)
            yield transaction
            self.committer.commit(connection, self._notify if transaction.changed else b"")

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
        return [Due(id, person, past_time(due, now), list_cursor(due, key)) for key, id, person, due in rows]  # noqa: A001

    def list_conversations(self, filters: MetaFilter) -> list[ConversationMeta]:
        """Implement `Backend.list_conversations()`."""
        with self._pool.connection(self._begin_read) as connection:
            return list_conversations(connection, filters)

    def list_jobs(self, now: datetime, filters: JobFilter) -> list[StoredJob]:
        """Implement `Backend.list_jobs()`."""
        with self._pool.connection(self._begin_read) as connection:
            return PostgresJobs(connection).list_jobs(now, filters)

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
        return PollResult(position, [Changed(id, person) for id, person in rows], from_microseconds(next_due))  # noqa: A001

    def erase_traces(self) -> None:
        """Do nothing: the server removes earlier versions of rows with `VACUUM`, as its administrator has set it up."""

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
            msg = f"the database must have the encoding UTF8 to store any text, not its encoding {encoding}"
            raise UsageError(msg)
        read_clock(connection, self._clock)
        if not self._ready:
            # READ COMMITTED, so that a process that waited for another one's migration sees the tables.
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

    @contextmanager
    def _watch(self, stop: threading.Event) -> Generator[Callable[[], bool]]:
        """Implement `Watch` with `LISTEN`. The timeout lets the thread check whether to stop."""
        del stop
        with self._pool.dedicated_connection() as connection:
            connection.execute(self._listen)

            def changed() -> bool:
                return bool(list(connection.notifies(timeout=_LISTEN_SECONDS, stop_after=1)))

            yield changed


def read_clock(connection: Connection, clock: ServerClock, query: LiteralString = _CLOCK, *values: str) -> datetime:
    """Query the time of the server, store it in the clock, and return it.

    Args:
        connection: a connection to the server.
        clock: the clock to set.
        query: a query whose only value is the time in microseconds.
        *values: the parameters of the query.
    """
    requested_at = time.monotonic()
    row = connection.execute(query, values).fetchone()
    server_time = from_microseconds(int(row[0] if row else 0))
    clock.set(server_time, requested_at)
    return server_time


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
