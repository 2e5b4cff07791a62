"""Copies of recorded responses with another text, to check how a provider reads texts that no recording contains."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from chat_core.json import dumps
from chat_core.messages import FunctionCall

from chat_testing.conformance.tapes import Reply

_STRING: Final = re.compile(r'("(?:[^"\\]|\\.)*")(\s*:)?')
"""A JSON string, with the colon after it if it is the name of a member."""


def replace_text(reply: Reply, text: str, piece: str) -> tuple[Reply, str] | None:
    """Return a copy of a recorded response with another text, and its text.

    Each string that contains a part of the old text, in order, is replaced by `piece`. Strings that repeat the whole
    old text are replaced by the whole new text.

    Args:
        reply: the recorded response.
        text: the text of the response.
        piece: the new content of each part.

    Returns:
        The response and its new text, or None if the parts are not found, for example in a binary format.
    """
    count = 0

    def repeat(parts: int) -> list[str]:
        nonlocal count
        count = parts
        return [piece] * parts

    replaced = _replace_strings(reply, text, repeat)
    return None if replaced is None else (replaced, piece * count)


def replace_call(reply: Reply, call: FunctionCall, name: str, arguments: Mapping[str, object]) -> Reply | None:
    """Return a copy of a recorded response whose call has another tool name and other arguments.

    Args:
        reply: the recorded response.
        call: the call of the response. Its arguments are a JSON object, or the text of one in one or more strings.
        name: the new name of the tool.
        arguments: the new arguments.

    Returns:
        The response, or None if the name or the arguments are not found, for example in a binary format.
    """

    def split(parts: int) -> list[str]:
        text = dumps(dict(arguments))
        return [text[:7], *[""] * (parts - 2), text[7:]] if parts > 1 else [text]

    named = _replace_strings(reply, call.name, lambda parts: [name, *[""] * (parts - 1)])
    if named is None:
        return None
    old = dict(call.arguments)
    for text in (json.dumps(old), dumps(old)):
        if (found := _replace_strings(named, text, split)) is not None:
            return found
    chunks = tuple([chunk.replace(dumps(old).encode(), dumps(dict(arguments)).encode()) for chunk in named.chunks])
    return None if chunks == named.chunks else _with_chunks(named, chunks)


def _replace_strings(reply: Reply, text: str, pieces: Callable[[int], Sequence[str]]) -> Reply | None:
    """Replace the strings that together are `text` by `pieces` of their number, and those that repeat it as a whole."""
    try:
        chunks = [chunk.decode() for chunk in reply.chunks]
    except UnicodeDecodeError:
        return None
    strings = [match for chunk in chunks for match in _STRING.finditer(chunk)]
    values = ["" if match[2] else str(json.loads(match[1], strict=False)) for match in strings]
    parts = _find_parts(values, text)
    if not text or (not parts and text not in values):
        return None
    new = pieces(len(parts) or 1)
    each = iter(new if parts else ())
    places = iter(range(len(values)))

    def exchange(match: re.Match[str]) -> str:
        place = next(places)
        if place in parts:
            return json.dumps(next(each))
        return json.dumps("".join(new)) if values[place] == text else match[0]

    return _with_chunks(reply, tuple([_STRING.sub(exchange, chunk).encode() for chunk in chunks]))


def _with_chunks(reply: Reply, chunks: tuple[bytes, ...]) -> Reply:
    return replace(reply, body=chunks[0] if isinstance(reply.body, bytes) else chunks)


def _find_parts(values: list[str], text: str) -> set[int]:
    """Return the indices of the strings that together are the text, or an empty set if there are none."""
    parts: set[int] = set()
    length = 0
    for place, value in enumerate(values):
        if value and value != text and text.startswith(value, length):
            parts.add(place)
            length += len(value)
    return parts if length == len(text) else set()
