"""Database-independent queries that store entities and relations, and find neighbors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import cast, final

from chat_core.json import dumps, loads

from chat_memory._database import Row, Session, Value
from chat_memory.facts import normalize, require_short, require_text
from chat_memory.graph import Entity, Neighbor, Relation, RelationType

_NEIGHBORS = (
    "WITH RECURSIVE near (entity, distance) AS (SELECT key, 0 FROM chat_memory_entities "
    "WHERE scope = :scope AND id = :id UNION SELECT CASE WHEN r.source = near.entity THEN r.target ELSE r.source END, "
    "near.distance + 1 FROM near JOIN chat_memory_relations r ON r.source = near.entity OR r.target = near.entity "
    "WHERE near.distance < :depth) "
    "SELECT e.name, e.type, e.properties, min(near.distance) AS distance FROM near "
    "JOIN chat_memory_entities e ON e.key = near.entity GROUP BY e.key, e.name, e.type, e.properties, e.id "
    "HAVING min(near.distance) >= :nearest ORDER BY distance, e.id LIMIT :limit"
)
_RELATIONS = (
    "SELECT a.name, r.label, b.name, r.type, (SELECT count(*) FROM chat_memory_mentions m WHERE m.relation = r.key) "
    "FROM chat_memory_relations r JOIN chat_memory_entities a ON a.key = r.source "
    "JOIN chat_memory_entities b ON b.key = r.target WHERE r.scope = :scope "
    "AND a.id IN (@texts(ids)) AND b.id IN (@texts(ids)) ORDER BY a.id, r.label, b.id"
)

_MENTIONED = (
    "SELECT r.key, a.id, b.id FROM chat_memory_relations r JOIN chat_memory_entities a ON a.key = r.source "
    "JOIN chat_memory_entities b ON b.key = r.target WHERE r.scope = :scope AND EXISTS "
    "(SELECT 1 FROM chat_memory_mentions m WHERE m.relation = r.key AND m.name IN (@texts(names)))"
)
_DELETE_MENTIONS = (
    "DELETE FROM chat_memory_mentions WHERE relation IN (@numbers(relations)) AND name IN (@texts(names))"
)
_DELETE_RELATIONS = (
    "DELETE FROM chat_memory_relations WHERE key IN (@numbers(relations)) AND NOT EXISTS "
    "(SELECT 1 FROM chat_memory_mentions m WHERE m.relation = chat_memory_relations.key)"
)
_DELETE_UNUSED_ENTITY = (
    "DELETE FROM chat_memory_entities WHERE scope = :scope AND id = :id AND NOT EXISTS "
    "(SELECT 1 FROM chat_memory_links l WHERE l.scope = :scope AND l.entity = :id) AND NOT EXISTS "
    "(SELECT 1 FROM chat_memory_relations r WHERE r.source = chat_memory_entities.key "
    "OR r.target = chat_memory_entities.key)"
)


@final
class GraphRows:
    """The entities and relations of one scope, in one transaction.

    Args:
        session: the database session of an open transaction.
        scope: the key of the scope's row.
    """

    def __init__(self, session: Session, scope: int) -> None:
        self._session = session
        self._scope = scope

    def add_entity(self, entity: Entity) -> bool:
        """Store or merge an entity, and return whether it is new."""
        require_short(entity.id, "the name of an entity")
        known = self._find_entity(entity.id)
        if known is None:
            self._session.execute(
                "INSERT INTO chat_memory_entities (scope, id, name, type, properties) "
                "VALUES (:scope, :id, :name, :type, :properties)",
                self._entity_values(entity, entity.properties),
            )
            return True
        key, properties = known
        self._session.execute(
            "UPDATE chat_memory_entities SET type = :type, properties = :properties WHERE key = :key",
            {"key": key, "type": entity.type, "properties": dumps({**properties, **entity.properties})},
        )
        return False

    def relate(self, relation: Relation, key: str) -> bool:
        """Store a relation, create the entities at its ends if they are missing, and return whether it is new."""
        require_short(require_text(key, "the key of a relation"), "the key of a relation")
        values: dict[str, Value] = {
            "scope": self._scope,
            "source": self._find_or_create(relation.source, "the source of a relation"),
            "target": self._find_or_create(relation.target, "the target of a relation"),
            "type": relation.type,
            "label": require_short(normalize(relation.label), "the label of a relation"),
        }
        added = self._session.execute(
            "INSERT INTO chat_memory_relations (scope, source, target, type, label) "
            "VALUES (:scope, :source, :target, :type, :label) "
            "ON CONFLICT (source, target, type, label) DO NOTHING RETURNING key",
            values,
        )
        rows = added or self._session.execute(
            "SELECT key FROM chat_memory_relations WHERE source = :source AND target = :target AND type = :type "
            "AND label = :label",
            values,
        )
        self._session.execute(
            "INSERT INTO chat_memory_mentions (relation, name) VALUES (:relation, :name) "
            "ON CONFLICT (relation, name) DO NOTHING",
            {"relation": cast("int", rows[0][0]), "name": key},
        )
        return bool(added)

    def entities(self, limit: int | None = None) -> list[Entity]:
        """List the entities, sorted by id."""
        rows = self._session.execute(
            "SELECT name, type, properties FROM chat_memory_entities WHERE scope = :scope ORDER BY id",
            {"scope": self._scope},
        )
        return [_parse_entity(row) for row in rows[:limit]]

    def entities_of(self, fact: str) -> list[Entity]:
        """List the entities that are linked to a fact, by id."""
        rows = self._session.execute(
            "SELECT e.name, e.type, e.properties FROM chat_memory_facts f "
            "JOIN chat_memory_links l ON l.fact = f.key "
            "JOIN chat_memory_entities e ON e.scope = l.scope AND e.id = l.entity "
            "WHERE f.scope = :scope AND f.id = :fact ORDER BY e.id",
            {"scope": self._scope, "fact": fact},
        )
        return [_parse_entity(row) for row in rows]

    def neighbors(self, entity: str, depth: int, limit: int, nearest: int = 1) -> list[Neighbor]:
        """List the entities near an entity, nearest first.

        Args:
            entity: the id of the entity.
            depth: the maximum distance.
            limit: the maximum number of entities.
            nearest: the minimum distance. 0 includes the entity itself.
        """
        values: dict[str, Value] = {
            "scope": self._scope,
            "id": entity,
            "depth": depth,
            "limit": limit,
            "nearest": nearest,
        }
        return [Neighbor(_parse_entity(row), cast("int", row[3])) for row in self._session.execute(_NEIGHBORS, values)]

    def relations(self, ids: Iterable[str]) -> list[Relation]:
        """List the relations whose ends are both among these entities."""
        rows = self._session.execute(_RELATIONS, {"scope": self._scope, "ids": dumps(list(ids))})
        return [
            Relation(str(source), str(label), str(target), cast("RelationType", kind), cast("int", mentions))
            for source, label, target, kind, mentions in rows
        ]

    def links(self, ids: Iterable[str], at: int) -> dict[str, tuple[str, ...]]:
        """Map each fact that is current at a time to the ids of the entities that it is linked to.

        Args:
            ids: the ids of the entities.
            at: the time, in microseconds.
        """
        rows = self._session.execute(
            "SELECT f.id, l.entity FROM chat_memory_links l JOIN chat_memory_facts f ON f.key = l.fact "
            "WHERE l.scope = :scope AND l.entity IN (@texts(ids)) AND EXISTS (SELECT 1 FROM chat_memory_periods p "
            "WHERE p.fact = f.key AND p.kind = 'current' AND p.begins <= :at AND p.ends > :at) ORDER BY f.id, l.entity",
            {"scope": self._scope, "ids": dumps(list(ids)), "at": at},
        )
        found: dict[str, list[str]] = defaultdict(list)
        for fact, entity in rows:
            found[str(fact)].append(str(entity))
        return {fact: tuple(entities) for fact, entities in found.items()}

    def delete(self, entity: str) -> bool:
        """Delete an entity with its relations and links, and return whether it existed."""
        values: dict[str, Value] = {"scope": self._scope, "id": entity}
        self._session.execute("DELETE FROM chat_memory_links WHERE scope = :scope AND entity = :id", values)
        rows = self._session.execute(
            "DELETE FROM chat_memory_entities WHERE scope = :scope AND id = :id RETURNING key", values
        )
        return bool(rows)

    def delete_mentions(
        self, names: Collection[str], entities: Iterable[str], contexts: Mapping[str, Collection[str]] | None
    ) -> None:
        """Delete the mentions with these keys, the relations without another mention, and texts about the entities.

        The entities are those at the ends of the mentioned relations, those in `contexts`, and `entities`. Their
        property `context` is deleted. Then an entity without properties, relations and facts is deleted.

        Args:
            names: the keys of the mentions.
            entities: the ids of more entities.
            contexts: the contexts to delete, by the id of the entity. With None, every context is deleted.
        """
        values: dict[str, Value] = {"scope": self._scope, "names": dumps(list(names))}
        mentioned = self._session.execute(_MENTIONED, values)
        values["relations"] = dumps([cast("int", row[0]) for row in mentioned])
        for statement in (_DELETE_MENTIONS, _DELETE_RELATIONS):
            self._session.execute(statement, values)
        for id in sorted({*entities, *(contexts or ()), *(str(end) for row in mentioned for end in row[1:])}):
            key, properties = self._find_entity(id) or (0, {})
            if "context" in properties and (contexts is None or properties["context"] in contexts.get(id, ())):
                del properties["context"]
                self._session.execute(
                    "UPDATE chat_memory_entities SET properties = :properties WHERE key = :key",
                    {"key": key, "properties": dumps(properties)},
                )
            if not properties:
                self._session.execute(_DELETE_UNUSED_ENTITY, {"scope": self._scope, "id": id})

    def _find_or_create(self, name: str, what: str) -> int:
        """Return the row key of an entity. Create the entity if it is missing."""
        entity = Entity(name)
        require_short(entity.id, what)
        self._session.execute(
            "INSERT INTO chat_memory_entities (scope, id, name, type, properties) "
            "VALUES (:scope, :id, :name, :type, :properties) ON CONFLICT (scope, id) DO NOTHING",
            self._entity_values(entity, {}),
        )
        known = self._find_entity(entity.id)
        return known[0] if known else 0

    def _find_entity(self, id: str) -> tuple[int, dict[str, str]] | None:
        rows = self._session.execute(
            "SELECT key, properties FROM chat_memory_entities WHERE scope = :scope AND id = :id",
            {"scope": self._scope, "id": id},
        )
        return (cast("int", rows[0][0]), _parse_properties(rows[0][1])) if rows else None

    def _entity_values(self, entity: Entity, properties: object) -> dict[str, Value]:
        return {
            "scope": self._scope,
            "id": entity.id,
            "name": entity.name,
            "type": entity.type,
            "properties": dumps(properties),
        }


def _parse_entity(row: Sequence[object] | Row) -> Entity:
    return Entity(str(row[0]), str(row[1]), _parse_properties(row[2]))


def _parse_properties(column: object) -> dict[str, str]:
    return cast("dict[str, str]", loads(str(column)))
