"""What was said, in the JSON of the conventions. It is only made where `record_content` asks for it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TypeAlias

from chat_core import Content, File, Messages, Part, Reasoning, Structured, Text, Tool, Turn

JsonObject: TypeAlias = dict[str, object]


def said_to(messages: Messages) -> tuple[str, str]:
    """What a model is told: the conversation, and its system instructions apart."""
    said: list[JsonObject] = []
    for content in messages.contents:
        if content.role != "system":
            said.extend(_messages(content))
    system = [part for content in messages.contents if content.role == "system" for part in _parts(content.parts)]
    return _json(said), _json(system)


def said_by(turn: Turn) -> str:
    """What a model said."""
    return _json([{"role": "assistant", "parts": _parts(turn.parts), "finish_reason": turn.finish_reason}])


def as_json(value: object) -> str:
    """A value as an attribute."""
    return _encodable(value) if isinstance(value, str) else _json(value)


def said_of(error: BaseException) -> str:
    """What an error says of itself; its class, where it cannot say it."""
    try:
        return _encodable(str(error))
    except Exception:  # noqa: BLE001 - a class of somebody else's
        return type(error).__qualname__


def _messages(content: Content) -> Iterable[JsonObject]:
    role = "assistant" if content.role == "model" else "user"
    for turn in content.turns:
        yield {"role": role, "parts": _parts(turn.parts)}
        answers = [_answer(tool) for tool in turn.tools if tool.resolved]
        if answers:
            yield {"role": "tool", "parts": answers}


def _parts(parts: Iterable[Part]) -> list[JsonObject]:
    return [_part(part) for part in parts]


def _part(part: Part) -> JsonObject:
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


def _answer(tool: Tool) -> JsonObject:
    return {"type": "tool_call_response", "id": tool.id, "response": tool.result_text()}


def _json(value: object) -> str:
    return _encodable(json.dumps(value, ensure_ascii=False, default=str))


def _encodable(text: str) -> str:
    """The text without half a character: an exporter would lose all the spans that it sends with this one."""
    return text.encode("utf-8", "replace").decode("utf-8")
