"""The queries that store and read text deltas in a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from chat_store._checksums import job_from_columns
from chat_store._job_rules import has_lease
from chat_store.deltas import DELTA_COLUMNS, ResponseDelta, delta_from_columns, delta_to_columns
from chat_store.sql.pool import Connection

_FIND_JOB = (
    "WITH c AS MATERIALIZED (SELECT key FROM chat_conversations WHERE id = %(id)s FOR KEY SHARE) "
    "SELECT c.key, j.kind, j.name, j.state, j.moment, j.until, j.job, j.crc FROM chat_jobs AS j "
    "JOIN c ON j.conversation = c.key WHERE j.kind = %(kind)s AND j.name = %(name)s FOR NO KEY UPDATE OF j"
)
"""The query for the job of a delta. PostgreSQL cannot parse each job as JSON, so `has_lease()` checks the fence.

The lock of the job's row lets no other worker take the job before the end of the transaction. The conversation is
locked first, as by all other transactions that lock both. The new row would lock it later, and cause a deadlock.
"""
_WRITE = (
    "WITH others AS (DELETE FROM chat_deltas WHERE conversation = %(conversation)s "
    "AND (kind, name, fence, step) <> (%(kind)s, %(name)s, %(fence)s, %(step)s)) "
    "INSERT INTO chat_deltas (conversation, kind, name, fence, step, start, pieces) "
    "VALUES (%(conversation)s, %(kind)s, %(name)s, %(fence)s, %(step)s, %(start)s, %(pieces)s)"
)
"""The statement that adds a delta, and deletes the deltas of other responses."""
_READ = (
    "SELECT d.key, c.id, kind, name, d.fence, step, start, pieces "
    "FROM unnest(%s::text[], %s::bigint[]) AS known (id, last) "
    "JOIN chat_conversations AS c ON c.id = known.id JOIN chat_deltas AS d ON d.conversation = c.key "
    "WHERE d.key > known.last ORDER BY d.key"
)


def write_deltas(connection: Connection, deltas: Sequence[ResponseDelta], now: datetime) -> None:
    """Implement `Backend.write_deltas()` on a connection that is in a transaction."""
    # Two transactions that lock several jobs lock them in the same order.
    for delta in sorted(deltas, key=lambda delta: (delta.kind, delta.key)):
        columns = dict(zip(DELTA_COLUMNS, delta_to_columns(delta), strict=True))
        row = connection.execute(_FIND_JOB, {**columns, "id": delta.conversation}).fetchone()
        if row is not None and has_lease(job_from_columns(row[1:]), delta, now):
            connection.execute(_WRITE, {**columns, "conversation": row[0]})


def read_deltas(connection: Connection, after: Mapping[str, int]) -> list[ResponseDelta]:
    """Implement `Backend.read_deltas()`."""
    rows = connection.execute(_READ, (list(after), list(after.values())), binary=True)
    return [delta_from_columns(row) for row in rows]
