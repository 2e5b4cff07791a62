"""The canonical form of request bodies of the Gemini API.

Two bodies have the same meaning for the API exactly if `normalise()` returns equal forms. `EQUIVALENCES` lists every
difference that does not matter. All other differences do: the order of contents, parts, tools and schema properties,
and every name, number, signature and unknown field.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from typing import Final, cast

from ..normalise import Difference, Equivalence, Json, Object, compare

EQUIVALENCES: Final = (
    Equivalence("key-order", "the members of an object in any order", "RFC 8259, section 4: objects are unordered"),
    Equivalence("number", "`1` and `1.0`", "JSON has a single number type"),
    Equivalence(
        "null", "a member that is null, and absent", "protocol buffers define it for JSON, except inside arguments"
    ),
    Equivalence("case", "`functionCall` and `function_call`", "protocol buffers accept both names of a field"),
    Equivalence("one-of-many", "`x` and `[x]` where a list is wanted", "the server accepts both, as recordings show"),
    Equivalence("base64", "two base64 texts of the same bytes", "both decode to the same bytes"),
    Equivalence(
        "no-role",
        "a content of role `user`, `function` or none; an instruction of any role",
        "`user` is the default, and `function` its older name for results; the role of instructions has no effect",
    ),
    Equivalence(
        "one-turn",
        "adjacent contents of one role, and one content with their parts",
        "API reference: turns are identified by role, and their division has no meaning",
    ),
    Equivalence(
        "silent", "an empty text without a signature, a content without parts, and absent", "all of them are empty"
    ),
    Equivalence("no-thought", "`thought: false`, and absent", "false is the default"),
    Equivalence("no-arguments", "a call without `args`, and with `{}`", "both call the function without arguments"),
    Equivalence(
        "one-tool",
        "functions declared in one entry of `tools`, and in several",
        "API reference: the model receives all declared functions",
    ),
    Equivalence(
        "empty",
        "`[]` or `{}` for `tools`, `toolConfig`, `generationConfig` and the like, and absent",
        "the fields are empty",
    ),
    Equivalence("auto", '`mode: "AUTO"` of function calling, and absent', "AUTO is the documented default"),
    Equivalence("no-description", '`description: ""` of a function, and absent', "an empty description has no content"),
    Equivalence(
        "no-parameters", "no parameters, and an object without properties", "the API reference defines them as equal"
    ),
    Equivalence(
        "type-case", "`STRING` and `string` as a type of a schema", "the server accepts both, as recordings show"
    ),
    Equivalence("enum-case", "`LOW` and `low` as a level of thinking", "the server accepts both"),
    Equivalence(
        "schema-dialect",
        "a `$schema` at the root of a schema that names a published draft, and absent",
        "JSON Schema Core, section 8.1.1: `$schema` does not constrain values",
    ),
    Equivalence(
        "required-set",
        "`required` in any order; `[]`, and absent",
        "JSON Schema: names are unique, and the default is an empty list",
    ),
)
"""Everything that may differ between equivalent bodies."""

OPEN: Final = frozenset({"args", "response", "labels", "partMetadata", "parametersJsonSchema", "responseJsonSchema"})
"""Members whose inside is the caller's own: no names of fields are in it."""

SCHEMAS: Final = frozenset({"parameters", "parametersJsonSchema", "responseSchema", "responseJsonSchema"})

REPEATED: Final = frozenset({"parts", "contents", "tools", "functionDeclarations", "safetySettings"})

BYTES: Final = frozenset({"data", "thoughtSignature"})


def normalise(body: Object) -> Object:
    """Return the canonical form of a body. The body itself is not changed."""
    form: Object = cast("Object", _plain(body))
    if "generateContentRequest" in form:
        inner: Json = normalise(cast("Object", form["generateContentRequest"]))
        form["generateContentRequest"] = inner
    if isinstance(system := form.get("systemInstruction"), dict):
        kept: Object = {key: value for key, value in system.items() if key not in {"parts", "role"}}
        if parts := _parts(system.get("parts")):
            kept["parts"] = parts
        form["systemInstruction"] = kept
    if isinstance(contents := form.get("contents"), list):
        form["contents"] = _contents(contents)
    if isinstance(tools := form.get("tools"), list):
        form["tools"] = _tools(tools)
    if isinstance(config := form.get("toolConfig"), dict):
        _tool_config(config)
    if isinstance(generation := form.get("generationConfig"), dict):
        _generation(generation)
    _drop_empty(form)
    return form


def _tool_config(config: Object) -> None:
    if isinstance(calling := config.get("functionCallingConfig"), dict):
        if calling.get("mode") in {"AUTO", "MODE_UNSPECIFIED"}:
            del calling["mode"]
        _drop_empty(calling)
    _drop_empty(config)


def _generation(generation: Object) -> None:
    for key in SCHEMAS & generation.keys():
        generation[key] = _root(generation[key])
    thinking = generation.get("thinkingConfig")
    if isinstance(thinking, dict) and isinstance(level := thinking.get("thinkingLevel"), str):
        thinking["thinkingLevel"] = level.lower()
    _drop_empty(generation)


def differences(left: Object, right: Object) -> list[Difference]:
    """Return the differences between the canonical forms of two bodies, by path."""
    return list(compare("", cast("Json", normalise(left)), cast("Json", normalise(right))))


def fingerprint(body: Object) -> str:
    """Return a text that is equal for two bodies exactly if they are equivalent."""
    return json.dumps(normalise(body), sort_keys=True)


def camel(name: str) -> str:
    """Return the JSON name of a field."""
    return re.sub(r"_([a-z0-9])", lambda found: found[1].upper(), name)


def _plain(value: Json, key: str = "") -> Json:
    """Return a value with names, numbers, bytes and lists in one form, and without nulls."""
    if key in SCHEMAS:
        return numbers(value)
    if key in OPEN:
        return numbers(value)
    if isinstance(value, dict):
        named = {camel(name): item for name, item in value.items() if item is not None}
        form: Object = {name: _plain(item, name) for name, item in named.items()}
        return {name: [item] if name in REPEATED and isinstance(item, dict) else item for name, item in form.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if key in BYTES and isinstance(value, str):
        return _bytes(value)
    return numbers(value)


def numbers(value: Json) -> Json:
    """Return the value with every whole number as an integer."""
    if isinstance(value, dict):
        return {key: numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [numbers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _bytes(text: str) -> Json:
    plain = "".join(text.split()).translate(str.maketrans("-_", "+/")).rstrip("=")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True).hex()
    except binascii.Error:
        return text


def _parts(parts: Json) -> Json:
    forms = [_part(part) if isinstance(part, dict) else part for part in (parts if isinstance(parts, list) else [])]
    return [form for form in forms if form != {"text": ""}]


def _part(part: Object) -> Object:
    form = {key: value for key, value in part.items() if (key, value) != ("thought", False)}
    if isinstance(call := form.get("functionCall"), dict):
        form["functionCall"] = {"args": {}, **call}
    return form


def _contents(contents: list[Json]) -> Json:
    joined = list[Json]()
    for item in contents:
        if not isinstance(item, dict):
            joined.append(item)
            continue
        role = "user" if item.get("role") in {None, "function"} else item["role"]
        parts = cast("list[Json]", _parts(item.get("parts")))
        last = joined[-1] if joined else None
        if not parts and item.keys() <= {"role", "parts"}:
            continue
        if isinstance(last, dict) and last["role"] == role and item.keys() <= {"role", "parts"}:
            last["parts"] = [*cast("list[Json]", last["parts"]), *parts]
        else:
            joined.append({**item, "role": role, "parts": parts})
    return joined


def _tools(tools: list[Json]) -> Json:
    functions, others = list[Json](), list[Json]()
    for tool in tools:
        if not isinstance(tool, dict):
            others.append(tool)
            continue
        for key, value in tool.items():
            if key == "functionDeclarations" and isinstance(value, list):
                functions += [_function(item) if isinstance(item, dict) else item for item in value]
            else:
                others.append({key: value})
    declared: Object = {"functionDeclarations": functions}
    return [declared, *others] if functions else others


def _function(function: Object) -> Json:
    form = {key: _root(value) if key in SCHEMAS else value for key, value in function.items()}
    if form.get("description") == "":
        del form["description"]
    for key in SCHEMAS & form.keys():
        schema = form[key]
        if schema in ({"type": "object"}, {"type": "object", "properties": []}):
            del form[key]
    return form


def _drop_empty(form: Object) -> None:
    for key in [key for key, value in form.items() if value in ([], {}, [{}])]:
        del form[key]


# --- Schemas ------------------------------------------------------------------------------------------------

DRAFT: Final = re.compile(r"https?://json-schema\.org/draft(-0[4-7]|/20(19-09|20-12))/schema#?")
MAPS: Final = ("properties", "$defs", "definitions", "patternProperties")
INSIDE: Final = ("items", "additionalProperties", "anyOf", "allOf", "oneOf", "not", "prefixItems")


def _root(schema: Json) -> Json:
    form = _schema(schema)
    if isinstance(form, dict) and DRAFT.fullmatch(str(form.get("$schema"))):
        del form["$schema"]
    return form


def each_schema(schema: Json, change: Callable[[Object], Object]) -> Json:
    """Return the schema after `change` was applied to every schema in it, innermost first.

    Keywords get their JSON names.
    """
    if isinstance(schema, list):
        return [each_schema(item, change) for item in schema]
    if not isinstance(schema, dict):
        return schema
    form: Object = {camel(key): value for key, value in schema.items() if value is not None}
    for key, value in form.items():
        if key in MAPS and isinstance(value, dict):
            form[key] = {name: each_schema(item, change) for name, item in value.items()}
        elif key in INSIDE:
            form[key] = each_schema(value, change)
    return change(form)


def _schema(schema: Json) -> Json:
    """Return a schema in which the order of properties matters."""
    return each_schema(schema, _keyword_forms)


def _keyword_forms(schema: Object) -> Object:
    form = dict(schema)
    if isinstance(kind := form.get("type"), str):
        form["type"] = kind.lower()
    required = form.get("required")
    if isinstance(required, list) and all(isinstance(name, str) for name in required):
        form["required"] = sorted(required, key=str)
    if form.get("required") == []:
        del form["required"]
    for key in MAPS:
        if isinstance(value := form.get(key), dict):
            pairs: Json = [[name, item] for name, item in value.items()]
            form[key] = pairs
    return form
