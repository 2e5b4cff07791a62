"""Conversion of JSON Schemas to the strict form that servers can enforce during generation.

With `strict`, servers accept a subset of JSON Schema: the root is an object, objects are closed, all properties are
required, and few keywords are allowed. The strict schema allows no values beyond those of the original schema, except
for constraints that servers cannot enforce. Such a constraint moves to the description, where the model reads it, and
the response is validated later. If a schema has no strict form, the original is sent without `strict`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from chat_core.json import dumps
from chat_core.wire.shapes import Json, is_list, is_mapping, mapping

SUPPORTED: Final = frozenset(
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
"""Keywords that are copied or rewritten."""

FORMATS: Final = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
"""Formats that servers enforce. Schemas with other formats are rejected."""

LOOKAROUND: Final = re.compile(r"\(\?<?[=!]")
"""Lookaround in a regular expression, which servers reject."""

DESCRIBED: Final = frozenset(
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
"""Keywords that some servers reject, and that are moved to the description for the model."""

ANNOTATIONS: Final = frozenset({"title", "description", "default", "examples"})
"""Keywords that describe values without constraining them."""

IGNORED: Final = frozenset({"$schema", "$id", "$comment", "deprecated", "readOnly", "writeOnly", "discriminator"})
"""Keywords that are removed because they do not concern the values."""


MAX_DEPTH: Final = 64
"""Maximum nesting depth of a schema with a strict form."""


class _InexpressibleError(Exception):
    """Error for a schema without a strict form."""


def strict_schema(schema: Mapping[str, object]) -> Json | None:
    """Convert a JSON schema to its strict form. Return None if the schema has none."""
    try:
        strict = _rewrite_schema(_resolve_root(schema), depth=0)
    except _InexpressibleError:
        return None
    return strict if strict.get("type") == "object" and "anyOf" not in strict else None


def requires_all(schema: Mapping[str, object]) -> bool:
    """Return whether every object in a JSON schema requires all its properties, as the strict form demands."""
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


def _resolve_root(schema: Mapping[str, object]) -> Mapping[str, object]:
    """Replace a `$ref` at the root of a schema by its target, because servers require an object at the root."""
    name = schema.get("$ref")
    if not isinstance(name, str):
        return schema
    for place in ("$defs", "definitions"):
        found = mapping(schema.get(place)).get(name.removeprefix(f"#/{place}/"))
        if is_mapping(found):
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            return _merge_schemas(rest, found)
    raise _InexpressibleError


def _rewrite_schema(schema: object, depth: int) -> Json:
    if not is_mapping(schema) or depth > MAX_DEPTH:
        raise _InexpressibleError
    strict, described = _split_keywords(_resolve_combinators(schema))
    for place in ("$defs", "definitions"):
        if place in strict:
            strict[place] = {
                name: _rewrite_schema(item, depth + 1) for name, item in _require_schema(strict[place]).items()
            }
    if "$ref" in strict:
        # Servers reject other keywords next to a reference.
        return {key: strict[key] for key in ("$ref", "$defs", "definitions") if key in strict}
    if "anyOf" in strict:
        strict["anyOf"] = [_rewrite_schema(item, depth + 1) for item in _require_list(strict["anyOf"])]
    if "items" in strict:
        strict["items"] = _rewrite_schema(strict["items"], depth + 1)
    elif _allows_type("array", strict):
        raise _InexpressibleError  # the items are unconstrained
    if _describes_object(strict):
        _close_object(strict, depth)
    if not strict.keys() & {"type", "enum", "const", "anyOf"}:
        raise _InexpressibleError  # the value is unconstrained
    return append_to_description(strict, described)


def _split_keywords(source: Mapping[str, object]) -> tuple[Json, list[str]]:
    """Return the keywords to send, and texts that describe the other keywords."""
    strict: Json = {}
    described: list[str] = []
    for key, value in source.items():
        if key in SUPPORTED or _is_enforced(key, value):
            strict[key] = value
        elif key in DESCRIBED:
            described.append(f"{key}: {dumps(value)}")
        elif key not in IGNORED:
            raise _InexpressibleError
    return strict, described


def _is_enforced(key: str, value: object) -> bool:
    """Return whether a keyword is a `format` or `pattern` that servers can enforce."""
    if key == "format":
        return isinstance(value, str) and value in FORMATS
    return key == "pattern" and isinstance(value, str) and LOOKAROUND.search(value) is None


def _resolve_combinators(source: Mapping[str, object]) -> Mapping[str, object]:
    """Merge an `allOf` with a single schema, and replace `oneOf` by `anyOf`.

    The replacement is safe, because the response is validated later.
    """
    if "allOf" in source:
        items = _require_list(source["allOf"])
        if len(items) != 1:
            raise _InexpressibleError
        source = _merge_schemas(
            _require_schema(items[0]), {key: value for key, value in source.items() if key != "allOf"}
        )
    if "oneOf" in source:
        if "anyOf" in source:
            raise _InexpressibleError
        source = {("anyOf" if key == "oneOf" else key): value for key, value in source.items()}
    return source


def _merge_schemas(first: Mapping[str, object], second: Mapping[str, object]) -> Mapping[str, object]:
    """Merge two schemas. Annotations of `second` win. Other keywords in both schemas must be equal."""
    if any(first[key] != second[key] for key in first.keys() & second.keys() - ANNOTATIONS):
        raise _InexpressibleError
    return {**first, **second}


def _describes_object(schema: Json) -> bool:
    return "properties" in schema or _allows_type("object", schema)


def _allows_type(kind: str, schema: Json) -> bool:
    said = schema.get("type")
    return said == kind or (is_list(said) and kind in said)


def _close_object(schema: Json, depth: int) -> None:
    """Close an object schema in place, and require all its properties.

    Objects with arbitrary property names have no strict form.
    """
    properties = _require_schema(schema.get("properties", {}))
    further = schema.get("additionalProperties", "properties" not in schema)
    if not isinstance(further, bool) or (further and not properties):
        raise _InexpressibleError
    schema.setdefault("type", "object")
    schema["properties"] = {name: _rewrite_schema(item, depth + 1) for name, item in properties.items()}
    schema["required"] = list(properties)
    schema["additionalProperties"] = False


def append_to_description(strict: Json, described: list[str]) -> Json:
    """Append keywords that a server does not enforce to the description of a schema, in place, and return the schema.

    Args:
        strict: the schema, as it is sent.
        described: the keywords with their values, such as `pattern: "^[a-z]+$"`.
    """
    if described:
        text = f"({'; '.join(described)})"
        description = strict.get("description")
        strict["description"] = f"{description} {text}" if isinstance(description, str) and description else text
    return strict


def _require_schema(value: object) -> Mapping[str, object]:
    if is_mapping(value):
        return value
    raise _InexpressibleError


def _require_list(value: object) -> list[object]:
    if is_list(value):
        return value
    raise _InexpressibleError
