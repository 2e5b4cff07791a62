"""Schemas as this vendor takes them, in either of its two forms.

`json_form()` is for the fields that take JSON Schema (`responseJsonSchema`, `parametersJsonSchema`). Any schema may be
sent there, and a part of its keywords has an effect; what has none is said by one that has, where JSON Schema has two
ways of saying it. Nothing is taken away.

`openapi_form()` is for the older fields (`responseSchema`, `parameters`), which hold a message of a fixed set of fields
and refuse any other. Definitions are put where they are referred to, a bound that has no field moves to the
description, where the model reads it, and the answer is validated anyway. What cannot be said at all is refused by
name.

A keyword is one by its place: a property may have any name, `title` and `$id` too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote

from chat_core.json import dumps
from chat_core.wire.shapes import Json, is_list, is_mapping, mapping

MAPS: Final = ("properties", "$defs", "patternProperties", "dependentSchemas")
SINGLES: Final = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")

DEEPEST: Final = 64


class InexpressibleError(Exception):
    """A schema says what its form cannot: `keyword`, at `path`, and what to do about it."""

    def __init__(self, keyword: str, path: str, why: str) -> None:
        super().__init__(f"`{keyword}` at {path or 'its root'}: {why}")
        self.keyword = keyword
        self.path = path


Rewrite = Callable[[Mapping[str, Any], str], Json]


def _descend(schema: Mapping[str, Any], path: str, rewrite: Rewrite) -> Json:
    """The schema, with the schemas in it rewritten."""
    result: Json = dict(schema)
    for key in MAPS:
        if is_mapping(items := schema.get(key)):
            result[key] = {name: _inner(item, f"{path}.{name}", rewrite) for name, item in items.items()}
    for key in SINGLES:
        if is_mapping(item := schema.get(key)):
            result[key] = rewrite(item, f"{path}.{key}")
    for key in LISTS:
        if is_list(members := schema.get(key)):
            result[key] = [_inner(item, f"{path}.{key}[{index}]", rewrite) for index, item in enumerate(members)]
    return result


def _inner(schema: object, path: str, rewrite: Rewrite) -> object:
    return rewrite(schema, path.removeprefix(".")) if is_mapping(schema) else schema


# --- JSON Schema --------------------------------------------------------------------------------------------


def json_form(schema: Mapping[str, object]) -> Json:
    """The same schema, in the words that have an effect."""
    return _json(schema, "")


def _json(schema: Mapping[str, Any], path: str) -> Json:
    if path.count(".") > DEEPEST:
        return dict(schema)
    schema = _with_defs(schema)
    result = _descend(schema, path, _json)
    if isinstance(name := result.get("$ref"), str):
        result["$ref"] = _moved(name)
        if any(not key.startswith("$") for key in result):
            # Nothing may stand beside a reference.
            union: Json = {"anyOf": [{"$ref": result.pop("$ref")}]}
            if "anyOf" in result:
                return {"allOf": [union, result]}
            result |= union
    if "const" in result and "enum" not in result and isinstance(result["const"], (str, int, float)):
        result["enum"] = [result.pop("const")]
    for exclusive, inclusive, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
        bound = result.get(exclusive)
        if result.get("type") == "integer" and type(bound) is int and inclusive not in result:
            result[inclusive] = result.pop(exclusive) + step
    return _merged(result)


def _with_defs(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema with its definitions under the name that is known."""
    if not is_mapping(old := schema.get("definitions")):
        return schema
    rest = {key: value for key, value in schema.items() if key != "definitions"}
    return {**rest, "$defs": {**old, **mapping(schema.get("$defs"))}}


def _moved(name: str) -> str:
    return f"#/$defs/{name.removeprefix('#/definitions/')}" if name.startswith("#/definitions/") else name


def _merged(schema: Json) -> Json:
    """The schema with the members of `allOf` in it, where no two of them say one thing in two ways."""
    members = schema.get("allOf")
    if is_list(members) and len(members) == 1 and "$ref" in mapping(members[0]) and "anyOf" not in schema:
        return {("anyOf" if key == "allOf" else key): value for key, value in schema.items()}
    if not is_list(members) or not all(is_mapping(item) and "$ref" not in item for item in members):
        return schema
    result = {key: value for key, value in schema.items() if key != "allOf"}
    for item in members:
        for key, value in mapping(item).items():
            if key in NOTES and key in result:
                continue  # the words that stand nearest hold
            known = result.get(key, value)
            if key == "properties" and not known.keys() & value.keys():
                result[key] = {**known, **value}
            elif key == "required" and known is not value:
                result[key] = [*known, *[name for name in value if name not in known]]
            elif known != value or (key == "additionalProperties" and value is False):
                return schema
            else:
                result[key] = value
    return result


NOTES: Final = frozenset({"title", "description", "default", "examples", "$comment", "deprecated"})
"""What says nothing about the values, and may be said again in other words."""


# --- The message of fixed fields ----------------------------------------------------------------------------

FIELDS: Final = frozenset(
    {
        "type", "format", "title", "description", "nullable", "default", "items", "minItems", "maxItems", "enum",
        "properties", "propertyOrdering", "required", "minProperties", "maxProperties", "minimum", "maximum",
        "minLength", "maxLength", "pattern", "example", "anyOf",
    }
)  # fmt: skip
"""The fields of the message."""

SPOKEN: Final = frozenset(
    {"multipleOf", "uniqueItems", "examples", "contentEncoding", "contentMediaType", "minContains", "maxContains"}
)
"""What has no field and the model can read: said in the description."""

SILENT: Final = frozenset(
    {"$schema", "$id", "$anchor", "$comment", "$defs", "deprecated", "readOnly", "writeOnly", "discriminator"}
)
"""What says nothing about the values."""

FORMATS: Final[Mapping[str, frozenset[str]]] = {
    "string": frozenset({"enum", "date-time"}),
    "number": frozenset({"float", "double"}),
    "integer": frozenset({"int32", "int64"}),
}
"""The formats that are known, by type; any other one is refused by the server."""

INSTEAD: Final = "the field for OpenAPI schemas cannot say it; send JSON Schema, or write the schema without it"


def openapi_form(schema: Mapping[str, object]) -> Json:
    """The schema in the fields of the message.

    Raises:
        InexpressibleError: it says what they cannot.
    """
    return _OpenApi(schema).rewrite(schema, "", ())


class _OpenApi:
    """Rewrites one schema. Its definitions are put in the places of the references to them."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._defs = mapping(_with_defs(root).get("$defs"))

    def rewrite(self, schema: object, path: str, within: tuple[str, ...]) -> Json:
        if schema is True or schema == {}:
            raise InexpressibleError("type", path, f"anything at all has none. {INSTEAD}")
        if not is_mapping(schema):
            raise InexpressibleError("false", path, "no value satisfies it")
        source, within = self._resolved(_with_defs(schema), path, within)
        source = _one_type(_one_value(source), path)
        spoken: list[str] = []
        result: Json = {}
        for key, value in source.items():
            self._take(key, value, result, spoken, path)
        self._numbers(source, result, spoken)
        self._values(result, spoken)
        self._format(result, spoken)
        self._unions(source, result, path, within)
        self._children(source, result, spoken, path, within)
        if spoken:
            said = f"({'; '.join(spoken)})"
            result["description"] = f"{result['description']} {said}" if result.get("description") else said
        return result

    def _resolved(
        self, schema: Mapping[str, Any], path: str, within: tuple[str, ...]
    ) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        """The schema without a reference or `allOf` at its root."""
        while isinstance(name := schema.get("$ref"), str):
            key = unquote(_moved(name).removeprefix("#/$defs/")).replace("~1", "/").replace("~0", "~")
            if key not in self._defs:
                raise InexpressibleError("$ref", path, f"{name!r} leads to no definition of this schema")
            if key in within:
                raise InexpressibleError("$ref", path, f"{name!r} is recursive, and {INSTEAD}")
            within = (*within, key)
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            schema = {**mapping(self._defs[key]), **rest}
        if "allOf" in schema:
            members = schema["allOf"] if is_list(schema["allOf"]) else []
            parts = [self._resolved(mapping(item), path, within) for item in members]
            schema = _merged({**schema, "allOf": [part for part, _ in parts]})
            within = tuple(dict.fromkeys([*within, *[name for _, names in parts for name in names]]))
            if "allOf" in schema:
                raise InexpressibleError("allOf", path, f"its members do not fit into one schema, and {INSTEAD}")
        return schema, within

    def _take(self, key: str, value: Any, result: Json, spoken: list[str], path: str) -> None:  # noqa: ANN401 - JSON
        if key in FIELDS:
            result[key] = value
        elif key in SPOKEN:
            spoken.append(f"{key}: {dumps(value)}")
        elif key not in SILENT and key not in HANDLED and not key.startswith("x-"):
            raise InexpressibleError(key, path, INSTEAD)

    def _numbers(self, source: Mapping[str, Any], result: Json, spoken: list[str]) -> None:
        for exclusive, inclusive, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
            bound = source.get(exclusive)
            if bound is None:
                continue
            if source.get("type") == "integer" and type(bound) is int and inclusive not in source:
                result[inclusive] = bound + step
            else:
                spoken.append(f"{exclusive}: {dumps(bound)}")
                result.setdefault(inclusive, bound)

    def _values(self, result: Json, spoken: list[str]) -> None:
        """An enumeration holds texts, none of them empty; another one is told in words."""
        values = result.get("enum")
        if not is_list(values):
            return
        texts = [value for value in values if value is not None]
        if len(texts) < len(values):
            result["nullable"] = True
        if texts and all(isinstance(value, str) and value for value in texts):
            result["enum"] = texts
            result.setdefault("type", "string")
            return
        del result["enum"]
        spoken.append(f"one of: {', '.join([dumps(value) for value in values])}")
        if "type" not in result and "anyOf" not in result:
            kinds = {_kind_of(value) for value in texts}
            result["type"] = kinds.pop() if len(kinds) == 1 else "string"

    def _format(self, result: Json, spoken: list[str]) -> None:
        known = FORMATS.get(str(result.get("type")).lower(), frozenset[str]())
        if "format" in result and result["format"] not in known:
            spoken.append(f"format: {result.pop('format')}")

    def _unions(self, source: Mapping[str, Any], result: Json, path: str, within: tuple[str, ...]) -> None:
        members = result.get("anyOf", source.get("oneOf"))
        if not is_list(members):
            return
        if "oneOf" in source and "anyOf" in source:
            raise InexpressibleError("oneOf", path, f"beside anyOf: {INSTEAD}")
        forms = [self.rewrite(item, f"{path}.anyOf[{index}]", within) for index, item in enumerate(members)]
        result.pop("anyOf", None)
        if len(forms) == 1:
            for key, value in forms[0].items():
                result.setdefault(key, value)
        elif forms:
            result["anyOf"] = forms

    def _children(
        self, source: Mapping[str, Any], result: Json, spoken: list[str], path: str, within: tuple[str, ...]
    ) -> None:
        if is_mapping(properties := source.get("properties")):
            result["properties"] = {
                name: self.rewrite(item, f"{path}.{name}".removeprefix("."), within)
                for name, item in properties.items()
            }
            result.setdefault("type", "object")
        if is_mapping(further := source.get("additionalProperties")) or (further is True and "properties" in source):
            spoken.append(f"further properties: {dumps(further)}")
        if str(result.get("type")).lower() == "object" and not result.get("properties") and path:
            raise InexpressibleError("additionalProperties", path, f"an object whose names are not known: {INSTEAD}")
        self._array(source, result, spoken, path, within)
        if not result.keys() & {"type", "anyOf"}:
            raise InexpressibleError("type", path, f"there is none. {INSTEAD}")

    def _array(
        self, source: Mapping[str, Any], result: Json, spoken: list[str], path: str, within: tuple[str, ...]
    ) -> None:
        if is_list(places := source.get("prefixItems")):
            forms = [self.rewrite(item, f"{path}.prefixItems[{index}]", within) for index, item in enumerate(places)]
            unlike = [form for index, form in enumerate(forms) if form not in forms[:index]]
            spoken.append(f"in this order: {dumps(places)}")
            result["items"] = unlike[0] if len(unlike) == 1 else {"anyOf": unlike}
        elif is_list(source.get("items")):
            raise InexpressibleError("items", path, f"a schema for each place: {INSTEAD}")
        elif "items" in source:
            result["items"] = self.rewrite(source["items"], f"{path}.items", within)
        elif str(result.get("type")).lower() == "array" and "items" not in result:
            raise InexpressibleError("items", path, f"an array needs them. {INSTEAD}")


HANDLED: Final = frozenset(
    {"const", "oneOf", "prefixItems", "additionalProperties", "exclusiveMinimum", "exclusiveMaximum", "definitions"}
)


def _one_value(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """A constant is an enumeration of one value."""
    return {**schema, "enum": [schema["const"]]} if "const" in schema and "enum" not in schema else schema


def _one_type(schema: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    """The schema with one type: null is said by a field of its own, and several types are a union."""
    kinds = schema.get("type")
    if not is_list(kinds):
        return schema
    rest = [str(kind) for kind in kinds if str(kind).lower() != "null"]
    nullable: Json = {"nullable": True} if len(rest) < len(kinds) else {}
    if len(rest) <= 1:
        return {**schema, **nullable, "type": rest[0] if rest else "null"}
    if "anyOf" in schema or "oneOf" in schema:
        raise InexpressibleError("type", path, f"several types beside a union: {INSTEAD}")
    own = {kind: {key: schema[key] for key in OF_TYPE.get(kind.lower(), ()) if key in schema} for kind in rest}
    taken = {"type", *[key for fields in own.values() for key in fields]}
    common = {key: value for key, value in schema.items() if key not in taken}
    return {**common, **nullable, "anyOf": [{"type": kind, **fields} for kind, fields in own.items()]}


OF_TYPE: Final[Mapping[str, tuple[str, ...]]] = {
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems"),
    "object": (
        "properties", "required", "minProperties", "maxProperties", "propertyOrdering", "additionalProperties",
    ),
    "string": ("minLength", "maxLength", "pattern", "format"),
}  # fmt: skip
"""What a schema says of the values of one type alone."""


def _kind_of(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "integer" if isinstance(value, int) else "number" if isinstance(value, float) else "string"
