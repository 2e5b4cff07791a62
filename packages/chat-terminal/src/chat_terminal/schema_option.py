"""Parsing of the option `--schema`, which requests structured output."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, cast

import click
from chat_core import UsageError
from chat_core.tools import SchemaChecker
from pydantic import AfterValidator, WithJsonSchema

from chat_terminal.models import load_object

_FIELD: Final = re.compile(r"(?P<name>\w+)(?:\s+(?P<type>str|int|float|bool))?(?:\s*:\s*(?P<description>.+))?")
_TYPES: Final = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
_DEFINITION: Final = "#/$defs/"


def load_output(value: str) -> Any:  # noqa: ANN401 - a TypeForm of anything
    """Return the type of the output that a value of `--schema` describes.

    Args:
        value: a JSON Schema or the path of a file with one, `python:MODULE:NAME` for a type, or fields such as
            `name, age int, city: where the person lives`.

    Raises:
        click.UsageError: the value has none of these forms, or the schema cannot be used.
    """
    if value.startswith("python:"):
        return _load_type(value.removeprefix("python:"))
    if value.lstrip().startswith("{"):
        return _from_json(value)
    path = Path(value)
    if path.suffix == ".json" or path.is_file():
        try:
            return _from_json(path.read_text(encoding="utf-8"))
        except OSError as error:
            msg = f"--schema {value} cannot be read: {error.strerror}"
            raise click.UsageError(msg) from error
    return _from_schema(_parse_fields(value))


def _load_type(reference: str) -> Any:  # noqa: ANN401 - as above
    found = load_object(reference)
    if found is None:
        name = reference.rpartition(":")[2]
        msg = f"there is no type {name!r}: pass python:MODULE:NAME, where MODULE is a name or a file"
        raise click.UsageError(msg)
    return found


def _parse_fields(value: str) -> dict[str, object]:
    """Return the JSON Schema of an object with the fields of a short form, one for each comma or line."""
    properties: dict[str, object] = {}
    for text in filter(None, map(str.strip, re.split(r"[,\n]", value))):
        match = _FIELD.fullmatch(text)
        if match is None:
            msg = (
                f"--schema does not accept the field {text!r}: write NAME, NAME TYPE or NAME TYPE: DESCRIPTION with a "
                "type str, int, float or bool; or pass a JSON Schema, the path of a .json file, or python:MODULE:NAME"
            )
            raise click.UsageError(msg)
        field = {"type": _TYPES[match["type"] or "str"]}
        properties[match["name"]] = field | ({"description": match["description"]} if match["description"] else {})
    if not properties:
        msg = '--schema needs at least one field, such as "name, age int"'
        raise click.UsageError(msg)
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _from_json(text: str) -> Any:  # noqa: ANN401 - as above
    try:
        schema: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        msg = f"--schema is not JSON: {error}"
        raise click.UsageError(msg) from error
    if not isinstance(schema, dict) or cast("dict[str, object]", schema).get("type") != "object":
        msg = '--schema needs a JSON Schema with "type": "object"'
        raise click.UsageError(msg)
    return _from_schema(cast("dict[str, object]", schema))


def _from_schema(schema: dict[str, object]) -> Any:  # noqa: ANN401 - as above
    """Return the type of the objects that satisfy a JSON Schema."""
    try:
        checker = SchemaChecker(schema)
    except UsageError as error:
        msg = f"--schema: {error}"
        raise click.UsageError(msg) from error
    definitions = cast("Mapping[str, object]", schema.get("$defs", {}))
    inlined = {key: _inline_references(value, definitions, ()) for key, value in schema.items() if key != "$defs"}

    def check(value: dict[str, object]) -> dict[str, object]:
        problems = checker.problems(value)
        if problems:
            raise ValueError("; ".join(problems))
        return value

    return Annotated[dict[str, Any], AfterValidator(check), WithJsonSchema(inlined)]


def _inline_references(value: object, definitions: Mapping[str, object], outer: tuple[str, ...]) -> object:
    """Return a JSON value with its references replaced by the definitions, because pydantic rejects unknown ones."""
    if isinstance(value, list):
        return [_inline_references(item, definitions, outer) for item in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, object]", value)
    reference = fields.get("$ref")
    if not isinstance(reference, str):
        return {key: _inline_references(item, definitions, outer) for key, item in fields.items()}
    name = reference.removeprefix(_DEFINITION)
    if name in outer or name not in definitions:
        msg = f"--schema may refer only to $defs, and not recursively; it refers to {reference!r}"
        raise click.UsageError(msg)
    others = {key: item for key, item in fields.items() if key != "$ref"}
    return {**cast("dict[str, object]", _inline_references(definitions[name], definitions, (*outer, name))), **others}
