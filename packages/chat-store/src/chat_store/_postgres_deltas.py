"""The queries that store and read text deltas in a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from chat_store._checksums import job_from_columns
from chat_store._job_rules import has_lease
from chat_store.deltas import DELTA_COLUMNS, READER_SECONDS, ResponseDelta, delta_from_columns, delta_to_columns
from chat_store.sql.pool import Connection
from chat_store.sql.values import to_microseconds

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
_READERS = (
    "SELECT DISTINCT c.id FROM chat_delta_readers AS r JOIN chat_conversations AS c ON r.conversation = c.key "
    "WHERE r.reader <> %s AND r.until > %s"
)
_UNMARKED = (
    "SELECT c.id FROM chat_conversations AS c LEFT JOIN chat_delta_readers AS r "
    "ON r.conversation = c.key AND r.reader = %s WHERE c.id = ANY(%s) AND coalesce(r.until, 0) < %s ORDER BY c.id"
)
_MARK = (
    "WITH c AS MATERIALIZED (SELECT key FROM chat_conversations WHERE id = %s FOR KEY SHARE SKIP LOCKED) "
    "INSERT INTO chat_delta_readers (conversation, reader, until) SELECT key, %s, %s FROM c "
    "ON CONFLICT (conversation, reader) DO UPDATE SET until = greatest(chat_delta_readers.until, EXCLUDED.until)"
)
"""The statement that marks a conversation as read, unless a transaction has locked it. The next read marks it then."""
_FORGET = (
    "DELETE FROM chat_delta_readers WHERE (conversation, reader) IN "
    "(SELECT conversation, reader FROM chat_delta_readers WHERE until <= %s FOR UPDATE SKIP LOCKED)"
)


def write_deltas(connection: Connection, deltas: Sequence[ResponseDelta], now: datetime) -> None:
    """Store the deltas for `Backend.write_deltas()` on a connection that is in a transaction."""
    # Two transactions that lock several jobs lock them in the same order.
    for delta in sorted(deltas, key=lambda delta: (delta.kind, delta.key)):
        columns = dict(zip(DELTA_COLUMNS, delta_to_columns(delta), strict=True))
        row = connection.execute(_FIND_JOB, {**columns, "id": delta.conversation}).fetchone()
        if row is not None and has_lease(job_from_columns(row[1:]), delta, now):
            connection.execute(_WRITE, {**columns, "conversation": row[0]})


def find_read(connection: Connection, writer: str, now: datetime) -> list[str]:
    """Return the ids of the conversations that other stores have marked as read until a time after `now`."""
    return [name for (name,) in connection.execute(_READERS, (writer, to_microseconds(now)))]


def find_unmarked(connection: Connection, names: Collection[str], reader: str, now: datetime) -> list[str]:
    """Return the ids of conversations that a store has not marked as read for another half of `READER_SECONDS`."""
    until = to_microseconds(now + timedelta(seconds=READER_SECONDS / 2))
    return [name for (name,) in connection.execute(_UNMARKED, (reader, list(names), until))]


def mark_read(connection: Connection, names: Sequence[str], reader: str, now: datetime) -> None:
    """Mark conversations as read by a store, and delete older marks, on a connection that is in a transaction.

    Args:
        connection: the connection.
        names: the ids, sorted, because transactions that lock several conversations lock them in the same order.
        reader: id of the store.
        now: the current time.
    """
    until = to_microseconds(now + timedelta(seconds=READER_SECONDS))
    for name in names:
        connection.execute(_MARK, (name, reader, until))
    connection.execute(_FORGET, (to_microseconds(now),))


def read_deltas(connection: Connection, after: Mapping[str, int]) -> list[ResponseDelta]:
    """Return the deltas for `Backend.read_deltas()`."""
    rows = connection.execute(_READ, (list(after), list(after.values())), binary=True)
    return [delta_from_columns(row) for row in rows]
