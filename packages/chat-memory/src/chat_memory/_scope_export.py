"""Export of a whole scope as a JSON object, and counts of its rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast, get_args

from chat_core.clock import isoformat

from chat_memory._database import Session
from chat_memory._document_rows import DocumentRows
from chat_memory._fact_queries import FactFilter, StoredStatement
from chat_memory._fact_rows import FactRows
from chat_memory._graph_rows import GraphRows
from chat_memory._record_rows import RecordRows
from chat_memory.citations import citation_to_dict
from chat_memory.facts import Fact, FactStatus
from chat_memory.graph import MemoryStats
from chat_memory.passages import Document

_VERSION = 1
# The number of the row is greater for a scope that was deleted and stored again.
_REVISION = "SELECT key * 4294967296 + revision FROM chat_memory_scopes WHERE key = :scope"
_COUNTS = (
    "SELECT (SELECT count(*) FROM chat_memory_facts WHERE scope = :scope), "  # noqa: S608 - our own names
    "(SELECT count(*) FROM chat_memory_periods WHERE scope = :scope AND kind = 'current' AND begins <= :now "
    "AND ends > :now), (SELECT count(*) FROM chat_memory_statements s JOIN chat_memory_facts f ON f.key = s.fact "
    "WHERE f.scope = :scope), (SELECT count(*) FROM chat_memory_documents WHERE scope = :scope AND fact IS NULL), "
    "(SELECT count(*) FROM chat_memory_entities WHERE scope = :scope), "
    "(SELECT count(*) FROM chat_memory_relations WHERE scope = :scope), "
    f"coalesce(({_REVISION}), 0)"
)


def read_stats(session: Session, scope: int, now: int) -> MemoryStats:
    """Return the numbers of facts, entities, documents and other rows in a scope.

    Args:
        session: the database session of an open transaction.
        scope: the key of the scope's row.
        now: the current time, in microseconds.
    """
    (row,) = session.execute(_COUNTS, {"scope": scope, "now": now})
    return MemoryStats(*cast("tuple[int, int, int, int, int, int, int]", tuple(row)))


def read_revision(session: Session, scope: int) -> int:
    """Return the revision of a scope, which is 0 if nothing is stored in the scope.

    Args:
        session: the database session of an open transaction.
        scope: the key of the scope's row.
    """
    rows = session.execute(_REVISION, {"scope": scope})
    return cast("int", rows[0][0]) if rows else 0


def export_scope(
    name: str, facts: FactRows, graph: GraphRows, documents: DocumentRows, records: RecordRows
) -> dict[str, object]:
    """Return everything that is stored in a scope as a JSON object, without vectors."""
    entities = graph.entities()
    return {
        "version": _VERSION,
        "scope": name,
        "facts": [
            _fact_to_dict(fact, facts.statements(fact.id), (entity.id for entity in graph.entities_of(fact.id)))
            for status in get_args(FactStatus)
            for fact in facts.find(cast("FactStatus", status), FactFilter())
        ],
        "entities": [
            {"id": entity.id, "name": entity.name, "type": entity.type, "properties": dict(entity.properties)}
            for entity in entities
        ],
        "relations": [
            {
                "source": relation.source,
                "label": relation.label,
                "target": relation.target,
                "type": relation.type,
                "mentions": relation.mentions,
            }
            for relation in graph.relations(entity.id for entity in entities)
        ],
        "passages": [_passage_to_dict(item) for item in documents.find() if item.fact is None],
        "records": {conversation: records.find(conversation) for conversation in records.conversations()},
    }


def _fact_to_dict(fact: Fact, statements: Iterable[StoredStatement], entities: Iterable[str]) -> dict[str, object]:
    return {
        "id": fact.id,
        "subject": fact.subject,
        "predicate": fact.predicate,
        "object": fact.object,
        "text": fact.text,
        "status": fact.status,
        "valid_from": isoformat(fact.valid_from),
        "valid_to": isoformat(fact.valid_to),
        "recorded_at": isoformat(fact.recorded_at),
        "retired_at": isoformat(fact.retired_at),
        "accessed_at": isoformat(fact.accessed_at),
        "entities": list(entities),
        "statements": [_statement_to_dict(statement) for statement in statements],
    }


def _statement_to_dict(stored: StoredStatement) -> dict[str, object]:
    statement = stored.statement
    return {
        "subject": statement.subject,
        "predicate": statement.predicate,
        "object": statement.object,
        "key": statement.key,
        "text": statement.text,
        "source": statement.source,
        "confidence": statement.confidence,
        "said_at": isoformat(statement.said_at),
        "valid_from": isoformat(statement.valid_from),
        "valid_to": isoformat(statement.valid_to),
        "recorded_at": isoformat(stored.recorded_at),
        "retired_at": isoformat(stored.retired_at),
        "citation": None if statement.citation is None else citation_to_dict(statement.citation),
    }


def _passage_to_dict(passage: Document) -> dict[str, object]:
    return {
        "kind": passage.kind,
        "conversation": passage.conversation,
        "position": passage.position,
        "speaker": passage.speaker,
        "said_at": isoformat(passage.said_at),
        "text": passage.text,
    }
