"""Regular expressions in schemas, which are matched in linear time."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from chat_core.errors import UsageError
from chat_core.tools import SchemaChecker
from chat_core.tools.patterns import Pattern
from hypothesis import given
from hypothesis import strategies as st

EXPONENTIAL = "^(a+)+$"
TEXT = "a" * 200 + "!"


@pytest.mark.parametrize(
    ("schema", "document", "problem"),
    [
        ({"pattern": EXPONENTIAL}, TEXT, "does not match '^(a+)+$'"),
        ({"propertyNames": {"pattern": EXPONENTIAL}}, {TEXT: 1}, "does not match '^(a+)+$'"),
        (
            {"patternProperties": {EXPONENTIAL: True}, "additionalProperties": False},
            {TEXT: 1},
            "does not match any of the regexes: '^(a+)+$'",
        ),
        ({"patternProperties": {EXPONENTIAL: {"type": "string"}}}, {"aa": 1, TEXT: 1}, "1 is not of type 'string'"),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"pattern": EXPONENTIAL}}}, TEXT, "does not match '^(a+)+$'"),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "pattern": EXPONENTIAL}, TEXT, "does not match"),
    ],
)
def test_pattern_with_exponential_time_in_python_is_matched_quickly(
    schema: dict[str, object], document: object, problem: str
) -> None:
    checker = SchemaChecker(schema)
    began = time.process_time()
    (found,) = checker.problems(document)
    assert time.process_time() - began < 1
    assert problem in found or found.endswith(problem[-10:])


def test_pattern_keywords_use_the_linear_engine() -> None:
    # Python's `$` matches before a last line break, too.
    assert SchemaChecker({"pattern": "a$"}).problems("a\n") != []
    checker = SchemaChecker({"patternProperties": {"a$": True}, "additionalProperties": False})
    assert (checker.problems({"a": 1}), len(checker.problems({"a\n": 1}))) == ([], 1)


@pytest.mark.parametrize("pattern", ["(?=a)b", "(?<!a)b", r"(a)\1", "^.{0,65535}$"])
@pytest.mark.parametrize("place", ["pattern", "patternProperties", "behind a reference"])
def test_pattern_that_the_linear_engine_cannot_match_raises_at_registration(pattern: str, place: str) -> None:
    schemas: dict[str, dict[str, Any]] = {
        "pattern": {"properties": {"a": {"pattern": pattern}}},
        "patternProperties": {"items": {"patternProperties": {pattern: True}}},
        "behind a reference": {"$ref": "#/elsewhere/x", "elsewhere": {"x": {"pattern": pattern}}},
    }
    with pytest.raises(UsageError, match=r"cannot be matched in linear time .*: use valid syntax without look-around"):
        SchemaChecker(schemas[place])


def test_invalid_pattern_behind_a_reference_raises_at_registration() -> None:
    with pytest.raises(UsageError, match=r"cannot be matched in linear time \(unclosed group"):
        SchemaChecker({"$ref": "#/elsewhere/x", "elsewhere": {"x": {"pattern": "(a"}}})


def test_large_repetitions_of_a_unicode_class_match_ascii_characters() -> None:
    pattern = Pattern(r"^\w{1,255}$")
    assert pattern.search("a" * 255)
    assert not pattern.search("a" * 256)
    assert Pattern(r"^\w{1,3}$").search("éé")


def test_lone_surrogate_matches_as_one_character() -> None:
    assert Pattern("^a.b$").search("a\ud800b")
    assert not Pattern("^[a-z]+$").search("a\ud800b")


def test_unevaluated_properties_raise_with_a_pattern_that_is_not_simple() -> None:
    checker = SchemaChecker({"patternProperties": {"^x-": True}, "unevaluatedProperties": False})
    assert checker.problems({"x-a": 1}) == []
    assert len(checker.problems({"y": 1})) == 1
    with pytest.raises(UsageError, match=r"more than one of \* \+ \? \{ \|"):
        SchemaChecker({"patternProperties": {"(a+)+$": True}, "allOf": [{"unevaluatedProperties": False}]})


SIMPLE = st.text(alphabet="ab.*+?|()[]^$-", max_size=6)


@given(SIMPLE, st.text(alphabet="ab-", max_size=6))
def test_linear_engine_and_python_match_the_same_texts(pattern: str, text: str) -> None:
    try:
        expected = re.compile(pattern)
        compiled = Pattern(pattern)
    except (re.error, FutureWarning, UsageError):
        return
    assert compiled.search(text) == bool(expected.search(text))
