from __future__ import annotations

from typing import Any

import pytest
from chat_llamacpp.schema import UnconstrainableError, enforceable, has_references, resolved
from pydantic import BaseModel

TEXT = {"type": "string"}


class Street(BaseModel):
    name: str


class Person(BaseModel):
    street: Street
    friends: list[Person] = []


def one(**rules: object) -> dict[str, Any]:
    schema = enforceable({"type": "object", "properties": {"a": rules}, "required": ["a"]}, "the tool 'pay'")
    found: dict[str, Any] = schema["properties"]["a"]
    return found


def test_an_object_with_properties_is_closed() -> None:
    schema = {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}

    assert enforceable(schema, "x") == {**schema, "additionalProperties": False}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": TEXT}, "additionalProperties": True},
        {"type": "object", "properties": {"a": TEXT}, "additionalProperties": TEXT},
        {"type": "object", "properties": {"a": TEXT}, "patternProperties": {"^b": TEXT}},
        {"type": "object", "properties": {"a": TEXT}, "required": ["b"]},
        {"type": "object"},
        {"allOf": [{"type": "object", "properties": {"a": TEXT}}, {"type": "object", "properties": {"b": TEXT}}]},
        {"type": "object", "properties": {"a": TEXT}, "anyOf": [{"required": ["a"]}, {"properties": {"b": TEXT}}]},
    ],
)
def test_an_object_with_additional_properties_stays_open(schema: dict[str, Any]) -> None:
    assert enforceable(schema, "x") == schema


def test_a_single_all_of_member_is_closed() -> None:
    inner = {"type": "object", "properties": {"a": TEXT}}

    assert enforceable({"allOf": [inner]}, "x") == {"allOf": [{**inner, "additionalProperties": False}]}


@pytest.mark.parametrize(
    "keyword",
    ["not", "if", "then", "contains", "propertyNames", "dependentRequired", "unevaluatedProperties"],
)
def test_keywords_that_a_grammar_cannot_enforce_are_removed(keyword: str) -> None:
    assert enforceable({"type": "object", keyword: {}}, "x") == {"type": "object"}


@pytest.mark.parametrize(
    "keyword", ["title", "description", "default", "examples", "uniqueItems", "discriminator", "x-mine"]
)
def test_keywords_without_effect_on_a_grammar_are_removed(keyword: str) -> None:
    assert one(type="array", items=TEXT, **{keyword: True}) == {"type": "array", "items": TEXT}


@pytest.mark.parametrize(
    "pattern", [r"^[a-z]+$", r"a|b", r"^\d{3}$", r"^(?:a|b)$", r"^\p{Lu}+$", r"^\+?[0-9]$", r"^\w+\.\w*$"]
)
def test_a_regular_pattern_is_enforced(pattern: str) -> None:
    assert one(type="string", pattern=pattern)["pattern"] == pattern


@pytest.mark.parametrize(
    "pattern",
    [r"^(?=a)b$", r"^(?!a)b$", r"(?i)a", r"\bword", r"(a)\1", r"^a+?$", r"^a++$", r"^\d{2}+$", r"(", r"^\cA$", 5],
)
def test_a_pattern_that_is_not_regular_is_removed(pattern: object) -> None:
    assert one(type="string", pattern=pattern) == TEXT


def test_a_known_format_is_enforced_and_others_are_removed() -> None:
    assert one(type="string", format="date") == {"type": "string", "format": "date"}
    assert one(type="string", format="binary") == TEXT


def test_a_bound_that_a_double_cannot_represent_is_removed() -> None:
    assert one(type="integer", minimum=1, maximum=2**64) == {"type": "integer", "minimum": 1}
    assert one(type="integer", minimum="1") == {"type": "integer"}


def test_one_of_is_converted_to_any_of() -> None:
    assert one(oneOf=[TEXT, {"type": "null"}]) == {"anyOf": [TEXT, {"type": "null"}]}
    assert one(oneOf=[TEXT], anyOf=[{"type": "null"}]) == {"anyOf": [{"type": "null"}]}


def test_a_schema_may_be_true_or_false() -> None:
    assert one(type="array", items=True, prefixItems=[False]) == {
        "type": "array",
        "items": True,
        "prefixItems": [False],
    }
    assert enforceable({"properties": {"a": True}}, "x")["properties"] == {"a": True}


def test_references_are_rewritten_for_the_new_position_of_the_schema() -> None:
    schema = enforceable(Person.model_json_schema(), "x", "#/$defs/here")

    assert schema["$ref"] == "#/$defs/here/$defs/Person"
    person = schema["$defs"]["Person"]
    assert person["properties"]["street"] == {"$ref": "#/$defs/here/$defs/Street"}
    assert person["properties"]["friends"]["items"] == {"$ref": "#/$defs/here/$defs/Person"}
    assert person["additionalProperties"] is False


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({"$ref": "https://example.com/a.json"}, r"\$ref 'https://example.com/a.json' does not resolve"),
        ({"$ref": "#/$defs/Nobody"}, r"\$ref '#/\$defs/Nobody' does not resolve"),
        ({"$ref": "#anchor"}, r"\$ref '#anchor'"),
        ({"$ref": "#/required/7"}, r"\$ref '#/required/7'"),
        ({"$ref": 5}, r"\$ref 5"),
        ({"$dynamicRef": "#a"}, r"\$dynamicRef is not supported"),
        ({"type": "text"}, "'text' is not a type of JSON Schema"),
        ({"type": ["string", "text"]}, "'text' is not a type"),
        ({"enum": []}, r"enum must be a non-empty list, not \[\]"),
        ({"anyOf": []}, r"anyOf must be a non-empty list of schemas, not \[\]"),
        ({"oneOf": [5]}, "a schema must be an object, not 5"),
        ({"properties": []}, r"properties must be an object of schemas, not \[\]"),
    ],
)
def test_an_unresolvable_reference_is_rejected_with_tool_and_keyword(rules: dict[str, object], said: str) -> None:
    with pytest.raises(
        UnconstrainableError, match=f"the schema of the tool 'pay' cannot be enforced by llama.cpp: {said}"
    ):
        one(**rules)


def test_a_schema_that_is_nested_too_deeply_is_rejected() -> None:
    schema: dict[str, Any] = TEXT
    for _ in range(100):
        schema = {"type": "array", "items": schema}

    with pytest.raises(UnconstrainableError, match="nested more than 64 levels deep"):
        enforceable(schema, "x")


def test_has_references_finds_references_at_any_depth() -> None:
    assert has_references({"items": {"anyOf": [{"$ref": "#"}]}})
    assert not has_references({"items": {"anyOf": [TEXT]}})


def test_a_reference_is_resolved_by_its_json_pointer() -> None:
    root = {"$defs": {"a/b~c": TEXT, "list": [{"type": "null"}], "again": {"$ref": "#/$defs/a~1b~0c"}}}

    assert resolved({"$ref": "#/$defs/again"}, root) == TEXT
    assert resolved({"$ref": "#/$defs/list/0"}, root) == {"type": "null"}
    assert resolved({"$ref": "#/$defs/list/1"}, root) == {"$ref": "#/$defs/list/1"}
    assert resolved({"$ref": "#"}, root) == root


def test_resolving_a_circular_reference_terminates() -> None:
    root = {"$ref": "#"}

    assert resolved(root, root) == root
