"""Copies of recorded responses with another text, to check how a provider reads texts that no recording contains.

Text formats and AWS event streams are supported. The payload of a message of such a stream is JSON, or JSON whose
member `bytes` is the event as base64 (Amazon Bedrock).
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from chat_core.json import dumps, loads
from chat_core.messages import FunctionCall
from chat_core.wire.shapes import mapping

from chat_testing.conformance.aws_frames import payload_of, split_messages, with_payload
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
        The response and its new text, or None if the parts are not found, for example in another format.
    """
    count = 0

    def repeat(parts: int) -> list[str]:
        nonlocal count
        count = parts
        return [piece] * parts

    replaced = _replace_strings(reply, text, repeat)
    return None if replaced is None else (replaced, piece * count)


def split_text(reply: Reply, text: str, pieces: tuple[str, str]) -> Reply | None:
    """Return a copy of a recorded response whose text consists of two pieces, each in a string of its own.

    The pieces may end and begin with one half of a surrogate pair, which JSON writes as an escape.

    Args:
        reply: the recorded response.
        text: the text of the response, or the text of the arguments of a call.
        pieces: the new texts.

    Returns:
        The response, or None if its text is not in several strings.
    """
    several = True

    def halve(parts: int) -> list[str]:
        nonlocal several
        several = parts > 1
        return [*pieces, *[""] * (parts - 2)]

    replaced = _replace_strings(reply, text, halve)
    return replaced if several else None


def replace_type(reply: Reply, text: str, value: object) -> tuple[Reply, str] | None:
    """Return a copy of a recorded response with a JSON value in place of a text, and the name of its field.

    Args:
        reply: the recorded response.
        text: a text of the response, such as the name of a tool.
        value: the JSON value that replaces each part of the text.

    Returns:
        The response and the name of the field, or None if the text is not found.
    """
    replaced = _replace_strings(reply, text, lambda parts: [value] * parts)
    return None if replaced is None else (replaced, _field_of(reply, text))


def _field_of(reply: Reply, text: str) -> str:
    """Return the name before the first string that is the text or a part of it."""
    name = ""
    strings = [match for document in _documents_of(reply) or [] for match in _STRING.finditer(document)]
    values = ["" if match[2] else str(json.loads(match[1], strict=False)) for match in strings]
    parts = _find_parts(values, text)
    for place, match in enumerate(strings):
        if match[2]:
            name = str(json.loads(match[1], strict=False))
        elif place in parts or values[place] == text:
            return name
    return ""


def chunks_with(reply: Reply, text: str) -> list[int]:
    """Return the indices of the chunks that contain a text or a part of it, or an empty list for a binary format.

    Args:
        reply: the recorded response.
        text: a text of the response.
    """
    if _is_aws(reply):
        return []
    found = [
        (index, match)
        for index, document in enumerate(_documents_of(reply) or [])
        for match in _STRING.finditer(document)
        if not match[2]
    ]
    values = [str(json.loads(match[1], strict=False)) for _, match in found]
    parts = _find_parts(values, text)
    places = [index for place, (index, _) in enumerate(found) if place in parts or values[place] == text]
    return sorted(set(places))


def replace_call(reply: Reply, call: FunctionCall, name: str, arguments: Mapping[str, object]) -> Reply | None:
    """Return a copy of a recorded response whose call has another tool name and other arguments.

    Args:
        reply: the recorded response.
        call: the call of the response. Its arguments are a JSON object, or the text of one in one or more strings.
        name: the new name of the tool.
        arguments: the new arguments.

    Returns:
        The response, or None if the name or the arguments are not found, for example in a format that is not supported.
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
    documents = _documents_of(named) or []
    replaced = [document.replace(dumps(old), dumps(dict(arguments))) for document in documents]
    return None if replaced == documents else _with_documents(named, replaced)


def _replace_strings(reply: Reply, text: str, pieces: Callable[[int], Sequence[object]]) -> Reply | None:
    """Replace the strings that together are `text` by `pieces` of their number, and those that repeat it as a whole.

    The pieces are strings, or equal JSON values.
    """
    documents = _documents_of(reply)
    if documents is None:
        return None
    strings = [match for document in documents for match in _STRING.finditer(document)]
    values = ["" if match[2] else str(json.loads(match[1], strict=False)) for match in strings]
    parts = _find_parts(values, text)
    if not text or (not parts and text not in values):
        return None
    new = pieces(len(parts) or 1)
    each = iter(new if parts else ())
    texts = [piece for piece in new if isinstance(piece, str)]
    whole = "".join(texts) if texts else new[0]
    places = iter(range(len(values)))

    def exchange(match: re.Match[str]) -> str:
        place = next(places)
        if place in parts:
            return json.dumps(next(each))
        return json.dumps(whole) if values[place] == text else match[0]

    return _with_documents(reply, [_STRING.sub(exchange, document) for document in documents])


def _documents_of(reply: Reply) -> list[str] | None:
    """Return the chunks of a text format or the events of an AWS event stream, or None for another format."""
    try:
        if not _is_aws(reply):
            return [chunk.decode() for chunk in reply.chunks]
        messages = [split_messages(chunk) for chunk in reply.chunks]
        return [_unwrap(payload_of(message)) for found in messages if found for message in found]
    except UnicodeDecodeError:
        return None


def _with_documents(reply: Reply, documents: Sequence[str]) -> Reply:
    """Return a copy of a response with other documents, in the format of `_documents_of()`."""
    if not _is_aws(reply):
        chunks = tuple([document.encode() for document in documents])
    else:
        rest = iter(documents)
        chunks = tuple(
            [
                b"".join([with_payload(message, _wrap(payload_of(message), next(rest))) for message in messages])
                for chunk in reply.chunks
                if (messages := split_messages(chunk))
            ]
        )
    return replace(reply, body=chunks[0] if isinstance(reply.body, bytes) else chunks)


def _is_aws(reply: Reply) -> bool:
    return bool(reply.data) and all(split_messages(chunk) for chunk in reply.chunks)


def _unwrap(payload: bytes) -> str:
    """Return the event in the payload of a message."""
    wrapped = _wrapped_event(payload)
    return payload.decode() if wrapped is None else base64.b64decode(wrapped).decode()


def _wrap(payload: bytes, event: str) -> bytes:
    """Return a copy of the payload of a message with another event."""
    wrapped = _wrapped_event(payload)
    data = event.encode()
    return data if wrapped is None else payload.replace(wrapped.encode(), base64.b64encode(data))


def _wrapped_event(payload: bytes) -> str | None:
    """Return the event that the member `bytes` of a payload contains as base64, or None."""
    try:
        fields = loads(payload)
    except ValueError:
        return None
    wrapped = mapping(fields).get("bytes")
    return wrapped if isinstance(wrapped, str) and wrapped else None


def _find_parts(values: list[str], text: str) -> set[int]:
    """Return the indices of the strings that together are the text, or an empty set if there are none."""
    parts: set[int] = set()
    length = 0
    for place, value in enumerate(values):
        if value and value != text and text.startswith(value, length):
            parts.add(place)
            length += len(value)
    return parts if length == len(text) else set()
