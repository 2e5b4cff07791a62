"""Statements: what they may contain, and how names are compared."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from chat_core.errors import UsageError
from chat_memory import Source, Statement, normalize
from chat_memory.facts import fact_id


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("lives in", "Lives_In"),
        ("  lives \t in ", "lives in"),
        ("Zu\u0308rich", "Z\u00fcrich"),
        ("STRASSE", "stra\u00dfe"),
        ("\u212bngstr\u00f6m", "\u00e5ngstr\u00f6m"),
    ],
)
def test_spellings_of_one_name_are_normalized_to_the_same_name(one: str, other: str) -> None:
    assert normalize(one) == normalize(other)
    assert fact_id("ana", one, "is", "x") == fact_id("ana", other, "is", "x")


@pytest.mark.parametrize(("one", "other"), [("a", "arawn.lang"), ("50%", "50"), ("o'neill", "oneill"), ("a", "b")])
def test_different_names_are_normalized_to_different_names(one: str, other: str) -> None:
    assert normalize(one) != normalize(other)


def test_a_fact_of_another_scope_has_another_id() -> None:
    assert fact_id("ana", "user", "likes", "tea") != fact_id("ben", "user", "likes", "tea")


@pytest.mark.parametrize("field", ["subject", "predicate", "object"])
@pytest.mark.parametrize("blank", ["", "  ", "_"])
def test_a_blank_field_is_refused_and_named(field: str, blank: str) -> None:
    values = {"subject": "user", "predicate": "likes", "object": "tea", field: blank}
    with pytest.raises(UsageError, match=f"^{field} must not be blank"):
        Statement(values["subject"], values["predicate"], values["object"])


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_text_with_null_characters_or_surrogates_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="null characters"):
        Statement("user", "likes", "tea", text)
    with pytest.raises(UsageError, match="null characters"):
        Statement("user", "likes", f"tea{text}")


def test_a_confidence_outside_0_and_1_is_refused() -> None:
    with pytest.raises(UsageError, match="between 0 and 1"):
        Statement("user", "likes", "tea", confidence=1.5)


def test_an_unknown_source_is_refused() -> None:
    source: Source = "guessed"  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType] - what is tested
    with pytest.raises(UsageError, match="stated, system, observed, inferred"):
        Statement("user", "likes", "tea", source=source)


def test_a_time_without_a_time_zone_is_refused() -> None:
    with pytest.raises(UsageError, match="said_at needs a time zone"):
        Statement("user", "likes", "tea", said_at=datetime(2026, 1, 1))  # noqa: DTZ001 - what is tested


def test_a_statement_that_ends_before_it_begins_is_refused() -> None:
    time = datetime(2026, 1, 1, tzinfo=UTC)
    with pytest.raises(UsageError, match="valid_to must be after"):
        Statement("user", "likes", "tea", valid_from=time, valid_to=time)


def test_the_error_for_a_name_that_is_no_string_describes_the_name() -> None:
    number: Any = 5
    with pytest.raises(UsageError, match=r"^subject must be a string, not 5$"):
        Statement(number, "lives in", "Paris")
