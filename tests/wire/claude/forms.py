"""The canonical form of request bodies of the Messages API.

Two bodies have the same meaning for the API exactly if `form()` returns equal forms. `EQUIVALENCES` lists every
difference that does not matter. All other differences do: the order of messages, blocks, tools and schema properties,
and every name, number and unknown field.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final, cast

from ..normalise import Difference, Equivalence, Json, Object, compare, without_nulls

EQUIVALENCES: Final = (
    Equivalence("key-order", "the members of an object in any order", "RFC 8259, section 4: objects are unordered"),
    Equivalence("number", "`1` and `1.0`", "JSON has a single number type"),
    Equivalence("null", "a member that is null, and absent", "null is the default of every optional field"),
    Equivalence(
        "content-string",
        '`"x"` and `[{"type": "text", "text": "x"}]` as a content, a system text or a result',
        "the API reference describes the string as shorthand for one text block",
    ),
    Equivalence(
        "joined-messages",
        "consecutive messages of one role, and one message with all their blocks",
        "API reference: consecutive turns of one role are combined",
    ),
    Equivalence(
        "no-result", "a result without content, with an empty text, and with an empty list", "all of them are empty"
    ),
    Equivalence("not-an-error", "`is_error: false`, and absent", "false is the documented default"),
    Equivalence("five-minutes", '`ttl: "5m"`, and absent', "five minutes are the documented default"),
    Equivalence("base64", "two base64 texts of the same bytes", "both decode to the same bytes (RFC 4648)"),
    Equivalence("parallel", "`disable_parallel_tool_use: false`, and absent", "false is the documented default"),
    Equivalence("auto", '`tool_choice: {"type": "auto"}` beside tools, and absent', "auto is the documented default"),
    Equivalence("no-stream", "`stream: false`, and absent", "false is the documented default"),
    Equivalence("custom", '`type: "custom"` of a tool with an `input_schema`, and absent', "`custom` is the default"),
    Equivalence("not-strict", "`strict: false` and `defer_loading: false`, and absent", "both values are the defaults"),
    Equivalence(
        "native-order",
        "tools of the API before, between and behind the caller's own",
        "tools are identified by name, and the API attaches no meaning to their order",
    ),
    Equivalence("no-description", '`description: ""` of a tool, and absent', "an empty description has no content"),
    Equivalence("output-format", "`output_format`, and `output_config.format`", "`output_format` is the older name"),
    Equivalence("no-citations", "`citations: []` or `{enabled: false}`, and absent", "both values are the defaults"),
    Equivalence(
        "no-lists", "`tools`, `stop_sequences`, `system` that are empty, and absent", "empty fields have no effect"
    ),
    Equivalence(
        "schema-dialect", "`$schema` at the root of a schema, and absent", "`$schema` does not constrain values"
    ),
    Equivalence(
        "required-set",
        "`required` in any order; `[]`, and absent",
        "JSON Schema: names are unique, and the default is an empty list",
    ),
)
"""Everything that may differ between equivalent bodies."""


def form(body: Object) -> Object:
    """Return the canonical form of a body. The body itself is not changed."""
    found = {key: _numbers(value) for key, value in body.items() if value is not None}
    for key in ("stream", "tools", "stop_sequences", "system"):
        if found.get(key) in (False, [], ""):
            del found[key]
    if "system" in found:
        found["system"] = _content(found["system"])
    if isinstance(messages := found.get("messages"), list):
        found["messages"] = _messages(messages)
    if isinstance(tools := found.get("tools"), list):
        declared = [_tool(tool) if isinstance(tool, dict) else tool for tool in tools]
        found["tools"] = sorted(declared, key=lambda tool: not isinstance(tool, dict) or "input_schema" not in tool)
    _tool_choice(found)
    _output(found)
    for key, value in found.items():
        if key not in {"messages", "tools", "system", "output_config"}:
            found[key] = without_nulls(value)
    return found


def differences(left: Object, right: Object) -> list[Difference]:
    """Return the differences between the canonical forms of two bodies, by path."""
    return list(compare("", form(left), form(right)))


def _tool_choice(found: Object) -> None:
    choice = found.get("tool_choice")
    if isinstance(choice, dict):
        if choice.get("disable_parallel_tool_use") is False:
            choice = {key: value for key, value in choice.items() if key != "disable_parallel_tool_use"}
            found["tool_choice"] = choice
        if choice == {"type": "auto"} and "tools" in found:
            del found["tool_choice"]


def _output(found: Object) -> None:
    config = found.pop("output_config", None)
    output: Object = _plain(config) if isinstance(config, dict) else {}
    if isinstance(named := found.pop("output_format", None), dict):
        output["format"] = named
    if isinstance(named := output.get("format"), dict) and "schema" in named:
        output["format"] = {**named, "schema": _root(named["schema"])}
    if output:
        found["output_config"] = output


# --- Messages --------------------------------------------------------------------------------------------


def _messages(messages: list[Json]) -> list[Json]:
    found: list[Json] = []
    for message in messages:
        if not isinstance(message, dict):
            found.append(message)
            continue
        mine: Object = {key: value for key, value in message.items() if value is not None}
        blocks = _content(mine.get("content"))
        last = found[-1] if found else None
        if isinstance(last, dict) and last.get("role") == mine.get("role") and last.keys() == mine.keys():
            cast("list[Json]", last["content"]).extend(cast("list[Json]", blocks))
        else:
            found.append({**mine, "content": blocks})
    return found


def _content(content: Json) -> Json:
    if isinstance(content, str):
        block: Object = {"type": "text", "text": content}
        return [block]
    if isinstance(content, list):
        return [_block(block) if isinstance(block, dict) else block for block in content]
    return content


def _block(block: Object) -> Object:
    found = _plain(block)
    if isinstance(point := found.get("cache_control"), dict):
        found["cache_control"] = {key: value for key, value in point.items() if (key, value) != ("ttl", "5m")}
    if found.get("citations") in ([], {"enabled": False}):
        del found["citations"]
    if isinstance(source := found.get("source"), dict) and source.get("type") == "base64":
        found["source"] = {**source, "data": _bytes(source.get("data"))}
    if found.get("type") == "tool_result":
        if found.get("is_error") is False:
            del found["is_error"]
        result = _content(found.get("content"))
        if result in (None, [], [{"type": "text", "text": ""}]):
            found.pop("content", None)
        else:
            found["content"] = result
    return found


def _bytes(text: Json) -> Json:
    if not isinstance(text, str):
        return text
    try:
        return base64.b64decode("".join(text.split())).hex()
    except binascii.Error:
        return text


# --- Tools and schemas ----------------------------------------------------------------------------------------


def _tool(tool: Object) -> Object:
    found = _plain(tool)
    for key, value in (("strict", False), ("defer_loading", False), ("description", "")):
        if key in found and found[key] == value:
            del found[key]
    if "input_schema" in found:
        if found.get("type") == "custom":
            del found["type"]
        found["input_schema"] = _root(found["input_schema"])
    if isinstance(point := found.get("cache_control"), dict):
        found["cache_control"] = {key: value for key, value in point.items() if (key, value) != ("ttl", "5m")}
    return found


def _root(schema: Json) -> Json:
    found = _schema(schema)
    if isinstance(found, dict):
        found.pop("$schema", None)
    return found


def _schema(schema: Json) -> Json:
    """Return a schema in which the order of properties matters. Null is a value in schemas."""
    if isinstance(schema, list):
        return [_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found: Object = {}
    for key, value in schema.items():
        if key in {"properties", "$defs", "definitions"} and isinstance(value, dict):
            pairs: Json = [[name, _schema(item)] for name, item in value.items()]
            found[key] = pairs
        elif key == "required" and isinstance(value, list):
            if value:
                found[key] = sorted(value, key=str)
        elif key in {"const", "enum", "default", "examples"}:
            found[key] = value
        else:
            found[key] = _schema(value)
    return found


# --- Values ---------------------------------------------------------------------------------------------------


def _plain(value: Object) -> Object:
    return {key: item for key, item in value.items() if item is not None}


def _numbers(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
