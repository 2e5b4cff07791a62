"""Tool calls for models that were never taught any: a grammar that leaves only calls and sayings to be said.

A request of the Completions wire with `tools` becomes one without. The tools become a JSON Schema, a union of
`{"call": <name>, "arguments": {…}}` for each tool and `{"say": <text>}`, which llama.cpp enforces token by token, so
that even a small model's call is always valid. `prompt.py` tells the model of them. The calls and results of the
history become the same JSON, and words. `decoder.py` turns what comes back into ordinary calls.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from chat_core.wire.shapes import Json, is_list, is_mapping, mapping

from chat_llamacpp.prompt import TEXT, with_prompt
from chat_llamacpp.schema import UnconstrainableError, enforceable, refers


@final
@dataclass(frozen=True, slots=True)
class Constrained:
    """A request for llama.cpp's server.

    Attributes:
        body: the request, without tools.
        schema: of the whole answer; `None` where it is free.
        calls: whether what comes back is a call or a saying, and not the answer as it is.
    """

    body: Json
    schema: Json | None
    calls: bool


def constrain(body: Mapping[str, Any]) -> Constrained:
    """Rewrite a request of the Completions wire.

    Raises:
        UnconstrainableError: a schema cannot be enforced, a tool is not a function, the tool choice names no tool, or
            the conversation holds what the model cannot read.
    """
    rewritten: Json = {**body}
    tools: list[Json] = rewritten.pop("tools", None) or []
    functions = [_function(tool) for tool in tools]
    choice = rewritten.pop("tool_choice", None) or "auto"
    rewritten.pop("parallel_tool_calls", None)  # one answer holds one call
    asked = _asked(rewritten)
    conversation: list[Json] = body.get("messages") or []
    messages = [_message(message) for message in conversation]
    offered = _offered(functions, choice)
    if not offered:
        rewritten["messages"] = messages
        return Constrained(
            rewritten, None if asked is None else enforceable(asked, "the structured answer"), calls=False
        )
    saying = (asked or TEXT) if choice == "auto" else None
    rewritten["messages"] = with_prompt(messages, offered, saying)
    return Constrained(rewritten, _turn(offered, saying), calls=True)


def _function(tool: Mapping[str, Any]) -> Json:
    function = tool.get("function")
    if tool.get("type") != "function" or not is_mapping(function):
        msg = f"llama.cpp knows functions only, not a tool of type {tool.get('type')!r}"
        raise UnconstrainableError(msg)
    return dict(function)


def _asked(rewritten: Json) -> Json | None:
    """The schema of the structured answer that is asked for; taken out, since a grammar takes its place."""
    wanted = mapping(rewritten.get("response_format"))
    if wanted.get("type") not in {"json_schema", "json_object"}:
        return None
    del rewritten["response_format"]
    schema = mapping(wanted.get("json_schema")).get("schema")
    return dict(schema) if is_mapping(schema) else {"type": "object"}


def _offered(functions: Sequence[Json], choice: object) -> list[Json]:
    """The functions that this answer may call."""
    if choice == "none":
        return []
    names = [function["name"] for function in functions]
    if is_mapping(choice):
        name = mapping(choice.get("function")).get("name")
        if name not in names:
            msg = f"tool_choice names {name!r}, and the tools are {names!r}"
            raise UnconstrainableError(msg)
        return [functions[names.index(name)]]
    if choice == "required" and not functions:
        msg = "tool_choice is 'required', and there are no tools"
        raise UnconstrainableError(msg)
    return list(functions)


# --- The grammar ----------------------------------------------------------------------------------------------------


def _turn(functions: Sequence[Json], saying: Json | None) -> Json:
    """The schema of a turn: a call of one of the functions, or a saying."""
    places: Json = {}
    variants: list[Json] = []
    for function in functions:
        parameters: Json = function.get("parameters") or {"type": "object", "properties": {}}
        arguments = _placed(parameters, f"the tool {function['name']!r}", places)
        variants.append(_closed({"call": {"const": function["name"]}, "arguments": arguments}))
    if saying is not None:
        variants.append(_closed({"say": _placed(saying, "the structured answer", places)}))
    turn: Json = variants[0] if len(variants) == 1 else {"anyOf": variants}
    return {**turn, "$defs": places} if places else turn


def _placed(schema: Mapping[str, Any], owner: str, places: Json) -> Json:
    """A schema within that of the turn. One with references stands aside, where they can be told from the root."""
    if not refers(schema):
        return _object_of_none(enforceable(schema, owner))
    name = f"place-{len(places)}"
    places[name] = enforceable(schema, owner, f"#/$defs/{name}")
    return {"$ref": f"#/$defs/{name}"}


def _object_of_none(schema: Json) -> Json:
    """The same, closed, where it is an object of which nothing is said: a function without parameters has none."""
    return {**schema, "additionalProperties": False} if schema == {"type": "object", "properties": {}} else schema


def _closed(properties: Json) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


# --- The history --------------------------------------------------------------------------------------------------


def _message(message: Mapping[str, Any]) -> Json:
    """A message for a chat template that knows three roles and words."""
    role = message.get("role")
    content = _text(message.get("content"))
    if role == "tool":
        return {"role": "user", "content": f"The result is: {content}"}
    if role == "developer":
        role = "system"
    if message.get("tool_calls"):
        # What the model said beside its call is left out: it is to answer with one object, and does as it sees.
        return {"role": "assistant", "content": "\n".join([_call(call) for call in message["tool_calls"]])}
    return {"role": role, "content": content}


def _call(call: Mapping[str, Any]) -> str:
    function = call["function"]
    try:
        arguments: object = json.loads(function.get("arguments") or "{}")
    except ValueError:
        arguments = {}
    return json.dumps({"call": function["name"], "arguments": arguments})


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    pieces: list[str] = []
    for part in content if is_list(content) else []:
        if part.get("type") != "text":
            msg = f"this model reads text, and the conversation has a part of type {part.get('type')!r}"
            raise UnconstrainableError(msg)
        pieces.append(part["text"])
    return "\n".join(pieces)
