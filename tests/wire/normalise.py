"""The canonical form of request bodies of the Chat Completions API.

Two bodies have the same meaning for the API exactly if `normalise()` returns equal forms. `EQUIVALENCES` lists every
difference that does not matter. All other differences do: the order of messages, parts, tools and schema properties
(models generate in that order), and every name, number and unknown field.

In the canonical form, content is a list of parts, arguments and results are parsed, data is bytes, nulls and documented
defaults are absent, and the properties of a schema are a list of pairs.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
Object: TypeAlias = dict[str, Json]


@dataclass(frozen=True)
class Equivalence:
    """Two representations of one value, and the reason why vendors treat them alike."""

    name: str
    same: str
    reason: str


EQUIVALENCES: Final = (
    Equivalence("key-order", "the members of an object in any order", "RFC 8259, section 4: objects are unordered"),
    Equivalence("number", "`1` and `1.0`", "JSON has a single number type"),
    Equivalence(
        "null",
        "a member that is null, and absent",
        "null is the default of every optional field, except inside a schema",
    ),
    Equivalence(
        "content-string",
        '`"x"` and `[{"type": "text", "text": "x"}]`',
        "API reference: content is a string or a list of parts; the string is the short form",
    ),
    Equivalence(
        "silent-call",
        'the content of an assistant message with calls: `""`, `[]`, null, none',
        "content is optional in a message with calls, and all of these are empty",
    ),
    Equivalence("arguments", "two texts of one JSON value as `arguments`", "the field is JSON encoded as a string"),
    Equivalence("no-arguments", '`arguments: ""` and `"{}"`', "both call the function without arguments"),
    Equivalence(
        "call-type",
        '`"type": "function"` of a tool or call that has a `function`, and absent',
        "the field `function` implies the type",
    ),
    Equivalence(
        "call-index",
        "an `index` of 0 in a call of a request, and absent",
        "an index orders the chunks of a stream; a request has a list, and 0 is Mistral's default",
    ),
    Equivalence(
        "result-name",
        "the `name` of a tool message that is the name of the call it answers, and absent",
        "`tool_call_id` identifies the call, which has the name",
    ),
    Equivalence(
        "no-annotations",
        "`annotations: []`, and absent",
        "the field belongs to responses, and an empty list has no effect",
    ),
    Equivalence("no-prefix", "`prefix: false`, and absent", "false is the default for Mistral and DeepSeek"),
    Equivalence("data-url", "two base64 texts of the same bytes", "both decode to the same bytes (RFC 2397, RFC 4648)"),
    Equivalence("detail", '`detail: "auto"` of an image, and absent', "auto is the documented default"),
    Equivalence("not-strict", "`strict: false`, and absent", "false is the documented default"),
    Equivalence(
        "no-parameters", "no `parameters`, and an object without properties", "the API reference defines them as equal"
    ),
    Equivalence("no-tools", "`tools: []`, and absent", "both declare no tools"),
    Equivalence("no-calls", "`parallel_tool_calls` without tools, and absent", "without tools there are no calls"),
    Equivalence(
        "schema-dialect",
        "a `$schema` at the root of a schema that names a published draft, and absent",
        "JSON Schema Core, section 8.1.1: `$schema` does not constrain values, and each vendor supports one dialect",
    ),
    Equivalence("no-description", '`description: ""` of a function, and absent', "an empty description has no content"),
    Equivalence(
        "required-set",
        "`required` in any order; `[]`, and absent",
        "JSON Schema: names are unique, and the default is an empty list",
    ),
    Equivalence(
        "default-choice",
        '`tool_choice: "auto"` beside tools, `"none"` without tools, and no choice',
        "these are the documented defaults",
    ),
    Equivalence("any-tool", '`tool_choice: "any"` and `"required"`', "Mistral documents both with the same meaning"),
    Equivalence("no-stream", "`stream: false`, and absent", "false is the documented default"),
    Equivalence("one-answer", "`n: 1`, and absent", "1 is the documented default"),
    Equivalence("text-format", '`response_format: {"type": "text"}`, and absent', "text is the documented default"),
    Equivalence("stop-string", '`stop: "x"` and `["x"]`', "the API reference documents both"),
    Equivalence("input-string", '`input: "x"` and `["x"]`', "the API reference documents both for one text"),
    Equivalence("float-vectors", '`encoding_format: "float"`, and absent', "float is the documented default"),
)
"""Everything that may differ between equivalent bodies."""


ABSENT: Final = "(absent)"


@dataclass(frozen=True)
class Difference:
    """A place where two bodies differ. A missing side is `ABSENT`."""

    path: str
    left: Json
    right: Json

    def __str__(self) -> str:
        return f"{self.path}: {_brief(self.left)} ≠ {_brief(self.right)}"


def normalise(body: Object) -> Object:
    """Return the canonical form of a body of a chat or of embeddings. The body itself is not changed."""
    form = {key: _number(value) for key, value in body.items() if value is not None}
    form = {key: _value(key, value) for key, value in form.items()}
    _default(form, "stream", value=False)
    _default(form, "n", 1)
    _default(form, "encoding_format", "float")
    _default(form, "response_format", {"type": "text"})
    for key in ("stop", "input"):
        if isinstance(form.get(key), str):
            form[key] = [form[key]]
    if form.get("tool_choice") == "any":
        form["tool_choice"] = "required"
    _default(form, "tools", [])
    _default(form, "tool_choice", "auto" if "tools" in form else "none")
    if "tools" not in form:
        form.pop("parallel_tool_calls", None)
    return form


def differences(left: Object, right: Object) -> list[Difference]:
    """Return the differences between the canonical forms of two bodies, by path."""
    return list(compare("", cast("Json", normalise(left)), cast("Json", normalise(right))))


def fingerprint(body: Object) -> str:
    """Return a text that is equal for two bodies exactly if they are equivalent."""
    return json.dumps(normalise(body), sort_keys=True)


# --- The members of a body -----------------------------------------------------------------------------------


def _value(key: str, value: Json) -> Json:
    if key == "messages" and isinstance(value, list):
        names = dict[str, Json]()
        return [_message(item, names) if isinstance(item, dict) else item for item in value]
    if key == "tools" and isinstance(value, list):
        return [_tool(item) if isinstance(item, dict) else item for item in value]
    if key == "response_format" and isinstance(value, dict):
        return _response_format(value)
    return without_nulls(value)


def _message(message: Object, names: dict[str, Json]) -> Json:
    """Return the canonical form of a message. `names` are the names of the earlier calls by their ids."""
    form: Object = {key: without_nulls(value) for key, value in message.items() if value is not None}
    calls = form.get("tool_calls")
    if isinstance(calls, list):
        form["tool_calls"] = [_call(call, names) if isinstance(call, dict) else call for call in calls]
    content = form.get("content")
    if isinstance(content, str):
        text: Object = {"type": "text", "text": content}
        content = [text]
    if isinstance(content, list):
        form["content"] = [_part(part) if isinstance(part, dict) else part for part in content]
        if calls and form.get("role") == "assistant" and form["content"] in ([], [{"type": "text", "text": ""}]):
            del form["content"]
    identity = form.get("tool_call_id")
    if form.get("role") == "tool" and isinstance(identity, str) and identity in names:
        _default(form, "name", names[identity])
    _default(form, "annotations", [])
    _default(form, "prefix", value=False)
    return form


def _call(call: Object, names: dict[str, Json]) -> Object:
    form = dict(call)
    function = form.get("function")
    if isinstance(function, dict):
        if "arguments" in function:
            form["function"] = {**function, "arguments": _parsed(function["arguments"])}
        _default(form, "type", "function")
        if isinstance(identity := form.get("id"), str):
            names[identity] = function.get("name")
    _default(form, "index", 0)
    return form


def _part(part: Object) -> Object:
    form = dict(part)
    for key in ("image_url", "video_url", "file", "input_audio"):
        inner = form.get(key)
        if isinstance(inner, dict):
            form[key] = _media(inner)
    return form


_DATA_KEYS: Final = ("url", "file_data", "data")


def _media(media: Object) -> Object:
    form = dict(media)
    for key in _DATA_KEYS:
        if isinstance(text := form.get(key), str):
            form[key] = _data(text, bare=key == "data")
    _default(form, "detail", "auto")
    return form


def _tool(tool: Object) -> Json:
    form: Object = {key: value for key, value in tool.items() if value is not None}
    function = form.get("function")
    if not isinstance(function, dict):
        return without_nulls(form)
    _default(form, "type", "function")
    inner: Object = {key: value for key, value in function.items() if value is not None}
    _default(inner, "strict", value=False)
    _default(inner, "description", "")
    inner["parameters"] = _root(inner.get("parameters", {"type": "object", "properties": {}}))
    rest = {key: value if key == "function" else without_nulls(value) for key, value in form.items()}
    return {**rest, "function": inner}


def _response_format(value: Object) -> Json:
    form: Object = {key: item for key, item in value.items() if item is not None}
    inner = form.get("json_schema")
    if not isinstance(inner, dict):
        return without_nulls(form)
    named: Object = {key: item for key, item in inner.items() if item is not None}
    _default(named, "strict", value=False)
    if "schema" in named:
        named["schema"] = _root(named["schema"])
    return {**form, "json_schema": named}


# --- Values ------------------------------------------------------------------------------------------------------

_SCHEMA_MAPS: Final = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
_SCHEMAS: Final = ("items", "additionalProperties", "anyOf", "allOf", "oneOf", "not", "prefixItems")


_DRAFT: Final = re.compile(r"https?://json-schema\.org/draft(-0[4-7]|/20(19-09|20-12))/schema#?")


def _root(schema: Json) -> Json:
    """Return a schema without the name of its dialect."""
    form = _schema(schema)
    if isinstance(form, dict) and _DRAFT.fullmatch(str(form.get("$schema"))):
        del form["$schema"]
    return form


def _schema(schema: Json) -> Json:
    """Return a schema in which the order of properties matters. Null is a value in schemas."""
    if isinstance(schema, list):
        return [_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    form: Object = dict(schema)
    for key, value in schema.items():
        if key in _SCHEMA_MAPS and isinstance(value, dict):
            pairs: Json = [[name, _schema(item)] for name, item in value.items()]
            form[key] = pairs
        elif key in _SCHEMAS:
            form[key] = _schema(value)
    required = schema.get("required")
    if isinstance(required, list) and all(isinstance(name, str) for name in required):
        form["required"] = sorted(required, key=str)
    _default(form, "required", [])
    return form


def _parsed(text: Json) -> Json:
    """Return `{"json": …}` with the value of a JSON string, or any other value unchanged."""
    if not isinstance(text, str):
        return text
    try:
        return {"json": _number(cast("Json", json.loads(text or "{}")))}
    except ValueError:
        return text


def _data(text: str, *, bare: bool) -> Json:
    """Return the bytes of a `data:` URL, or of plain base64 if `bare`, or any other text unchanged."""
    head, comma, tail = ("", ",", text) if bare else text.partition(",")
    if not comma or not (bare or (head.lower().startswith("data:") and head.lower().endswith(";base64"))):
        return text
    tail = "".join(tail.split()).rstrip("=")
    try:
        data = base64.b64decode(tail + "=" * (-len(tail) % 4), validate=True)
    except binascii.Error:
        return text
    return [head.lower(), data.hex()]


def without_nulls(value: Json) -> Json:
    """Return the value without the members that are null."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def _number(value: Json) -> Json:
    """Return the value with every whole number as an integer."""
    if isinstance(value, dict):
        return {key: _number(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_number(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _default(form: Object, key: str, value: Json) -> None:
    """Remove a member if it has this value, which is its default."""
    if key in form and form[key] == value and type(form[key]) is type(value):
        del form[key]


# --- Comparing -------------------------------------------------------------------------------------------------------


def compare(path: str, left: Json, right: Json) -> Iterator[Difference]:
    """Yield the differences between two canonical forms at a path."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in [*left, *[key for key in right if key not in left]]:
            where = f"{path}.{key}" if path else key
            if key in left and key in right:
                yield from compare(where, left[key], right[key])
            else:
                yield Difference(where, left.get(key, ABSENT), right.get(key, ABSENT))
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for index, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from compare(f"{path}[{index}]", one, other)
    elif type(left) is not type(right) or left != right:
        yield Difference(path, left, right)


def _brief(value: Json) -> str:
    text = value if value is ABSENT else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 160 else f"{text[:150]}… ({len(text)} characters)"
