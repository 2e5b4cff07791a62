"""Queries for facts and statements, and functions that parse their rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from chat_core.json import dumps, loads
from chat_store.sql.values import from_microseconds

from chat_memory._database import Row, Value
from chat_memory._timeline import FOREVER, Entry
from chat_memory.citations import Citation, citation_from_dict
from chat_memory.facts import UNSTORABLE, Fact, FactStatus, Source, Statement, normalize

_COLUMNS = (
    "f.id, s.subject, s.predicate, s.object, s.text, s.source, s.confidence, s.said, s.recorded, s.retired, "
    "s.citation, (SELECT count(*) FROM chat_memory_statements r WHERE r.fact = f.key AND r.retired IS NULL), "
    "f.accessed"
)
_BEST = (
    "SELECT b.key FROM chat_memory_statements b WHERE b.fact = f.key ORDER BY b.retired IS NULL DESC, b.rank DESC, "
    "b.valid_from DESC, b.said DESC, b.confidence DESC, b.valid_to, b.text DESC, b.name DESC LIMIT 1"
)
SELECT_IN_PERIOD = (
    f"SELECT {_COLUMNS}, p.begins, p.ends FROM chat_memory_periods p JOIN chat_memory_facts f ON f.key = p.fact "  # noqa: S608 - our own names
    "JOIN chat_memory_statements s ON s.key = p.statement "
    "WHERE f.scope = :scope AND p.kind = :status AND p.begins <= :at AND p.ends > :at"
)
_LAST_PERIOD = "FROM chat_memory_periods p WHERE p.fact = f.key AND p.kind = 'current' AND p.begins <= :at"
SELECT_BEST = (
    f"SELECT {_COLUMNS}, coalesce((SELECT max(p.begins) {_LAST_PERIOD}), s.valid_from), "  # noqa: S608 - our own names
    f"coalesce((SELECT max(p.ends) {_LAST_PERIOD}), s.valid_to) FROM chat_memory_facts f "
    f"JOIN chat_memory_statements s ON s.key = ({_BEST}) WHERE f.scope = :scope AND s.retired IS "
)
_PERIOD_AT = "SELECT 1 FROM chat_memory_periods p WHERE p.fact = f.key AND p.begins <= :at AND p.ends > :at"
NOT_IN_PERIOD = f"NULL AND NOT EXISTS ({_PERIOD_AT})"
_ENTRY = "s.key, f.key, s.rank, s.valid_from, s.valid_to, s.said, s.confidence, f.object, s.text || ' ' || s.name"
SELECT_ENTRIES = (
    f"SELECT {_ENTRY} FROM chat_memory_facts f "  # noqa: S608 - our own names
    "JOIN chat_memory_statements s ON s.fact = f.key WHERE s.retired IS NULL AND "
)
INSERT_STATEMENT = (
    "INSERT INTO chat_memory_statements (fact, name, subject, predicate, object, text, source, rank, confidence, said, "
    "valid_from, valid_to, recorded, citation, outcome) VALUES (:fact, :name, :subject, :predicate, :object, :text, "
    ":source, :rank, :confidence, :said, :valid_from, :valid_to, :recorded, :citation, :outcome)"
)
INSERT_PERIOD = (
    "INSERT INTO chat_memory_periods (scope, kind, fact, begins, ends, statement) "
    "VALUES (:scope, :kind, :fact, :begins, :ends, :statement)"
)
SELECT_DESCRIPTION = (
    "SELECT s.text, s.said, d.key, d.text, d.said FROM chat_memory_facts f "  # noqa: S608 - our own names
    f"JOIN chat_memory_statements s ON s.key = ({_BEST}) "
    "LEFT JOIN chat_memory_documents d ON d.fact = f.key WHERE f.key = :fact"
)
SELECT_RECORDED = (
    f"SELECT f.subject, f.predicate, {_ENTRY} "  # noqa: S608 - our own names
    "FROM chat_memory_facts f JOIN chat_memory_statements s ON s.fact = f.key WHERE f.scope = :scope "
    "AND s.recorded <= :recorded AND (s.retired IS NULL OR s.retired > :recorded)"
)
SELECT_STATEMENTS_BY_KEY = (
    f"SELECT s.key, {_COLUMNS} FROM chat_memory_statements s JOIN chat_memory_facts f ON f.key = s.fact "  # noqa: S608 - our own names
    "WHERE s.key IN (@numbers(keys))"
)
SELECT_STATEMENTS = (
    "SELECT s.subject, s.predicate, s.object, s.text, s.source, s.confidence, s.said, s.valid_from, s.valid_to, "
    "s.citation, s.name, s.recorded, s.retired FROM chat_memory_statements s "
    "JOIN chat_memory_facts f ON f.key = s.fact WHERE f.scope = :scope AND f.id = :id "
    "ORDER BY s.valid_from, s.said, s.key"
)


@dataclass(frozen=True, slots=True)
class FactFilter:
    """A filter for lists of facts, with normalized values. None in a field accepts any value.

    Attributes:
        subject: what the facts are about.
        predicate: the property.
        object: the value of the property.
        id: the id of a single fact.
        entity: the id of a linked entity.
        ids: the ids of several facts.
    """

    subject: str | None = None
    predicate: str | None = None
    object: str | None = None
    id: str | None = None
    entity: str | None = None
    ids: tuple[str, ...] | None = None

    def to_sql(self) -> tuple[str, dict[str, Value]]:
        """Return an SQL condition and its parameters. The condition begins with AND, or is empty."""
        columns = {"subject": self.subject, "predicate": self.predicate, "object": self.object, "id": self.id}
        given: dict[str, Value] = {name: value for name, value in columns.items() if value is not None}
        condition = "".join(f" AND f.{name} = :{name}" for name in given)
        if self.entity is not None:
            given["entity"] = self.entity
            links = "SELECT l.fact FROM chat_memory_links l WHERE l.scope = :scope AND l.entity = :entity"
            condition += f" AND f.key IN ({links})"
        if self.ids is not None:
            given["ids"] = dumps([id for id in self.ids if not UNSTORABLE.search(id)])
            condition += " AND f.id IN (@texts(ids))"
        return condition, given


@dataclass(frozen=True, slots=True)
class StoredStatement:
    """A statement, with the time when it was stored and the time when it was retracted."""

    statement: Statement
    recorded_at: datetime
    retired_at: datetime | None


def parse_entry(columns: Sequence[object]) -> Entry:
    """Parse a row of `SELECT_ENTRIES`."""
    return Entry(*cast("tuple[int, int, int, int, int, int, float, str, str]", tuple(columns)))


def _parse_time(column: object) -> datetime:
    return from_microseconds(cast("int", column))


def _parse_optional_time(column: object) -> datetime | None:
    return None if column in (None, FOREVER) else _parse_time(column)


def parse_fact(status: FactStatus, row: Row) -> Fact:
    """Return the fact in a row: the columns `_COLUMNS`, then the start and the end of its validity."""
    source, confidence, said, recorded, retired, citation, statements, accessed, begins, ends = row[5:]
    return Fact(
        id=str(row[0]),
        subject=str(row[1]),
        predicate=str(row[2]),
        object=str(row[3]),
        text=str(row[4]),
        status=status,
        source=cast("Source", source),
        confidence=cast("float", confidence),
        said_at=_parse_time(said),
        valid_from=_parse_time(begins),
        valid_to=_parse_optional_time(ends),
        recorded_at=_parse_time(recorded),
        retired_at=_parse_optional_time(retired),
        citation=None if citation is None else _parse_citation(citation),
        reinforcements=max(0, cast("int", statements) - 1),
        accessed_at=_parse_optional_time(accessed),
    )


def _parse_citation(column: object) -> Citation:
    return citation_from_dict(cast("dict[str, object]", loads(str(column))))


def parse_statement(row: Row) -> StoredStatement:
    """Parse a row of `SELECT_STATEMENTS`."""
    source, confidence, said, valid_from, valid_to, citation, name, recorded, retired = row[4:]
    statement = Statement(
        str(row[0]),
        str(row[1]),
        str(row[2]),
        str(row[3]),
        cast("Source", source),
        cast("float", confidence),
        _parse_time(said),
        _parse_time(valid_from),
        _parse_optional_time(valid_to),
        None if citation is None else _parse_citation(citation),
        str(name),
    )
    return StoredStatement(statement, _parse_time(recorded), _parse_optional_time(retired))


def sort_facts(facts: Iterable[Fact]) -> list[Fact]:
    """Return facts sorted by subject, predicate, beginning and object."""

    def order(fact: Fact) -> tuple[str, str, datetime, str]:
        return normalize(fact.subject), normalize(fact.predicate), fact.valid_from, normalize(fact.object)

    return sorted(facts, key=order)
