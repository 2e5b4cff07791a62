"""The base class for all memories, which implements `Memory` on top of a `Database`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Self, TypeVar, cast, get_args

from chat_core.arguments import argument_error, require_items, require_text_fields, require_type, require_whole
from chat_core.clock import to_utc, utc_clock
from chat_core.concurrency import finish_in_thread
from chat_core.errors import UsageError
from chat_store.sql.values import to_microseconds

from chat_memory._changes import read_changes
from chat_memory._database import Database, Session
from chat_memory._fact_queries import FactFilter
from chat_memory._fact_rows import FactRows, read_multi_valued
from chat_memory._rows import Rows
from chat_memory._scope_export import export_scope, read_revision, read_stats
from chat_memory.citations import Citation
from chat_memory.errors import UnknownFactError
from chat_memory.facts import (
    Fact,
    FactStatus,
    Outcome,
    Statement,
    normalize,
    require_all,
    require_name,
    require_short,
    require_text,
)
from chat_memory.graph import Entity, Graph, MemoryStats, Neighbor, Relation
from chat_memory.passages import Document, Passage, ScopeChanges, TextMatch

T = TypeVar("T")

_REQUIRE_SCOPE = (
    "INSERT INTO chat_memory_scopes (scope, revision) VALUES (:name, 1) "
    "ON CONFLICT (scope) DO UPDATE SET revision = chat_memory_scopes.revision + 1 RETURNING key"
)
_LOCK_SCOPE = "UPDATE chat_memory_scopes SET revision = revision WHERE scope = :name RETURNING key"
"""SQL statement that locks the row of a scope, if it exists."""
_CREATE_SCOPE = (
    "INSERT INTO chat_memory_scopes (scope, revision) VALUES (:name, 0) "
    "ON CONFLICT (scope) DO UPDATE SET revision = chat_memory_scopes.revision RETURNING key"
)
"""SQL statement that locks the row of a scope, and creates the row if it does not exist."""
_RAISE_REVISION = "UPDATE chat_memory_scopes SET revision = revision + 1 WHERE key = :key"
_ABSENT = -1
"""Key that represents a scope in which nothing is stored. No row has this key."""


class Scope:
    """A `MemoryScope` whose methods run transactions of a `Database`."""

    def __init__(
        self,
        name: str,
        database: Database,
        now: Callable[[], datetime],
        guard: tuple[str, frozenset[str]] | None = None,
    ) -> None:
        self._name = require_short(require_name(name, "the name of a scope"), "the name of a scope")
        self._database = database
        self._now = now
        self._guard = guard

    @property
    def name(self) -> str:
        """Implement `MemoryScope.name`."""
        return self._name

    # --- Facts -------------------------------------------------------------------------------------------------------

    async def add(self, statement: Statement) -> Outcome:
        """Implement `MemoryScope.add()`."""
        require_type("statement", statement, Statement, "a Statement")
        return await self._write_rows(lambda rows: rows.facts.add(statement))

    async def get(self, id: str, *, valid: datetime | None = None) -> Fact | None:
        """Implement `MemoryScope.get()`."""
        at = _optional_microseconds(valid, "valid")
        return await self._read_rows(lambda rows: rows.facts.get(id, at))

    async def facts(
        self,
        *,
        subject: str | None = None,
        predicate: str | None = None,
        object: str | None = None,
        ids: Iterable[str] | None = None,
        status: FactStatus = "current",
    ) -> list[Fact]:
        """Implement `MemoryScope.facts()`."""
        if status not in get_args(FactStatus):
            raise argument_error("status", f"one of {', '.join(get_args(FactStatus))}", status)
        known = None if ids is None else require_all("ids", ids, str, "ids of facts")
        filters = replace(_create_filter(subject, predicate, object), ids=known)
        return await self._read_rows(lambda rows: rows.facts.find(status, filters))

    async def as_of(
        self,
        *,
        valid: datetime | None = None,
        recorded: datetime | None = None,
        subject: str | None = None,
        predicate: str | None = None,
    ) -> list[Fact]:
        """Implement `MemoryScope.as_of()`."""
        filters = _create_filter(subject, predicate, None)
        at, known = _optional_microseconds(valid, "valid"), _optional_microseconds(recorded, "recorded")

        def read(rows: Rows) -> list[Fact]:
            if known is None:
                return rows.facts.find("current", filters, at)
            return rows.facts.as_recorded(to_microseconds(rows.now) if at is None else at, known, filters)

        return await self._read_rows(read)

    async def statements(self, id: str) -> list[Statement]:
        """Implement `MemoryScope.statements()`."""

        def read(rows: Rows) -> list[Statement]:
            return [stored.statement for stored in rows.facts.statements(id) if stored.retired_at is None]

        return await self._read_rows(read)

    async def promote(self, id: str, citation: Citation) -> Outcome:
        """Implement `MemoryScope.promote()`."""
        require_type("citation", citation, get_args(Citation), "a citation, such as UserCitation()")

        def write(rows: Rows) -> Outcome:
            fact = rows.facts.get(id)
            if fact is None:
                msg = f"the scope {self._name!r} has no fact with the id {id!r}: pass the id of a fact from facts()"
                raise UnknownFactError(msg)
            if fact.status != "candidate":
                msg = f"only a candidate can be promoted, but the fact {id!r} is {fact.status}"
                raise UsageError(msg)
            return rows.facts.add(
                Statement(
                    fact.subject,
                    fact.predicate,
                    fact.object,
                    fact.text,
                    said_at=rows.now,
                    valid_from=fact.valid_from,
                    valid_to=fact.valid_to,
                    citation=citation,
                    key=f"promoted:{rows.now.isoformat()}",
                )
            )

        return await self._write_rows(write)

    async def retract(self, id: str) -> bool:
        """Implement `MemoryScope.retract()`."""
        return await self._write_rows(lambda rows: rows.facts.retract(id), require=_LOCK_SCOPE)

    async def forget(self, id: str) -> bool:
        """Implement `MemoryScope.forget()`."""
        return await self._write_rows(lambda rows: rows.forget(id), require=_LOCK_SCOPE)

    def unless_forgotten(self, conversation: str, known: Iterable[str]) -> Scope:
        """Implement `MemoryScope.unless_forgotten()`."""
        return Scope(self._name, self._database, self._now, (conversation, frozenset(known)))

    async def touch(self, ids: Iterable[str]) -> None:
        """Implement `MemoryScope.touch()`."""
        known = require_all("ids", ids, str, "ids of facts")
        await self._write_rows(lambda rows: rows.facts.touch(known), require=_LOCK_SCOPE, affects_recall=False)

    # --- Entities and relations --------------------------------------------------------------------------------------

    async def add_entity(self, entity: Entity) -> bool:
        """Implement `MemoryScope.add_entity()`."""
        require_type("entity", entity, Entity, "an Entity")
        require_text_fields("the properties of an entity", entity.properties)
        return await self._write_rows(lambda rows: rows.graph.add_entity(entity))

    async def relate(self, relation: Relation, *, key: str = "") -> bool:
        """Implement `MemoryScope.relate()`."""
        require_type("relation", relation, Relation, "a Relation")
        return await self._write_rows(lambda rows: rows.graph.relate(relation, key))

    async def entities(self, *, fact: str | None = None) -> list[Entity]:
        """Implement `MemoryScope.entities()`."""
        return await self._read_rows(
            lambda rows: rows.graph.entities() if fact is None else rows.graph.entities_of(fact)
        )

    async def facts_about(self, entity: str) -> list[Fact]:
        """Implement `MemoryScope.facts_about()`."""
        filters = FactFilter(entity=normalize(entity))
        return await self._read_rows(lambda rows: rows.facts.find("current", filters))

    async def facts_near(self, entities: Iterable[str], *, depth: int = 2, limit: int = 100) -> dict[str, int]:
        """Implement `MemoryScope.facts_near()`."""
        _require_positive(depth=depth, limit=limit)
        names = require_all("entities", entities, str, "names of entities")

        def read(rows: Rows) -> dict[str, int]:
            distances: dict[str, int] = {}
            for name in names:
                for near in rows.graph.neighbors(normalize(name), depth, limit, nearest=0):
                    distances[near.entity.id] = min(near.distance, distances.get(near.entity.id, depth))
            links = rows.graph.links(distances, to_microseconds(rows.now))
            return {fact: min(distances[entity] for entity in linked) for fact, linked in links.items()}

        return await self._read_rows(read)

    async def neighbors(self, entity: str, *, depth: int = 1, limit: int = 100) -> list[Neighbor]:
        """Implement `MemoryScope.neighbors()`."""
        _require_positive(depth=depth, limit=limit)
        return await self._read_rows(lambda rows: rows.graph.neighbors(normalize(entity), depth, limit))

    async def graph(self, entity: str | None = None, *, depth: int = 1, limit: int = 1000) -> Graph:
        """Implement `MemoryScope.graph()`."""
        _require_positive(depth=depth, limit=limit)

        def read(rows: Rows) -> Graph:
            if entity is None:
                near = [Neighbor(found, 0) for found in rows.graph.entities(limit)]
            else:
                near = rows.graph.neighbors(normalize(entity), depth, limit, nearest=0)
            ids = [item.entity.id for item in near]
            links = rows.graph.links(ids, to_microseconds(rows.now))
            facts = [fact for fact in rows.facts.find("current", FactFilter()) if fact.id in links] if links else []
            return Graph(tuple(near), tuple(rows.graph.relations(ids)), tuple(facts), links)

        return await self._read_rows(read)

    async def delete_entity(self, entity: str) -> bool:
        """Implement `MemoryScope.delete_entity()`."""
        return await self._write_rows(lambda rows: rows.graph.delete(normalize(entity)), require=_LOCK_SCOPE)

    # --- Texts and vectors -------------------------------------------------------------------------------------------

    async def add_passages(self, passages: Sequence[Passage]) -> int:
        """Implement `MemoryScope.add_passages()`."""
        require_items("passages", passages, Passage, "a sequence of Passage")
        return await self._write_rows(lambda rows: rows.documents.add(passages), require=_CREATE_SCOPE)

    async def documents(
        self,
        *,
        ids: Iterable[int] | None = None,
        conversation: str | None = None,
        kind: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[Document]:
        """Implement `MemoryScope.documents()`."""
        known = None if ids is None else require_all("ids", ids, int, "ids of documents")
        wanted = {
            "conversation": conversation,
            "kind": kind,
            "since": _optional_microseconds(since, "since"),
            "until": _optional_microseconds(until, "until"),
        }
        return await self._read_rows(lambda rows: rows.documents.find(known, wanted))

    async def search_text(self, words: Sequence[str], *, limit: int = 50) -> list[TextMatch]:
        """Implement `MemoryScope.search_text()`."""
        require_items("words", words, str, "a sequence of words")
        _require_positive(limit=limit)
        return await self._read_rows(lambda rows: rows.documents.search(words, limit))

    async def put_vectors(
        self, model: str, vectors: Mapping[int, Sequence[float]], *, texts: Mapping[int, str] | None = None
    ) -> None:
        """Implement `MemoryScope.put_vectors()`."""
        require_name(model, "model")
        await self._write_rows(lambda rows: rows.documents.put_vectors(model, vectors, texts or {}))

    async def vectors(self, model: str) -> tuple[list[int], bytes]:
        """Implement `MemoryScope.vectors()`."""
        return await self._read_rows(lambda rows: rows.documents.vectors(model))

    async def without_vector(self, model: str, *, limit: int = 100) -> list[Document]:
        """Implement `MemoryScope.without_vector()`."""
        _require_positive(limit=limit)
        return await self._read_rows(lambda rows: rows.documents.without_vector(model, limit))

    async def drop_vectors(self, *, keep: str) -> int:
        """Implement `MemoryScope.drop_vectors()`."""
        return await self._write_rows(
            lambda rows: rows.documents.drop_vectors(require_text(keep, "keep")), require=_LOCK_SCOPE
        )

    # --- Records -----------------------------------------------------------------------------------------------------

    async def put_record(
        self, conversation: str, name: str, document: Mapping[str, object], *, replace: bool = False
    ) -> Mapping[str, object]:
        """Implement `MemoryScope.put_record()`."""
        return await self._write_rows(
            lambda rows: rows.records.put(conversation, name, document, replace=replace),
            require=_CREATE_SCOPE,
            affects_recall=False,
        )

    async def records(self, conversation: str) -> dict[str, Mapping[str, object]]:
        """Implement `MemoryScope.records()`."""
        return await self._read_rows(lambda rows: rows.records.find(conversation))

    async def recorded_conversations(self) -> list[str]:
        """Implement `MemoryScope.recorded_conversations()`."""
        return await self._read_rows(lambda rows: rows.records.conversations())

    # --- Core blocks -------------------------------------------------------------------------------------------------

    async def blocks(self) -> dict[str, str]:
        """Implement `MemoryScope.blocks()`."""
        return await self._read_rows(lambda rows: rows.blocks.find())

    async def set_block(self, name: str, text: str, *, replaces: str | None = None) -> bool:
        """Implement `MemoryScope.set_block()`."""
        return await self._write_rows(
            lambda rows: rows.blocks.set(name, text, replaces), require=_CREATE_SCOPE, affects_recall=False
        )

    # --- Operations on the whole scope -------------------------------------------------------------------------------

    async def revision(self) -> int:
        """Implement `MemoryScope.revision()`."""
        return await self._read_rows(lambda rows: read_revision(rows.session, rows.scope))

    async def changes(self, *, since: int = 0, model: str | None = None) -> ScopeChanges:
        """Implement `MemoryScope.changes()`."""
        return await self._read_rows(lambda rows: read_changes(rows, since, model))

    async def stats(self) -> MemoryStats:
        """Implement `MemoryScope.stats()`."""
        return await self._read_rows(lambda rows: read_stats(rows.session, rows.scope, to_microseconds(rows.now)))

    async def export(self) -> dict[str, object]:
        """Implement `MemoryScope.export()`."""
        return await self._read_rows(
            lambda rows: {
                **export_scope(self._name, rows.facts, rows.graph, rows.documents, rows.records),
                "blocks": rows.blocks.find(),
            }
        )

    async def delete_all(self) -> None:
        """Implement `MemoryScope.delete_all()`."""

        def delete() -> None:
            with self._database.write() as session:
                session.execute("DELETE FROM chat_memory_scopes WHERE scope = :name", {"name": self._name})

        await finish_in_thread(delete)

    # --- Transactions ------------------------------------------------------------------------------------------------

    async def _read_rows(self, work: Callable[[Rows], T]) -> T:
        def read() -> T:
            with self._database.read() as session:
                found = session.execute("SELECT key FROM chat_memory_scopes WHERE scope = :name", {"name": self._name})
                scope = cast("int", found[0][0]) if found else _ABSENT
                return work(Rows(session, scope, self._name, self._now()))

        return await finish_in_thread(read)

    async def _write_rows(
        self, work: Callable[[Rows], T], *, require: str = _REQUIRE_SCOPE, affects_recall: bool = True
    ) -> T:
        """Change a scope in a transaction, and return the result of `work`.

        Args:
            work: function that changes the scope, and returns a true value if it has changed anything.
            require: the query that locks the scope. `_REQUIRE_SCOPE` also increments the revision of the scope; with
                another query, the revision is incremented after a change.
            affects_recall: whether the change affects the results of recall.
        """

        def write() -> T:
            with self._database.write() as session:
                self._database.lock_predicates(session, exclusive=False)
                # The update locks the scope, so that writers of one scope wait for each other.
                found = session.execute(require, {"name": self._name})
                scope = cast("int", found[0][0]) if found else _ABSENT
                rows = Rows(session, scope, self._name, self._now())
                if self._guard is not None:
                    rows.records.require_unforgotten(*self._guard)
                result = work(rows)
                if affects_recall and result and require != _REQUIRE_SCOPE:
                    session.execute(_RAISE_REVISION, {"key": scope})
                return result

        return await finish_in_thread(write)


class BaseMemory:
    """A base class for memories, which implements `Memory` on top of a `Database`.

    Args:
        database: the database. The memory owns it, and `aclose()` closes it.
        now: the clock. It returns times with a time zone.
    """

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database = database
        self._now = utc_clock(now)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def scope(self, name: str) -> Scope:
        """Implement `Memory.scope()`."""
        return Scope(name, self._database, self._now)

    async def scopes(self, *, after: str = "", limit: int = 100) -> list[str]:
        """Implement `Memory.scopes()`."""
        require_text(after, "after")
        _require_positive(limit=limit)

        def read() -> list[str]:
            with self._database.read() as session:
                rows = session.execute(
                    "SELECT scope FROM chat_memory_scopes s WHERE scope > :after AND ("
                    "EXISTS (SELECT 1 FROM chat_memory_documents d WHERE d.scope = s.key) OR "
                    "EXISTS (SELECT 1 FROM chat_memory_entities e WHERE e.scope = s.key) OR "
                    "EXISTS (SELECT 1 FROM chat_memory_records r WHERE r.scope = s.key) OR "
                    "EXISTS (SELECT 1 FROM chat_memory_blocks b WHERE b.scope = s.key)) ORDER BY scope LIMIT :limit",
                    {"after": after, "limit": limit},
                )
                return [str(row[0]) for row in rows]

        return await finish_in_thread(read)

    async def multi_valued(self) -> frozenset[str]:
        """Implement `Memory.multi_valued()`."""

        def read() -> frozenset[str]:
            with self._database.read() as session:
                return read_multi_valued(session)

        return await finish_in_thread(read)

    async def declare(self, *, multi: Iterable[str] = (), single: Iterable[str] = ()) -> None:
        """Implement `Memory.declare()`."""
        for parameter, names in (("multi", multi), ("single", single)):
            require_type(parameter, names, Iterable, "names of predicates")
        several, one = (
            {require_short(normalize(require_name(name, "a predicate")), "a predicate") for name in names}
            for names in (multi, single)
        )
        if both := several & one:
            msg = f"a predicate is either multi-valued or single-valued, not both: {', '.join(sorted(both))}"
            raise UsageError(msg)

        def write() -> None:
            with self._database.write() as session:
                self._database.lock_predicates(session, exclusive=True)
                known = read_multi_valued(session)
                added, removed = several - known, one & known
                insert = "INSERT INTO chat_memory_predicates (predicate) VALUES (:predicate)"
                delete = "DELETE FROM chat_memory_predicates WHERE predicate = :predicate"
                session.execute_many(insert, [{"predicate": name} for name in added])
                session.execute_many(delete, [{"predicate": name} for name in removed])
                for name in sorted(added | removed):
                    self._recompute_predicate(session, name)

        await finish_in_thread(write)

    def _recompute_predicate(self, session: Session, predicate: str) -> None:
        scopes = session.execute(
            "UPDATE chat_memory_scopes SET revision = revision + 1 WHERE key IN "
            "(SELECT scope FROM chat_memory_facts WHERE predicate = :predicate) RETURNING key, scope",
            {"predicate": predicate},
        )
        for key, name in scopes:
            FactRows(session, cast("int", key), str(name), self._now()).refresh_predicate(predicate)

    async def aclose(self) -> None:
        """Implement `Memory.aclose()`."""
        await finish_in_thread(self._database.close)


def _create_filter(subject: str | None, predicate: str | None, object: str | None) -> FactFilter:
    subject, predicate, object = (None if name is None else normalize(name) for name in (subject, predicate, object))
    return FactFilter(subject, predicate, object)


def _optional_microseconds(time: datetime | None, name: str) -> int | None:
    return None if time is None else to_microseconds(to_utc(time, name))


def _require_positive(**limits: int) -> None:
    for name, value in limits.items():
        require_whole(name, value, 1)
