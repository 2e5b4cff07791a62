from __future__ import annotations

from typing import Any

import pytest
from chat_core.wire.strict import requires_all, strict_schema

STRING = {"type": "string"}


def closed(**properties: object) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def inside(schema: object) -> object:
    """Return the strict form of a schema inside an object, or `None` if it has none."""
    strict = strict_schema(closed(x=schema))
    return strict and strict["properties"]["x"]


def test_strict_schema_closes_an_object_and_requires_all_properties() -> None:
    assert strict_schema({"type": "object", "properties": {"a": STRING, "b": STRING}, "required": ["a"]}) == closed(
        a=STRING, b=STRING
    )


def test_strict_schema_does_not_change_the_original() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": STRING}}}}
    strict_schema(schema)
    assert schema == {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": STRING}}}}


def test_strict_schema_applies_at_every_depth() -> None:
    inner = {"type": "object", "properties": {"b": STRING}}
    schema = {
        "type": "object",
        "properties": {
            "list": {"type": "array", "items": inner},
            "either": {"anyOf": [inner, {"type": "null"}]},
            "other": {"$ref": "#/$defs/Inner"},
        },
        "$defs": {"Inner": inner},
    }
    strict = strict_schema(schema)
    assert strict is not None
    assert strict["properties"]["list"]["items"] == closed(b=STRING)
    assert strict["properties"]["either"]["anyOf"][0] == closed(b=STRING)
    assert strict["$defs"]["Inner"] == closed(b=STRING)


def test_strict_schema_closes_an_open_object_with_named_properties() -> None:
    schema = {"type": "object", "properties": {"a": STRING}, "additionalProperties": True}
    assert strict_schema(schema) == closed(a=STRING)
    assert strict_schema({"type": "object", "properties": {}}) == closed()


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {}, "additionalProperties": True},
        {"type": "object", "additionalProperties": STRING},
        {"type": "object", "properties": {"a": STRING}, "additionalProperties": STRING},
        {"type": "object", "patternProperties": {"a": STRING}},
        {"type": ["object", "null"]},
        {},
        True,
        {"not": STRING},
        {"if": STRING, "then": STRING},
        {"allOf": [STRING, STRING]},
        {"allOf": "x"},
        {"allOf": [7]},
        {"anyOf": [STRING], "oneOf": [STRING]},
        {"type": "array", "items": {}},
        {"type": "array", "prefixItems": [STRING]},
    ],
)
def test_schema_that_servers_cannot_enforce_has_no_strict_form(schema: object) -> None:
    assert inside(schema) is None


@pytest.mark.parametrize(
    "schema", [STRING, {"type": "array", "items": STRING}, {"anyOf": [closed(), closed(a=STRING)]}]
)
def test_root_that_is_not_an_object_has_no_strict_form(schema: dict[str, Any]) -> None:
    assert strict_schema(schema) is None


def test_bounds_that_servers_enforce_are_kept() -> None:
    schema = {"type": "integer", "minimum": 1, "maximum": 9, "multipleOf": 2}
    assert inside(schema) == schema
    assert inside({"type": "string", "format": "date"}) == {"type": "string", "format": "date"}
    assert inside({"type": "string", "pattern": "^a+$"}) == {"type": "string", "pattern": "^a+$"}


def test_bounds_that_servers_do_not_enforce_move_to_the_description() -> None:
    assert inside({"type": "string", "default": "x", "minLength": 2, "description": "A name."}) == {
        "type": "string",
        "description": 'A name. (default: "x"; minLength: 2)',
    }
    assert inside({"type": "string", "format": "uri"}) == {"type": "string", "description": '(format: "uri")'}
    assert inside({"type": "string", "pattern": "(?=a)b"}) == {"type": "string", "description": '(pattern: "(?=a)b")'}


def test_annotations_that_do_not_constrain_values_are_removed() -> None:
    assert inside({"type": "string", "deprecated": True, "$comment": "x"}) == STRING


def test_one_of_becomes_any_of() -> None:
    assert inside({"oneOf": [STRING, {"type": "null"}]}) == {"anyOf": [STRING, {"type": "null"}]}


def test_all_of_with_one_schema_becomes_that_schema() -> None:
    assert inside({"allOf": [STRING], "description": "A name."}) == {"type": "string", "description": "A name."}


def test_overlapping_constraints_have_no_strict_form() -> None:
    first = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    assert strict_schema({"allOf": [first], "properties": {"b": {"type": "string"}}}) is None
    assert strict_schema({"$ref": "#/$defs/A", "$defs": {"A": first}, "properties": {"b": {"type": "string"}}}) is None
    assert strict_schema({"allOf": [first], "type": "object", "description": "x"}) is not None


@pytest.mark.parametrize("kind", ["array", ["array", "null"]])
def test_array_without_items_has_no_strict_form(kind: object) -> None:
    assert strict_schema({"type": "object", "properties": {"x": {"type": kind}}}) is None


def test_format_that_is_not_a_string_moves_to_the_description() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string", "format": ["date"]}}}
    assert (strict_schema(schema) or {})["properties"]["x"] == {"type": "string", "description": '(format: ["date"])'}


def test_keywords_next_to_a_reference_are_removed() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A", "description": "x"}}, "$defs": {"A": STRING}}
    strict = strict_schema(schema)
    assert strict is not None
    assert strict["properties"]["a"] == {"$ref": "#/$defs/A"}


@pytest.mark.parametrize("place", ["$defs", "definitions"])
def test_a_reference_at_the_root_is_resolved(place: str) -> None:
    node = {"type": "object", "properties": {"next": {"anyOf": [{"$ref": f"#/{place}/Node"}, {"type": "null"}]}}}
    strict = strict_schema({"$ref": f"#/{place}/Node", place: {"Node": node}})
    assert strict is not None
    assert strict["type"] == "object"
    assert strict[place]["Node"]["required"] == ["next"]


def test_unresolvable_reference_has_no_strict_form() -> None:
    assert strict_schema({"$ref": "#/$defs/Node"}) is None
    assert strict_schema({"$ref": "#/$defs/Node", "$defs": {}, "definitions": {}}) is None


def test_circular_schema_has_no_strict_form() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    schema["properties"]["a"] = schema
    assert strict_schema(schema) is None


def test_requires_all_checks_every_depth() -> None:
    half = {"type": "object", "properties": {"a": STRING}}
    assert requires_all(closed(a=STRING))
    assert not requires_all(half)
    assert not requires_all(closed(a=half))
    assert not requires_all(closed(a={"type": "array", "items": half}))
    assert not requires_all(closed(a={"anyOf": [STRING, half]}))
    assert not requires_all({**closed(a=STRING), "$defs": {"H": half}})
