"""Schemas that a server can enforce while it writes.

With `strict`, servers demand a part of JSON Schema: a root that is an object, objects that are closed and whose
properties are all required, and few keywords. A schema is rewritten to that form where every value of the new schema is
a value of the old one, or would be but for a bound that the server cannot enforce; such a bound moves to the
description, where the model reads it, and the answer is validated anyway. Where that cannot be done there is no strict
form, and the original is sent without `strict`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from chat_core.json import dumps
from chat_core.wire.shapes import Json, is_list, is_mapping, mapping

KEPT: Final = frozenset(
    {
        "type",
        "enum",
        "const",
        "description",
        "title",
        "$ref",
        "$defs",
        "definitions",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "anyOf",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minItems",
        "maxItems",
    }
)
"""What goes over as it is, or is handled below."""

FORMATS: Final = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
"""The formats that servers enforce; they refuse any other one."""

LOOKAROUND: Final = re.compile(r"\(\?<?[=!]")
"""What servers cannot compile in a pattern."""

SPOKEN: Final = frozenset(
    {
        "default",
        "examples",
        "format",
        "pattern",
        "minLength",
        "maxLength",
        "uniqueItems",
        "contentEncoding",
        "contentMediaType",
    }
)
"""What some server refuses and the model can read: said in the description."""

SAID: Final = frozenset({"title", "description", "default", "examples"})
"""What does not bound the values."""

SILENT: Final = frozenset({"$schema", "$id", "$comment", "deprecated", "readOnly", "writeOnly", "discriminator"})
"""What says nothing about the values."""


DEEPEST: Final = 64
"""No server that enforces schemas takes deeper ones."""


class _InexpressibleError(Exception):
    """The schema has no strict form."""


def strict_schema(schema: Mapping[str, object]) -> Json | None:
    """The strict form of a schema; `None` where it has none."""
    try:
        strict = _rewrite(_root(schema), depth=0)
    except _InexpressibleError:
        return None
    return strict if strict.get("type") == "object" and "anyOf" not in strict else None


def requires_all(schema: Mapping[str, object]) -> bool:
    """Whether every object in a schema says that it requires all its properties: its strict form asks for no more."""
    properties, required = schema.get("properties"), schema.get("required")
    inner: list[object] = [schema.get("items")]
    if is_mapping(properties):
        if not is_list(required) or not set(properties) <= set(required):
            return False
        inner += properties.values()
    for place in ("$defs", "definitions"):
        if is_mapping(items := schema.get(place)):
            inner += items.values()
    for key in ("anyOf", "oneOf", "allOf"):
        if is_list(items := schema.get(key)):
            inner += items
    return all(requires_all(item) for item in inner if is_mapping(item))


def _root(schema: Mapping[str, object]) -> Mapping[str, object]:
    """The schema with a reference at its root resolved: a recursive model is written so, and servers want an object."""
    name = schema.get("$ref")
    if not isinstance(name, str):
        return schema
    for place in ("$defs", "definitions"):
        found = mapping(schema.get(place)).get(name.removeprefix(f"#/{place}/"))
        if is_mapping(found):
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            return _both(rest, found)
    raise _InexpressibleError


def _rewrite(schema: object, depth: int) -> Json:
    if not is_mapping(schema) or depth > DEEPEST:
        raise _InexpressibleError
    strict, spoken = _sort(_inline(schema))
    for place in ("$defs", "definitions"):
        if place in strict:
            strict[place] = {name: _rewrite(item, depth + 1) for name, item in _object(strict[place]).items()}
    if "$ref" in strict:
        # A reference stands alone: servers refuse any keyword beside it.
        return {key: strict[key] for key in ("$ref", "$defs", "definitions") if key in strict}
    if "anyOf" in strict:
        strict["anyOf"] = [_rewrite(item, depth + 1) for item in _list(strict["anyOf"])]
    if "items" in strict:
        strict["items"] = _rewrite(strict["items"], depth + 1)
    elif _may_be("array", strict):
        raise _InexpressibleError  # of anything at all
    if _is_object(strict):
        _close(strict, depth)
    if not strict.keys() & {"type", "enum", "const", "anyOf"}:
        raise _InexpressibleError  # anything at all
    return _say(strict, spoken)


def _sort(source: Mapping[str, object]) -> tuple[Json, list[str]]:
    """What goes over, and what is said of the rest."""
    strict: Json = {}
    spoken: list[str] = []
    for key, value in source.items():
        if key in KEPT or _enforced(key, value):
            strict[key] = value
        elif key in SPOKEN:
            spoken.append(f"{key}: {dumps(value)}")
        elif key not in SILENT:
            raise _InexpressibleError
    return strict, spoken


def _enforced(key: str, value: object) -> bool:
    """Whether servers enforce a bound on texts, which depends on what it says."""
    if key == "format":
        return isinstance(value, str) and value in FORMATS
    return key == "pattern" and isinstance(value, str) and LOOKAROUND.search(value) is None


def _inline(source: Mapping[str, object]) -> Mapping[str, object]:
    """`allOf` of one schema is that schema; `oneOf` is taken as `anyOf`, since the answer is validated anyway."""
    if "allOf" in source:
        items = _list(source["allOf"])
        if len(items) != 1:
            raise _InexpressibleError
        source = _both(_object(items[0]), {key: value for key, value in source.items() if key != "allOf"})
    if "oneOf" in source:
        if "anyOf" in source:
            raise _InexpressibleError
        source = {("anyOf" if key == "oneOf" else key): value for key, value in source.items()}
    return source


def _both(first: Mapping[str, object], second: Mapping[str, object]) -> Mapping[str, object]:
    """Two schemas as one, the words of the second one; where both bound the same, neither may be left out."""
    if any(first[key] != second[key] for key in first.keys() & second.keys() - SAID):
        raise _InexpressibleError
    return {**first, **second}


def _is_object(schema: Json) -> bool:
    return "properties" in schema or _may_be("object", schema)


def _may_be(kind: str, schema: Json) -> bool:
    said = schema.get("type")
    return said == kind or (is_list(said) and kind in said)


def _close(schema: Json, depth: int) -> None:
    """Close an object and require all its properties. One whose names the schema does not say has no strict form."""
    properties = _object(schema.get("properties", {}))
    further = schema.get("additionalProperties", "properties" not in schema)
    if not isinstance(further, bool) or (further and not properties):
        raise _InexpressibleError
    schema.setdefault("type", "object")
    schema["properties"] = {name: _rewrite(item, depth + 1) for name, item in properties.items()}
    schema["required"] = list(properties)
    schema["additionalProperties"] = False


def _say(strict: Json, spoken: list[str]) -> Json:
    if spoken:
        said = f"({'; '.join(spoken)})"
        description = strict.get("description")
        strict["description"] = f"{description} {said}" if isinstance(description, str) and description else said
    return strict


def _object(value: object) -> Mapping[str, object]:
    if is_mapping(value):
        return value
    raise _InexpressibleError


def _list(value: object) -> list[object]:
    if is_list(value):
        return value
    raise _InexpressibleError
