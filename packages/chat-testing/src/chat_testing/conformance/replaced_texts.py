"""Copies of recorded responses with another text, to check how a provider reads texts that no recording contains."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Final

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
    try:
        chunks = [chunk.decode() for chunk in reply.chunks]
    except UnicodeDecodeError:
        return None
    strings = [match for chunk in chunks for match in _STRING.finditer(chunk)]
    values = ["" if match[2] else str(json.loads(match[1], strict=False)) for match in strings]
    parts = _find_parts(values, text)
    whole = piece * (len(parts) or 1)
    if not text or (not parts and text not in values):
        return None
    places = iter(range(len(values)))

    def exchange(match: re.Match[str]) -> str:
        place = next(places)
        if place in parts:
            return json.dumps(piece)
        return json.dumps(whole) if values[place] == text else match[0]

    body = tuple([_STRING.sub(exchange, chunk).encode() for chunk in chunks])
    return replace(reply, body=body[0] if isinstance(reply.body, bytes) else body), whole


def _find_parts(values: list[str], text: str) -> set[int]:
    """Return the indices of the strings that together are the text, or an empty set if there are none."""
    parts: set[int] = set()
    length = 0
    for place, value in enumerate(values):
        if value and value != text and text.startswith(value, length):
            parts.add(place)
            length += len(value)
    return parts if length == len(text) else set()
