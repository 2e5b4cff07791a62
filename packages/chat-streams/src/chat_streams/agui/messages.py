"""Messages of the AG-UI protocol: the snapshot of a stored conversation, and the messages that a client posts."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence

from chat_core.errors import UsageError
from chat_core.messages import File, Messages, Part, Text, Tool

from chat_streams.client_input import PostedCall, PostedMessage, PostedResult
from chat_streams.client_texts import outcome_text
from chat_streams.errors import ClientInputError
from chat_streams.json_fields import Fields, require_list, require_object, require_text
from chat_streams.shown_messages import ShownMessage, shown_messages

_MEDIA = frozenset({"image", "audio", "video"})
"""Main media types for which the protocol has a content type. All other files are sent as documents."""


def snapshot_messages(messages: Messages, /) -> list[dict[str, object]]:
    """Return the messages of a conversation as AG-UI messages.

    Args:
        messages: the conversation.
    """
    return [item for message in shown_messages(messages) for item in _write_message(message)]


def reasoning_id(message_id: str, /) -> str:
    """Return the id of the AG-UI message that contains the reasoning of the message `message_id`.

    Args:
        message_id: id of the message.
    """
    return f"{message_id}-reasoning"


def result_id(tool: Tool, /) -> str:
    """Return the id of the AG-UI message with the result of a call.

    Args:
        tool: the call.
    """
    return f"{tool.id}-result"


def _write_message(message: ShownMessage) -> list[dict[str, object]]:
    if message.role == "user":
        return [{"id": message.id, "role": "user", "content": _write_content(message.parts)}]
    written: list[dict[str, object]] = []
    if message.reasoning:
        written.append({"id": reasoning_id(message.id), "role": "reasoning", "content": message.reasoning})
    assistant: dict[str, object] = {"id": message.id, "role": "assistant"}
    if message.text or not message.tools:
        assistant["content"] = message.text
    if message.tools:
        assistant["toolCalls"] = [
            {"id": tool.id, "type": "function", "function": {"name": tool.name, "arguments": tool.call.text}}
            for tool in message.tools
        ]
    results = [_write_result(tool) for tool in message.tools if tool.resolved]
    return [*written, assistant, *results]


def _write_result(tool: Tool) -> dict[str, object]:
    text = outcome_text(tool)
    written: dict[str, object] = {"id": result_id(tool), "role": "tool", "toolCallId": tool.id, "content": text}
    if tool.failed:
        written["error"] = text
    return written


def _write_content(parts: Sequence[Part]) -> object:
    if all(isinstance(part, Text) for part in parts):
        return "".join([part.text for part in parts if isinstance(part, Text)])
    written: list[dict[str, object]] = []
    for part in parts:
        if isinstance(part, Text):
            written.append({"type": "text", "text": part.text})
        elif isinstance(part, File) and (part.data is not None or part.url is not None):
            source: dict[str, object] = {"type": "url", "value": part.url, "mimeType": part.mime}
            if part.data is not None:
                source |= {"type": "data", "value": b64encode(part.data).decode()}
            written.append({"type": part.kind if part.kind in _MEDIA else "document", "source": source})
    return written


# --- Posted messages --------------------------------------------------------------------------------------------------


def read_messages(posted: object, /) -> tuple[list[PostedMessage], list[PostedResult]]:
    """Return the messages of users and models and the results of tools in a posted history.

    Other messages, such as system messages and reasoning, are skipped, because they are never accepted from a client.

    Args:
        posted: the `messages` of the request.

    Raises:
        ClientInputError: a message is malformed.
    """
    messages: list[PostedMessage] = []
    results: list[PostedResult] = []
    for item in optional_list(posted, "messages"):
        message = require_object(item, "a message")
        match message.get("role"):
            case "user":
                parts = tuple(_read_content(message.get("content")))
                messages.append(PostedMessage(require_text(message, "id"), "user", parts))
            case "assistant":
                messages.append(_read_assistant(message))
            case "tool":
                error = message.get("error")
                error = None if error is None else require_text(message, "error")
                results.append(
                    PostedResult(require_text(message, "toolCallId"), require_text(message, "content"), error)
                )
            case _:
                pass
    return messages, results


def optional_list(value: object, name: str, /) -> list[object]:
    """Return an array of a request, or an empty list if the array is absent.

    Args:
        value: the array, or `None`.
        name: the name of the array in the error message.

    Raises:
        ClientInputError: the value is not an array.
    """
    return [] if value is None else require_list(value, name)


def _read_assistant(message: Fields) -> PostedMessage:
    content = message.get("content")
    parts = (Text(require_text(message, "content")),) if content is not None else ()
    calls: list[PostedCall] = []
    for item in optional_list(message.get("toolCalls"), "toolCalls"):
        call = require_object(item, "a tool call")
        function = require_object(call.get("function"), "the function of a tool call")
        calls.append(
            PostedCall(require_text(call, "id"), require_text(function, "name"), require_text(function, "arguments"))
        )
    return PostedMessage(require_text(message, "id"), "model", parts, tuple(calls))


def _read_content(content: object) -> list[Part]:
    if isinstance(content, str):
        return [Text(content)] if content else []
    parts: list[Part] = []
    for item in optional_list(content, "the content of a message"):
        part = require_object(item, "a part of a message")
        if part.get("type") == "text":
            parts.append(Text(require_text(part, "text")))
        elif part.get("type") in (*_MEDIA, "document"):
            parts.append(_read_file(require_object(part.get("source"), "a source")))
        else:
            known = ", ".join(("text", *_MEDIA, "document"))
            msg = f"A message part of type {part.get('type')!r} is not supported. Supported: {known}."
            raise ClientInputError("invalid_request", msg)
    return parts


def _read_file(source: Fields) -> File:
    value = require_text(source, "value")
    try:
        if source.get("type") == "data":
            return File(require_text(source, "mimeType"), data=b64decode(value, validate=True))
        if source.get("type") == "url":
            return File.from_url(value, None if source.get("mimeType") is None else require_text(source, "mimeType"))
    except (ValueError, UsageError) as error:
        raise ClientInputError("invalid_request", f"A file is not valid: {error}") from error
    raise ClientInputError(
        "invalid_request", f"The source type {source.get('type')!r} is not supported: use 'data' or 'url'."
    )
