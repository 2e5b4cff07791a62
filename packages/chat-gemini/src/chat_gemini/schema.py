"""Conversion of JSON Schema to the two forms that the API accepts.

`json_form()` is for the fields that accept JSON Schema (`responseJsonSchema`, `parametersJsonSchema`). They accept any
schema, but not every keyword has an effect. Keywords without an effect are replaced by equivalent keywords where
possible. No keyword is removed.

`openapi_form()` is for the older fields (`responseSchema`, `parameters`), which accept a fixed set of keywords and
reject all others. References are replaced by their definitions. Other bounds move to the description, where the model
reads them, and the library validates the response against the original schema. Schemas that cannot be expressed raise
`InexpressibleError`.

Properties may have the name of a keyword, such as `title` or `$id`.
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

MAX_DEPTH: Final = 64


class InexpressibleError(Exception):
    """Raised if a schema cannot be expressed in the OpenAPI format.

    Attributes:
        keyword: the unsupported keyword.
        path: path of the schema with the keyword; empty for the root.
    """

    def __init__(self, keyword: str, path: str, reason: str) -> None:
        super().__init__(f"`{keyword}` at {path or 'the root'}: {reason}")
        self.keyword = keyword
        self.path = path


Rewrite = Callable[[Mapping[str, Any], str], Json]


def _rewrite_subschemas(schema: Mapping[str, Any], path: str, rewrite: Rewrite) -> Json:
    """Return a copy of `schema` in which `rewrite` has replaced each direct subschema."""
    result: Json = dict(schema)
    for key in MAPS:
        if is_mapping(items := schema.get(key)):
            result[key] = {name: _rewrite_if_object(item, f"{path}.{name}", rewrite) for name, item in items.items()}
    for key in SINGLES:
        if is_mapping(item := schema.get(key)):
            result[key] = rewrite(item, f"{path}.{key}")
    for key in LISTS:
        if is_list(members := schema.get(key)):
            result[key] = [
                _rewrite_if_object(item, f"{path}.{key}[{index}]", rewrite) for index, item in enumerate(members)
            ]
    return result


def _rewrite_if_object(schema: object, path: str, rewrite: Rewrite) -> object:
    return rewrite(schema, path.removeprefix(".")) if is_mapping(schema) else schema


# --- JSON Schema --------------------------------------------------------------------------------------------


def json_form(schema: Mapping[str, object]) -> Json:
    """Return an equivalent schema for request fields that accept JSON Schema.

    Keywords that have no effect in these fields are replaced by equivalent keywords where possible.
    """
    return _rewrite_json(schema, "")


def _rewrite_json(schema: Mapping[str, Any], path: str) -> Json:
    if path.count(".") > MAX_DEPTH:
        return dict(schema)
    schema = _with_defs(schema)
    result = _rewrite_subschemas(schema, path, _rewrite_json)
    if isinstance(name := result.get("$ref"), str):
        result["$ref"] = _defs_reference(name)
        if any(not key.startswith("$") for key in result):
            # The API accepts no other keyword next to `$ref`.
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
    return _merge_all_of(result)


def _with_defs(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `schema` with its `definitions` moved to `$defs`, the keyword that the API supports."""
    if not is_mapping(old := schema.get("definitions")):
        return schema
    rest = {key: value for key, value in schema.items() if key != "definitions"}
    return {**rest, "$defs": {**old, **mapping(schema.get("$defs"))}}


def _defs_reference(name: str) -> str:
    return f"#/$defs/{name.removeprefix('#/definitions/')}" if name.startswith("#/definitions/") else name


def _merge_all_of(schema: Json) -> Json:
    """Return `schema` with the members of its `allOf` merged into it.

    The schema is returned unchanged if members conflict or contain references.
    """
    members = schema.get("allOf")
    if is_list(members) and len(members) == 1 and "$ref" in mapping(members[0]) and "anyOf" not in schema:
        return {("anyOf" if key == "allOf" else key): value for key, value in schema.items()}
    if not is_list(members) or not all(is_mapping(item) and "$ref" not in item for item in members):
        return schema
    result = {key: value for key, value in schema.items() if key != "allOf"}
    for item in members:
        for key, value in mapping(item).items():
            if key in NOTES and key in result:
                continue  # the outer annotation takes precedence
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
"""Annotation keywords, which do not affect the accepted values."""


# --- OpenAPI ------------------------------------------------------------------------------------------------

FIELDS: Final = frozenset(
    {
        "type", "format", "title", "description", "nullable", "default", "items", "minItems", "maxItems", "enum",
        "properties", "propertyOrdering", "required", "minProperties", "maxProperties", "minimum", "maximum",
        "minLength", "maxLength", "pattern", "example", "anyOf",
    }
)  # fmt: skip
"""Keywords that the OpenAPI format supports."""

DESCRIBED: Final = frozenset(
    {"multipleOf", "uniqueItems", "examples", "contentEncoding", "contentMediaType", "minContains", "maxContains"}
)
"""Keywords that the OpenAPI format lacks, and that are added to the description, which the model reads."""

IGNORED: Final = frozenset(
    {"$schema", "$id", "$anchor", "$comment", "$defs", "deprecated", "readOnly", "writeOnly", "discriminator"}
)
"""Keywords without effect on the accepted values, which are left out."""

FORMATS: Final[Mapping[str, frozenset[str]]] = {
    "string": frozenset({"enum", "date-time"}),
    "number": frozenset({"float", "double"}),
    "integer": frozenset({"int32", "int64"}),
}
"""Supported values of `format` by type. The server rejects other values."""

_UNSUPPORTED: Final = "which the OpenAPI format does not support"
_ANY_VALUE: Final = "the schema accepts any value, which the OpenAPI format cannot express"
REMEDY: Final = "or do not call with_openapi_schemas()"


def openapi_form(schema: Mapping[str, object]) -> Json:
    """Convert a JSON Schema to the OpenAPI format and return the result.

    Raises:
        InexpressibleError: the format cannot express the schema.
    """
    return _OpenApiRewriter(schema).rewrite(schema, "", ())


class _OpenApiRewriter:
    """Converter of one JSON Schema to the OpenAPI format, with references replaced by their definitions.

    In the methods, `described` collects texts for the description, and `within` contains the names of the definitions
    that enclose the current schema.
    """

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._defs = mapping(_with_defs(root).get("$defs"))

    def rewrite(self, schema: object, path: str, within: tuple[str, ...]) -> Json:
        if schema is True or schema == {}:
            raise InexpressibleError("type", path, f"{_ANY_VALUE}. Give it a type, {REMEDY}")
        if not is_mapping(schema):
            raise InexpressibleError("false", path, f"this schema rejects every value. Remove it, {REMEDY}")
        source, within = self._resolve(_with_defs(schema), path, within)
        source = _split_types(_const_to_enum(source), path)
        described: list[str] = []
        result: Json = {}
        for key, value in source.items():
            self._add_keyword(key, value, result, described, path)
        self._add_bounds(source, result, described)
        self._rewrite_enum(result, described)
        self._rewrite_format(result, described)
        self._rewrite_union(source, result, path, within)
        self._rewrite_children(source, result, described, path, within)
        if described:
            text = f"({'; '.join(described)})"
            result["description"] = f"{result['description']} {text}" if result.get("description") else text
        return result

    def _resolve(
        self, schema: Mapping[str, Any], path: str, within: tuple[str, ...]
    ) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        """Return `schema` with `$ref` and `allOf` at its root resolved, and the names of the enclosing definitions."""
        while isinstance(name := schema.get("$ref"), str):
            key = unquote(_defs_reference(name).removeprefix("#/$defs/")).replace("~1", "/").replace("~0", "~")
            if key not in self._defs:
                raise InexpressibleError("$ref", path, f"{name!r} is not defined; add it to `$defs`")
            if key in within:
                raise InexpressibleError(
                    "$ref", path, f"{name!r} is recursive, {_UNSUPPORTED}. Remove the recursion, {REMEDY}"
                )
            within = (*within, key)
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            schema = {**mapping(self._defs[key]), **rest}
        if "allOf" in schema:
            members = schema["allOf"] if is_list(schema["allOf"]) else []
            parts = [self._resolve(mapping(item), path, within) for item in members]
            schema = _merge_all_of({**schema, "allOf": [part for part, _ in parts]})
            within = tuple(dict.fromkeys([*within, *[name for _, names in parts for name in names]]))
            if "allOf" in schema:
                raise InexpressibleError("allOf", path, f"its members cannot be merged. Write one schema, {REMEDY}")
        return schema, within

    def _add_keyword(self, key: str, value: Any, result: Json, described: list[str], path: str) -> None:  # noqa: ANN401 - JSON
        if key in FIELDS:
            result[key] = value
        elif key in DESCRIBED:
            described.append(f"{key}: {dumps(value)}")
        elif key not in IGNORED and key not in HANDLED and not key.startswith("x-"):
            raise InexpressibleError(key, path, f"the OpenAPI format does not support it. Remove it, {REMEDY}")

    def _add_bounds(self, source: Mapping[str, Any], result: Json, described: list[str]) -> None:
        for exclusive, inclusive, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
            bound = source.get(exclusive)
            if bound is None:
                continue
            if source.get("type") == "integer" and type(bound) is int and inclusive not in source:
                result[inclusive] = bound + step
            else:
                described.append(f"{exclusive}: {dumps(bound)}")
                result.setdefault(inclusive, bound)

    def _rewrite_enum(self, result: Json, described: list[str]) -> None:
        """Keep an `enum` of nonempty strings in `result`, and move any other `enum` to the description."""
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
        described.append(f"one of: {', '.join([dumps(value) for value in values])}")
        if "type" not in result and "anyOf" not in result:
            kinds = {_type_of(value) for value in texts}
            result["type"] = kinds.pop() if len(kinds) == 1 else "string"

    def _rewrite_format(self, result: Json, described: list[str]) -> None:
        known = FORMATS.get(str(result.get("type")).lower(), frozenset[str]())
        if "format" in result and result["format"] not in known:
            described.append(f"format: {result.pop('format')}")

    def _rewrite_union(self, source: Mapping[str, Any], result: Json, path: str, within: tuple[str, ...]) -> None:
        members = result.get("anyOf", source.get("oneOf"))
        if not is_list(members):
            return
        if "oneOf" in source and "anyOf" in source:
            raise InexpressibleError(
                "oneOf", path, f"it is combined with anyOf, {_UNSUPPORTED}. Use one of them, {REMEDY}"
            )
        forms = [self.rewrite(item, f"{path}.anyOf[{index}]", within) for index, item in enumerate(members)]
        result.pop("anyOf", None)
        if len(forms) == 1:
            for key, value in forms[0].items():
                result.setdefault(key, value)
        elif forms:
            result["anyOf"] = forms

    def _rewrite_children(
        self, source: Mapping[str, Any], result: Json, described: list[str], path: str, within: tuple[str, ...]
    ) -> None:
        if is_mapping(properties := source.get("properties")):
            result["properties"] = {
                name: self.rewrite(item, f"{path}.{name}".removeprefix("."), within)
                for name, item in properties.items()
            }
            result.setdefault("type", "object")
        if is_mapping(further := source.get("additionalProperties")) or (further is True and "properties" in source):
            described.append(f"further properties: {dumps(further)}")
        if str(result.get("type")).lower() == "object" and not result.get("properties") and path:
            raise InexpressibleError(
                "additionalProperties", path, f"the object has no named properties, {_UNSUPPORTED}. Name them, {REMEDY}"
            )
        self._rewrite_items(source, result, described, path, within)
        if not result.keys() & {"type", "anyOf"}:
            raise InexpressibleError("type", path, f"the OpenAPI format requires a type. Add it, {REMEDY}")

    def _rewrite_items(
        self, source: Mapping[str, Any], result: Json, described: list[str], path: str, within: tuple[str, ...]
    ) -> None:
        if is_list(places := source.get("prefixItems")):
            forms = [self.rewrite(item, f"{path}.prefixItems[{index}]", within) for index, item in enumerate(places)]
            distinct = [form for index, form in enumerate(forms) if form not in forms[:index]]
            described.append(f"in this order: {dumps(places)}")
            result["items"] = distinct[0] if len(distinct) == 1 else {"anyOf": distinct}
        elif is_list(source.get("items")):
            raise InexpressibleError(
                "items", path, f"it is a list of schemas, {_UNSUPPORTED}. Use one schema, {REMEDY}"
            )
        elif "items" in source:
            result["items"] = self.rewrite(source["items"], f"{path}.items", within)
        elif str(result.get("type")).lower() == "array" and "items" not in result:
            raise InexpressibleError("items", path, f"the OpenAPI format requires items for an array. Add it, {REMEDY}")


HANDLED: Final = frozenset(
    {"const", "oneOf", "prefixItems", "additionalProperties", "exclusiveMinimum", "exclusiveMaximum", "definitions"}
)


def _const_to_enum(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `schema` with `const` replaced by an `enum` of one value."""
    return {**schema, "enum": [schema["const"]]} if "const" in schema and "enum" not in schema else schema


def _split_types(schema: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    """Return `schema` with its list of types replaced by one type or a union. The type `null` becomes `nullable`."""
    kinds = schema.get("type")
    if not is_list(kinds):
        return schema
    rest = [str(kind) for kind in kinds if str(kind).lower() != "null"]
    nullable: Json = {"nullable": True} if len(rest) < len(kinds) else {}
    if len(rest) <= 1:
        return {**schema, **nullable, "type": rest[0] if rest else "null"}
    if "anyOf" in schema or "oneOf" in schema:
        raise InexpressibleError(
            "type", path, f"several types and a union are combined, {_UNSUPPORTED}. Use one, {REMEDY}"
        )
    own = {kind: {key: schema[key] for key in TYPE_KEYWORDS.get(kind.lower(), ()) if key in schema} for kind in rest}
    moved = {"type", *[key for fields in own.values() for key in fields]}
    common = {key: value for key, value in schema.items() if key not in moved}
    return {**common, **nullable, "anyOf": [{"type": kind, **fields} for kind, fields in own.items()]}


TYPE_KEYWORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems"),
    "object": (
        "properties", "required", "minProperties", "maxProperties", "propertyOrdering", "additionalProperties",
    ),
    "string": ("minLength", "maxLength", "pattern", "format"),
}  # fmt: skip
"""Keywords that apply to values of one type, by type."""


def _type_of(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    return "integer" if isinstance(value, int) else "number" if isinstance(value, float) else "string"
