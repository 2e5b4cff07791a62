"""Entities found by spaCy: an empty pipeline with rules, because models are not part of its package."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import spacy
from chat_core.messages import Messages
from chat_memory import SqliteMemory
from chat_memory.extraction import EntityRecognizer, ExtractedEntity, ExtractedRelation, Extraction
from chat_memory.indexing import Indexer
from chat_memory.spacy_recognizer import SpacyPipeline, SpacyRecognizer
from chat_memory.transcript import TranscriptTurn

pytestmark = pytest.mark.anyio
PATTERNS = [
    {"label": "PERSON", "pattern": "Ana"},
    {"label": "GPE", "pattern": [{"LOWER": "berlin"}]},
    {"label": "DATE", "pattern": "Monday"},
    {"label": "TOOL", "pattern": "Emacs"},
]


def pipeline(patterns: Sequence[object] = PATTERNS) -> SpacyPipeline:
    created = spacy.blank("en")
    created.add_pipe("entity_ruler").add_patterns(patterns)  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue] - spaCy's component
    return created


async def test_recognized_entities_have_the_type_of_their_label() -> None:
    recognizer: EntityRecognizer = SpacyRecognizer(pipeline())
    found = await recognizer.recognize(["Ana moved to Berlin on Monday.", "Ana uses Emacs in berlin."])
    expected = [
        ExtractedEntity("Ana", "person"),
        ExtractedEntity("Berlin", "place"),
        ExtractedEntity("berlin", "place"),
    ]
    assert found == Extraction(expected)
    assert await recognizer.recognize([]) == Extraction([])


async def test_custom_labels_replace_the_default_labels() -> None:
    recognizer = SpacyRecognizer(pipeline(), labels={"TOOL": "tool"})
    assert await recognizer.recognize(["Ana uses Emacs."]) == Extraction([ExtractedEntity("Emacs", "tool")])


def test_the_recognizer_version_depends_on_the_pipeline_and_labels() -> None:
    versions = {
        SpacyRecognizer(pipeline()).version,
        SpacyRecognizer(pipeline(PATTERNS[:1])).version,
        SpacyRecognizer(pipeline(), labels={"TOOL": "tool"}).version,
    }
    assert len(versions) == 3
    assert SpacyRecognizer(pipeline()).version == SpacyRecognizer(pipeline()).version
    assert all(version.startswith("spacy en ") for version in versions)


class Asked:
    """An extractor that records the names that it receives."""

    version = "asked"

    def __init__(self) -> None:
        self.known: list[str] = []

    async def extract(self, _turns: Sequence[TranscriptTurn], known: Sequence[str], /) -> Extraction:
        self.known += known
        return Extraction([ExtractedEntity("ignored")], relations=[ExtractedRelation("Ana", "lives in", "Berlin")])

    async def summarize(self, _turns: Sequence[TranscriptTurn], _summary: str, /) -> str:
        return "Ana lives in Berlin."


async def test_an_indexer_combines_recognized_entities_with_model_relations(tmp_path: Path) -> None:
    async with SqliteMemory(tmp_path / "memory.db") as memory:
        extractor = Asked()
        indexer = Indexer(memory, extractor, scope=lambda meta: meta.owner, recognizer=SpacyRecognizer(pipeline()))
        report = await indexer.index("ana", "chat-1", Messages.from_user("Ana lives in Berlin."))
        assert (report.entities_stored, report.relationships_stored, report.errors) == (2, 1, ())
        assert extractor.known == ["Ana", "Berlin"]
        entities = [(entity.name, entity.type) for entity in await memory.scope("ana").entities()]
        assert entities == [("Ana", "person"), ("Berlin", "place")]
