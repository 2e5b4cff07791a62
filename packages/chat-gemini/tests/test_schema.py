from __future__ import annotations

import copy

import pytest
from chat_core.wire.shapes import Json, mapping
from chat_gemini.schema import InexpressibleError, json_form, openapi_form

TEXT: Json = {"type": "string"}
NUMBER: Json = {"type": "number"}


def inside(schema: Json) -> Json:
    return {"type": "object", "properties": {"a": schema}, "required": ["a"]}


def as_json(schema: Json) -> object:
    return mapping(json_form(inside(schema))["properties"])["a"]


def as_openapi(schema: Json) -> object:
    return mapping(openapi_form(inside(schema))["properties"])["a"]


ODD_NAMES: Json = {
    "type": "object",
    "title": "A title",
    "properties": {
        name: {"type": "string", "title": name}
        for name in (
            "title",
            "$id",
            "$ref",
            "definitions",
            "additionalProperties",
            "properties",
            "const",
            "type",
            "$schema",
        )
    },
    "required": ["title", "$ref"],
}


@pytest.mark.parametrize("form", [json_form, openapi_form])
def test_a_property_may_be_named_like_a_keyword(form: object) -> None:
    before = copy.deepcopy(ODD_NAMES)
    assert callable(form)
    assert form(ODD_NAMES) == before
    assert before == ODD_NAMES, "the schema that was given stays as it is"


# --- JSON Schema --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "format": "email", "minLength": 1, "maxLength": 2, "pattern": "^x", "default": "x"},
        {"type": ["string", "null"]},
        {"anyOf": [TEXT, {"type": "null"}], "description": "x"},
        {"oneOf": [TEXT, NUMBER]},
        {"type": "array", "prefixItems": [TEXT, NUMBER], "uniqueItems": True},
        {"type": "object", "additionalProperties": TEXT},
        {"type": "object", "patternProperties": {"^x": TEXT}},
        {"not": TEXT},
        {"$ref": "#/$defs/A"},
        {"enum": [1, 2]},
        {"type": "number", "exclusiveMinimum": 0},
        {"type": "integer", "exclusiveMinimum": 0, "minimum": 3},
        {},
    ],
)
def test_supported_json_schema_keywords_are_kept(schema: Json) -> None:
    assert as_json(schema) == schema


@pytest.mark.parametrize(
    ("schema", "form"),
    [
        ({"const": "x"}, {"enum": ["x"]}),
        ({"const": None}, {"const": None}),
        ({"const": "x", "enum": ["x", "y"]}, {"const": "x", "enum": ["x", "y"]}),
        (
            {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 9},
            {"type": "integer", "minimum": 1, "maximum": 8},
        ),
        ({"$ref": "#/$defs/A", "description": "x"}, {"description": "x", "anyOf": [{"$ref": "#/$defs/A"}]}),
        (
            {"$ref": "#/$defs/A", "anyOf": [TEXT]},
            {"allOf": [{"anyOf": [{"$ref": "#/$defs/A"}]}, {"anyOf": [TEXT]}]},
        ),
        ({"$ref": "#/definitions/A"}, {"$ref": "#/$defs/A"}),
        ({"definitions": {"A": {"const": 1}}, **TEXT}, {"$defs": {"A": {"enum": [1]}}, **TEXT}),
        ({"allOf": [TEXT], "description": "x"}, {"type": "string", "description": "x"}),
        ({"allOf": [{**TEXT, "description": "y"}], "description": "x"}, {"type": "string", "description": "x"}),
        (
            {"allOf": [{"$ref": "#/definitions/A"}], "description": "x"},
            {"anyOf": [{"$ref": "#/$defs/A"}], "description": "x"},
        ),
        (
            {
                "allOf": [
                    {"properties": {"a": TEXT}, "required": ["a"]},
                    {"properties": {"b": TEXT}, "required": ["b", "a"]},
                ]
            },
            {"properties": {"a": TEXT, "b": TEXT}, "required": ["a", "b"]},
        ),
        ({"items": {"const": 1}}, {"items": {"enum": [1]}}),
        ({"prefixItems": [{"const": 1}, True]}, {"prefixItems": [{"enum": [1]}, True]}),
        ({"not": {"const": 1}}, {"not": {"enum": [1]}}),
    ],
)
def test_equivalent_keywords_are_replaced_by_supported_ones(schema: Json, form: Json) -> None:
    assert as_json(schema) == form


@pytest.mark.parametrize(
    "members",
    [
        [{"minLength": 1}, {"minLength": 2}],
        [{"$ref": "#/$defs/A"}, TEXT],
        [{"additionalProperties": False}, {"properties": {"b": TEXT}}],
        [{"properties": {"a": TEXT}}, {"properties": {"a": NUMBER}}],
        ["x"],
        "x",
    ],
)
def test_incompatible_all_of_members_are_not_merged(members: object) -> None:
    assert as_json({"allOf": members}) == {"allOf": members}


def test_a_schema_that_is_nested_too_deeply_is_sent_unchanged() -> None:
    schema: Json = dict(TEXT)
    for _ in range(100):
        schema = {"type": "object", "properties": {"a": schema}}
    assert json_form(schema) == schema


# --- The message of fixed fields ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "form"),
    [
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
        ({"type": ["null"]}, {"nullable": True, "type": "null"}),
        (
            {"type": ["string", "array"], "items": NUMBER, "minLength": 1},
            {"anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "items": NUMBER}]},
        ),
        ({"anyOf": [TEXT, {"type": "null"}]}, {"anyOf": [TEXT, {"type": "null"}]}),
        ({"oneOf": [TEXT, NUMBER]}, {"anyOf": [TEXT, NUMBER]}),
        ({"anyOf": [TEXT], "description": "x"}, {"type": "string", "description": "x"}),
        ({"const": "x"}, {"type": "string", "enum": ["x"]}),
        ({"enum": ["x", None]}, {"type": "string", "enum": ["x"], "nullable": True}),
        ({"enum": [1, 2]}, {"type": "integer", "description": "(one of: 1, 2)"}),
        ({"enum": [1, 2.5]}, {"type": "string", "description": "(one of: 1, 2.5)"}),
        ({"enum": [0.5]}, {"type": "number", "description": "(one of: 0.5)"}),
        ({"enum": [True]}, {"type": "boolean", "description": "(one of: true)"}),
        ({"type": "string", "enum": ["", "x"]}, {"type": "string", "description": '(one of: "", "x")'}),
        ({"const": 3, "description": "n"}, {"type": "integer", "description": "n (one of: 3)"}),
        ({"type": "string", "format": "email"}, {"type": "string", "description": "(format: email)"}),
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        ({"type": "integer", "format": "int64"}, {"type": "integer", "format": "int64"}),
        ({"type": "integer", "exclusiveMinimum": 0}, {"type": "integer", "minimum": 1}),
        (
            {"type": "number", "exclusiveMaximum": 9, "multipleOf": 2},
            {"type": "number", "maximum": 9, "description": "(multipleOf: 2; exclusiveMaximum: 9)"},
        ),
        ({"type": "array", "items": {"const": "x"}}, {"type": "array", "items": {"type": "string", "enum": ["x"]}}),
        (
            {"type": "array", "prefixItems": [TEXT, TEXT]},
            {
                "type": "array",
                "items": TEXT,
                "description": '(in this order: [{"type":"string"},{"type":"string"}])',
            },
        ),
        (
            {"type": "object", "properties": {"b": TEXT}, "additionalProperties": False, "$comment": "x", "x-order": 1},
            {"type": "object", "properties": {"b": TEXT}},
        ),
        ({"properties": {"b": TEXT}}, {"type": "object", "properties": {"b": TEXT}}),
        (
            {"type": "object", "properties": {"b": TEXT}, "additionalProperties": True},
            {"type": "object", "properties": {"b": TEXT}, "description": "(further properties: true)"},
        ),
        ({"allOf": [TEXT, {"minLength": 1}]}, {"type": "string", "minLength": 1}),
        ({"type": "STRING", "nullable": True}, {"type": "STRING", "nullable": True}),
    ],
)
def test_a_schema_is_converted_to_openapi_fields(schema: Json, form: Json) -> None:
    assert as_openapi(schema) == form


def test_definitions_are_inlined_in_the_openapi_form() -> None:
    schema = {
        **inside({"$ref": "#/$defs/A~1b", "description": "mine"}),
        "$defs": {
            "A/b": {"allOf": [{"$ref": "#/definitions/C"}], "title": "A"},
            "C": {**TEXT, "description": "theirs"},
        },
    }
    assert openapi_form(schema)["properties"]["a"] == {"type": "string", "title": "A", "description": "mine"}
    twice: Json = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "#/$defs/A"}},
        "$defs": {"A": TEXT},
    }
    assert openapi_form(twice)["properties"] == {"a": TEXT, "b": TEXT}


def test_an_object_without_properties_is_allowed_at_the_root() -> None:
    assert openapi_form({"type": "object", "properties": {}}) == {"type": "object", "properties": {}}
    assert openapi_form({"type": "object"}) == {"type": "object"}


NODE: Json = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}


@pytest.mark.parametrize(
    ("schema", "keyword", "path"),
    [
        ({**inside({"$ref": "#/$defs/Node"}), "$defs": {"Node": NODE}}, "$ref", "a.next"),
        (inside({"$ref": "#/$defs/Nowhere"}), "$ref", "a"),
        (inside({"$ref": "https://example.com/schema"}), "$ref", "a"),
        (inside({}), "type", "a"),
        (inside({"description": "anything"}), "type", "a"),
        ({"type": "object", "properties": {"a": True}}, "type", "a"),
        ({"type": "object", "properties": {"a": False}}, "false", "a"),
        (inside({"not": TEXT}), "not", "a"),
        ({**inside(TEXT), "if": {}, "then": {}}, "if", ""),
        (inside({"type": "object", "patternProperties": {"^x": TEXT}}), "patternProperties", "a"),
        (inside({"type": "object", "additionalProperties": TEXT}), "additionalProperties", "a"),
        (inside({"type": "array"}), "items", "a"),
        (inside({"allOf": [{"minLength": 1}, {"minLength": 2}]}), "allOf", "a"),
        (inside({"allOf": "x"}), "type", "a"),
        (inside({"anyOf": [TEXT], "oneOf": [NUMBER]}), "oneOf", "a"),
        (inside({"type": ["string", "integer"], "anyOf": [TEXT]}), "type", "a"),
        (inside({"type": "array", "items": {}}), "type", "a.items"),
        (inside({"anyOf": []}), "type", "a"),
    ],
)
def test_a_schema_without_an_openapi_form_raises_with_keyword_and_path(schema: Json, keyword: str, path: str) -> None:
    with pytest.raises(InexpressibleError) as error:
        openapi_form(schema)
    assert (error.value.keyword, error.value.path) == (keyword, path)
    assert f"`{keyword}` at {path or 'the root'}" in str(error.value)


def test_a_percent_encoded_reference_is_resolved() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/Box%5Bint%5D"}},
        "$defs": {"Box[int]": {"type": "integer"}},
    }
    assert openapi_form(schema) == {"type": "object", "properties": {"a": {"type": "integer"}}}


def test_a_list_of_items_schemas_is_rejected_by_keyword() -> None:
    with pytest.raises(InexpressibleError, match="`items` at a"):
        openapi_form({"type": "object", "properties": {"a": {"type": "array", "items": [{"type": "string"}]}}})
