"""Extractions: the answers of models, and the stored form."""

from __future__ import annotations

import json

import pytest
from chat_memory.extraction import (
    ExtractedEntity,
    ExtractedFact,
    ExtractedRelation,
    Extraction,
    extraction_from_dict,
    extraction_to_dict,
    parse_answer,
)

ANSWER = {
    "entities": [{"name": "Ana", "entity_type": "person", "context": "a user"}, {"name": "Rust"}],
    "facts": [
        {"subject": "Ana", "predicate": "likes", "object": "Rust", "confidence": "stated", "turn": 4},
        {"subject": "Ana", "predicate": "lives in", "object": "Berlin"},
        {"subject": "Ana", "predicate": "owns", "object": "a cat", "confidence": "sure", "turn": "4"},
    ],
    "relationships": [{"from": "Ana", "relation": "uses", "to": "Rust"}],
}
FOUND = Extraction(
    [ExtractedEntity("Ana", "person", "a user"), ExtractedEntity("Rust")],
    [
        ExtractedFact("Ana", "likes", "Rust", "stated", 4),
        ExtractedFact("Ana", "lives in", "Berlin"),
        ExtractedFact("Ana", "owns", "a cat"),
    ],
    [ExtractedRelation("Ana", "uses", "Rust")],
    [],
)
TEXT = json.dumps(ANSWER)


@pytest.mark.parametrize("answer", [TEXT, f"```json\n{TEXT}\n```", f"Sure: {TEXT} Bye.", f"{TEXT} {{}}"])
def test_an_extraction_is_parsed_from_fences_and_prose(answer: str) -> None:
    assert parse_answer(answer) == FOUND


@pytest.mark.parametrize("answer", ["", "I cannot.", "[1]", "{", "{" * 20_000])
def test_an_answer_without_a_json_object_is_a_problem(answer: str) -> None:
    found = parse_answer(answer)
    assert (found.entities, found.facts, found.relations, len(found.problems)) == ((), (), (), 1)


def test_missing_lists_are_parsed_as_empty() -> None:
    assert parse_answer("{}") == Extraction([], [], [], [])


def test_invalid_items_are_reported_as_problems() -> None:
    found = parse_answer(
        '{"entities": [{"name": " "}, 1, {"name": "Ana"}], "facts": 7, "relationships": [{"from": "A"}]}'
    )
    assert [entity.name for entity in found.entities] == ["Ana"]
    assert len(found.problems) == 4


def test_characters_that_cannot_be_stored_are_replaced() -> None:
    assert parse_answer(r'{"entities": [{"name": "A\u0000na\ud800"}]}').entities == [ExtractedEntity("Ana?")]


def test_an_extraction_is_decoded_as_it_was_encoded() -> None:
    assert extraction_from_dict(json.loads(json.dumps(extraction_to_dict(FOUND)))) == FOUND
