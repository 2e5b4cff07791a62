"""Knowledge extracted from a transcript, and the protocols of extractors and entity recognizers.

An `Extractor` reads the turns of a conversation and returns an `Extraction`. `chat_memory.model_extractor` contains an
extractor that asks a language model.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol, TypeAlias, cast

from chat_memory.transcript import TranscriptTurn

Certainty: TypeAlias = Literal["stated", "observed", "inferred"]
"""How the transcript supports a fact: the user states it, a tool or document shows it, or it follows from the text."""

ENTITY_LABELS: tuple[str, ...] = ("person", "tool", "language", "project", "concept", "organization", "file", "config")
"""The types of entities that are extracted."""


@dataclass(frozen=True, slots=True)
class ExtractedEntity:
    """An entity that a transcript mentions.

    Attributes:
        name: name of the entity.
        type: type of the entity, usually one of `ENTITY_LABELS`.
        context: description of the entity in the transcript.
    """

    name: str
    type: str = "concept"
    context: str = ""


@dataclass(frozen=True, slots=True)
class ExtractedFact:
    """A fact that a transcript supports.

    Attributes:
        subject: what the fact is about, such as "user" or "parcel 17".
        predicate: the property, such as "lives in".
        object: the value of the property, such as "Berlin".
        certainty: how strongly the transcript supports the fact.
        turn: the index of the turn that supports it. Default: the last turn of the transcript.
    """

    subject: str
    predicate: str
    object: str
    certainty: Certainty = "inferred"
    turn: int | None = None


@dataclass(frozen=True, slots=True)
class ExtractedRelation:
    """A relation between two entities.

    Attributes:
        source: the name of the entity where it begins.
        label: the word that describes the relation.
        target: the name of the entity where it ends.
    """

    source: str
    label: str
    target: str


@dataclass(frozen=True, slots=True)
class Extraction:
    """The entities, facts and relations that were extracted from a part of a conversation.

    Attributes:
        entities: the entities that the turns mention.
        facts: the facts that the turns support.
        relations: the relations between the entities.
        problems: descriptions of the parts that could not be extracted, for the report.
    """

    entities: Sequence[ExtractedEntity] = ()
    facts: Sequence[ExtractedFact] = ()
    relations: Sequence[ExtractedRelation] = ()
    problems: Sequence[str] = ()


class Extractor(Protocol):
    """Protocol for objects that extract knowledge from turns of a conversation and summarize them."""

    @property
    def version(self) -> str:
        """Identifier of the extractor and of all settings that change its results, such as the model."""
        ...

    async def extract(self, turns: Sequence[TranscriptTurn], known: Sequence[str], /) -> Extraction:
        """Extract entities, facts and relations.

        Args:
            turns: the part of the conversation to read.
            known: names of entities that a recognizer found in these turns.

        Raises:
            ChatError: the extraction failed and may succeed later.
        """
        ...

    async def summarize(self, turns: Sequence[TranscriptTurn], summary: str, /) -> str:
        """Return a summary of a conversation in two or three sentences.

        Args:
            turns: the part of the conversation to summarize.
            summary: summary of the earlier turns, or an empty string.

        Raises:
            ChatError: the summary failed and may succeed later.
        """
        ...


class EntityRecognizer(Protocol):
    """Protocol for objects that find entities in texts without a language model."""

    @property
    def version(self) -> str:
        """Identifier of the recognizer and of all settings that change its results, such as the threshold."""
        ...

    async def recognize(self, texts: Sequence[str], /) -> Extraction:
        """Return the entities in the texts, and relations if the recognizer supports them."""
        ...


def extraction_to_dict(extraction: Extraction) -> dict[str, object]:
    """Convert an extraction to a JSON object."""
    return {
        "entities": [asdict(item) for item in extraction.entities],
        "facts": [asdict(item) for item in extraction.facts],
        "relations": [asdict(item) for item in extraction.relations],
        "problems": list(extraction.problems),
    }


def extraction_from_dict(document: Mapping[str, object]) -> Extraction:
    """Create an `Extraction` from a dictionary that `extraction_to_dict()` returned."""
    return Extraction(
        [ExtractedEntity(**item) for item in _list_objects(document, "entities")],
        [ExtractedFact(**item) for item in _list_objects(document, "facts")],
        [ExtractedRelation(**item) for item in _list_objects(document, "relations")],
        cast("list[str]", document["problems"]),
    )


def parse_answer(text: str) -> Extraction:
    """Parse the JSON object in a model's answer, which may be in a code fence or surrounded by other text.

    Malformed items are left out and reported in `problems`. A missing list counts as empty. The certainty of a fact
    without a valid `confidence` is "inferred".
    """
    document = _find_object(text)
    if document is None:
        return Extraction(problems=[f"the answer has no JSON object: {text[:200]!r}"])
    problems: list[str] = []
    entities = [
        ExtractedEntity(
            _clean_field(item, "name"), _clean_field(item, "entity_type", "concept"), _clean_field(item, "context")
        )
        for item in _parse_items(document, "entities", ("name",), problems)
    ]
    facts = [
        _parse_fact(item) for item in _parse_items(document, "facts", ("subject", "predicate", "object"), problems)
    ]
    relations = [
        ExtractedRelation(_clean_field(item, "from"), _clean_field(item, "relation"), _clean_field(item, "to"))
        for item in _parse_items(document, "relationships", ("from", "relation", "to"), problems)
    ]
    return Extraction(entities, facts, relations, problems)


def _parse_certainty(value: object) -> Certainty:
    if value == "stated":
        return "stated"
    return "observed" if value == "observed" else "inferred"


def _parse_fact(item: Mapping[str, object]) -> ExtractedFact:
    turn = item.get("turn")
    return ExtractedFact(
        _clean_field(item, "subject"),
        _clean_field(item, "predicate"),
        _clean_field(item, "object"),
        _parse_certainty(item.get("confidence")),
        turn if type(turn) is int else None,
    )


def _find_object(text: str) -> Mapping[str, object] | None:
    """Return the first JSON object in a text."""
    decoder = json.JSONDecoder()
    start = text.find("{")
    while start >= 0:
        try:
            found: object = decoder.raw_decode(text, start)[0]
        except (ValueError, RecursionError):
            start = text.find("{", start + 1)
            continue
        return cast("Mapping[str, object]", found)
    return None


def _parse_items(
    document: Mapping[str, object], name: str, fields: Iterable[str], problems: list[str]
) -> list[Mapping[str, object]]:
    """Return the items of the list `name` that are objects with text `fields`. Add a problem for every other item."""
    found: object = document.get(name) or []
    if not isinstance(found, list):
        problems.append(f"{name} is not a list: {found!r:.200}")
        return []
    valid: list[Mapping[str, object]] = []
    for item in cast("list[object]", found):
        fields_of = cast("Mapping[str, object]", item if isinstance(item, dict) else {})
        if all(_is_text(fields_of.get(field)) for field in fields):
            valid.append(fields_of)
        else:
            problems.append(f"an item of {name} was left out, because a field is missing or blank: {item!r:.200}")
    return valid


def _is_text(value: object) -> bool:
    return bool(_remove_unstorable(value).strip(" _\t\r\n"))


def _clean_field(item: Mapping[str, object], name: str, default: str = "") -> str:
    value = item.get(name)
    return _remove_unstorable(value) if _is_text(value) else default


def _remove_unstorable(value: object) -> str:
    """Return a text without null characters and unpaired surrogates, which a database cannot store."""
    return value.replace("\0", "").encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _list_objects(document: Mapping[str, object], name: str) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", document[name])
