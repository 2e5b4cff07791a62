"""What a form is made from: of a schema, the type, what it lists, and what a person should know."""

from __future__ import annotations

import pytest
from chat_inbox.form_schemas import FieldSchema, Schema, json_type, parse_schema


def shape(schema: Schema, root: Schema | None = None) -> FieldSchema:
    return parse_schema(schema, root or schema)


@pytest.mark.parametrize(
    ("schema", "kind", "nullable"),
    [
        ({"type": "string"}, "string", False),
        ({"type": ["integer", "null"]}, "integer", True),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "number", True),
        ({"oneOf": [{"type": "boolean"}]}, "boolean", False),
        ({"properties": {"a": {}}}, "object", False),
        ({"type": ["integer", "string"]}, "other", False),
        ({"enum": ["a", None]}, "other", True),
        ({}, "other", False),
        (True, "other", False),
        ({"type": "unheard-of"}, "other", False),
    ],
)
def test_a_schema_has_one_type_beside_null_or_is_something_else(schema: Schema, kind: str, nullable: bool) -> None:
    found = shape(schema)

    assert (found.kind, found.nullable) == (kind, nullable)


def test_a_reference_leads_within_the_schema_and_what_stands_beside_it_goes_over_it() -> None:
    root: Schema = {"$defs": {"a/b~c": {"type": "integer", "description": "inner"}}}
    found = shape({"$ref": "#/$defs/a~1b~0c", "description": "outer"}, root)

    assert (found.kind, found.help) == ("integer", "outer")
    assert shape({"allOf": [{"$ref": "#/$defs/a~1b~0c"}]}, root).kind == "integer"


def test_a_reference_in_a_circle_or_to_elsewhere_is_something_else() -> None:
    root: Schema = {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}

    assert shape({"$ref": "#/$defs/a"}, root).kind == "other"
    assert shape({"$ref": "https://elsewhere.example/schema"}, root).kind == "other"
    assert shape({"$ref": "#/$defs/none"}, root).kind == "other"


def test_a_value_shows_which_of_several_types_is_meant() -> None:
    found = shape({"anyOf": [{"type": "string", "pattern": "x"}, {"type": "integer"}], "description": "either"})

    assert found.for_value("a").kind == "string"
    assert found.for_value(1).kind == "integer"
    assert found.for_value(1.5).kind == "other"
    assert found.for_value("a").help == "either · pattern: x"
    assert shape({"type": ["integer", "string"]}).for_value("a").kind == "string"


def test_the_bounds_are_said() -> None:
    assert shape({"type": "integer", "minimum": 1, "maximum": 9}).help == "at least 1 · at most 9"


def test_what_is_listed_is_an_option() -> None:
    assert shape({"const": 1}).options == (1,)
    assert shape({"type": "boolean"}).options == (True, False)
    assert shape({"type": "string"}).options is None


def test_a_list_of_places_has_no_one_kind_of_item() -> None:
    places: Schema = {"type": "array", "prefixItems": [True], "items": {"type": "string"}}
    assert shape(places).items is None
    assert shape({"type": "array", "items": True}).items is None


def test_every_value_has_a_type() -> None:
    values: list[object] = [True, 1, 1.5, "", {}, [], None]
    kinds = [json_type(value) for value in values]

    assert kinds == ["boolean", "integer", "number", "string", "object", "array", "other"]
