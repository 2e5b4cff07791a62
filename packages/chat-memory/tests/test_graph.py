"""Entities and relations: their ids, types and limits."""

from __future__ import annotations

import pytest
from chat_core.errors import UsageError
from chat_memory import Entity, Relation, RelationType, relation_type


def test_two_spellings_of_a_name_are_one_entity() -> None:
    assert Entity("Zu\u0308rich  West").id == Entity("z\u00fcrich_west").id == "z\u00fcrich_west"


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("uses", "RELATED_TO"),
        ("depends on", "RELATED_TO"),
        ("Written in", "PART_OF"),
        ("belongs_to", "PART_OF"),
        ("authored by", "CREATED_BY"),
        ("kind of", "IS_A"),
        ("enables", "SUPPORTS"),
        ("replaces", "CONTRADICTS"),
        ("cites", "MENTIONS"),
        ("orbits", "RELATED_TO"),
    ],
)
def test_a_relation_label_is_mapped_to_a_type(label: str, expected: RelationType) -> None:
    assert relation_type(label) == expected
    assert Relation("a", label, "b").type == expected


def test_an_unknown_relation_type_is_refused() -> None:
    unknown: RelationType = "OWNS"  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType] - what is tested
    with pytest.raises(UsageError, match="RELATED_TO"):
        Relation("a", "owns", "b", unknown)


@pytest.mark.parametrize("name", ["", " _ ", "a\0"])
def test_a_blank_or_unstorable_entity_name_is_refused(name: str) -> None:
    with pytest.raises(UsageError):
        Entity(name)
