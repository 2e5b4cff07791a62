"""The subset of JSON Schema that forms support. The tool validates submitted arguments against its full schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal, TypeAlias, cast, final

Schema: TypeAlias = Mapping[str, object]
SchemaKind: TypeAlias = Literal["string", "integer", "number", "boolean", "object", "array", "other"]

_KINDS: Final = ("string", "integer", "number", "boolean", "object", "array")
_MAX_REFERENCES: Final = 32
"""Maximum number of consecutive references that are followed. The limit ends cycles of references."""


@final
@dataclass(frozen=True)
class FieldSchema:
    """The parts of a JSON Schema that a form needs.

    Subschemas are parsed on access, because a schema can contain itself.

    Attributes:
        raw: the schema, with references resolved.
        root: the document in which references are resolved.
        kind: the only type apart from null, or `other` if the schema allows no other type or several.
        nullable: whether null is allowed.
        options: the values of `enum` or `const`, both values of a boolean, or None.
        branches: the alternatives of `anyOf`, `oneOf` or a list of types.
    """

    raw: Schema
    root: Schema
    kind: SchemaKind
    nullable: bool
    options: tuple[object, ...] | None
    branches: tuple[Schema, ...] = ()

    @cached_property
    def properties(self) -> dict[str, FieldSchema]:
        """The properties of an object, by name."""
        return {name: parse_schema(inner, self.root) for name, inner in _as_mapping(self.raw.get("properties")).items()}

    @property
    def required(self) -> frozenset[str]:
        """The names of the properties that an object must have."""
        names = self.raw.get("required")
        return frozenset(str(name) for name in cast("list[object]", names)) if isinstance(names, list) else frozenset()

    @property
    def allows_additional(self) -> bool:
        """Whether the schema explicitly allows further properties."""
        additional = self.raw.get("additionalProperties", False)
        return additional is not False or "patternProperties" in self.raw

    @property
    def items(self) -> FieldSchema | None:
        """The schema of the items of an array, or None if the items have no common schema."""
        inner = self.raw.get("items")
        known = isinstance(inner, Mapping) and "prefixItems" not in self.raw
        return parse_schema(cast("Schema", inner), self.root) if known else None

    @property
    def help(self) -> str:
        """The help text of a field: its description and its bounds from the schema."""
        description = self.raw.get("description")
        texts = [description.strip()] if isinstance(description, str) and description.strip() else []
        texts += [f"{label} {self.raw[key]}" for key, label in _BOUNDS.items() if key in self.raw]
        return " · ".join(texts)

    def for_value(self, value: object) -> FieldSchema:
        """Return the branch whose type matches a value if there is exactly one, otherwise the schema itself."""
        kind = json_type(value)
        matching = [schema for branch in self.branches if (schema := parse_schema(branch, self.root)).accepts(kind)]
        if len(matching) != 1:
            return self
        merged = {**matching[0].raw, **{key: self.raw[key] for key in ("description",) if key in self.raw}}
        return replace(matching[0], raw=merged, nullable=self.nullable)

    def accepts(self, kind: str) -> bool:
        """Return whether the type of the schema includes a JSON type such as `integer`."""
        return self.kind == kind or (self.kind == "number" and kind == "integer")


_BOUNDS: Final = {
    "format": "format:",
    "minimum": "at least",
    "maximum": "at most",
    "exclusiveMinimum": "more than",
    "exclusiveMaximum": "less than",
    "multipleOf": "a multiple of",
    "minLength": "characters, at least:",
    "maxLength": "characters, at most:",
    "pattern": "pattern:",
    "minItems": "items, at least:",
    "maxItems": "items, at most:",
}


def json_type(value: object) -> str:
    """Return the JSON Schema name for the type of a value, or `other`."""
    if isinstance(value, bool):
        return "boolean"
    for kind, python in (("string", str), ("integer", int), ("number", float), ("object", dict), ("array", list)):
        if isinstance(value, python):
            return kind
    return "other"


def parse_schema(schema: object, root: Schema) -> FieldSchema:
    """Parse a JSON Schema. Unresolvable or cyclic references result in the kind `other`.

    Args:
        schema: JSON Schema; anything else counts as an empty schema.
        root: document in which references are resolved.
    """
    found = _resolve_references(_as_mapping(schema), root)
    branches, nullable = _split_branches(found, root)
    if len(branches) == 1:
        inner = _resolve_references(branches[0], root)
        more, null = _split_branches(inner, root)
        if not more:
            found = {**inner, **{key: value for key, value in found.items() if key not in ("anyOf", "oneOf")}}
            nullable, branches = nullable or null, ()
    types = _type_names(found)
    options = _enumerated_values(found, types)
    nullable = nullable or "null" in types or (options is not None and None in options)
    kinds = [kind for kind in types if kind != "null"]
    kind = cast("SchemaKind", kinds[0]) if len(kinds) == 1 and kinds[0] in _KINDS else "other"
    if len(kinds) > 1 and not branches:
        branches = tuple([{**found, "type": one} for one in kinds])
    return FieldSchema(found, root, kind, nullable, options, tuple(branches))


def _resolve_references(schema: Schema, root: Schema) -> Schema:
    """Merge the target of `$ref`, or the only entry of `allOf`, into a schema. Existing keywords take precedence."""
    for _ in range(_MAX_REFERENCES):
        reference = schema.get("$ref")
        conjunction = schema.get("allOf")
        if isinstance(reference, str):
            inner, key = _resolve_pointer(reference, root), "$ref"
        elif isinstance(conjunction, list) and len(cast("list[object]", conjunction)) == 1:
            inner, key = _as_mapping(cast("list[object]", conjunction)[0]), "allOf"
        else:
            return schema
        schema = {**inner, **{name: value for name, value in schema.items() if name != key}}
    return {}


def _resolve_pointer(reference: str, root: Schema) -> Schema:
    """Return the schema that a local reference points to, or an empty schema if it cannot be resolved."""
    if not reference.startswith("#"):
        return {}
    target: object = root
    for step in reference.removeprefix("#").split("/")[1:]:
        target = _as_mapping(target).get(step.replace("~1", "/").replace("~0", "~"))
    return _as_mapping(target)


def _split_branches(schema: Schema, root: Schema) -> tuple[tuple[Schema, ...], bool]:
    """Return the alternatives of `anyOf` or `oneOf` other than null, and whether null is among them."""
    alternatives = schema.get("anyOf", schema.get("oneOf"))
    if not isinstance(alternatives, list):
        return (), False
    found = [_resolve_references(_as_mapping(branch), root) for branch in cast("list[object]", alternatives)]
    non_null = [branch for branch in found if branch.get("type") != "null"]
    return tuple(non_null), len(non_null) < len(found)


def _type_names(schema: Schema) -> list[str]:
    types = schema.get("type")
    if isinstance(types, str):
        return [types]
    if isinstance(types, list):
        return [str(kind) for kind in cast("list[object]", types)]
    return ["object"] if "properties" in schema else []


def _enumerated_values(schema: Schema, types: list[str]) -> tuple[object, ...] | None:
    if "const" in schema:
        return (schema["const"],)
    listed = schema.get("enum")
    if isinstance(listed, list):
        return tuple(cast("list[object]", listed))
    return (True, False) if [kind for kind in types if kind != "null"] == ["boolean"] else None


def _as_mapping(value: object) -> Schema:
    return cast("Schema", value) if isinstance(value, Mapping) else {}
