"""The query that lists the conversations in a PostgreSQL database."""

from __future__ import annotations

from chat_store._backend import MetaFilter
from chat_store._checksums import describe
from chat_store._cursor import list_cursor, meta_position
from chat_store.meta import ConversationMeta
from chat_store.sql.pool import Connection

_QUERY = (
    "SELECT coalesce(active, 0), key, id, person, owner, title, flow, data, created, active, closed, meta_crc "
    "FROM chat_conversations WHERE (%(owner)s::text IS NULL OR owner = %(owner)s) "
    "AND (%(closed)s::boolean IS NULL OR (closed IS NOT NULL) = %(closed)s) "
    "AND (%(key)s::bigint IS NULL OR (coalesce(active, 0), key) < (%(active)s::bigint, %(key)s::bigint)) "
    "ORDER BY coalesce(active, 0) DESC, key DESC LIMIT %(limit)s"
)


def list_conversations(connection: Connection, filters: MetaFilter) -> list[ConversationMeta]:
    """Implement `Backend.list_conversations()`."""
    values = {
        **meta_position(filters.after),
        "owner": filters.owner,
        "closed": None if filters.state is None else filters.state == "closed",
        "limit": filters.limit,
    }
    rows = connection.execute(_QUERY, values, binary=True).fetchall()
    return [describe(id, person, meta, list_cursor(active, key)) for active, key, id, person, *meta in rows]  # noqa: A001
