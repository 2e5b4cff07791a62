"""The canonical form of request bodies of the Responses API.

Two bodies have the same meaning for the API exactly if `canonical()` returns equal forms. `EQUIVALENCES` lists every
difference that does not matter. All other differences do: the order of items, parts, tools and schema properties, and
every name, number and unknown field.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Final, cast

from ..normalise import Difference, Equivalence, Json, Object, without_nulls
from ..normalise import differences as compare

EQUIVALENCES: Final = (
    Equivalence("key-order", "the members of an object in any order", "RFC 8259, section 4: an object is unordered"),
    Equivalence("number", "`1` and `1.0`", "JSON has one kind of number"),
    Equivalence("null", "a member that is null, and none", "null is the default of every optional field"),
    Equivalence("input-string", '`input: "x"` and a user\'s message with that text', "the API reference gives both"),
    Equivalence(
        "content-string",
        '`content: "x"` and one part with that text',
        "the API reference gives content as a string or a list of parts; the string is its short form",
    ),
    Equivalence("output-string", "the same for the `output` of a call", "the API reference gives both"),
    Equivalence("message-type", '`type: "message"` of an item that has a role, and none', "the role says it"),
    Equivalence("completed", '`status: "completed"` of an item, and none', "items of a request are past"),
    Equivalence("echoes", "`logprobs`, and empty `annotations`, and none", "fields of a response that say nothing"),
    Equivalence("no-thoughts", "empty `content` or `summary` of reasoning, and none", "both say nothing"),
    Equivalence("nothing-stored", "`id` of an item where `store` is false, and none", "it names what was not kept"),
    Equivalence("arguments", "two texts of one JSON value as `arguments`", "the field is JSON, written in a string"),
    Equivalence("data-url", "two base64 texts of the same bytes", "the data is the bytes (RFC 2397, RFC 4648)"),
    Equivalence("detail", '`detail: "auto"` of an image, and none', "auto is the documented default"),
    Equivalence(
        "not-strict", "`strict: false` of a tool, and none", "what a server then enforces is its own choice, either way"
    ),
    Equivalence("no-description", '`description: ""` of a function, and none', "both describe nothing"),
    Equivalence("required-set", "`required` in any order; `[]`, and none", "unique names, by default none"),
    Equivalence("schema-dialect", "`$schema` at the root of a schema, and none", "it constrains nothing"),
    Equivalence("default-choice", '`tool_choice: "auto"` beside tools, and none', "auto is the documented default"),
    Equivalence("include-set", "`include` in any order; `[]`, and none", "it is a set"),
    Equivalence("defaults", "`stream: false`, `truncation: disabled`, `store: true`, and none", "defaults"),
    Equivalence("no-tools", "`tools: []`, and none", "both declare nothing"),
)
"""Everything that may differ between equivalent bodies."""


def differences(left: Object, right: Object) -> list[Difference]:
    """Return the differences between the canonical forms of two bodies, by path."""
    return compare(canonical(left), canonical(right))


def fingerprint(items: list[Json]) -> list[str]:
    """Return a text for each item of a conversation, which is equal for two items exactly if they are equivalent."""
    form = canonical({"input": items})["input"]
    return [json.dumps(item, sort_keys=True) for item in cast("list[Json]", form)]


def canonical(body: Object) -> Object:
    """Return the canonical form of a body. The body itself is not changed."""
    form: Object = {key: value for key, value in body.items() if value is not None}
    given = form.get("input")
    if isinstance(given, str):
        said: Object = {"role": "user", "content": given}
        given = [said]
    if isinstance(given, list):
        form["input"] = [_item(item, stored=form.get("store") is not False) for item in given]
    if isinstance(tools := form.get("tools"), list):
        form["tools"] = [_tool(tool) for tool in tools]
    if isinstance(include := form.get("include"), list):
        form["include"] = sorted(include, key=str)
    form = {key: value if key == "tools" else without_nulls(value) for key, value in form.items()}
    if isinstance(text := form.get("text"), dict):
        form["text"] = _text(text, cast("Object", body["text"]))
    defaults: Object = {"include": [], "store": True, "truncation": "disabled", "text": {}, "reasoning": {}}
    for key, value in defaults.items():
        _default(form, key, value)
    return form


def _item(value: Json, *, stored: bool) -> Json:
    form = without_nulls(value)
    if not isinstance(form, dict):
        return form
    if "role" in form:
        _default(form, "type", "message")
    _default(form, "status", "completed")
    if not stored:
        form.pop("id", None)
    for key in ("content", "output"):
        content = form.get(key)
        if isinstance(content, str) and (key == "content" or str(form.get("type")).endswith("_output")):
            content = as_parts("output_text" if form.get("role") == "assistant" else "input_text", content)
        if isinstance(content, list):
            form[key] = [_part(part) for part in content]
    if form.get("type") == "reasoning":
        _default(form, "content", [])
        _default(form, "summary", [])
    if isinstance(arguments := form.get("arguments"), str):
        form["arguments"] = _parsed(arguments)
    return form


def as_parts(kind: str, text: str) -> list[Json]:
    """Return a list with one part that contains a text."""
    return [{"type": kind, "text": text}]


def _part(value: Json) -> Json:
    if not isinstance(value, dict):
        return value
    form = {key: item for key, item in value.items() if key != "logprobs"}
    _default(form, "annotations", [])
    _default(form, "detail", "auto")
    for key in ("image_url", "file_data"):
        if isinstance(text := form.get(key), str):
            form[key] = _data(text)
    return form


def _tool(value: Json) -> Json:
    if not isinstance(value, dict):
        return value
    if value.get("type") != "function":
        return without_nulls(value)
    form = {
        key: item if key == "parameters" else without_nulls(item) for key, item in value.items() if item is not None
    }
    _default(form, "strict", value=False)
    _default(form, "description", "")
    if "parameters" in form:
        form["parameters"] = schema_form(form["parameters"])
    return form


def _text(form: Object, given: Object) -> Object:
    shape = form.get("format")
    if isinstance(shape, dict) and "schema" in shape:
        whole = cast("Object", given["format"])["schema"]
        form["format"] = {**shape, "schema": schema_form(whole)}
        _default(cast("Object", form["format"]), "strict", value=False)
    _default(form, "format", {"type": "text"})
    return form


def schema_form(schema: Json) -> Json:
    """Return a schema in which the order of properties matters, without the name of its dialect.

    Null is a value in schemas.
    """
    form = _schema(schema)
    if isinstance(form, dict):
        form.pop("$schema", None)
    return form


def _schema(schema: Json) -> Json:
    if isinstance(schema, list):
        return [_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    form: Object = dict(schema)
    for key, value in schema.items():
        if key in {"properties", "$defs", "definitions"} and isinstance(value, dict):
            pairs: Json = [[name, _schema(item)] for name, item in value.items()]
            form[key] = pairs
        elif key in {"items", "additionalProperties", "anyOf", "allOf", "oneOf", "not"}:
            form[key] = _schema(value)
    if isinstance(required := schema.get("required"), list):
        form["required"] = sorted(required, key=str)
    _default(form, "required", [])
    return form


def _parsed(text: str) -> Json:
    """Return `{"json": …}` with the value of a JSON string, or any other value unchanged."""
    try:
        return {"json": cast("Json", json.loads(text or "{}"))}
    except ValueError:
        return text


def _data(text: str) -> Json:
    """Return the bytes of a `data:` URL, or any other text unchanged."""
    head, comma, tail = text.partition(",")
    if not comma or not (head.lower().startswith("data:") and head.lower().endswith(";base64")):
        return text
    try:
        data = base64.b64decode("".join(tail.split()), validate=True)
    except binascii.Error:
        return text
    return [head.lower(), data.hex()]


def _default(form: Object, key: str, value: Json) -> None:
    """Remove a member if it has this value, which is its default."""
    if key in form and form[key] == value and type(form[key]) is type(value):
        del form[key]
