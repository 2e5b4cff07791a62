"""The queries that store and read text deltas in a SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from chat_store.deltas import DELTA_COLUMNS, READER_SECONDS, ResponseDelta, delta_from_columns, delta_to_columns
from chat_store.sql.values import to_microseconds

_OLDEST = (
    "SELECT kind, name, fence, step FROM chat_deltas "
    "WHERE conversation = (SELECT key FROM chat_conversations WHERE id = ?) ORDER BY key LIMIT 1"
)
_DROP_OTHERS = (
    "DELETE FROM chat_deltas WHERE conversation = (SELECT key FROM chat_conversations WHERE id = ?) "
    "AND (kind, name, fence, step) <> (?, ?, ?, ?)"
)
_INSERT = (
    "INSERT INTO chat_deltas (conversation, kind, name, fence, step, start, pieces) "
    "SELECT j.conversation, j.kind, j.name, :fence, :step, :start, :pieces "
    "FROM chat_jobs AS j JOIN chat_conversations AS c ON j.conversation = c.key "
    "WHERE j.kind = :kind AND j.name = :name AND c.id = :id AND j.until > :now "
    "AND json_extract(CAST(j.job AS TEXT), '$.fence') = :fence"
)
"""The statement that stores a delta if its writer has the job, as `has_lease()` would report.

The database checks the lease, because a service writes text many times per second.
"""
_READ = (
    "SELECT d.key, id, kind, name, d.fence, step, start, pieces FROM chat_deltas AS d "
    "JOIN chat_conversations AS c ON d.conversation = c.key WHERE id = ? AND d.key > ? ORDER BY d.key"
)
_READERS = (
    "SELECT DISTINCT id FROM chat_delta_readers AS r JOIN chat_conversations AS c ON r.conversation = c.key "
    "WHERE r.reader <> ? AND r.until > ?"
)
_UNMARKED = (
    "SELECT id FROM chat_conversations AS c LEFT JOIN chat_delta_readers AS r "
    "ON r.conversation = c.key AND r.reader = ? WHERE id = ? AND ifnull(r.until, 0) < ?"
)
_MARK = (
    "INSERT INTO chat_delta_readers (conversation, reader, until) "
    "SELECT key, :reader, :until FROM chat_conversations WHERE id = :id "
    "ON CONFLICT (conversation, reader) DO UPDATE SET until = max(until, excluded.until)"
)


def write_deltas(connection: sqlite3.Connection, deltas: Sequence[ResponseDelta], now: datetime) -> None:
    """Store the deltas for `Backend.write_deltas()` on a connection that is in a transaction."""
    for delta in deltas:
        columns = dict(zip(DELTA_COLUMNS, delta_to_columns(delta), strict=True))
        stored = connection.execute(_INSERT, {**columns, "id": delta.conversation, "now": to_microseconds(now)})
        if not stored.rowcount:
            continue
        # Usually, all deltas are of this response. Reading one of them costs less than a search for others.
        if connection.execute(_OLDEST, (delta.conversation,)).fetchone() != delta.response:
            connection.execute(_DROP_OTHERS, (delta.conversation, *delta.response))


def find_read(connection: sqlite3.Connection, writer: str, now: datetime) -> list[str]:
    """Return the ids of the conversations that other stores have marked as read until a time after `now`."""
    return [name for (name,) in connection.execute(_READERS, (writer, to_microseconds(now)))]


def find_unmarked(connection: sqlite3.Connection, names: Iterable[str], reader: str, now: datetime) -> list[str]:
    """Return the ids of conversations that a store has not marked as read for another half of `READER_SECONDS`."""
    until = to_microseconds(now + timedelta(seconds=READER_SECONDS / 2))
    return [found for name in names for (found,) in connection.execute(_UNMARKED, (reader, name, until))]


def mark_read(connection: sqlite3.Connection, names: Collection[str], reader: str, now: datetime) -> None:
    """Mark conversations as read by a store, and delete older marks, on a connection that is in a transaction."""
    until = to_microseconds(now + timedelta(seconds=READER_SECONDS))
    connection.execute("DELETE FROM chat_delta_readers WHERE until <= ?", (to_microseconds(now),))
    connection.executemany(_MARK, [{"id": name, "reader": reader, "until": until} for name in names])


def read_deltas(connection: sqlite3.Connection, after: Mapping[str, int]) -> list[ResponseDelta]:
    """Return the deltas for `Backend.read_deltas()`."""
    return [delta_from_columns(row) for item in after.items() for row in connection.execute(_READ, item)]


def drop_deltas(connection: sqlite3.Connection, conversation: int | None) -> None:
    """Delete the deltas of a conversation.

    Args:
        connection: a connection that is in a transaction.
        conversation: the primary key of the conversation's row.
    """
    connection.execute("DELETE FROM chat_deltas WHERE conversation = ?", (conversation,))
