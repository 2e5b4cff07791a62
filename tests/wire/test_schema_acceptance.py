"""Schemas that vendors accepted are sent unchanged.

Refused schemas are rewritten until the reason for the refusal is removed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final, cast

import pytest
from chat_completions.codec import encode
from chat_completions.options import Dialect
from chat_core.messages import Messages
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS, OutputSchema, ToolDeclaration, ToolDeclarations

from .exchanges import require_wire, rows
from .listed import judge, read_listed
from .normalise import Json, Object, differences
from .rebuild import ANY_SCHEMA

require_wire()

ROWS: Final = rows("schema_acceptance.jsonl")
ACCEPTED: Final = [row for row in ROWS if row["accepted"]]
REFUSED: Final = [row for row in ROWS if not row["accepted"]]


def _sent(row: Object) -> Object:
    """Return the recorded request with its schema replaced by the schema of the row."""
    schema = cast("Object", row["schema"])
    strict = row["strict"] is True
    rewrite = row.get("provider") not in ANY_SCHEMA
    dialect = Dialect(model="m", strict_output=strict, strict_tools=strict, strict_rewrite=rewrite)
    tools, output = NO_TOOLS, None
    if row["where"] == "response_format":
        output = OutputSchema("answer", schema)
    else:
        tools = ToolDeclarations([ToolDeclaration("answer", "", schema)])
    body = encode(Messages.from_user("?"), tools, ChatOptions(), output, dialect=dialect, stream=False)
    return cast("Object", json.loads(body))


def _carrier(row: Object, body: Object) -> Object:
    """Return the object that contains the schema and the flag `strict`."""
    if row["where"] == "response_format":
        return cast("Object", cast("Object", body["response_format"])["json_schema"])
    return cast("Object", cast("Object", cast("list[Json]", body["tools"])[0])["function"])


def _schema(row: Object) -> Object:
    carrier = _carrier(row, _sent(row))
    return cast("Object", carrier.get("schema", carrier.get("parameters")))


def _as_body(schema: Object, *, strict: bool) -> Object:
    named: Object = {"name": "answer", "schema": schema, "strict": strict}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def test_accepted_schemas_are_sent_equivalently_except_listed_differences() -> None:
    found = dict[str, list[str]]()
    for row in ACCEPTED:
        strict = _carrier(row, _sent(row)).get("strict") is True
        given = _as_body(cast("Object", row["schema"]), strict=row["strict"] is True)
        ours = _as_body(_schema(row), strict=strict)
        found[str(row["from"])] = [
            re.sub(r"^response_format\.json_schema\.", "", str(difference)) for difference in differences(given, ours)
        ]
    wrong = judge(found, read_listed("Schemas"))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: str(row["from"]))
def test_a_rejected_schema_is_rewritten_without_the_rejected_keyword(row: Object) -> None:
    carrier = _carrier(row, _sent(row))
    if carrier.get("strict") is not True:
        return  # the schema is not enforced then, and any schema is taken
    schema = _schema(row)
    assert list(_faults(schema)) == []
    message = str(cast("Object", row["error"])["message"])
    if unwanted := re.search(r"'(\w+)' is not permitted", message):
        assert unwanted[1] not in _keywords(schema)


# --- Rules of strict servers, from the guide to structured outputs ----------------------------------------------------

OUTLINE: Final = frozenset(
    {"type", "title", "description", "enum", "const", "anyOf", "items", "properties", "required"}
)
PERMITTED: Final = OUTLINE | frozenset(
    {
        "$defs",
        "$ref",
        "$schema",
        "additionalProperties",
        "definitions",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "maxItems",
        "maximum",
        "minItems",
        "minimum",
        "multipleOf",
        "pattern",
        "required",
    }
)
FORMATS: Final = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})


def _nodes(schema: Json) -> Iterator[Object]:
    """Yield every schema within a schema."""
    if not isinstance(schema, dict):
        return
    yield schema
    for key in ("properties", "$defs", "definitions"):
        for inner in cast("Object", schema.get(key, {})).values():
            yield from _nodes(inner)
    for inner in cast("list[Json]", schema.get("anyOf", [])):
        yield from _nodes(inner)
    yield from _nodes(schema.get("items"))


def _keywords(schema: Json) -> set[str]:
    return {key for node in _nodes(schema) for key in node}


def _faults(schema: Object) -> Iterator[str]:
    """Return the reasons for which a strict server would refuse a schema."""
    if schema.get("type") != "object" or "anyOf" in schema:
        yield "the root is no object"
    for node in _nodes(schema):
        yield from [f"{key} is not permitted" for key in node if key not in PERMITTED]
        if node.get("format", "date") not in FORMATS:
            yield f"{node['format']} is no known format"
        if "$ref" in node and not node.keys() <= {"$ref", "$defs", "definitions"}:
            yield "$ref has something beside it"
        if node.get("type") == "object" or "properties" in node:
            if node.get("additionalProperties") is not False:
                yield "an object is open"
            if sorted(cast("list[str]", node.get("required", []))) != sorted(
                cast("Object", node.get("properties", {}))
            ):
                yield "not every property is required"


def _row(schema: Object, where: str = "response_format") -> Object:
    return {"schema": schema, "strict": True, "where": where}


def _with(**keywords: Json) -> Object:
    inner: Object = {"type": "string", **keywords}
    return {"type": "object", "properties": {"a": inner}, "required": ["a"], "additionalProperties": False}


TEXT: Final[Object] = {"type": "string"}
NODE: Final[Object] = {
    "type": "object",
    "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}},
    "required": ["next"],
}

HARD: Final[tuple[tuple[str, Object], ...]] = (
    ("open", {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}),
    ("optional", {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}),
    ("default", _with(default="x")),
    ("unknown format", _with(format="uint8")),
    ("a pattern that looks around", _with(pattern="^(?!x)")),
    ("length", _with(minLength=1, maxLength=9)),
    ("a map", _with(type="object", additionalProperties=TEXT)),
    ("any", {"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": False}),
    ("a pattern of names", _with(type="object", patternProperties={"^x": TEXT})),
    ("not", _with(**{"not": TEXT})),
    ("allOf of one", _with(allOf=[{"description": "x"}])),
    ("allOf of two", _with(allOf=[{"minLength": 1}, {"maxLength": 3}])),
    ("oneOf", _with(oneOf=[{"const": "a"}, {"const": "b"}])),
    ("a condition", {**_with(), "if": {"required": ["a"]}, "then": {"minProperties": 1}}),
    ("prefixItems", _with(type="array", prefixItems=[TEXT])),
    ("uniqueItems", _with(type="array", items=TEXT, uniqueItems=True)),
    ("a root that is an array", {"type": "array", "items": {"type": "string"}}),
    ("a root that is a union", {"anyOf": [_with(), {"type": "null"}]}),
    ("a root that is an object and a union", {**_with(), "anyOf": [_with(), _with(default="x")]}),
    (
        "a described reference",
        {**_with(**{"$ref": "#/$defs/A", "description": "x"}), "$defs": {"A": {"type": "string"}}},
    ),
    ("a recursive root", {"$ref": "#/$defs/Node", "$defs": {"Node": NODE}}),
    ("nullable by another dialect", _with(nullable=True)),
)


@pytest.mark.parametrize("where", ["response_format", "strict-tool"])
@pytest.mark.parametrize(("name", "schema"), HARD, ids=[name for name, _ in HARD])
def test_a_schema_is_sent_as_strict_only_in_the_strict_form(name: str, schema: Object, where: str) -> None:
    row = _row(schema, where)
    carrier = _carrier(row, _sent(row))
    if carrier.get("strict") is True:
        assert list(_faults(_schema(row))) == [], name
    else:
        assert _schema(row) == schema, "what is not enforced goes over as it was written"


@pytest.mark.parametrize("where", ["response_format", "strict-tool"])
def test_a_schema_in_strict_form_is_sent_unchanged(where: str) -> None:
    for row in ACCEPTED:
        schema = cast("Object", row["schema"])
        if not list(_faults(schema)):
            same = differences(_as_body(schema, strict=True), _as_body(_schema(_row(schema, where)), strict=True))
            assert same == [], row["from"]
