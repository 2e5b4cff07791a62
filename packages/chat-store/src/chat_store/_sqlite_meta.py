"""The queries that list and count the conversations in a SQLite file."""

from __future__ import annotations

import sqlite3
from typing import Final

from chat_store._backend import MetaFilter
from chat_store._checksums import META_COLUMNS, describe
from chat_store._cursor import list_cursor, meta_position
from chat_store.meta import ConversationMeta

_DIGIT: Final = "[0-9a-f]"
_UUID: Final = "-".join([_DIGIT * length for length in (8, 4, 4, 4, 12)])
_WHERE: Final = (
    "WHERE (:owner IS NULL OR owner = :owner) AND (:closed IS NULL OR (closed IS NOT NULL) = :closed) "
    "AND (:uuid IS NULL OR id GLOB :uuid) "
)
_QUERY: Final = (
    f"SELECT ifnull(active, 0), key, id, person, {', '.join(META_COLUMNS)} FROM chat_conversations {_WHERE}"  # noqa: S608 - our own names
    "AND (:key IS NULL OR (ifnull(active, 0), key) < (:active, :key)) "
    "ORDER BY ifnull(active, 0) DESC, key DESC LIMIT :limit OFFSET :offset"
)
_COUNT: Final = f"SELECT count(*) FROM chat_conversations {_WHERE}"  # noqa: S608 - our own names


def list_conversations(connection: sqlite3.Connection, filters: MetaFilter) -> list[ConversationMeta]:
    """Implement `Backend.list_conversations()`."""
    values = {
        **meta_position(filters.after),
        **_filter_parameters(filters),
        "limit": -1 if filters.limit is None else filters.limit,
        "offset": filters.offset,
    }
    rows = connection.execute(_QUERY, values).fetchall()
    return [describe(id, person, meta, list_cursor(active, key)) for active, key, id, person, *meta in rows]


def count_conversations(connection: sqlite3.Connection, filters: MetaFilter) -> int:
    """Implement `Backend.count_conversations()`."""
    count: int = connection.execute(_COUNT, _filter_parameters(filters)).fetchone()[0]
    return count


def _filter_parameters(filters: MetaFilter) -> dict[str, object]:
    closed = None if filters.state is None else filters.state == "closed"
    return {"owner": filters.owner, "closed": closed, "uuid": _UUID if filters.uuid_only else None}
