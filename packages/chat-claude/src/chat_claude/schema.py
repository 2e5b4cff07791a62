"""Conversion of JSON Schema to the forms that the API accepts for tool parameters and enforced output.

The API enforces a subset of JSON Schema: closed objects, no bounds on numbers and lengths, no recursion. The strict
form of a schema accepts only values of the original schema, apart from bounds that the API cannot enforce. These bounds
move to the description, where the model reads them, and the library validates the response against the original schema.
Schemas that cannot be expressed in this way have no strict form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, final

from chat_core.errors import UnsupportedOptionError
from chat_core.json import dumps
from chat_core.wire.shapes import Json, is_list, is_mapping, mapping
from chat_core.wire.strict import append_to_description

COPIED: Final = frozenset({"type", "enum", "const", "description", "title", "$schema"})
"""Keywords that are copied unchanged."""

STRUCTURAL: Final = frozenset({"properties", "required", "additionalProperties", "items", "anyOf", "allOf", "oneOf"})
"""Keywords that contain schemas or apply to them."""

DEFINITIONS: Final = ("$defs", "definitions")

FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)
"""Values of `format` that the API enforces. All other values are rejected."""

DESCRIBED: Final = frozenset(
    {
        "default", "examples", "format", "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum",
        "exclusiveMaximum", "multipleOf", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties",
        "contentEncoding", "contentMediaType",
    }
)  # fmt: skip
"""Keywords that the API rejects, and that are added to the description, which the model reads."""

IGNORED: Final = frozenset({"$id", "$comment", "$anchor", "deprecated", "readOnly", "writeOnly", "discriminator"})
"""Keywords without effect on the accepted values, which are left out."""

IGNORED_BY_REF: Final = frozenset({"description", "title", "default", "examples"}) | IGNORED
"""Keywords that are dropped next to `$ref`, where the API accepts no other keyword."""

UNIONS: Final = ("anyOf", "oneOf", "allOf")
MAX_DEPTH: Final = 64


MAX_STRICT_TOOLS: Final = 20
MAX_OPTIONAL: Final = 24
MAX_UNIONS: Final = 16
"""Limits of the strict schemas of one request together: tools, optional properties, and properties with a union.

Source: https://platform.claude.com/docs/en/build-with-claude/structured-outputs (2026-11-23).
"""


class _InexpressibleError(Exception):
    """Raised if the API cannot enforce a schema."""


def input_schema(schema: Mapping[str, object], name: str) -> Mapping[str, object]:
    """Return a tool's parameter schema in the form that the API accepts.

    The root of this form is an object schema without a union.

    Args:
        schema: JSON Schema of the parameters.
        name: name of the tool, for errors.

    Raises:
        UnsupportedOptionError: the schema is not an object, or has a union or an unresolvable `$ref` at its root.
    """
    root = _resolve_root(schema)
    if root is None:
        msg = f"the parameters of the tool {name!r} have a `$ref` that cannot be resolved: define its target in `$defs`"
        raise UnsupportedOptionError(msg)
    if union := next((key for key in UNIONS if key in root), None):
        msg = (
            f"the parameters of the tool {name!r} have `{union}` at their root, which Claude does not accept: "
            "move it into a property"
        )
        raise UnsupportedOptionError(msg)
    if "type" not in root:
        return {"type": "object", **root}
    if root.get("type") != "object":
        msg = f"the parameters of the tool {name!r} must have the `type` 'object', not {root.get('type')!r}"
        raise UnsupportedOptionError(msg)
    return root


def strict_schema(schema: Mapping[str, object]) -> Json | None:
    """Return `schema` in a form that the API can enforce, or `None` if there is no such form."""
    root = _resolve_root(schema)
    if root is None or any(key in root for key in UNIONS):
        return None
    try:
        _check_references(root)
        strict = _rewrite_schema(root, 0)
    except _InexpressibleError:
        return None
    return strict if strict.get("type") == "object" else None


@final
class StrictLimits:
    """The strict schemas that one request may still contain, because the API rejects a request that exceeds a limit.

    Attributes:
        remaining: numbers of tools, optional properties and properties with a union that may follow.
    """

    __slots__ = ("remaining",)

    def __init__(self, remaining: tuple[int, int, int] = (MAX_STRICT_TOOLS, MAX_OPTIONAL, MAX_UNIONS)) -> None:
        self.remaining: tuple[int, int, int] = remaining

    def take(self, strict: Mapping[str, object], *, tools: int) -> bool:
        """Count a strict schema and return True, or return False if the request would exceed a limit.

        Args:
            strict: result of `strict_schema()`.
            tools: 1 for the parameters of a tool, 0 for an output schema.
        """
        optional, unions = _Counter(strict).count(strict)
        left = (self.remaining[0] - tools, self.remaining[1] - optional, self.remaining[2] - unions)
        if min(left) < 0:
            return False
        self.remaining = left
        return True


@final
class _Counter:
    """Counter of the optional properties and the unions in a strict schema. A definition counts each time it is used.

    Args:
        root: result of `strict_schema()`, which has no recursive references.
    """

    __slots__ = ("_definitions", "_root")

    def __init__(self, root: Mapping[str, object]) -> None:
        self._root = root
        self._definitions: dict[str, tuple[int, int]] = {}

    def count(self, schema: object) -> tuple[int, int]:
        """Return the numbers of optional properties and of unions in `schema`."""
        found = mapping(schema)
        if not found:
            return 0, 0
        if isinstance(name := found.get("$ref"), str):
            if name not in self._definitions:
                self._definitions[name] = self.count(_find_definition(self._root, name))
            return self._definitions[name]
        properties, required = mapping(found.get("properties")), _list_or_empty(found.get("required"))
        members = [item for key in UNIONS for item in _list_or_empty(found.get(key))]
        counts = [self.count(item) for item in (*properties.values(), *members, found.get("items"))]
        counts.append((sum([name not in required for name in properties]), int("anyOf" in found)))
        return sum([optional for optional, _ in counts]), sum([unions for _, unions in counts])


# --- References -----------------------------------------------------------------------------------------------


def _resolve_root(schema: Mapping[str, object]) -> Mapping[str, object] | None:
    """Return `schema` with the `$ref` at its root resolved, or `None` if the target is missing or circular."""
    seen: set[str] = set()
    while isinstance(name := schema.get("$ref"), str):
        target = _find_definition(schema, name)
        if target is None or name in seen:
            return None
        seen.add(name)
        schema = {**{key: value for key, value in schema.items() if key != "$ref"}, **target}
    return schema


def _find_definition(root: Mapping[str, object], name: str) -> Mapping[str, object] | None:
    for keyword in DEFINITIONS:
        if name.startswith(f"#/{keyword}/"):
            key = name.removeprefix(f"#/{keyword}/").replace("~1", "/").replace("~0", "~")
            definition = mapping(root.get(keyword)).get(key)
            return definition if is_mapping(definition) else None
    return None


def _check_references(root: Mapping[str, object]) -> None:
    """Check that every `$ref` in the schema has a target and that none is recursive.

    Raises:
        _InexpressibleError: a chain is recursive, or a target is missing.
    """
    checked: set[str] = set()

    def follow(schema: object, chain: tuple[str, ...]) -> None:
        for name in _iterate_references(schema):
            if name in chain or (target := _find_definition(root, name)) is None:
                raise _InexpressibleError
            if name not in checked:
                follow(target, (*chain, name))
                checked.add(name)

    follow(root, ())


def _iterate_references(schema: object) -> Iterator[str]:
    if is_mapping(schema):
        for key, value in schema.items():
            if key == "$ref" and isinstance(value, str):
                yield value
            elif key not in DEFINITIONS:
                yield from _iterate_references(value)
    elif is_list(schema):
        for item in schema:
            yield from _iterate_references(item)


# --- The strict form ------------------------------------------------------------------------------------------


def _rewrite_schema(schema: object, depth: int) -> Json:
    if not is_mapping(schema) or depth > MAX_DEPTH:
        raise _InexpressibleError
    if "$ref" in schema:
        if schema.keys() - IGNORED_BY_REF - {"$ref", *DEFINITIONS}:
            raise _InexpressibleError
        return {"$ref": schema["$ref"]}
    strict, described = _split_keywords(schema)
    for keyword in DEFINITIONS:
        if keyword in schema:
            strict[keyword] = {
                name: _rewrite_schema(item, depth + 1) for name, item in _require_object(schema[keyword]).items()
            }
    _rewrite_union(strict, schema, depth)
    if "items" in schema:
        strict["items"] = _rewrite_schema(schema["items"], depth + 1)
    if _is_object(schema):
        _close_object(strict, schema, depth)
    strict = _split_types(strict)
    if not strict.keys() & {"type", "enum", "const", "anyOf", "allOf"}:
        raise _InexpressibleError  # accepts any value
    return append_to_description(strict, described)


def _split_keywords(schema: Mapping[str, object]) -> tuple[Json, list[str]]:
    """Return the keywords to copy, and description texts for the keywords that the API rejects."""
    strict: Json = {}
    described: list[str] = []
    for key, value in schema.items():
        if key in COPIED or _is_enforced(key, value):
            strict[key] = value
        elif key in DESCRIBED:
            described.append(f"{key}: {dumps(value)}")
        elif key not in IGNORED and key not in STRUCTURAL and key not in DEFINITIONS:
            raise _InexpressibleError
    if any(is_mapping(item) or is_list(item) for item in (strict.get("const"), *_list_or_empty(strict.get("enum")))):
        raise _InexpressibleError
    return strict, described


def _is_enforced(key: str, value: object) -> bool:
    """Return whether the API enforces the keyword `key` with this `value`."""
    return (key == "format" and value in FORMATS) or (key == "minItems" and value in {0, 1})


def _list_or_empty(value: object) -> list[object]:
    return value if is_list(value) else []


def _rewrite_union(strict: Json, schema: Mapping[str, object], depth: int) -> None:
    """Add the union in `schema` to `strict`, in place.

    `oneOf` becomes `anyOf`, because the library validates the response against the original schema anyway.
    """
    unions = [key for key in UNIONS if key in schema]
    if not unions:
        return
    items = schema[unions[0]]
    if len(unions) > 1 or not is_list(items) or _is_object(schema):
        raise _InexpressibleError
    if unions[0] == "allOf" and len(items) > 1 and any(_may_be_object(item) for item in items):
        raise _InexpressibleError  # closed members would reject each other's properties
    strict["allOf" if unions[0] == "allOf" else "anyOf"] = [_rewrite_schema(item, depth + 1) for item in items]


def _may_be_object(schema: object) -> bool:
    return is_mapping(schema) and ("$ref" in schema or _is_object(schema) or any(key in schema for key in UNIONS))


def _is_object(schema: Mapping[str, object]) -> bool:
    kind = schema.get("type")
    return kind == "object" or "properties" in schema or (is_list(kind) and "object" in kind)


def _close_object(strict: Json, schema: Mapping[str, object], depth: int) -> None:
    """Add the properties of the object schema to `strict` and forbid other properties.

    An object with arbitrary property names cannot be enforced.
    """
    properties = _require_object(schema.get("properties", {}))
    further = schema.get("additionalProperties", "properties" not in schema)
    if not isinstance(further, bool) or (further and not properties):
        raise _InexpressibleError
    strict.setdefault("type", "object")
    strict["properties"] = {name: _rewrite_schema(item, depth + 1) for name, item in properties.items()}
    if "required" in schema:
        strict["required"] = schema["required"]
    strict["additionalProperties"] = False


OBJECT_KEYWORDS: Final = ("properties", "required", "additionalProperties")


def _split_types(strict: Json) -> Json:
    """Return the schema with a list of types replaced by a union of schemas with one type each."""
    kinds = strict.get("type")
    if not is_list(kinds):
        return strict
    if "anyOf" in strict or "allOf" in strict:
        raise _InexpressibleError
    if "enum" in strict or "const" in strict:
        return {key: value for key, value in strict.items() if key != "type"}
    own = {"object": OBJECT_KEYWORDS, "array": ("items", "minItems"), "string": ("format",)}
    moved = {name for names in own.values() for name in names}
    union = [{"type": kind, **{key: strict[key] for key in own.get(str(kind), ()) if key in strict}} for kind in kinds]
    return {**{key: value for key, value in strict.items() if key not in moved | {"type"}}, "anyOf": union}


def _require_object(value: object) -> Mapping[str, object]:
    if is_mapping(value):
        return value
    raise _InexpressibleError
