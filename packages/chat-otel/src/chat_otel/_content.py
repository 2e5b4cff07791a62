"""Span attributes that contain messages and tool values as JSON. They are recorded only with `record_content=True`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TypeAlias

from chat_core import Content, File, Messages, Part, Reasoning, Structured, Text, Tool, Turn

JsonObject: TypeAlias = dict[str, object]


def input_of(messages: Messages) -> tuple[str, str]:
    """Return the messages of a conversation, and its system instructions, as two JSON texts."""
    conversation: list[JsonObject] = []
    for content in messages.contents:
        if content.role != "system":
            conversation.extend(_message_objects(content))
    system = [
        part for content in messages.contents if content.role == "system" for part in _part_objects(content.parts)
    ]
    return _dump_json(conversation), _dump_json(system)


def output_of(turn: Turn) -> str:
    """Return a model response as the JSON text of the attribute `gen_ai.output.messages`."""
    return _dump_json([{"role": "assistant", "parts": _part_objects(turn.parts), "finish_reason": turn.finish_reason}])


def as_json(value: object) -> str:
    """Return a value as the text of a span attribute: strings unchanged, other values as JSON."""
    return _replace_surrogates(value) if isinstance(value, str) else _dump_json(value)


def message_of(error: BaseException) -> str:
    """Return the message of an exception, or its class name if `str(error)` raises an exception."""
    try:
        return _replace_surrogates(str(error))
    except Exception:  # noqa: BLE001 - a foreign exception class may raise anything
        return type(error).__qualname__


def _message_objects(content: Content) -> Iterable[JsonObject]:
    role = "assistant" if content.role == "model" else "user"
    for turn in content.turns:
        yield {"role": role, "parts": _part_objects(turn.parts)}
        results = [_tool_result(tool) for tool in turn.tools if tool.resolved]
        if results:
            yield {"role": "tool", "parts": results}


def _part_objects(parts: Iterable[Part]) -> list[JsonObject]:
    return [_part_object(part) for part in parts]


def _part_object(part: Part) -> JsonObject:
    match part:
        case Text(text):
            return {"type": "text", "content": text}
        case Reasoning():
            return {"type": "reasoning", "content": part.text}
        case Structured():
            return {"type": "text", "content": as_json(part.value)}
        case Tool():
            arguments = dict(part.call.arguments)
            return {"type": "tool_call", "id": part.id, "name": part.name, "arguments": arguments}
        case File():
            modality = part.mime.partition("/")[0]
            kind: JsonObject = {"type": "uri", "uri": part.url} if part.url is not None else {"type": "file"}
            return {**kind, "modality": modality, "mime_type": part.mime}
        case _:
            return {"type": type(part).__name__.lower()}


def _tool_result(tool: Tool) -> JsonObject:
    return {"type": "tool_call_response", "id": tool.id, "response": tool.result_text()}


def _dump_json(value: object) -> str:
    return _replace_surrogates(json.dumps(value, ensure_ascii=False, default=str))


def _replace_surrogates(text: str) -> str:
    """Return the text with lone surrogates replaced, because an exporter would drop the whole batch of spans."""
    return text.encode("utf-8", "replace").decode("utf-8")
