"""Rewriter that reduces JSON Schemas to the keywords that llama.cpp can enforce token by token.

If llama.cpp cannot build a grammar, it enforces nothing and reports no error. This module therefore keeps only
supported keywords. Other constraints (`not`, `uniqueItems`, patterns with lookahead …) are removed and left to the
later validation of arguments and output. References that cannot be resolved are rejected. Objects that declare
properties without `additionalProperties` are closed, because a small model would keep adding properties.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn, final

from chat_core.wire.shapes import Json, is_list, is_mapping

_COPIED_KEYWORDS: Final = frozenset(
    {
        "const",
        "enum",
        "required",
        "minItems",
        "maxItems",
        "minLength",
        "maxLength",
        "minProperties",
        "maxProperties",
        "type",
    }
)
"""Keywords that are copied unchanged."""
_NUMERIC_BOUNDS: Final = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_SCHEMA_KEYWORDS: Final = frozenset({"items", "additionalProperties"})
_SCHEMA_LIST_KEYWORDS: Final = frozenset({"anyOf", "allOf", "prefixItems"})
_SCHEMA_MAP_KEYWORDS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})
_TYPES: Final = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})
_FORMATS: Final = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_UNSUPPORTED_REFERENCES: Final = ("$dynamicRef", "$recursiveRef")
# Lookaround and other `(?` constructs except groups, boundaries, backreferences, lazy and possessive quantifiers.
_UNSUPPORTED_PATTERN: Final = re.compile(r"\(\?(?!:)|\\[bBAZzGkc1-9]|(?:(?<!\\)[*+?]|\d\})[+?]")
_UNICODE_CLASS: Final = re.compile(r"\\[pP]\{\w+\}")
_MAX_EXACT_NUMBER: Final = 2**53
_MAX_DEPTH: Final = 64


class UnconstrainableError(ValueError):
    """Error for a request with a schema, tool or message that llama.cpp does not support."""


def enforceable(schema: Mapping[str, Any], owner: str, pointer: str = "#") -> Json:
    """Return the schema reduced to the constraints that a grammar can enforce.

    Args:
        schema: JSON Schema.
        owner: description of the schema's owner for error messages, such as "the tool 'pay'".
        pointer: position in the schema of the complete output, as a URI fragment such as `#/$defs/x`. References are
            rewritten to it.

    Raises:
        UnconstrainableError: the schema is malformed, nested too deeply, or has a reference that cannot be resolved.
    """
    rewriter = _Rewriter(schema, owner, pointer)
    rewritten = rewriter.rewrite(schema, 0)
    return {} if isinstance(rewritten, bool) else rewritten


def has_references(schema: object) -> bool:
    """Return whether a schema or one of its subschemas contains a `$ref`."""
    return any("$ref" in rules for rules in _iter_objects(schema))


def resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow the `$ref` of a schema, and of each schema that it leads to, and return the last schema.

    Args:
        schema: schema that may have a `$ref`.
        root: schema in which references are resolved.

    Returns:
        The first schema without a reference, or the last one whose reference does not resolve in `root`.
    """
    for _ in range(_MAX_DEPTH):
        found = _resolve_pointer(schema.get("$ref"), root)
        if found is None:
            return schema
        schema = found
    return schema


def _iter_objects(schema: object) -> Iterator[Mapping[str, Any]]:
    """Yield every JSON object in a schema, including the schema itself and all subschemas."""
    if is_mapping(schema):
        yield schema
        for item in schema.values():
            yield from _iter_objects(item)
    elif is_list(schema):
        for item in schema:
            yield from _iter_objects(item)


def _resolve_pointer(reference: object, root: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the object that a JSON pointer fragment (RFC 6901) refers to, or None if it does not exist."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    node: Any = root
    for step in reference.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if is_list(node) and key.isdecimal() and int(key) < len(node):
            node = node[int(key)]
        elif is_mapping(node) and key in node:
            node = node[key]
        else:
            return None
    return node if is_mapping(node) else None


@final
class _Rewriter:
    __slots__ = ("_closes_objects", "_owner", "_pointer", "_root")

    def __init__(self, root: Mapping[str, Any], owner: str, pointer: str) -> None:
        self._root = root
        self._owner = owner
        self._pointer = pointer
        # If several schemas apply to one object, each must allow the properties of the others.
        self._closes_objects = not any(_applies_several_schemas(rules) for rules in _iter_objects(root))

    def rewrite(self, schema: object, depth: int) -> Json | bool:
        if isinstance(schema, bool):
            return schema
        if not is_mapping(schema):
            self._raise_unconstrainable(f"a schema must be an object, not {schema!r}")
        if depth > _MAX_DEPTH:
            self._raise_unconstrainable(f"it is nested more than {_MAX_DEPTH} levels deep")
        rewritten: Json = {}
        for keyword, value in schema.items():
            self._add_keyword(keyword, value, rewritten, depth)
        if is_list(schema.get("oneOf")) and "anyOf" not in schema:
            rewritten["anyOf"] = self._rewrite_list("oneOf", schema["oneOf"], depth)
        self._close_object(rewritten)
        return rewritten

    def _add_keyword(self, keyword: str, value: object, rewritten: Json, depth: int) -> None:
        if keyword == "$ref":
            rewritten["$ref"] = self._rewrite_reference(value)
        elif keyword in _UNSUPPORTED_REFERENCES:
            self._raise_unconstrainable(f"{keyword} is not supported; use $ref")
        elif keyword in _SCHEMA_KEYWORDS:
            rewritten[keyword] = self.rewrite(value, depth + 1)
        elif keyword in _SCHEMA_LIST_KEYWORDS:
            rewritten[keyword] = self._rewrite_list(keyword, value, depth)
        elif keyword in _SCHEMA_MAP_KEYWORDS:
            rewritten[keyword] = self._rewrite_properties(keyword, value, depth)
        elif keyword in _COPIED_KEYWORDS:
            self._check_keyword(keyword, value)
            rewritten[keyword] = value
        elif _is_supported_constraint(keyword, value):
            rewritten[keyword] = value

    def _rewrite_list(self, keyword: str, value: object, depth: int) -> list[Json | bool]:
        if not is_list(value) or not value:
            self._raise_unconstrainable(f"{keyword} must be a non-empty list of schemas, not {value!r}")
        return [self.rewrite(item, depth + 1) for item in value]

    def _rewrite_properties(self, keyword: str, value: object, depth: int) -> Json:
        if not is_mapping(value):
            self._raise_unconstrainable(f"{keyword} must be an object of schemas, not {value!r}")
        return {name: self.rewrite(item, depth + 1) for name, item in value.items()}

    def _check_keyword(self, keyword: str, value: object) -> None:
        if keyword == "enum" and not (is_list(value) and value):
            self._raise_unconstrainable(f"enum must be a non-empty list, not {value!r}")
        if keyword == "type":
            for name in value if is_list(value) else [value]:
                if name not in _TYPES:
                    self._raise_unconstrainable(f"{name!r} is not a type of JSON Schema")

    def _rewrite_reference(self, value: object) -> str:
        if _resolve_pointer(value, self._root) is None:
            self._raise_unconstrainable(
                f"$ref {value!r} does not resolve within the schema, and other documents are not loaded"
            )
        return f"{self._pointer}{str(value)[1:]}"

    def _close_object(self, rewritten: Json) -> None:
        properties = rewritten.get("properties")
        if not self._closes_objects or not properties or "patternProperties" in rewritten:
            return
        if set(rewritten.get("required", ())) <= set(properties):
            rewritten.setdefault("additionalProperties", False)

    def _raise_unconstrainable(self, reason: str) -> NoReturn:
        msg = f"the schema of {self._owner} cannot be enforced by llama.cpp: {reason}"
        raise UnconstrainableError(msg)


def _applies_several_schemas(rules: Mapping[str, Any]) -> bool:
    """Return whether a schema applies several subschemas, which may each declare properties, to one value."""
    all_of = rules.get("allOf")
    if is_list(all_of) and (len(all_of) > 1 or "properties" in rules):
        return True
    return "properties" in rules and bool(rules.keys() & {"anyOf", "oneOf", "$ref"})


def _is_supported_constraint(keyword: str, value: object) -> bool:
    """Return whether a grammar can enforce `keyword` (a numeric bound, `pattern` or `format`) with the given value."""
    if keyword in _NUMERIC_BOUNDS:
        return isinstance(value, int | float) and abs(value) <= _MAX_EXACT_NUMBER
    if keyword == "pattern":
        return isinstance(value, str) and _is_supported_pattern(value)
    return keyword == "format" and value in _FORMATS


def _is_supported_pattern(pattern: str) -> bool:
    """Return whether a pattern is valid and has no construct that a grammar cannot express, such as lookaround."""
    try:
        re.compile(_UNICODE_CLASS.sub("x", pattern))
    except re.error:
        return False
    return _UNSUPPORTED_PATTERN.search(pattern) is None
