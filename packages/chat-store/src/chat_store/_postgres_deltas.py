"""The queries that store and read text deltas in a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from chat_store._job_rules import has_lease
from chat_store._postgres_jobs import PostgresJobs
from chat_store.deltas import ResponseDelta, delta_from_columns, delta_to_columns
from chat_store.sql.pool import Connection

_REPLACE = (
    "DELETE FROM chat_deltas WHERE conversation = (SELECT key FROM chat_conversations WHERE id = %s) "
    "AND (kind, name, fence, step) <> (%s, %s, %s, %s)"
)
_INSERT = (
    "INSERT INTO chat_deltas (conversation, kind, name, fence, step, start, pieces) "
    "SELECT key, %s, %s, %s, %s, %s, %s FROM chat_conversations WHERE id = %s"
)
_READ = (
    "SELECT d.key, c.id, kind, name, d.fence, step, start, pieces "
    "FROM unnest(%s::text[], %s::bigint[]) AS known (id, last) "
    "JOIN chat_conversations AS c ON c.id = known.id JOIN chat_deltas AS d ON d.conversation = c.key "
    "WHERE d.key > known.last ORDER BY d.key"
)


def write_deltas(connection: Connection, deltas: Sequence[ResponseDelta], now: datetime) -> None:
    """Implement `Backend.write_deltas()` on a connection that is in a transaction."""
    jobs = PostgresJobs(connection)
    # Two transactions that lock several jobs lock them in the same order.
    for delta in sorted(deltas, key=lambda delta: (delta.kind, delta.key)):
        if has_lease(jobs.find(delta.kind, delta.key), delta, now):
            connection.execute(_REPLACE, (delta.conversation, *delta.response))
            connection.execute(_INSERT, (*delta_to_columns(delta), delta.conversation))


def read_deltas(connection: Connection, after: Mapping[str, int]) -> list[ResponseDelta]:
    """Implement `Backend.read_deltas()`."""
    rows = connection.execute(_READ, (list(after), list(after.values())), binary=True)
    return [delta_from_columns(row) for row in rows]
