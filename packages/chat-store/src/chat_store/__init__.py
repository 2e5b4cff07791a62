"""Durable conversations: a paused chat survives its process, and an approved call is executed once.

`FileConversation` keeps one conversation in a file. `SqliteStore` and `chat_store.postgres.PostgresStore` keep many
conversations in a database, and `MemoryStore` keeps them in memory. Public names are imported on first use, so that a
program loads only the store that it uses.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chat_store.deltas import ResponseDelta
    from chat_store.errors import ConversationClosedError, ConversationExistsError, UnknownConversationError
    from chat_store.file_conversation import FileConversation
    from chat_store.history import HistoryEntry
    from chat_store.jobs import Job, JobState, StoredJob
    from chat_store.memory import MemoryStore
    from chat_store.meta import ConversationMeta, ConversationState, HistoryPosition, MetaChanges
    from chat_store.results import Changed, Changes, Due, Snapshot, Waiting
    from chat_store.sqlite import SqliteStore
    from chat_store.store import ConversationStore, OpenConversation

__all__ = [
    "Changed",
    "Changes",
    "ConversationClosedError",
    "ConversationExistsError",
    "ConversationMeta",
    "ConversationState",
    "ConversationStore",
    "Due",
    "FileConversation",
    "HistoryEntry",
    "HistoryPosition",
    "Job",
    "JobState",
    "MemoryStore",
    "MetaChanges",
    "OpenConversation",
    "ResponseDelta",
    "Snapshot",
    "SqliteStore",
    "StoredJob",
    "UnknownConversationError",
    "Waiting",
]

_MODULES = {
    "deltas": "ResponseDelta",
    "errors": "ConversationClosedError ConversationExistsError UnknownConversationError",
    "file_conversation": "FileConversation",
    "history": "HistoryEntry",
    "jobs": "Job JobState StoredJob",
    "memory": "MemoryStore",
    "meta": "ConversationMeta ConversationState HistoryPosition MetaChanges",
    "results": "Changed Changes Due Snapshot Waiting",
    "sqlite": "SqliteStore",
    "store": "ConversationStore OpenConversation",
}
"""The public names that each module defines."""


def __getattr__(name: str) -> object:
    for module, names in _MODULES.items():
        if name in names.split():
            value: object = getattr(import_module(f"{__name__}.{module}"), name)
            globals()[name] = value
            return value
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
