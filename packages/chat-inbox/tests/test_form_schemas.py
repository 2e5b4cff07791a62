"""The subset of JSON Schema that forms use."""

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
def test_schema_kind_is_its_only_non_null_type(schema: Schema, kind: str, nullable: bool) -> None:
    found = shape(schema)

    assert (found.kind, found.nullable) == (kind, nullable)


def test_local_reference_is_merged_with_its_siblings() -> None:
    root: Schema = {"$defs": {"a/b~c": {"type": "integer", "description": "inner"}}}
    found = shape({"$ref": "#/$defs/a~1b~0c", "description": "outer"}, root)

    assert (found.kind, found.help) == ("integer", "outer")
    assert shape({"allOf": [{"$ref": "#/$defs/a~1b~0c"}]}, root).kind == "integer"


def test_cyclic_or_external_reference_has_kind_other() -> None:
    root: Schema = {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}

    assert shape({"$ref": "#/$defs/a"}, root).kind == "other"
    assert shape({"$ref": "https://elsewhere.example/schema"}, root).kind == "other"
    assert shape({"$ref": "#/$defs/none"}, root).kind == "other"


def test_for_value_selects_the_matching_branch() -> None:
    found = shape({"anyOf": [{"type": "string", "pattern": "x"}, {"type": "integer"}], "description": "either"})

    assert found.for_value("a").kind == "string"
    assert found.for_value(1).kind == "integer"
    assert found.for_value(1.5).kind == "other"
    assert found.for_value("a").help == "either · pattern: x"
    assert shape({"type": ["integer", "string"]}).for_value("a").kind == "string"


def test_help_of_a_field_lists_its_bounds() -> None:
    assert shape({"type": "integer", "minimum": 1, "maximum": 9}).help == "at least 1 · at most 9"


def test_enum_and_const_become_options() -> None:
    assert shape({"const": 1}).options == (1,)
    assert shape({"type": "boolean"}).options == (True, False)
    assert shape({"type": "string"}).options is None


def test_tuple_array_has_no_common_item_schema() -> None:
    places: Schema = {"type": "array", "prefixItems": [True], "items": {"type": "string"}}
    assert shape(places).items is None
    assert shape({"type": "array", "items": True}).items is None


def test_json_type_names_every_value() -> None:
    values: list[object] = [True, 1, 1.5, "", {}, [], None]
    kinds = [json_type(value) for value in values]

    assert kinds == ["boolean", "integer", "number", "string", "object", "array", "other"]
