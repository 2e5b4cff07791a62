from __future__ import annotations

from typing import Any

import pytest
from chat_claude.schema import StrictLimits, input_schema, strict_schema
from chat_core.errors import UnsupportedOptionError


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def inner(schema: dict[str, Any]) -> Any:
    """Return the strict form of one property."""
    strict = strict_schema(closed(x=schema))
    return None if strict is None else strict["properties"]["x"]


# --- Parameters of tools -----------------------------------------------------------------------------------


def test_an_object_schema_is_sent_unchanged() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}}
    assert input_schema(schema, "t") is schema


def test_a_reference_at_the_root_is_resolved() -> None:
    schema = {"$defs": {"A": {"$ref": "#/$defs/B/C"}, "B/C": closed(a={"type": "string"})}, "$ref": "#/$defs/A"}
    with pytest.raises(UnsupportedOptionError, match="`\\$ref`"):
        input_schema({**schema, "$ref": "#/$defs/Missing"}, "t")
    schema["$defs"]["A"] = {"$ref": "#/$defs/B~1C"}  # type: ignore[index]  # JSON
    assert input_schema(schema, "t")["properties"] == {"a": {"type": "string"}}


def test_a_circular_reference_is_rejected() -> None:
    schema = {"$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}, "$ref": "#/$defs/A"}
    with pytest.raises(UnsupportedOptionError, match="`\\$ref`"):
        input_schema(schema, "t")
    assert strict_schema(schema) is None


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
def test_a_union_at_the_root_is_rejected_by_keyword(keyword: str) -> None:
    schema = {"type": "object", keyword: [closed(), closed()]}
    with pytest.raises(UnsupportedOptionError, match=f"`{keyword}`"):
        input_schema(schema, "t")
    assert strict_schema(schema) is None


def test_a_schema_without_a_type_becomes_an_object() -> None:
    assert input_schema({"properties": {}}, "t") == {"type": "object", "properties": {}}
    assert input_schema({}, "t") == {"type": "object"}


def test_parameters_that_are_not_an_object_are_rejected() -> None:
    with pytest.raises(UnsupportedOptionError, match="'string'"):
        input_schema({"type": "string"}, "t")
    assert strict_schema({"type": "string"}) is None


# --- The strict form ---------------------------------------------------------------------------------------


def test_a_strict_object_is_closed_and_keeps_its_optional_properties() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "null"}}, "required": ["a"]}
    assert strict_schema(schema) == {**schema, "additionalProperties": False}


def test_a_property_may_be_named_like_a_keyword() -> None:
    schema = closed(title={"type": "string"}, minimum={"type": "integer"})
    assert strict_schema(schema) == schema


def test_unenforced_constraints_are_moved_to_the_description() -> None:
    assert inner({"type": "integer", "minimum": 1, "description": "How many."}) == {
        "type": "integer",
        "description": "How many. (minimum: 1)",
    }
    assert inner({"type": "string", "pattern": "^a", "format": "uri-template"}) == {
        "type": "string",
        "description": '(pattern: "^a"; format: "uri-template")',
    }
    assert inner({"type": "array", "items": {"type": "string"}, "minItems": 2})["description"] == "(minItems: 2)"


def test_enforced_keywords_are_kept() -> None:
    for schema in (
        {"type": "string", "format": "date"},
        {"type": "array", "items": {"type": "string"}, "minItems": 1},
        {"enum": ["a", None, 1]},
        {"const": "a"},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"allOf": [{"type": "string"}, {"enum": ["a"]}]},
    ):
        assert inner(schema) == schema


def test_one_of_is_converted_to_any_of() -> None:
    assert inner({"oneOf": [{"type": "string"}, {"type": "null"}]}) == {"anyOf": [{"type": "string"}, {"type": "null"}]}


def test_a_list_of_types_is_converted_to_any_of() -> None:
    assert inner({"type": ["string", "null"], "format": "date", "description": "When."}) == {
        "description": "When.",
        "anyOf": [{"type": "string", "format": "date"}, {"type": "null"}],
    }
    assert inner({"type": ["string", "null"], "enum": ["a", None]}) == {"enum": ["a", None]}
    assert inner({"type": ["object", "null"], "properties": {"a": {"type": "string"}}})["anyOf"][0] == {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "additionalProperties": False,
    }
    assert inner({"type": ["string", "null"], "anyOf": [{"type": "string"}]}) is None


def test_a_reference_loses_its_description_and_allows_no_constraints() -> None:
    schema = {
        **closed(a={"$ref": "#/$defs/A", "description": "An A."}, b={"$ref": "#/$defs/A"}),
        "$defs": {"A": {"type": "string", "minLength": 1}},
    }
    strict = strict_schema(schema)
    assert strict is not None
    assert strict["properties"]["a"] == {"$ref": "#/$defs/A"}
    assert strict["$defs"]["A"] == {"type": "string", "description": "(minLength: 1)"}
    assert strict_schema({**closed(a={"$ref": "#/$defs/A", "minLength": 1}), "$defs": schema["$defs"]}) is None


def test_a_recursive_schema_has_no_strict_form() -> None:
    node = closed(next={"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]})
    assert strict_schema({**node, "$defs": {"Node": node}}) is None
    assert strict_schema(closed(a={"$ref": "https://a.b/c"})) is None


FREE: list[Any] = [
    True,
    {},
    {"description": "anything"},
    {"not": {"type": "string"}},
    {"type": "object"},
    {"type": "object", "additionalProperties": {"type": "string"}},
    {"type": "object", "properties": "?"},
    {"type": "object", "properties": {"a": {"type": "string"}}, "anyOf": []},
    {"anyOf": [{"type": "string"}], "allOf": [{"type": "string"}]},
    {"anyOf": "?"},
    {"allOf": [{"type": "object", "properties": {}}, {"type": "string"}]},
    {"allOf": [{"$ref": "#/$defs/A"}, {"type": "string"}]},
    {"enum": [["a"]]},
    {"const": {"a": 1}},
]


@pytest.mark.parametrize("schema", FREE)
def test_a_schema_that_cannot_be_enforced_has_no_strict_form(schema: Any) -> None:
    assert inner(schema) is None


def test_a_schema_that_is_nested_too_deeply_has_no_strict_form() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(80):
        schema = {"type": "array", "items": schema}
    assert inner(schema) is None


TEXT_OR_NULL = {"anyOf": [{"type": "string"}, {"type": "null"}]}
ONE_OPTIONAL = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.mark.parametrize(
    ("strict", "optional", "unions"),
    [
        ({"properties": {"a": TEXT_OR_NULL}, "required": ["a"]}, 0, 1),
        ({"properties": {"a": {"type": "array", "items": TEXT_OR_NULL}}, "required": ["a"]}, 0, 1),
        ({"properties": {"a": {"$ref": "#/$defs/d"}}, "required": ["a"], "$defs": {"d": TEXT_OR_NULL}}, 0, 1),
        (
            {
                "properties": {"a": {"$ref": "#/$defs/d"}, "b": {"$ref": "#/$defs/d"}},
                "required": ["a", "b"],
                "$defs": {"d": ONE_OPTIONAL},
            },
            2,
            0,
        ),
        ({"properties": {"enum": TEXT_OR_NULL, "const": ONE_OPTIONAL}, "required": ["enum", "const"]}, 1, 1),
        ({"properties": {"properties": ONE_OPTIONAL}, "required": ["properties"]}, 1, 0),
        ({"properties": {"a": {"enum": [{"properties": {"b": 1}}]}}, "required": ["a"]}, 0, 0),
    ],
)
def test_optional_properties_and_unions_are_counted_wherever_they_are_used(
    strict: dict[str, Any], optional: int, unions: int
) -> None:
    exact, smaller = StrictLimits((1, optional, unions)), [(1, optional - 1, unions), (1, optional, unions - 1)]
    assert exact.take(strict, tools=1)
    assert exact.remaining == (0, 0, 0)
    assert not any(StrictLimits(remaining).take(strict, tools=1) for remaining in smaller if min(remaining) >= 0)
