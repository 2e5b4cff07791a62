"""The queries that store and read text deltas in a SQLite file."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import datetime

from chat_store._job_rules import has_lease
from chat_store._sqlite_jobs import SqliteJobs
from chat_store.deltas import ResponseDelta, delta_from_columns, delta_to_columns

_REPLACE = (
    "DELETE FROM chat_deltas WHERE conversation = (SELECT key FROM chat_conversations WHERE id = ?) "
    "AND (kind, name, fence, step) <> (?, ?, ?, ?)"
)
_INSERT = (
    "INSERT INTO chat_deltas (conversation, kind, name, fence, step, start, pieces) "
    "SELECT key, ?, ?, ?, ?, ?, ? FROM chat_conversations WHERE id = ?"
)
_READ = (
    "SELECT d.key, id, kind, name, d.fence, step, start, pieces FROM chat_deltas AS d "
    "JOIN chat_conversations AS c ON d.conversation = c.key WHERE id = ? AND d.key > ? ORDER BY d.key"
)


def write_deltas(connection: sqlite3.Connection, deltas: Sequence[ResponseDelta], now: datetime) -> None:
    """Implement `Backend.write_deltas()` on a connection that is in a transaction."""
    jobs = SqliteJobs(connection)
    for delta in deltas:
        if has_lease(jobs.find(delta.kind, delta.key), delta, now):
            connection.execute(_REPLACE, (delta.conversation, *delta.response))
            connection.execute(_INSERT, (*delta_to_columns(delta), delta.conversation))


def read_deltas(connection: sqlite3.Connection, after: Mapping[str, int]) -> list[ResponseDelta]:
    """Implement `Backend.read_deltas()`."""
    return [delta_from_columns(row) for item in after.items() for row in connection.execute(_READ, item)]


def drop_deltas(connection: sqlite3.Connection, conversation: int | None) -> None:
    """Delete the deltas of a conversation.

    Args:
        connection: a connection that is in a transaction.
        conversation: the primary key of the conversation's row.
    """
    connection.execute("DELETE FROM chat_deltas WHERE conversation = ?", (conversation,))
