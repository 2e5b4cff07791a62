"""Tools declared by a JSON Schema, checked at registration, and their arguments, checked at each call."""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from chat_core.errors import UsageError
from chat_core.messages import File
from chat_core.tools import InvalidArgumentsError, SchemaChecker, ToolContext, ToolDefinition, ToolOptions, declare_raw

CONTEXT = ToolContext("call_1")
SCHEMA: dict[str, object] = {
    "type": "object",
    "description": "Sends money.",
    "properties": {
        "to": {"type": "string", "format": "email"},
        "lines": {
            "type": "array",
            "items": {"type": "object", "properties": {"cents": {"type": "integer", "minimum": 1}}},
        },
        "mode": {"enum": ["slow", "fast"], "default": "slow"},
    },
    "required": ["to"],
    "additionalProperties": False,
}


def echo(arguments: dict[str, Any]) -> Any:
    return arguments


def raw(schema: dict[str, object], handler: Any = echo) -> ToolDefinition:
    return declare_raw("raw", schema, handler, ToolOptions())


def problems_of(arguments: dict[str, object]) -> list[str]:
    with pytest.raises(InvalidArgumentsError) as caught:
        raw(SCHEMA).validate(arguments)
    return [line.removeprefix("- ") for line in str(caught.value).splitlines()[1:]]


def test_declaration_of_a_raw_tool_contains_the_schema_unchanged() -> None:
    declaration = raw(SCHEMA).declaration
    assert (declaration.name, declaration.description) == ("raw", "Sends money.")
    assert declaration.parameters == SCHEMA
    assert list(declaration.parameters) == list(SCHEMA)


def test_description_of_a_raw_tool_can_be_replaced_or_empty() -> None:
    assert declare_raw("raw", SCHEMA, echo, ToolOptions(description="Mine.")).declaration.description == "Mine."
    assert raw({"type": "object"}).declaration.description == ""


def test_changing_the_schema_after_registration_has_no_effect() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}
    tool = raw(schema)
    schema["properties"]["a"]["type"] = "string"
    assert tool.validate({"a": 5}) == {"a": 5}
    assert cast("Any", tool.declaration.parameters)["properties"]["a"] == {"type": "integer"}


def test_arguments_of_a_raw_tool_are_validated_without_adding_defaults() -> None:
    arguments = {"to": "not an address: format is an annotation", "lines": [{"cents": 5}]}
    tool = raw(SCHEMA)
    assert tool.validate(arguments) == arguments
    assert tool.validate(tool.validate(arguments)) == arguments


def test_problem_of_a_raw_tool_gives_path_constraint_and_value() -> None:
    assert problems_of({"lines": [{"cents": 5}, {"cents": 0}], "mode": "now", "x": 1}) == [
        "lines[1].cents: 0 is less than the minimum of 1",
        "mode: 'now' is not one of ['slow', 'fast']",
        "the arguments: 'to' is a required property",
        "the arguments: Additional properties are not allowed ('x' was unexpected)",
    ]


def test_many_or_long_problems_of_a_raw_tool_are_truncated() -> None:
    schema: dict[str, object] = {"type": "object", "additionalProperties": {"type": "integer"}}
    with pytest.raises(InvalidArgumentsError) as caught:
        raw(schema).validate({f"key_{index}": "x" * 1000 for index in range(50)})
    lines = str(caught.value).splitlines()
    assert (len(lines), lines[-1]) == (7, "- and 45 more")
    assert all(len(line) < 250 for line in lines)


@pytest.mark.parametrize("value", [math.nan, object(), {1}])
def test_argument_of_a_raw_tool_that_is_not_json_raises(value: object) -> None:
    with pytest.raises(InvalidArgumentsError, match="The arguments are not JSON"):
        raw({"type": "object"}).validate({"a": value})


def test_handler_receives_a_copy_of_the_arguments_and_the_context() -> None:
    arguments: dict[str, object] = {"lines": [1]}

    def spoil(given: dict[str, Any], *, ctx: ToolContext) -> str:
        given["lines"].append(2)
        return ctx.tool_id

    assert raw({"type": "object"}, spoil).run(arguments, CONTEXT) == "call_1"
    assert arguments == {"lines": [1]}

    def first(ctx: ToolContext, given: dict[str, Any]) -> Any:
        return given, ctx

    assert raw({"type": "object"}, first).run(arguments, CONTEXT) == (arguments, CONTEXT)


def test_raw_tool_handles_coroutines_and_results_like_a_function_tool() -> None:
    async def later(given: dict[str, Any]) -> Any:
        return given

    file = File("image/png", data=b"1")
    tool = raw({"type": "object"}, later)
    assert (tool.blocking, raw({"type": "object"}).blocking) == (False, True)
    assert tool.result(file) == ("[file, image/png]", (file,))
    assert (tool.timeout, tool.idempotent, tool.sequential) == (None, False, False)


def none() -> None: ...


def two(a: dict[str, Any], b: int) -> None: ...


def spread(**arguments: Any) -> None: ...


@pytest.mark.parametrize(
    ("handler", "reason"),
    [
        (none, "not no arguments"),
        (two, "not a, b"),
        (spread, "names? every parameter|not arguments"),
        (5, "must be a function"),
    ],
)
def test_handler_that_does_not_take_one_mapping_raises(handler: Any, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        raw({"type": "object"}, handler)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({}, 'must have "type": "object"'),
        ({"type": "array"}, 'must have "type": "object"'),
        ([], "must be a JSON Schema of an object"),
        ({"type": "object", "default": {1}}, "is not JSON"),
        ({"type": "object", "properties": {"a": {"type": "number!"}}}, r"not valid at properties\.a\.type: 'number!'"),
        ({"type": "object", "properties": {"a": {"minimum": "1"}}}, r"not valid at properties\.a\.minimum"),
        ({"type": "object", "required": "a"}, "not valid at required"),
        ({"type": "object", "properties": {"a": {"pattern": "("}}}, r"not valid at properties\.a\.pattern"),
        ({"type": "object", "$schema": "https://example.org/mine"}, "'https://example.org/mine' is not known"),
        ({"type": "object", "$schema": 5}, "5 is not known"),
        (
            {"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}},
            r"refers to '#/\$defs/b', which it does not contain",
        ),
        ({"type": "object", "allOf": [{"$ref": "other.json"}]}, "refers to 'other.json'"),
    ],
)
def test_invalid_schema_raises_at_registration(schema: Any, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        raw(schema)


def test_remote_references_are_not_fetched() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"
        with pytest.raises(UsageError, match="nothing is fetched"):
            raw({"type": "object", "properties": {"a": {"$ref": url}}})
        with pytest.raises(UsageError, match="is not known"):
            raw({"type": "object", "$schema": url})
        with pytest.raises(BlockingIOError):
            server.accept()


def test_references_within_the_schema_and_to_the_drafts_are_resolved() -> None:
    tool = raw(
        {
            "type": "object",
            "properties": {
                "node": {"$ref": "#/$defs/node"},
                "schema": {"$ref": "https://json-schema.org/draft/2020-12/schema"},
            },
            "$defs": {
                "node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "n": {"type": "integer"}}}
            },
        }
    )
    tool.validate({"node": {"next": {"next": {"n": 5}}}, "schema": {"type": "string"}})
    with pytest.raises(InvalidArgumentsError, match=r"node\.next\.next\.n: 'x' is not of type 'integer'"):
        tool.validate({"node": {"next": {"next": {"n": "x"}}}})
    with pytest.raises(InvalidArgumentsError, match=r"schema\.type"):
        tool.validate({"schema": {"type": "strange"}})


def test_older_draft_is_used_if_the_schema_names_it() -> None:
    schema: dict[str, object] = {
        "type": "object",
        "properties": {"pair": {"items": [{"type": "integer"}, {"type": "string"}]}},
    }
    seventh = raw({"$schema": "http://json-schema.org/draft-07/schema#", **schema})
    seventh.validate({"pair": [1, "a"]})
    with pytest.raises(InvalidArgumentsError, match=r"pair\[1\]: 2 is not of type 'string'"):
        seventh.validate({"pair": [1, 2]})
    with pytest.raises(UsageError, match=r"not valid at properties\.pair\.items"):
        raw(schema)


def test_circular_reference_is_reported_as_nested_too_deeply() -> None:
    assert SchemaChecker({"$ref": "#"}).problems({}) == ["the arguments: nested too deep to be checked"]


def test_schema_checker_resolves_references_to_passed_resources() -> None:
    checker = SchemaChecker({"$ref": "https://example.org/n"}, resources={"https://example.org/n": {"type": "integer"}})
    assert checker.problems(5) == []
    assert checker.problems("5") == ["the arguments: '5' is not of type 'integer'"]


def test_jsonschema_is_imported_with_the_first_raw_schema() -> None:
    code = (
        "import sys, chat_core.tools as tools; before = 'jsonschema' in sys.modules\n"
        "tools.ToolCollection().register('raw', {'type': 'object'}, print_ := lambda arguments: None)\n"
        "sys.exit(before or 'jsonschema' not in sys.modules)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=env, check=False, cwd=Path(__file__).parent).returncode == 0


@pytest.mark.parametrize(
    ("schema", "document", "problem"),
    [
        (
            {"multipleOf": 0.1},
            10**400,
            "the arguments: they could not be checked (OverflowError: int too large to convert to float)",
        ),
        ({"$ref": "#"}, 1, "the arguments: nested too deep to be checked"),
        (
            {"items": {"$ref": "#"}},
            json.loads("[" * 900 + "]" * 900),
            "the arguments: nested too deep to be checked",
        ),
    ],
)
def test_document_that_cannot_be_checked_is_reported_as_a_problem(
    schema: dict[str, object], document: object, problem: str
) -> None:
    assert SchemaChecker(schema).problems(document) == [problem]


def deep_schema() -> dict[str, object]:
    schema: dict[str, object] = {}
    for _ in range(700):
        schema = {"items": schema}
    return schema


@pytest.mark.parametrize("schema", [deep_schema(), {"$ref": "http://[x"}])
def test_schema_that_cannot_be_used_raises_usage_error(schema: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=r"the schema (cannot be used|refers to)"):
        SchemaChecker(schema)
