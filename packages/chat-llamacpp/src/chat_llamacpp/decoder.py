"""Incremental decoder that converts the generated JSON into text and tool call deltas.

The input is one object, `{"say": "…"}`, `{"say": {…}}` or `{"call": "name", "arguments": {…}}`, split at arbitrary
positions. Whitespace may appear anywhere that JSON allows it. The decoder emits text and arguments as they arrive.
"""

from __future__ import annotations

import json
import re
from typing import Any, TypeAlias, final
from uuid import uuid4

Delta: TypeAlias = dict[str, Any]
"""The `delta` object of a Chat Completions chunk."""

_HEAD = re.compile(r'\s*\{\s*"(say|call)"\s*:\s*')
_HEADS = ('{"say":', '{"call":')
_NAME = re.compile(r'("(?:[^"\\]|\\.)*")\s*,\s*"arguments"\s*:\s*')
_REPLACEMENT = "\ufffd"
"""Replacement for a lone surrogate, which UTF-8 cannot encode."""
# RFC 8259, section 7: characters outside the basic plane are escaped as two UTF-16 code units, twelve characters.
_HIGH, _LOW, _END = 0xD800, 0xDC00, 0xE000
_UNIT = 6
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\", "/": "/"}


@final
class TurnDecoder:
    """Decoder that converts the JSON text of a model response into Chat Completions deltas.

    Attributes:
        called: whether a tool call is complete.
        ended: whether the value of the object is complete. Later text is ignored.
        failed: whether the text does not match the grammar.
    """

    __slots__ = ("_kind", "_rest", "_string", "_value", "called", "ended", "failed")

    def __init__(self) -> None:
        self._kind = ""
        self._rest = ""
        self._value: _ValueScanner | None = None
        self._string: _StringDecoder | None = None
        self.called: bool = False
        self.ended: bool = False
        self.failed: bool = False

    @property
    def is_text(self) -> bool:
        """Whether the model response is text, not a tool call."""
        return self._kind in {"say", "string", "raw"}

    def feed(self, text: str) -> list[Delta]:
        """Decode more generated text, and return the deltas that it completes."""
        self._rest += text
        deltas: list[Delta] = []
        while self._rest and not self.ended:
            before = len(self._rest), self._kind
            delta = self._parse_next()
            if delta is not None:
                deltas.append(delta)
            if (len(self._rest), self._kind) == before:
                break
        return deltas

    def _parse_next(self) -> Delta | None:
        if not self._kind:
            self._parse_kind()
            return None
        if self._kind == "call":
            return self._parse_call_name()
        if self._kind == "say":
            self._kind = "string" if self._rest[0] == '"' else "raw"
            if self._kind == "string":
                self._string = _StringDecoder()
                self._rest = self._rest[1:]
            else:
                self._value = _ValueScanner()
            return None
        return self._parse_value()

    def _parse_kind(self) -> None:
        head = _HEAD.match(self._rest)
        if head is None:
            start = "".join(self._rest.split())
            self.failed = self.ended = not any(expected.startswith(start) for expected in _HEADS)
        # More whitespace may follow. Wait for the first character of the value.
        if head is not None and head.end() < len(self._rest):
            self._kind = head[1]
            self._rest = self._rest[head.end() :]

    def _parse_call_name(self) -> Delta | None:
        match = _NAME.match(self._rest)
        if match is None or match.end() == len(self._rest):
            return None
        self._kind = "arguments"
        self._value = _ValueScanner()
        self._rest = self._rest[match.end() :]
        function = {"name": json.loads(match[1]), "arguments": ""}
        return {
            "tool_calls": [{"index": 0, "id": f"call_{uuid4().hex[:24]}", "type": "function", "function": function}]
        }

    def _parse_value(self) -> Delta | None:
        if self._string is not None:
            text, self._rest, self.ended = self._string.feed(self._rest)
            return {"content": text} if text else None
        assert self._value is not None  # noqa: S101 - set for every other kind
        text, self._rest, self.ended = self._value.feed(self._rest)
        if not text:
            return None
        if self._kind == "raw":
            return {"content": text}
        self.called = self.ended
        return {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}


@final
class _ValueScanner:
    """Scanner that finds the end of a JSON value. A number or literal ends at a comma or closing bracket."""

    __slots__ = ("_depth", "_escaped", "_quoted", "_scalar", "_seen")

    def __init__(self) -> None:
        self._depth = 0
        self._quoted = False
        self._escaped = False
        self._seen = False
        self._scalar = False

    def feed(self, text: str) -> tuple[str, str, bool]:
        """Scan more text. Return the text of the value, the text after it, and whether the value is complete."""
        for position, character in enumerate(text):
            if not self._seen:
                self._seen = True
                self._scalar = character not in '{["'
            if self._scalar and character in ",}]" and not self._depth:
                return text[:position].rstrip(), text[position:], True
            if self._ends_value(character):
                return text[: position + 1], text[position + 1 :], True
        return text, "", False

    def _ends_value(self, character: str) -> bool:
        if self._quoted:
            if self._escaped:
                self._escaped = False
            elif character == "\\":
                self._escaped = True
            elif character == '"':
                self._quoted = False
                return self._depth == 0
            return False
        if character == '"':
            self._quoted = True
        elif character in "{[":
            self._depth += 1
        elif character in "}]":
            self._depth -= 1
            return self._depth == 0
        return False


@final
class _StringDecoder:
    """Incremental decoder for the content of a JSON string. It buffers incomplete escapes and surrogate pairs."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> tuple[str, str, bool]:
        """Decode more text. Return the decoded text, the text after the closing quote, and whether it was found."""
        text = self._held + text
        self._held = ""
        out: list[str] = []
        position = 0
        while position < len(text):
            character = text[position]
            if character == '"':
                return "".join(out), text[position + 1 :], True
            if character != "\\":
                out.append(character)
                position += 1
                continue
            escape = _decode_escape(text, position)
            if escape is None:
                self._held = text[position:]
                break
            out.append(escape[0])
            position = escape[1]
        return "".join(out), "", False


def _decode_escape(text: str, position: int) -> tuple[str, int] | None:
    """Return the character of the escape at `position`, and the position after it, or None if it is incomplete."""
    kind = text[position + 1 : position + 2]
    if kind != "u":
        return (_ESCAPES.get(kind, kind), position + 2) if kind else None
    first = _decode_code_unit(text, position)
    if first is None or not _HIGH <= first < _END:
        return None if first is None else (chr(first), position + _UNIT)
    following = text[position + _UNIT : position + _UNIT + 2]
    if first >= _LOW or not "\\u".startswith(following):
        return _REPLACEMENT, position + _UNIT
    second = _decode_code_unit(text, position + _UNIT)
    if second is None:
        return None
    if not _LOW <= second < _END:
        return _REPLACEMENT, position + _UNIT
    return chr(0x10000 + ((first - _HIGH) << 10) + second - _LOW), position + 2 * _UNIT


def _decode_code_unit(text: str, position: int) -> int | None:
    r"""Return the UTF-16 code unit of the `\uXXXX` at `position`, or None if it is incomplete."""
    digits = text[position + 2 : position + _UNIT]
    return int(digits, 16) if len(digits) == _UNIT - 2 else None
