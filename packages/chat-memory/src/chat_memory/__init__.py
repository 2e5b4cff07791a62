"""Memory for chats: facts with periods of validity, entities, relations and passages, separate for each owner.

`SqliteMemory` keeps a memory in a file, `chat_memory.postgres.PostgresMemory` in a PostgreSQL database. Public names
are imported on first use.
"""

from __future__ import annotations

from chat_memory.citations import (
    Citation,
    FileCitation,
    SessionCitation,
    Staleness,
    SystemCitation,
    UserCitation,
    WebCitation,
    staleness,
)
from chat_memory.confidence import ConfidenceSettings, effective_confidence
from chat_memory.errors import UnknownFactError
from chat_memory.facts import (
    SOURCE_CONFIDENCE,
    Candidate,
    Fact,
    FactStatus,
    Historical,
    Inserted,
    Outcome,
    Reinforced,
    Source,
    Statement,
    Superseded,
    normalize,
)
from chat_memory.graph import (
    Entity,
    Graph,
    MemoryStats,
    Neighbor,
    Relation,
    RelationType,
    relation_type,
)
from chat_memory.memory import Memory, MemoryScope
from chat_memory.passages import Document, DocumentFilter, Passage, ScopeChanges, TextMatch
from chat_memory.sqlite import SqliteMemory

__all__ = [
    "SOURCE_CONFIDENCE",
    "Candidate",
    "Citation",
    "ConfidenceSettings",
    "Document",
    "DocumentFilter",
    "Entity",
    "Fact",
    "FactStatus",
    "FileCitation",
    "Graph",
    "Historical",
    "Inserted",
    "Memory",
    "MemoryScope",
    "MemoryStats",
    "Neighbor",
    "Outcome",
    "Passage",
    "Reinforced",
    "Relation",
    "RelationType",
    "ScopeChanges",
    "SessionCitation",
    "Source",
    "SqliteMemory",
    "Staleness",
    "Statement",
    "Superseded",
    "SystemCitation",
    "TextMatch",
    "UnknownFactError",
    "UserCitation",
    "WebCitation",
    "effective_confidence",
    "normalize",
    "relation_type",
    "staleness",
]
