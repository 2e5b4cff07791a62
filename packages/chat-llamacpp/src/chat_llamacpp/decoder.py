"""From the JSON that the grammar leaves a model to say, as it grows, to text and calls.

What comes is one object, `{"say": "…"}`, `{"say": {…}}` or `{"call": "name", "arguments": {…}}`, with blanks where JSON
allows them, cut anywhere. The text of a saying and the arguments of a call are told as they arrive.
"""

from __future__ import annotations

import json
import re
from typing import Any, TypeAlias, final
from uuid import uuid4

Delta: TypeAlias = dict[str, Any]
"""The `delta` of a chunk of the Completions wire."""

_HEAD = re.compile(r'\s*\{\s*"(say|call)"\s*:\s*')
_HEADS = ('{"say":', '{"call":')
_NAME = re.compile(r'("(?:[^"\\]|\\.)*")\s*,\s*"arguments"\s*:\s*')
_LONE = "\ufffd"
"""For half of a surrogate pair, which UTF-8 cannot carry."""
# RFC 8259, section 7: twelve letters for what is beyond the basic plane, as two code units of UTF-16.
_HIGH, _LOW, _END = 0xD800, 0xDC00, 0xE000
_UNIT = 6
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\", "/": "/"}


@final
class TurnDecoder:
    """Feed it the model's text; it gives the deltas of the Completions wire.

    Attributes:
        called: whether there was a whole call.
        ended: whether the object's value has ended: nothing is told of what follows.
        failed: whether the text does not begin as such an object does: the grammar did not hold.
    """

    __slots__ = ("_kind", "_rest", "_string", "_value", "called", "ended", "failed")

    def __init__(self) -> None:
        self._kind = ""
        self._rest = ""
        self._value: _Value | None = None
        self._string: _String | None = None
        self.called = False
        self.ended = False
        self.failed = False

    @property
    def saying(self) -> bool:
        """Whether what came, or comes, is a saying."""
        return self._kind in {"say", "string", "raw"}

    def feed(self, text: str) -> list[Delta]:
        """What this piece of text completes."""
        self._rest += text
        deltas: list[Delta] = []
        while self._rest and not self.ended:
            before = len(self._rest), self._kind
            delta = self._step()
            if delta is not None:
                deltas.append(delta)
            if (len(self._rest), self._kind) == before:
                break
        return deltas

    def _step(self) -> Delta | None:
        if not self._kind:
            self._begin()
            return None
        if self._kind == "call":
            return self._name()
        if self._kind == "say":
            self._kind = "string" if self._rest[0] == '"' else "raw"
            if self._kind == "string":
                self._string = _String()
                self._rest = self._rest[1:]
            else:
                self._value = _Value()
            return None
        return self._more()

    def _begin(self) -> None:
        head = _HEAD.match(self._rest)
        if head is None:
            begun = "".join(self._rest.split())
            self.failed = self.ended = not any(whole.startswith(begun) for whole in _HEADS)
        # The last blank may be followed by another one; what follows the blanks begins the value.
        if head is not None and head.end() < len(self._rest):
            self._kind = head[1]
            self._rest = self._rest[head.end() :]

    def _name(self) -> Delta | None:
        named = _NAME.match(self._rest)
        if named is None or named.end() == len(self._rest):
            return None
        self._kind = "arguments"
        self._value = _Value()
        self._rest = self._rest[named.end() :]
        function = {"name": json.loads(named[1]), "arguments": ""}
        return {
            "tool_calls": [{"index": 0, "id": f"call_{uuid4().hex[:24]}", "type": "function", "function": function}]
        }

    def _more(self) -> Delta | None:
        if self._string is not None:
            text, self._rest, self.ended = self._string.feed(self._rest)
            return {"content": text} if text else None
        assert self._value is not None  # noqa: S101 - every other kind has one
        text, self._rest, self.ended = self._value.feed(self._rest)
        if not text:
            return None
        if self._kind == "raw":
            return {"content": text}
        self.called = self.ended
        return {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}


@final
class _Value:
    """A JSON object or array, passed on as it is written, up to its end. Anything else ends at a comma or a brace."""

    __slots__ = ("_depth", "_escaped", "_quoted", "_scalar", "_seen")

    def __init__(self) -> None:
        self._depth = 0
        self._quoted = False
        self._escaped = False
        self._seen = False
        self._scalar = False

    def feed(self, text: str) -> tuple[str, str, bool]:
        """What belongs to the value, what is behind it, and whether it has ended."""
        for place, letter in enumerate(text):
            if not self._seen:
                self._seen = True
                self._scalar = letter not in '{["'
            if self._scalar and letter in ",}]" and not self._depth:
                return text[:place].rstrip(), text[place:], True
            if self._ends(letter):
                return text[: place + 1], text[place + 1 :], True
        return text, "", False

    def _ends(self, letter: str) -> bool:
        if self._quoted:
            if self._escaped:
                self._escaped = False
            elif letter == "\\":
                self._escaped = True
            elif letter == '"':
                self._quoted = False
                return self._depth == 0
            return False
        if letter == '"':
            self._quoted = True
        elif letter in "{[":
            self._depth += 1
        elif letter in "}]":
            self._depth -= 1
            return self._depth == 0
        return False


@final
class _String:
    """A JSON string, unescaped as far as it has come. An escape, or half of a surrogate pair, waits for the rest."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> tuple[str, str, bool]:
        """The text so far, what is behind the closing quote, and whether that has come."""
        text = self._held + text
        self._held = ""
        out: list[str] = []
        place = 0
        while place < len(text):
            letter = text[place]
            if letter == '"':
                return "".join(out), text[place + 1 :], True
            if letter != "\\":
                out.append(letter)
                place += 1
                continue
            taken = _escape(text, place)
            if taken is None:
                self._held = text[place:]
                break
            out.append(taken[0])
            place = taken[1]
        return "".join(out), "", False


def _escape(text: str, place: int) -> tuple[str, int] | None:
    """The escape at `place` and where it ends; `None` where it is not whole yet."""
    kind = text[place + 1 : place + 2]
    if kind != "u":
        return (_ESCAPES.get(kind, kind), place + 2) if kind else None
    first = _unit(text, place)
    if first is None or not _HIGH <= first < _END:
        return None if first is None else (chr(first), place + _UNIT)
    behind = text[place + _UNIT : place + _UNIT + 2]
    if first >= _LOW or not "\\u".startswith(behind):
        return _LONE, place + _UNIT
    second = _unit(text, place + _UNIT)
    if second is None:
        return None
    if not _LOW <= second < _END:
        return _LONE, place + _UNIT
    return chr(0x10000 + ((first - _HIGH) << 10) + second - _LOW), place + 2 * _UNIT


def _unit(text: str, place: int) -> int | None:
    r"""The code unit of the `\uXXXX` at `place`; `None` where it is not whole yet."""
    digits = text[place + 2 : place + _UNIT]
    return int(digits, 16) if len(digits) == _UNIT - 2 else None
