"""The part of JSON Schema that a form is made from. The rest is left to the tool, which checks what it is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal, TypeAlias, cast, final

Schema: TypeAlias = Mapping[str, object]
ShapeKind: TypeAlias = Literal["string", "integer", "number", "boolean", "object", "array", "other"]

_KINDS: Final = ("string", "integer", "number", "boolean", "object", "array")
_STEPS: Final = 32
"""References that are followed from one place: those of a schema may lead in a circle."""


@final
@dataclass(frozen=True)
class Shape:
    """A schema as a form sees it. What is below it is looked at when somebody asks: a schema may contain itself.

    Attributes:
        kind: the one type that it has, beside null; `other` where it has none, or several.
        nullable: whether null will do.
        options: the values that it lists, `None` where it lists none.
        branches: what it may be, where that is one of several.
    """

    schema: Schema
    root: Schema
    kind: ShapeKind
    nullable: bool
    options: tuple[object, ...] | None
    branches: tuple[Schema, ...] = ()

    @cached_property
    def properties(self) -> dict[str, Shape]:
        """The properties of an object, by name."""
        return {name: shape_of(inner, self.root) for name, inner in _mapping(self.schema.get("properties")).items()}

    @property
    def required(self) -> frozenset[str]:
        """The names of those that must be there."""
        names = self.schema.get("required")
        return frozenset(str(name) for name in cast("list[object]", names)) if isinstance(names, list) else frozenset()

    @property
    def open(self) -> bool:
        """Whether the schema says that there may be other properties."""
        more = self.schema.get("additionalProperties", False)
        return more is not False or "patternProperties" in self.schema

    @property
    def items(self) -> Shape | None:
        """What the items of an array are, `None` where they are not all the same."""
        inner = self.schema.get("items")
        known = isinstance(inner, Mapping) and "prefixItems" not in self.schema
        return shape_of(cast("Schema", inner), self.root) if known else None

    @property
    def help(self) -> str:
        """What a person should know: the description, and the bounds."""
        said = self.schema.get("description")
        told = [str(said).strip()] if isinstance(said, str) and said.strip() else []
        told += [f"{words} {self.schema[key]}" for key, words in _BOUNDS.items() if key in self.schema]
        return " · ".join(told)

    def for_value(self, value: object) -> Shape:
        """The branch that a value is of, where there are several and just one will do; else the shape itself."""
        kind = kind_of(value)
        fitting = [shape for branch in self.branches if (shape := shape_of(branch, self.root)).takes(kind)]
        if len(fitting) != 1:
            return self
        schema = {**fitting[0].schema, **{key: self.schema[key] for key in ("description",) if key in self.schema}}
        return replace(fitting[0], schema=schema, nullable=self.nullable)

    def takes(self, kind: str) -> bool:
        """Whether a value of this kind is of this type, as far as the type tells."""
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


def kind_of(value: object) -> str:
    """The type of a value, as a schema calls it."""
    if isinstance(value, bool):
        return "boolean"
    for kind, python in (("string", str), ("integer", int), ("number", float), ("object", dict), ("array", list)):
        if isinstance(value, python):
            return kind
    return "other"


def shape_of(schema: object, root: Schema) -> Shape:
    """A schema as a form sees it. References lead within `root`; what cannot be followed is `other`."""
    found = _followed(_mapping(schema), root)
    branches, nullable = _branches(found, root)
    if len(branches) == 1:
        inner = _followed(branches[0], root)
        more, null = _branches(inner, root)
        if not more:
            found = {**inner, **{key: value for key, value in found.items() if key not in ("anyOf", "oneOf")}}
            nullable, branches = nullable or null, ()
    types = _types(found)
    options = _options(found, types)
    nullable = nullable or "null" in types or (options is not None and None in options)
    kinds = [kind for kind in types if kind != "null"]
    kind = cast("ShapeKind", kinds[0]) if len(kinds) == 1 and kinds[0] in _KINDS else "other"
    if len(kinds) > 1 and not branches:
        branches = tuple([{**found, "type": one} for one in kinds])
    return Shape(found, root, kind, nullable, options, tuple(branches))


def _followed(schema: Schema, root: Schema) -> Schema:
    """The schema with its references in place: what stands beside one, a description mostly, goes over it."""
    for _ in range(_STEPS):
        reference = schema.get("$ref")
        several = schema.get("allOf")
        if isinstance(reference, str):
            inner, key = _target(reference, root), "$ref"
        elif isinstance(several, list) and len(cast("list[object]", several)) == 1:
            inner, key = _mapping(cast("list[object]", several)[0]), "allOf"
        else:
            return schema
        schema = {**inner, **{name: value for name, value in schema.items() if name != key}}
    return {}


def _target(reference: str, root: Schema) -> Schema:
    if not reference.startswith("#"):
        return {}
    here: object = root
    for step in reference.removeprefix("#").split("/")[1:]:
        here = _mapping(here).get(step.replace("~1", "/").replace("~0", "~"))
    return _mapping(here)


def _branches(schema: Schema, root: Schema) -> tuple[tuple[Schema, ...], bool]:
    several = schema.get("anyOf", schema.get("oneOf"))
    if not isinstance(several, list):
        return (), False
    found = [_followed(_mapping(branch), root) for branch in cast("list[object]", several)]
    real = [branch for branch in found if branch.get("type") != "null"]
    return tuple(real), len(real) < len(found)


def _types(schema: Schema) -> list[str]:
    types = schema.get("type")
    if isinstance(types, str):
        return [types]
    if isinstance(types, list):
        return [str(kind) for kind in cast("list[object]", types)]
    return ["object"] if "properties" in schema else []


def _options(schema: Schema, types: list[str]) -> tuple[object, ...] | None:
    if "const" in schema:
        return (schema["const"],)
    listed = schema.get("enum")
    if isinstance(listed, list):
        return tuple(cast("list[object]", listed))
    return (True, False) if [kind for kind in types if kind != "null"] == ["boolean"] else None


def _mapping(value: object) -> Schema:
    return cast("Schema", value) if isinstance(value, Mapping) else {}
