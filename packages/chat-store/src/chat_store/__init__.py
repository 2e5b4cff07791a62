"""Stores for conversations: a pause survives its process, and what was allowed runs once."""

from chat_store.errors import ConversationExistsError, UnknownConversationError
from chat_store.memory import MemoryStore
from chat_store.sqlite import SqliteStore
from chat_store.store import Changed, Changes, ConversationStore, Due, OpenConversation, Snapshot, Waiting

__all__ = [
    "Changed",
    "Changes",
    "ConversationExistsError",
    "ConversationStore",
    "Due",
    "MemoryStore",
    "OpenConversation",
    "Snapshot",
    "SqliteStore",
    "UnknownConversationError",
    "Waiting",
]
