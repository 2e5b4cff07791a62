"""Support for tool calls by constrained decoding, for models without tool support.

A Chat Completions request with `tools` is rewritten to a request without. The tools become a JSON Schema: a union of
`{"call": <name>, "arguments": {…}}` for each tool and `{"say": <text>}` for a text response. llama.cpp enforces the
schema token by token, so even a small model generates valid calls. `prompt.py` describes the tools to the model. Tool
calls of the history become the same JSON and their results become text. `decoder.py` converts the generated JSON to
ordinary tool calls.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

from chat_core.wire.shapes import Json, is_list, is_mapping, mapping

from chat_llamacpp.prompt import TEXT, with_prompt
from chat_llamacpp.schema import UnconstrainableError, enforceable, has_references

_MEDIA: Final = {"image_url", "input_audio"}
"""Types of parts that llama.cpp reads with a projector. Without one, it rejects the request."""


@final
@dataclass(frozen=True, slots=True)
class Constrained:
    """A request for llama.cpp, with a schema that constrains the output.

    Attributes:
        body: request without tools.
        schema: JSON Schema of the complete output. None: the output is not constrained.
        calls: whether the output is an object with a call or a text response, for `TurnDecoder`.
    """

    body: Json
    schema: Json | None
    calls: bool


def constrain(body: Mapping[str, Any]) -> Constrained:
    """Rewrite a Chat Completions request, so that a grammar enforces its tool calls and structured output.

    Raises:
        UnconstrainableError: a schema cannot be enforced, a tool is not a function, the tool choice names an unknown
            tool, or a message has a part that llama.cpp cannot read.
    """
    rewritten: Json = {**body}
    tools: list[Json] = rewritten.pop("tools", None) or []
    functions = [_require_function(tool) for tool in tools]
    choice = rewritten.pop("tool_choice", None) or "auto"
    rewritten.pop("parallel_tool_calls", None)  # a response contains at most one call
    output_schema = _pop_output_schema(rewritten)
    conversation: list[Json] = body.get("messages") or []
    messages = [_convert_message(message) for message in conversation]
    callable_functions = _select_functions(functions, choice)
    if not callable_functions:
        rewritten["messages"] = messages
        schema = None if output_schema is None else enforceable(output_schema, "the structured output")
        return Constrained(rewritten, schema, calls=False)
    text_schema = (output_schema or TEXT) if choice == "auto" else None
    rewritten["messages"] = with_prompt(messages, callable_functions, text_schema)
    return Constrained(rewritten, _turn_schema(callable_functions, text_schema), calls=True)


def _require_function(tool: Mapping[str, Any]) -> Json:
    function = tool.get("function")
    if tool.get("type") != "function" or not is_mapping(function):
        msg = f"a tool has the type {tool.get('type')!r}; llama.cpp supports only tools of type 'function'"
        raise UnconstrainableError(msg)
    return dict(function)


def _pop_output_schema(rewritten: Json) -> Json | None:
    """Remove `response_format` from the request and return its schema, which becomes part of the grammar."""
    response_format = mapping(rewritten.get("response_format"))
    if response_format.get("type") not in {"json_schema", "json_object"}:
        return None
    del rewritten["response_format"]
    schema = mapping(response_format.get("json_schema")).get("schema")
    return dict(schema) if is_mapping(schema) else {"type": "object"}


def _select_functions(functions: Sequence[Json], choice: object) -> list[Json]:
    """Return the functions that the model may call, according to the tool choice of the request."""
    if choice == "none":
        return []
    names = [function["name"] for function in functions]
    if is_mapping(choice):
        name = mapping(choice.get("function")).get("name")
        if name not in names:
            msg = f"tool_choice names the unknown tool {name!r}; the tools are {names!r}"
            raise UnconstrainableError(msg)
        return [functions[names.index(name)]]
    if choice == "required" and not functions:
        msg = "tool_choice is 'required', but the request has no tools"
        raise UnconstrainableError(msg)
    return list(functions)


# --- The grammar ----------------------------------------------------------------------------------------------------


def _turn_schema(functions: Sequence[Json], text_schema: Json | None) -> Json:
    """Return the schema of the model's output: a call of one function or, if `text_schema` is given, text."""
    definitions: Json = {}
    variants: list[Json] = []
    for function in functions:
        parameters: Json = function.get("parameters") or {"type": "object", "properties": {}}
        arguments = _embed_schema(parameters, f"the tool {function['name']!r}", definitions)
        variants.append(_closed_object({"call": {"const": function["name"]}, "arguments": arguments}))
    if text_schema is not None:
        variants.append(_closed_object({"say": _embed_schema(text_schema, "the structured output", definitions)}))
    turn: Json = variants[0] if len(variants) == 1 else {"anyOf": variants}
    return {**turn, "$defs": definitions} if definitions else turn


def _embed_schema(schema: Mapping[str, Any], owner: str, definitions: Json) -> Json:
    """Return a schema that can be embedded in the schema of the model's output.

    A schema with references is added to `definitions`, and a reference to it is returned, so that its own references
    stay valid.
    """
    if not has_references(schema):
        return _close_empty_object(enforceable(schema, owner))
    name = f"place-{len(definitions)}"
    definitions[name] = enforceable(schema, owner, f"#/$defs/{name}")
    return {"$ref": f"#/$defs/{name}"}


def _close_empty_object(schema: Json) -> Json:
    """Forbid all properties in the schema of an object without properties. Return other schemas unchanged."""
    return {**schema, "additionalProperties": False} if schema == {"type": "object", "properties": {}} else schema


def _closed_object(properties: Json) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


# --- The history --------------------------------------------------------------------------------------------------


def _convert_message(message: Mapping[str, Any]) -> Json:
    """Return a message in a form for chat templates that support only text and system, user and assistant roles."""
    role = message.get("role")
    content = _readable_content(role, message.get("content"))
    if role == "tool":
        return {"role": "user", "content": f"The result is: {content}"}
    if role == "developer":
        role = "system"
    if message.get("tool_calls"):
        # Text next to a call is dropped: the model must generate one object, and imitates the history.
        return {"role": "assistant", "content": "\n".join([_dump_call(call) for call in message["tool_calls"]])}
    return {"role": role, "content": content}


def _dump_call(call: Mapping[str, Any]) -> str:
    function = call["function"]
    try:
        arguments: object = json.loads(function.get("arguments") or "{}")
    except ValueError:
        arguments = {}
    return json.dumps({"call": function["name"], "arguments": arguments})


def _readable_content(role: object, content: object) -> object:
    """Return the text of a message. A message of the user with images or audio keeps its parts."""
    if isinstance(content, str):
        return content
    parts = content if is_list(content) else []
    readable = {"text", *_MEDIA} if role == "user" else {"text"}
    for part in parts:
        if part.get("type") not in readable:
            msg = (
                f"a message of the {role} has a part of type {part.get('type')!r}; "
                "llama.cpp reads only text, and images and audio of the user"
            )
            raise UnconstrainableError(msg)
    if all(part["type"] == "text" for part in parts):
        return "\n".join([part["text"] for part in parts])
    return parts
