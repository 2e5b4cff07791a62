"""Database-independent queries that store statements and compute the facts that they support."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Literal, NamedTuple, NotRequired, TypedDict, cast, final, get_args
from uuid import uuid4

from chat_core.errors import InvalidDocumentError, UsageError
from chat_core.json import dumps, loads
from chat_store.sql.values import to_microseconds

from chat_memory._database import Session, Value
from chat_memory._fact_queries import (
    INSERT_PERIOD,
    INSERT_STATEMENT,
    NOT_IN_PERIOD,
    SELECT_BEST,
    SELECT_DESCRIPTION,
    SELECT_ENTRIES,
    SELECT_IN_PERIOD,
    SELECT_RECORDED,
    SELECT_STATEMENTS,
    SELECT_STATEMENTS_BY_KEY,
    FactFilter,
    StoredStatement,
    parse_entry,
    parse_fact,
    parse_statement,
    sort_facts,
)
from chat_memory._timeline import FOREVER, Entry, open_entries, timeline
from chat_memory.citations import SessionCitation, citation_to_dict
from chat_memory.facts import (
    MAX_NAME_BYTES,
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
    fact_id,
    normalize,
    require_short,
    require_text,
)

_RANKS: dict[Source, int] = {source: rank for rank, source in enumerate(reversed(SOURCE_CONFIDENCE))}


class _Place(NamedTuple):
    """The normalized subject, predicate and object of a fact."""

    subject: str
    predicate: str
    object: str


class _StoredOutcome(TypedDict):
    """The outcome of a statement in its stored form."""

    outcome: Literal["inserted", "reinforced", "superseded", "candidate", "historical"]
    ids: NotRequired[list[str]]


@final
class FactRows:
    """The facts of one scope, in one transaction.

    Args:
        session: the database session of an open transaction.
        scope: the key of the scope's row.
        name: the name of the scope.
        now: the time of the transaction.
    """

    def __init__(self, session: Session, scope: int, name: str, now: datetime) -> None:
        self._session = session
        self._scope = scope
        self._name = name
        self._now = to_microseconds(now)

    def add(self, statement: Statement) -> Outcome:
        """Store a statement, and return its outcome."""
        place = _Place(
            require_short(normalize(statement.subject), "subject"),
            require_short(normalize(statement.predicate), "predicate"),
            normalize(statement.object),
        )
        id = fact_id(self._name, *place)
        fact = self._find_or_create_fact(id, place)
        name = require_short(_statement_key(statement), "the key of a statement")
        rows = self._session.execute(
            "SELECT outcome FROM chat_memory_statements WHERE fact = :fact AND name = :name",
            {"fact": fact, "name": name},
        )
        if rows:
            return self._parse_outcome(id, str(rows[0][0]))
        columns = self._statement_columns(statement)
        entry = _new_entry(fact, columns, place.object, name)
        outcome = self._classify(self._alternative_entries(place), entry)
        self._session.execute(INSERT_STATEMENT, {**columns, "fact": fact, "name": name, "outcome": dumps(outcome)})
        self._link_entities(fact, place, statement.entities)
        self._recompute_periods(place)
        self._store_description(fact)
        return self._parse_outcome(id, dumps(outcome))

    def find(self, status: FactStatus, filters: FactFilter, at: int | None = None) -> list[Fact]:
        """List the facts that had a status at a time, sorted by subject, predicate and beginning.

        Args:
            status: the status that the facts had at that time.
            filters: the conditions on the facts.
            at: the time, in microseconds. Default: now.
        """
        condition, values = filters.to_sql()
        values |= {"scope": self._scope, "at": self._now if at is None else at}
        match status:
            case "current" | "candidate":
                query = SELECT_IN_PERIOD
                values["status"] = status
            case "historical":
                query = SELECT_BEST + NOT_IN_PERIOD
            case "retracted":
                query = SELECT_BEST + "NOT NULL"
        return sort_facts(parse_fact(status, row) for row in self._session.execute(query + condition, values))

    def get(self, id: str, at: int | None = None) -> Fact | None:
        """Return a fact of any status, or None."""
        for status in get_args(FactStatus):
            for fact in self.find(status, FactFilter(id=id), at):
                return fact
        return None

    def as_recorded(self, at: int, recorded: int, filters: FactFilter) -> list[Fact]:
        """List the facts that were current at the time `at`, using only statements that were stored until `recorded`.

        Args:
            at: the time for which the facts are listed, in microseconds.
            recorded: a time in microseconds. Statements that were stored later are ignored.
            filters: the conditions on the facts.
        """
        condition, values = filters.to_sql()
        values |= {"scope": self._scope, "recorded": recorded}
        places: dict[tuple[str, str, str], list[Entry]] = defaultdict(list)
        counts: Counter[int] = Counter()
        multi = read_multi_valued(self._session)
        for subject, predicate, *columns in self._session.execute(SELECT_RECORDED + condition, values):
            entry = parse_entry(columns)
            counts[entry.fact] += 1
            places[str(subject), str(predicate), entry.object if predicate in multi else ""].append(entry)
        current = {
            period.statement: period
            for entries in places.values()
            for period in timeline(entries)
            if period.kind == "current" and period.begins <= at < period.ends
        }
        found: list[Fact] = []
        for key, *row in self._session.execute(SELECT_STATEMENTS_BY_KEY, {"keys": dumps(list(current))}):
            period = current[cast("int", key)]
            fact = parse_fact("current", (*row, period.begins, period.ends))
            found.append(replace(fact, reinforcements=counts[period.fact] - 1))
        return sort_facts(found)

    def statements(self, id: str) -> list[StoredStatement]:
        """List the statements of a fact, including retracted statements, earliest first."""
        rows = self._session.execute(SELECT_STATEMENTS, {"scope": self._scope, "id": id})
        return [parse_statement(row) for row in rows]

    def retract(self, id: str) -> bool:
        """Mark all statements of a fact as wrong. Return whether there were any statements."""
        place = self._find_place(id)
        if place is None:
            return False
        rows = self._session.execute(
            "UPDATE chat_memory_statements SET retired = :now WHERE retired IS NULL AND fact = "
            "(SELECT key FROM chat_memory_facts WHERE scope = :scope AND id = :id) RETURNING key",
            {"now": self._now, "scope": self._scope, "id": id},
        )
        self._recompute_periods(place)
        return bool(rows)

    def forget(self, id: str) -> bool:
        """Delete a fact and everything that belongs to it, and return whether it existed."""
        place = self._find_place(id)
        if place is None:
            return False
        self._session.execute(
            "DELETE FROM chat_memory_facts WHERE scope = :scope AND id = :id", {"scope": self._scope, "id": id}
        )
        self._recompute_periods(place)
        return True

    def touch(self, ids: Iterable[str]) -> None:
        """Record the current time as the last time at which a model received these facts."""
        self._session.execute(
            "UPDATE chat_memory_facts SET accessed = :now, accesses = accesses + 1 "
            "WHERE scope = :scope AND id IN (@texts(ids))",
            {"now": self._now, "scope": self._scope, "ids": dumps([require_text(name, "id") for name in ids])},
        )

    def refresh_predicate(self, predicate: str) -> None:
        """Recompute the periods of all facts with a predicate whose declaration has changed."""
        rows = self._session.execute(
            "SELECT subject, object FROM chat_memory_facts WHERE scope = :scope AND predicate = :predicate",
            {"scope": self._scope, "predicate": predicate},
        )
        # A single-valued predicate has one place per subject.
        places = {
            _Place(str(subject), predicate, str(object) if self._is_multi_valued(predicate) else "")
            for subject, object in rows
        }
        for place in places:
            self._recompute_periods(place)

    # --- Which facts are current -------------------------------------------------------------------------------------

    def _is_multi_valued(self, predicate: str) -> bool:
        return predicate in read_multi_valued(self._session)

    def _alternatives_condition(self, place: _Place) -> tuple[str, dict[str, Value]]:
        """Return an SQL condition for the facts of which one can be current at a time, and its parameters."""
        values: dict[str, Value] = {"scope": self._scope, "subject": place.subject, "predicate": place.predicate}
        condition = "f.scope = :scope AND f.subject = :subject AND f.predicate = :predicate"
        if self._is_multi_valued(place.predicate):
            values["object"] = place.object
            condition += " AND f.object = :object"
        return condition, values

    def _alternative_entries(self, place: _Place) -> list[Entry]:
        condition, values = self._alternatives_condition(place)
        return [parse_entry(row) for row in self._session.execute(SELECT_ENTRIES + condition, values)]

    def _recompute_periods(self, place: _Place) -> None:
        """Compute and store in which periods each fact with this subject and predicate is current."""
        condition, values = self._alternatives_condition(place)
        self._session.execute(
            "DELETE FROM chat_memory_periods WHERE fact IN "  # noqa: S608 - our own names
            f"(SELECT f.key FROM chat_memory_facts f WHERE {condition})",
            values,
        )
        rows: list[Mapping[str, Value]] = [
            {
                "scope": self._scope,
                "kind": period.kind,
                "fact": period.fact,
                "begins": period.begins,
                "ends": period.ends,
                "statement": period.statement,
            }
            for period in timeline(self._alternative_entries(place))
        ]
        self._session.execute_many(INSERT_PERIOD, rows)

    def _classify(self, known: Sequence[Entry], entry: Entry) -> _StoredOutcome:
        """Return the outcome of a new statement, which describes the effect of the statement on the current facts."""
        at = max(self._now, entry.valid_from)
        before, after = open_entries(known, at), open_entries([*known, entry], at)
        was_current = bool(before) and before[0].fact == entry.fact
        is_current = bool(after) and after[0].fact == entry.fact
        if is_current:
            if was_current:
                return {"outcome": "reinforced"}
            return {"outcome": "superseded", "ids": self._fact_ids(before[:1])} if before else {"outcome": "inserted"}
        if entry in after:
            return {"outcome": "candidate", "ids": self._fact_ids(after[:1])}
        return {"outcome": "historical"}

    def _fact_ids(self, entries: Iterable[Entry]) -> list[str]:
        rows = self._session.execute(
            "SELECT id FROM chat_memory_facts WHERE key IN (@numbers(keys))",
            {"keys": dumps([entry.fact for entry in entries])},
        )
        return [str(row[0]) for row in rows]

    def _parse_outcome(self, id: str, text: str) -> Outcome:
        stored = cast("_StoredOutcome", loads(text))
        fact = self.get(id)
        if fact is None:
            msg = f"the fact {id!r} has no statements"
            raise InvalidDocumentError(msg)
        match stored["outcome"]:
            case "inserted":
                return Inserted(fact)
            case "reinforced":
                return Reinforced(fact)
            case "superseded":
                return Superseded(fact, tuple(stored.get("ids", ())))
            case "candidate":
                return Candidate(fact, stored.get("ids", [""])[0])
            case "historical":
                return Historical(fact)

    # --- Rows --------------------------------------------------------------------------------------------------------

    def _find_place(self, id: str) -> _Place | None:
        rows = self._session.execute(
            "SELECT subject, predicate, object FROM chat_memory_facts WHERE scope = :scope AND id = :id",
            {"scope": self._scope, "id": id},
        )
        return _Place(*map(str, rows[0])) if rows else None

    def _find_or_create_fact(self, id: str, place: _Place) -> int:
        values: dict[str, Value] = {"scope": self._scope, "id": id, **place._asdict()}
        self._session.execute(
            "INSERT INTO chat_memory_facts (scope, id, subject, predicate, object) "
            "VALUES (:scope, :id, :subject, :predicate, :object) ON CONFLICT (scope, id) DO NOTHING",
            values,
        )
        rows = self._session.execute("SELECT key FROM chat_memory_facts WHERE scope = :scope AND id = :id", values)
        return cast("int", rows[0][0])

    def _statement_columns(self, statement: Statement) -> dict[str, Value]:
        said = self._now if statement.said_at is None else to_microseconds(statement.said_at)
        valid_from = said if statement.valid_from is None else to_microseconds(statement.valid_from)
        valid_to = FOREVER if statement.valid_to is None else to_microseconds(statement.valid_to)
        if valid_to <= valid_from:
            msg = f"valid_to must be after valid_from, but {statement.valid_to} is not after the time of the statement"
            raise UsageError(msg)
        confidence = statement.confidence
        citation = statement.citation
        return {
            "subject": statement.subject,
            "predicate": statement.predicate,
            "object": statement.object,
            "text": statement.text or f"{statement.subject} {statement.predicate} {statement.object}",
            "source": statement.source,
            "rank": _RANKS[statement.source],
            "confidence": SOURCE_CONFIDENCE[statement.source] if confidence is None else confidence,
            "said": said,
            "valid_from": valid_from,
            "valid_to": valid_to,
            "recorded": self._now,
            "citation": None if citation is None else dumps(citation_to_dict(citation)),
        }

    def _link_entities(self, fact: int, place: _Place, entities: Iterable[str]) -> None:
        names = {place.subject, *(require_short(normalize(name), "the name of an entity") for name in entities)}
        if len(place.object.encode()) <= MAX_NAME_BYTES:  # a longer object is a text, not the name of an entity
            names.add(place.object)
        self._session.execute_many(
            "INSERT INTO chat_memory_links (scope, fact, entity) VALUES (:scope, :fact, :entity) "
            "ON CONFLICT (fact, entity) DO NOTHING",
            [{"scope": self._scope, "fact": fact, "entity": name} for name in sorted(names)],
        )

    def _store_description(self, fact: int) -> None:
        """Store the searchable text of a fact, which is the text of its strongest and latest statement."""
        (described,) = self._session.execute(SELECT_DESCRIPTION, {"fact": fact})
        text, said, document, known, known_said = described
        values: dict[str, Value] = {"scope": self._scope, "fact": fact, "text": str(text), "said": cast("int", said)}
        if document is None:
            self._session.execute(
                "INSERT INTO chat_memory_documents (scope, kind, fact, said, text) "
                "VALUES (:scope, 'fact', :fact, :said, :text)",
                values,
            )
        elif known != text:
            self._session.execute(
                "UPDATE chat_memory_documents SET text = :text, said = :said WHERE fact = :fact", values
            )
            self._session.execute(
                "DELETE FROM chat_memory_vectors WHERE document = :document", {"document": cast("int", document)}
            )
        elif known_said != said:
            self._session.execute("UPDATE chat_memory_documents SET said = :said WHERE fact = :fact", values)


def read_multi_valued(session: Session) -> frozenset[str]:
    """Return the predicates that may have several objects at the same time."""
    return frozenset(str(row[0]) for row in session.execute("SELECT predicate FROM chat_memory_predicates", {}))


def _new_entry(fact: int, columns: Mapping[str, Value], object: str, name: str) -> Entry:
    fields = ("rank", "valid_from", "valid_to", "said", "confidence")
    return parse_entry((0, fact, *(columns[field] for field in fields), object, f"{columns['text']!s} {name}"))


def _statement_key(statement: Statement) -> str:
    """Return the key of a statement. Without an explicit key, derive it from the cited turn, or create a random key."""
    if statement.key is not None:
        return statement.key
    citation = statement.citation
    if not isinstance(citation, SessionCitation):
        return uuid4().hex
    return f"session:{citation.conversation}:{'' if citation.turn is None else citation.turn}"
