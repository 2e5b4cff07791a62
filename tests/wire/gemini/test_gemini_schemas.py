"""Schemas that the vendor accepted are sent unchanged.

Refused schemas are rewritten, or raise an error that names the keyword.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final, cast

import pytest
from chat_core.errors import UnsupportedOptionError
from chat_core.messages import Messages
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS, OutputSchema, ToolDeclaration, ToolDeclarations
from chat_gemini.codec import encode
from chat_gemini.options import Dialect, Schemas

from ..exchanges import ROOT, require_wire
from ..listed import judge, read_listed
from ..normalise import Json, Object
from ..recordings import suite
from .normalise import differences
from .rebuild import plain_schema

require_wire()

PAGE = ROOT / "docs" / "differences-gemini.md"
ROWS: Final = suite("schema_acceptance.jsonl", "generate-content")
ACCEPTED: Final = [row for row in ROWS if row["accepted"]]
REFUSED: Final = [row for row in ROWS if not row["accepted"]]


def _form(row: Object) -> Schemas:
    return "json" if "json" in str(row["where"]).lower() else "openapi"


def _sent(schema: Object, schemas: Schemas, *, output: bool) -> Object:
    """Return the schema as it is sent for structured output or for a tool."""
    dialect = Dialect(model="m", schemas=schemas)
    tools, wanted = NO_TOOLS, None
    if output:
        wanted = OutputSchema("answer", schema)
    else:
        tools = ToolDeclarations([ToolDeclaration("answer", "", schema)])
    body = json.loads(encode(Messages.from_user("?"), tools, ChatOptions(), wanted, dialect=dialect))
    place = body["generationConfig"] if output else body["tools"][0]["functionDeclarations"][0]
    fields = ("responseJsonSchema", "responseSchema", "parametersJsonSchema", "parameters")
    return cast("Object", next(place[field] for field in fields if field in place))


def _as_body(schema: Object, schemas: Schemas) -> Object:
    return {"generationConfig": {"responseJsonSchema" if schemas == "json" else "responseSchema": schema}}


def test_accepted_schemas_are_sent_equivalently_except_listed_differences() -> None:
    found = dict[str, list[str]]()
    for row in ACCEPTED:
        given, form = cast("Object", row["schema"]), _form(row)
        ours = _sent(plain_schema(given), form, output=str(row["where"]).startswith("response"))
        unlike = differences(_as_body(given, form), _as_body(ours, form))
        found[str(row["from"])] = [str(difference) for difference in unlike]
    wrong = judge(found, read_listed("Schemas", PAGE))
    assert not wrong, "\n".join(wrong)
    assert len(ACCEPTED) >= 97


def test_a_rejected_schema_is_rewritten_or_refused_before_sending() -> None:
    for row in REFUSED:
        given, form = cast("Object", row["schema"]), _form(row)
        try:
            ours = _sent(plain_schema(given), form, output=str(row["where"]).startswith("response"))
        except UnsupportedOptionError:
            continue
        if form == "openapi":
            assert list(_faults(ours)) == [], row["from"]


# --- Keywords of the older fields, from the API reference ---------------------------------------------------

FIELDS: Final = frozenset(
    {
        "type", "format", "title", "description", "nullable", "default", "items", "minItems", "maxItems", "enum",
        "properties", "propertyOrdering", "required", "minProperties", "maxProperties", "minimum", "maximum",
        "minLength", "maxLength", "pattern", "example", "anyOf",
    }
)  # fmt: skip


def _nodes(schema: Json) -> Iterator[Object]:
    """Yield every schema within a schema."""
    if isinstance(schema, dict):
        yield schema
        for inner in cast("Object", schema.get("properties", {})).values():
            yield from _nodes(inner)
        for inner in cast("list[Json]", schema.get("anyOf", [])):
            yield from _nodes(inner)
        yield from _nodes(schema.get("items"))


def _faults(schema: Object) -> Iterator[str]:
    """Return the reasons for which the server would refuse a schema in the older fields."""
    for node in _nodes(schema):
        yield from [f"{key} is no field" for key in node if key not in FIELDS]
        if not isinstance(node.get("type", "string"), str):
            yield "a type is one type"
        if not node.keys() & {"type", "anyOf"}:
            yield "a type is missing"
        if node.get("type") == "array" and "items" not in node:
            yield "items are missing"
        if not all(isinstance(value, str) and value for value in cast("list[Json]", node.get("enum", []))):
            yield "an enumeration holds texts"
        if node.get("type") == "string" and node.get("format", "enum") not in {"enum", "date-time"}:
            yield f"{node['format']} is no format of texts"
        if node.get("type") == "object" and not node.get("properties") and node is not schema:
            yield "an object has no properties"


def _with(**keywords: Json) -> Object:
    inner: Object = {"type": "string", **keywords}
    return {"type": "object", "properties": {"title": inner}, "required": ["title"]}


TEXT: Final[Object] = {"type": "string"}
ROOT_NODE: Final[Object] = {
    "$ref": "#/$defs/Node",
    "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}},
}
HARD: Final[tuple[tuple[str, Object], ...]] = (
    ("nullable by a list", _with(type=["string", "null"])),
    ("several types", _with(type=["string", "integer", "array"], items=TEXT)),
    ("a constant", _with(const="x")),
    ("a constant number", {"type": "object", "properties": {"n": {"const": 3}}}),
    ("an enumeration of numbers", _with(type="integer", enum=[1, 2])),
    ("an enumeration with null", _with(enum=["a", None])),
    ("an enumeration with nothing in it", _with(enum=["", "a"])),
    ("a format", _with(format="email")),
    ("exclusive bounds", _with(type="integer", exclusiveMinimum=0, exclusiveMaximum=10)),
    ("exclusive bounds of numbers", _with(type="number", exclusiveMinimum=0)),
    ("multipleOf", _with(type="number", multipleOf=2)),
    ("oneOf", _with(type="object", oneOf=[TEXT, {"type": "integer"}])),
    ("anyOf with null", {"type": "object", "properties": {"a": {"anyOf": [TEXT, {"type": "null"}]}}}),
    ("allOf of one", {"type": "object", "properties": {"a": {"allOf": [TEXT], "description": "x"}}}),
    ("allOf of two", {"type": "object", "properties": {"a": {"allOf": [{"minLength": 1}, {"maxLength": 2, **TEXT}]}}}),
    ("a map", _with(type="object", additionalProperties=TEXT)),
    ("anything", {"type": "object", "properties": {"a": {}}}),
    ("a tuple", _with(type="array", prefixItems=[TEXT, {"type": "integer"}])),
    ("an array of anything", _with(type="array")),
    ("a closed object", {**_with(), "additionalProperties": False, "$schema": "https://x"}),
    ("not", _with(**{"not": TEXT})),
    ("a condition", {**_with(), "if": {}, "then": {}}),
    ("pattern properties", {**_with(), "patternProperties": {"^x": TEXT}}),
    ("a definition", {**_with(**{"$ref": "#/$defs/A"}), "$defs": {"A": {"type": "string", "minLength": 1}}}),
    ("an old definition", {**_with(**{"$ref": "#/definitions/A"}), "definitions": {"A": TEXT}}),
    ("a recursion", ROOT_NODE),
    ("a reference to nowhere", _with(**{"$ref": "#/$defs/Nowhere"})),
)


@pytest.mark.parametrize("output", [True, False], ids=["answer", "tool"])
@pytest.mark.parametrize(("name", "schema"), HARD, ids=[name for name, _ in HARD])
def test_a_schema_without_an_openapi_form_is_refused_with_its_keyword(name: str, schema: Object, output: bool) -> None:
    try:
        ours = _sent(schema, "openapi", output=output)
    except UnsupportedOptionError as error:
        named = str(error).split("`")[1]
        assert named in json.dumps(schema) or named in {"type", "items", "additionalProperties"}, name
        return
    assert list(_faults(ours)) == [], name


@pytest.mark.parametrize("output", [True, False], ids=["answer", "tool"])
@pytest.mark.parametrize(("name", "schema"), HARD, ids=[name for name, _ in HARD])
def test_the_json_schema_form_keeps_all_properties(name: str, schema: Object, output: bool) -> None:
    ours = _sent(schema, "json", output=output)
    assert list(cast("Object", ours.get("properties", {}))) == list(cast("Object", schema.get("properties", {}))), name
    assert "definitions" not in ours
