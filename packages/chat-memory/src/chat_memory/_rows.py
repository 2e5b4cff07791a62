"""Access to the rows of one scope of a memory."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from typing import final

from chat_memory._block_rows import BlockRows
from chat_memory._database import Session
from chat_memory._document_rows import DocumentRows
from chat_memory._fact_rows import FactRows
from chat_memory._graph_rows import GraphRows
from chat_memory._record_rows import RecordRows
from chat_memory.citations import SessionCitation
from chat_memory.facts import forgotten_record, normalize


@final
class Rows:
    """Access to the tables of one scope within one transaction.

    Attributes:
        session: the database session of an open transaction.
        scope: the key of the scope's row.
        name: the name of the scope.
        now: the time of the transaction.
    """

    def __init__(self, session: Session, scope: int, name: str, now: datetime) -> None:
        self.session, self.scope, self.name, self.now = session, scope, name, now
        self.facts = FactRows(session, scope, name, now)
        self.graph = GraphRows(session, scope)
        self.documents = DocumentRows(session, scope, now)
        self.records = RecordRows(session, scope)
        self.blocks = BlockRows(session, scope)

    def forget(self, id: str) -> bool:
        """Delete a fact and what `MemoryScope.forget()` lists, and return whether the fact existed."""
        entities = [entity.id for entity in self.graph.entities_of(id)]
        cited = [
            citation
            for stored in self.facts.statements(id)
            if isinstance(citation := stored.statement.citation, SessionCitation)
        ]
        found = self.facts.forget(id)
        for citation in cited:
            conversation, turn = citation.conversation, citation.turn
            self.documents.delete_turn(conversation, turn)
            chunks = self.records.delete_texts(conversation, turn)
            self.records.put(conversation, forgotten_record(id, turn), {"turn": turn}, replace=True)
            contexts: dict[str, set[str]] = defaultdict(set)
            for item in (item for chunk in chunks.values() for item in chunk):
                contexts[normalize(item.name)].add(item.context)
            # An `Indexer` names a mention after the conversation and the first turn of the chunk.
            names = [f"{conversation} {first}" for first in {turn, *chunks} - {None}]
            self.graph.delete_mentions(names, entities, contexts if chunks else None)
        return found
