"""The queries that list and count the conversations in a PostgreSQL database."""

from __future__ import annotations

from typing import Final, cast

from chat_store._backend import MetaFilter
from chat_store._checksums import describe
from chat_store._cursor import list_cursor, meta_position
from chat_store.meta import ConversationMeta
from chat_store.sql.pool import Connection

_UUID: Final = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
_WHERE: Final = (
    "WHERE (%(owner)s::text IS NULL OR owner = %(owner)s) "
    "AND (%(closed)s::boolean IS NULL OR (closed IS NOT NULL) = %(closed)s) "
    "AND (%(uuid)s::text IS NULL OR id ~ %(uuid)s) "
)
_QUERY: Final = (
    "SELECT coalesce(active, 0), key, id, person, owner, title, flow, data, created, active, closed, meta_crc "  # noqa: S608 - our own names
    f"FROM chat_conversations {_WHERE}"
    "AND (%(key)s::bigint IS NULL OR (coalesce(active, 0), key) < (%(active)s::bigint, %(key)s::bigint)) "
    "ORDER BY coalesce(active, 0) DESC, key DESC LIMIT %(limit)s OFFSET %(offset)s"
)
_COUNT: Final = f"SELECT count(*) FROM chat_conversations {_WHERE}"  # noqa: S608 - our own names


def list_conversations(connection: Connection, filters: MetaFilter) -> list[ConversationMeta]:
    """Implement `Backend.list_conversations()`."""
    values = {
        **meta_position(filters.after),
        **_filter_parameters(filters),
        "limit": filters.limit,
        "offset": filters.offset,
    }
    rows = connection.execute(_QUERY, values, binary=True).fetchall()
    return [describe(id, person, meta, list_cursor(active, key)) for active, key, id, person, *meta in rows]


def count_conversations(connection: Connection, filters: MetaFilter) -> int:
    """Implement `Backend.count_conversations()`."""
    rows = connection.execute(_COUNT, _filter_parameters(filters), binary=True).fetchall()
    return cast("int", rows[0][0])


def _filter_parameters(filters: MetaFilter) -> dict[str, object]:
    closed = None if filters.state is None else filters.state == "closed"
    return {"owner": filters.owner, "closed": closed, "uuid": _UUID if filters.uuid_only else None}
