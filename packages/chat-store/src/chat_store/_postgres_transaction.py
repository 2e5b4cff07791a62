"""Transactions that read and write the rows of one conversation in a PostgreSQL database."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import LiteralString, final

from chat_store._backend import Head, Waits
from chat_store._checksums import (
    META_COLUMNS,
    entry_checksum,
    entry_from_columns,
    head_checksum,
    head_from_columns,
    meta_to_columns,
    wait_checksum,
)
from chat_store._postgres_jobs import PostgresJobs
from chat_store._waits import wait_deadline
from chat_store.jobs import StoredJob
from chat_store.sql.pool import Connection, ServerClock
from chat_store.sql.values import call_id_to_column, from_microseconds, to_microseconds, wait_to_column

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
    "text AS (DELETE FROM chat_deltas WHERE conversation = %(key)s AND %(adds_turns)s), "
    "gone AS (DELETE FROM chat_waits WHERE conversation = %(key)s AND tool = ANY(%(tools)s::text[])) "
    "INSERT INTO chat_waits (conversation, tool, place, kind, moment, wait, crc) SELECT head.key, found.* FROM head, "
    "unnest(%(names)s::text[], %(places)s::bigint[], %(kinds)s::text[], %(moments)s::bigint[], %(waits)s::bytea[], "
    "%(crcs)s::bigint[]) AS found"
)
_INSERT_ENTRY = "INSERT INTO chat_entries (conversation, number, entry, crc) VALUES (%s, %s, %s, %s)"
_WAIT_ARRAYS = ("names", "places", "kinds", "moments", "waits", "crcs")
"""The parameters of `_APPEND` for the new waits, one array for each column."""


@final
class PostgresTransaction:
    """A `WriteTransaction` on a PostgreSQL connection that is in a transaction."""

    def __init__(self, connection: Connection, id: str, clock: ServerClock, *, changing: bool) -> None:
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

    def append_entry(self, head: Head, entry: bytes, waits: Waits, *, adds_turns: bool = False) -> None:
        if self._key is None:
            self.write_head(head)
        self.changed = True
        rows = [
            (call_id_to_column(tool), place, wait.kind, to_microseconds(wait_deadline(wait)), wait_to_column(wait))
            for tool in waits
            for place, wait in enumerate(waits[tool])
        ]
        columns = zip(*[(*row, wait_checksum(*row)) for row in rows], strict=True) if rows else [()] * len(_WAIT_ARRAYS)
        values = {
            **self._row_values(head, changed=True),
            "entry": entry,
            "entry_crc": entry_checksum(entry),
            "snapshot": True if head.snapshot == head.entries else None,
            "adds_turns": adds_turns,
            "tools": [call_id_to_column(tool) for tool in waits],
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

    def list_job_names(self) -> list[tuple[str, str]]:
        return PostgresJobs(self._connection).list_names(self._key)

    def rewrite(self, head: Head, entries: Sequence[bytes], clean_job: Callable[[StoredJob], StoredJob]) -> None:
        self.write_head(head, is_change=True)
        self._connection.execute("DELETE FROM chat_entries WHERE conversation = %s", (self._key,))
        self._connection.execute("DELETE FROM chat_deltas WHERE conversation = %s", (self._key,))
        for number, entry in enumerate(entries, 1):
            values = (self._key, number, entry, entry_checksum(entry))
            self._connection.execute(_INSERT_ENTRY, values)
        PostgresJobs(self._connection).rewrite(self._key, clean_job)

    def delete(self) -> None:
        PostgresJobs(self._connection).lock_all(self._key)  # the database would lock them in any order
        self._connection.execute("DELETE FROM chat_conversations WHERE key = %s", (self._key,))


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
