"""The query that lists the conversations in a SQLite file."""

from __future__ import annotations

import sqlite3

from chat_store._backend import MetaFilter
from chat_store._checksums import META_COLUMNS, describe
from chat_store._cursor import list_cursor, meta_position
from chat_store.meta import ConversationMeta

_QUERY = (
    f"SELECT ifnull(active, 0), key, id, person, {', '.join(META_COLUMNS)} FROM chat_conversations "  # noqa: S608
    "WHERE (:owner IS NULL OR owner = :owner) AND (:closed IS NULL OR (closed IS NOT NULL) = :closed) "
    "AND (:key IS NULL OR (ifnull(active, 0), key) < (:active, :key)) "
    "ORDER BY ifnull(active, 0) DESC, key DESC LIMIT :limit"
)


def list_conversations(connection: sqlite3.Connection, filters: MetaFilter) -> list[ConversationMeta]:
    """Implement `Backend.list_conversations()`."""
    values = {
        **meta_position(filters.after),
        "owner": filters.owner,
        "closed": None if filters.state is None else filters.state == "closed",
        "limit": -1 if filters.limit is None else filters.limit,
    }
    rows = connection.execute(_QUERY, values).fetchall()
    return [describe(id, person, meta, list_cursor(active, key)) for active, key, id, person, *meta in rows]  # noqa: A001
