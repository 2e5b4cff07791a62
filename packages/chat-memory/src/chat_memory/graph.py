"""Entities and typed relations of a scope, and the neighborhood of an entity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, get_args

from chat_core.errors import UsageError

from chat_memory.facts import Fact, normalize, require_name

RelationType: TypeAlias = Literal[
    "RELATED_TO", "PART_OF", "CREATED_BY", "IS_A", "SUPPORTS", "CONTRADICTS", "MENTIONS", "CITED_IN"
]
"""The type of a relation. The label of a relation is the word that a text uses for it."""

RELATION_TYPES: Final[frozenset[str]] = frozenset(get_args(RelationType))

_TYPES: Final[Mapping[str, RelationType]] = MappingProxyType(
    {
        **dict.fromkeys(("written_in", "part_of", "belongs_to"), "PART_OF"),
        **dict.fromkeys(("created_by", "authored_by", "maintained_by"), "CREATED_BY"),
        **dict.fromkeys(("is_a", "type_of", "kind_of"), "IS_A"),
        **dict.fromkeys(("supports", "enables", "provides"), "SUPPORTS"),
        **dict.fromkeys(("contradicts", "conflicts_with", "replaces"), "CONTRADICTS"),
        **dict.fromkeys(("mentions", "references", "cites"), "MENTIONS"),
    }
)


def relation_type(label: str) -> RelationType:
    """Return the relation type for a word such as "owns", or `RELATED_TO` for an unknown word."""
    return _TYPES.get(normalize(label), "RELATED_TO")


@dataclass(frozen=True, slots=True)
class Entity:
    """A person, place or thing.

    Attributes:
        name: name of the entity.
        type: the kind of entity, such as "person".
        properties: texts that describe the entity, by name.
    """

    name: str
    type: str = "concept"
    properties: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        require_name(self.name, "the name of an entity")
        require_name(self.type, "the type of an entity")

    @property
    def id(self) -> str:
        """The normalized name, which identifies the entity in its scope."""
        return normalize(self.name)


@dataclass(frozen=True, slots=True)
class Relation:
    """A directed relation between two entities.

    Attributes:
        source: name or id of the entity where the relation begins.
        label: word that describes the relation, such as "written in".
        target: name or id of the entity where the relation ends.
        type: type of the relation. Default: the type for the label.
        mentions: number of different texts that mention the relation. Set by the memory.
    """

    source: str
    label: str
    target: str
    type: RelationType | None = None
    mentions: int = 1

    def __post_init__(self) -> None:
        require_name(self.source, "the source of a relation")
        require_name(self.label, "the label of a relation")
        require_name(self.target, "the target of a relation")
        if self.type is None:
            object.__setattr__(self, "type", relation_type(self.label))
        elif not isinstance(self.type, str) or self.type not in RELATION_TYPES:
            msg = f"the type of a relation must be one of {', '.join(sorted(RELATION_TYPES))}, not {self.type!r}"
            raise UsageError(msg)


@dataclass(frozen=True, slots=True)
class Neighbor:
    """An entity near the start of a search.

    Attributes:
        entity: the entity that was found.
        distance: number of relations between this entity and the start of the search.
    """

    entity: Entity
    distance: int


@dataclass(frozen=True, slots=True)
class Graph:
    """A part of a graph: entities, the relations between them, and the current facts about them.

    Attributes:
        entities: the entities, nearest first, with their distance from the first entity.
        relations: the relations whose ends are both among the entities.
        facts: the current facts that are linked to at least one of the entities.
        links: ids of the linked entities, by fact id.
    """

    entities: tuple[Neighbor, ...]
    relations: tuple[Relation, ...]
    facts: tuple[Fact, ...] = ()
    links: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


@dataclass(frozen=True, slots=True)
class MemoryStats:
    """Row counts of a scope.

    Attributes:
        facts: facts of any status.
        current: current facts.
        statements: statements.
        passages: passages.
        entities: entities.
        relations: relations.
        revision: see `MemoryScope.revision()`.
    """

    facts: int = 0
    current: int = 0
    statements: int = 0
    passages: int = 0
    entities: int = 0
    relations: int = 0
    revision: int = 0
