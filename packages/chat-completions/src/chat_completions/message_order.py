"""Changes to the encoded messages of a request, for servers that restrict which role may follow which."""

from __future__ import annotations

import re
from typing import Final

from chat_core.json import dump_bytes, loads
from chat_core.wire.shapes import Json, is_list, require_list

from chat_completions.options import Dialect

RESULTS_READ: Final = "I have read the results."
"""The text of the assistant message between tool results and a user message."""


_OTHER_ROLE: Final = re.compile(rb'"role":"(?!system|developer)')
_SYSTEM_ROLE: Final = re.compile(rb'"role":"(?:system|developer)"')


def arrange_messages(encoded: bytes, dialect: Dialect) -> bytes:
    """Return the messages in an order that the server accepts.

    Args:
        encoded: the messages, JSON objects joined by commas, without the brackets of a list.
        dialect: the request format of the server.
    """
    adds_messages = dialect.assistant_after_tools and b'"role":"tool"' in encoded
    moves_messages = dialect.system_first and _has_later_system_message(encoded)
    if not (dialect.join_messages or adds_messages or moves_messages):
        return encoded
    messages: list[Json] = require_list(loads(b"[" + encoded + b"]"), "messages")
    if moves_messages:
        # The sort is stable, so the order of other messages does not change.
        messages.sort(key=lambda message: message["role"] not in {"system", "developer"})
    if dialect.join_messages:
        messages = join_messages(messages)
    if adds_messages:
        messages = add_assistant_messages(messages)
    return dump_bytes(messages)[1:-1]


def _has_later_system_message(encoded: bytes) -> bool:
    other = _OTHER_ROLE.search(encoded)
    return other is not None and _SYSTEM_ROLE.search(encoded, other.start()) is not None


def add_assistant_messages(messages: list[Json]) -> list[Json]:
    """Return the messages with a short assistant message between tool results and a following user message."""
    arranged: list[Json] = []
    for message in messages:
        if arranged and arranged[-1]["role"] == "tool" and message["role"] == "user":
            arranged.append({"role": "assistant", "content": RESULTS_READ})
        arranged.append(message)
    return arranged


def join_messages(messages: list[Json]) -> list[Json]:
    """Return the messages with consecutive messages of one role joined, except tool results.

    Text is separated by an empty line. Other fields that are lists or strings are concatenated. For any other field,
    the later value is sent.
    """
    joined: list[Json] = []
    for message in messages:
        if joined and message["role"] == joined[-1]["role"] != "tool":
            joined[-1] = _join_messages(joined[-1], message)
        else:
            joined.append(message)
    return joined


def _join_messages(first: Json, second: Json) -> Json:
    joined = {**first, **second, "content": _join_contents(first.get("content"), second.get("content"))}
    for key in first.keys() & second.keys() - {"role", "content"}:
        if type(first[key]) is type(second[key]) and isinstance(first[key], (str, list)):
            joined[key] = first[key] + second[key]
    return joined


def _join_contents(first: object, second: object) -> object:
    if not first or not second:
        return first or second
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return [*_content_parts(first), *_content_parts(second)]


def _content_parts(content: object) -> list[object]:
    return content if is_list(content) else [{"type": "text", "text": content}]
