"""Journal fields for the description of a conversation in a file."""

from __future__ import annotations

from typing import cast

from chat_core.json import dump_bytes, loads

from chat_store._entries import Document
from chat_store._log_state import LogState
from chat_store.meta import StoredMeta
from chat_store.sql.values import from_microseconds, to_microseconds


def meta_to_dict(meta: StoredMeta) -> Document:
    """Convert the changeable fields of a description to a JSON object for a journal entry."""
    return {
        "title": meta.title,
        "flow": meta.flow,
        "data": loads(meta.data),
        "closed": to_microseconds(meta.closed_at),
    }


def meta_from_state(state: LogState) -> StoredMeta:
    """Return the description of a conversation, as recorded in the entries of its log."""
    fields = state.meta
    return StoredMeta(
        state.owner,
        cast("str | None", fields.get("title")),
        cast("str | None", fields.get("flow")),
        dump_bytes(fields.get("data", {})),
        state.created_at,
        state.last_turn_at,
        from_microseconds(cast("int | None", fields.get("closed"))),
    )
