"""Schemas that the API takes: for the parameters of tools, and those that it can hold the model to.

What it enforces is a part of JSON Schema: closed objects, no bounds on numbers and lengths, no recursion. A schema is
rewritten to that form where every value of the new schema is a value of the old one, or would be but for a bound that
the API cannot enforce; such a bound moves to the description, where the model reads it, and the answer is validated
anyway. Where that cannot be done there is no strict form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from chat_core.errors import UnsupportedOptionError
from chat_core.json import dumps
from chat_core.wire.shapes import Json, is_list, is_mapping, mapping

KEPT: Final = frozenset({"type", "enum", "const", "description", "title", "$schema"})
"""What goes over as it is."""

BELOW: Final = frozenset({"properties", "required", "additionalProperties", "items", "anyOf", "allOf", "oneOf"})
"""What holds schemas, or says something of them."""

PLACES: Final = ("$defs", "definitions")

FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"}
)
"""The formats that the API enforces; it refuses any other one."""

SPOKEN: Final = frozenset(
    {
        "default", "examples", "format", "pattern", "minLength", "maxLength", "minimum", "maximum", "exclusiveMinimum",
        "exclusiveMaximum", "multipleOf", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties",
        "contentEncoding", "contentMediaType",
    }
)  # fmt: skip
"""What the API refuses and the model can read: said in the description."""

SILENT: Final = frozenset({"$id", "$comment", "$anchor", "deprecated", "readOnly", "writeOnly", "discriminator"})
"""What says nothing about the values."""

BESIDE: Final = frozenset({"description", "title", "default", "examples"}) | SILENT
"""What may stand beside a reference, and is lost there: the API takes a reference alone."""

UNIONS: Final = ("anyOf", "oneOf", "allOf")
DEEPEST: Final = 64


class _InexpressibleError(Exception):
    """The schema has no strict form."""


def input_schema(schema: Mapping[str, object], name: str) -> Mapping[str, object]:
    """The parameters of a tool as the API takes them: an object by its `type`, with no union at its root.

    Raises:
        UnsupportedOptionError: they are anything else; the message names the keyword.
    """
    found = _inlined(schema)
    if found is None:
        msg = f"the parameters of the tool {name!r} refer by `$ref` to what is not in them: put it into `$defs`"
        raise UnsupportedOptionError(msg)
    if union := next((key for key in UNIONS if key in found), None):
        msg = (
            f"the parameters of the tool {name!r} have `{union}` at their root, which Claude does not take: "
            "put it below a property"
        )
        raise UnsupportedOptionError(msg)
    if "type" not in found:
        return {"type": "object", **found}
    if found.get("type") != "object":
        msg = f"the parameters of the tool {name!r} must be an object: their `type` is {found.get('type')!r}"
        raise UnsupportedOptionError(msg)
    return found


def strict_schema(schema: Mapping[str, object]) -> Json | None:
    """The form of a schema that the API can enforce; `None` where it has none."""
    root = _inlined(schema)
    if root is None or any(key in root for key in UNIONS):
        return None
    try:
        _refuse_recursion(root)
        strict = _rewrite(root, 0)
    except _InexpressibleError:
        return None
    return strict if strict.get("type") == "object" else None


# --- References -----------------------------------------------------------------------------------------------


def _inlined(schema: Mapping[str, object]) -> Mapping[str, object] | None:
    """The schema with a reference at its root resolved; `None` where it leads nowhere, or to itself."""
    seen: set[str] = set()
    while isinstance(name := schema.get("$ref"), str):
        target = _target(schema, name)
        if target is None or name in seen:
            return None
        seen.add(name)
        schema = {**{key: value for key, value in schema.items() if key != "$ref"}, **target}
    return schema


def _target(root: Mapping[str, object], name: str) -> Mapping[str, object] | None:
    for place in PLACES:
        if name.startswith(f"#/{place}/"):
            key = name.removeprefix(f"#/{place}/").replace("~1", "/").replace("~0", "~")
            found = mapping(root.get(place)).get(key)
            return found if is_mapping(found) else None
    return None


def _refuse_recursion(root: Mapping[str, object]) -> None:
    """Walk every chain of references.

    Raises:
        _InexpressibleError: one leads back to itself, or nowhere.
    """
    sound: set[str] = set()

    def follow(schema: object, chain: tuple[str, ...]) -> None:
        for name in _references(schema):
            if name in chain or (target := _target(root, name)) is None:
                raise _InexpressibleError
            if name not in sound:
                follow(target, (*chain, name))
                sound.add(name)

    follow(root, ())


def _references(schema: object) -> Iterator[str]:
    if is_mapping(schema):
        for key, value in schema.items():
            if key == "$ref" and isinstance(value, str):
                yield value
            elif key not in PLACES:
                yield from _references(value)
    elif is_list(schema):
        for item in schema:
            yield from _references(item)


# --- The strict form ------------------------------------------------------------------------------------------


def _rewrite(schema: object, depth: int) -> Json:
    if not is_mapping(schema) or depth > DEEPEST:
        raise _InexpressibleError
    if "$ref" in schema:
        if schema.keys() - BESIDE - {"$ref", *PLACES}:
            raise _InexpressibleError
        return {"$ref": schema["$ref"]}
    strict, spoken = _sort(schema)
    for place in PLACES:
        if place in schema:
            strict[place] = {name: _rewrite(item, depth + 1) for name, item in _object(schema[place]).items()}
    _unite(strict, schema, depth)
    if "items" in schema:
        strict["items"] = _rewrite(schema["items"], depth + 1)
    if _is_object(schema):
        _close(strict, schema, depth)
    strict = _one_type(strict)
    if not strict.keys() & {"type", "enum", "const", "anyOf", "allOf"}:
        raise _InexpressibleError  # anything at all
    return _say(strict, spoken)


def _sort(schema: Mapping[str, object]) -> tuple[Json, list[str]]:
    """What goes over, and what is said of the rest."""
    strict: Json = {}
    spoken: list[str] = []
    for key, value in schema.items():
        if key in KEPT or _enforced(key, value):
            strict[key] = value
        elif key in SPOKEN:
            spoken.append(f"{key}: {dumps(value)}")
        elif key not in SILENT and key not in BELOW and key not in PLACES:
            raise _InexpressibleError
    if any(is_mapping(item) or is_list(item) for item in (strict.get("const"), *_values(strict.get("enum")))):
        raise _InexpressibleError
    return strict, spoken


def _enforced(key: str, value: object) -> bool:
    """Whether the API enforces a bound, which depends on what it says."""
    return (key == "format" and value in FORMATS) or (key == "minItems" and value in {0, 1})


def _values(value: object) -> list[object]:
    return value if is_list(value) else []


def _unite(strict: Json, schema: Mapping[str, object], depth: int) -> None:
    """Unions of schemas. `oneOf` is taken as `anyOf`, since the answer is validated anyway."""
    unions = [key for key in UNIONS if key in schema]
    if not unions:
        return
    items = schema[unions[0]]
    if len(unions) > 1 or not is_list(items) or _is_object(schema):
        raise _InexpressibleError
    if unions[0] == "allOf" and len(items) > 1 and any(_reaches_object(item) for item in items):
        raise _InexpressibleError  # each would be closed to what the others hold
    strict["allOf" if unions[0] == "allOf" else "anyOf"] = [_rewrite(item, depth + 1) for item in items]


def _reaches_object(schema: object) -> bool:
    return is_mapping(schema) and ("$ref" in schema or _is_object(schema) or any(key in schema for key in UNIONS))


def _is_object(schema: Mapping[str, object]) -> bool:
    kind = schema.get("type")
    return kind == "object" or "properties" in schema or (is_list(kind) and "object" in kind)


def _close(strict: Json, schema: Mapping[str, object], depth: int) -> None:
    """Close an object. One whose names the schema does not say has no strict form."""
    properties = _object(schema.get("properties", {}))
    further = schema.get("additionalProperties", "properties" not in schema)
    if not isinstance(further, bool) or (further and not properties):
        raise _InexpressibleError
    strict.setdefault("type", "object")
    strict["properties"] = {name: _rewrite(item, depth + 1) for name, item in properties.items()}
    if "required" in schema:
        strict["required"] = schema["required"]
    strict["additionalProperties"] = False


OF_OBJECTS: Final = ("properties", "required", "additionalProperties")


def _one_type(strict: Json) -> Json:
    """A list of types as a union of schemas with one type each."""
    kinds = strict.get("type")
    if not is_list(kinds):
        return strict
    if "anyOf" in strict or "allOf" in strict:
        raise _InexpressibleError
    if "enum" in strict or "const" in strict:
        return {key: value for key, value in strict.items() if key != "type"}
    own = {"object": OF_OBJECTS, "array": ("items", "minItems"), "string": ("format",)}
    moved = {name for names in own.values() for name in names}
    union = [{"type": kind, **{key: strict[key] for key in own.get(str(kind), ()) if key in strict}} for kind in kinds]
    return {**{key: value for key, value in strict.items() if key not in moved | {"type"}}, "anyOf": union}


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
