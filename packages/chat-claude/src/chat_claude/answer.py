"""The blocks of an answer, as they grow.

A stream says where a block begins, what is added to it, and where it ends; a whole answer is blocks that begin with all
that they hold. Text, thinking and calls become parts of their own; every other block, known or not, is kept whole as a
`ProviderPart`, since Claude wants it back where it stood.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol, TypeAlias, final

from chat_core.events import ReasoningDelta, TextDelta, ToolCallDelta
from chat_core.json import dumps, loads
from chat_core.messages import FunctionCall, Opaque, Part, ProviderPart, Reasoning, Text, Tool
from chat_core.provider import Delta
from chat_core.wire.shapes import Json, WrongShapeError, is_list, is_object, require_list, require_text

Piece: TypeAlias = Mapping[str, Any]

OF_CALL: Final = ("id", "name", "input")

DIRECT: Final = {"type": "direct"}
"""The caller of a call that the model makes itself: the default, and not worth keeping."""


class Block(Protocol):
    """A block that grows."""

    def grow(self, delta: Piece, out: list[Delta]) -> None:
        """Take a piece of it, and tell a listener.

        Raises:
            WrongShapeError: the piece is not what its type promises.
        """
        ...

    def end(self, out: list[Delta]) -> None:
        """Take note that nothing more comes."""
        ...

    def part(self, provider: str) -> Part:
        """What it has come to."""
        ...


def _further(block: Piece, *own: str) -> Json:
    """What a block holds beside what is known of it, where it says anything."""
    return {key: value for key, value in block.items() if key not in own and key != "type" and value not in (None, [])}


@final
class TextBlock:
    """Words, with the citations that back them. A quiet one tells a listener nothing as it grows."""

    __slots__ = ("_further", "_notes", "quiet", "texts")

    def __init__(self, block: Piece, out: list[Delta], *, quiet: bool) -> None:
        self._further = _further(block, "text", "citations")
        self._notes: list[Any] = list(require_list(block.get("citations") or [], "content_block.citations"))
        self.texts: list[str] = []
        self.quiet = quiet
        if text := require_text(block.get("text") or "", "content_block.text"):
            self._say(text, out)

    @property
    def text(self) -> str:
        """Its words so far."""
        return "".join(self.texts)

    def _say(self, text: str, out: list[Delta]) -> None:
        self.texts.append(text)
        if not self.quiet:
            out.append(TextDelta(text))

    def grow(self, delta: Piece, out: list[Delta]) -> None:
        """More words, or a citation."""
        if (text := delta.get("text")) is not None:
            self._say(require_text(text, "delta.text"), out)
        elif citation := delta.get("citation"):
            self._notes.append(citation)

    def end(self, out: list[Delta]) -> None:
        """Nothing to do."""

    def further(self) -> Json:
        """The further fields of the block."""
        return {**self._further, "citations": self._notes} if self._notes else self._further

    def part(self, provider: str) -> Part:
        """A text."""
        further = self.further()
        return Text(self.text, Opaque(provider, further) if further else None)


@final
class ThinkingBlock:
    """What the model thinks, and the signature that proves it."""

    __slots__ = ("_further", "_signature", "_texts")

    def __init__(self, block: Piece, out: list[Delta]) -> None:
        self._further = _further(block, "thinking", "signature")
        self._signature = require_text(block.get("signature") or "", "content_block.signature")
        self._texts: list[str] = []
        if text := require_text(block.get("thinking") or "", "content_block.thinking"):
            self._texts.append(text)
            out.append(ReasoningDelta(text))

    def grow(self, delta: Piece, out: list[Delta]) -> None:
        """More of it, or its signature, which comes whole."""
        if (text := delta.get("thinking")) is not None:
            self._texts.append(require_text(text, "delta.thinking"))
            if text:
                out.append(ReasoningDelta(text))
        if (signature := delta.get("signature")) is not None:
            self._signature = require_text(signature, "delta.signature")

    def end(self, out: list[Delta]) -> None:
        """Nothing to do."""

    def part(self, provider: str) -> Part:
        """Reasoning that is Claude's."""
        return Reasoning("".join(self._texts), self._signature or None, Opaque(provider, self._further))


@final
class CallBlock:
    """A call of a tool of the caller's."""

    __slots__ = ("_further", "_index", "_input", "_pieces", "id", "name")

    def __init__(self, block: Piece, index: int, path: str, out: list[Delta]) -> None:
        self.name = require_text(block.get("name"), f"{path}.name")
        self.id = require_text(block.get("id") or "", f"{path}.id")
        self._input = _input(block, path)
        self._index = index
        self._pieces: list[str] = []
        self._further = _further(block, *OF_CALL)
        if self._further.get("caller") == DIRECT:
            del self._further["caller"]
        out.append(ToolCallDelta("", index, self.name, self.id or None))

    def grow(self, delta: Piece, out: list[Delta]) -> None:
        """More of its arguments."""
        if text := require_text(delta.get("partial_json") or "", "delta.partial_json"):
            self._pieces.append(text)
            out.append(ToolCallDelta(text, self._index))

    def end(self, out: list[Delta]) -> None:
        """Tell the arguments that came with its beginning."""
        if not self._pieces and self._input:
            self._pieces.append(self._input)
            out.append(ToolCallDelta(self._pieces[0], self._index))

    def part(self, provider: str) -> Part:
        """A call, as the model wrote it; no arguments at all are an empty object."""
        raw = "".join(self._pieces) or self._input
        opaque = Opaque(provider, self._further) if self._further else None
        return Tool(FunctionCall.parse(self.name, raw, opaque=opaque), call_id=self.id or None)


@final
class OutputBlock:
    """A structured answer that comes as the arguments of a tool: to everybody else it is text."""

    __slots__ = ("_input", "_pieces")

    def __init__(self, block: Piece, path: str) -> None:
        self._input = _input(block, path)
        self._pieces: list[str] = []

    def grow(self, delta: Piece, out: list[Delta]) -> None:
        """More of it."""
        if text := require_text(delta.get("partial_json") or "", "delta.partial_json"):
            self._pieces.append(text)
            out.append(TextDelta(text))

    def end(self, out: list[Delta]) -> None:
        """Tell what came with its beginning."""
        if not self._pieces:
            self._pieces.append(self._input or "{}")
            out.append(TextDelta(self._pieces[0]))

    def part(self, provider: str) -> Part:  # noqa: ARG002 - as the others
        """The JSON of the answer."""
        return Text("".join(self._pieces))


@final
class OtherBlock:
    """Any other block: kept whole."""

    __slots__ = ("_data", "_kind", "_lists", "_pieces", "_texts")

    def __init__(self, block: Piece) -> None:
        self._kind = str(block.get("type") or "unknown")
        self._data: Json = dict(block)
        self._pieces: list[str] = []
        self._texts: dict[str, list[str]] = {}
        self._lists: set[str] = set()

    def grow(self, delta: Piece, out: list[Delta]) -> None:  # noqa: ARG002 - as the others
        """More of it: arguments in pieces, or whole fields, or text that goes on."""
        if delta.get("type") == "input_json_delta":
            self._pieces.append(require_text(delta.get("partial_json") or "", "delta.partial_json"))
            return
        fields = {key: value for key, value in delta.items() if key != "type"}
        if delta.get("type") == "compaction_delta":
            self._data |= fields  # whole, and null where it failed: an empty text would be refused
            return
        for key, value in fields.items():
            if key == "citation":
                self._add("citations", [value])
            else:
                self._add(key, value)

    def _add(self, key: str, value: object) -> None:
        known = self._data.get(key)
        if isinstance(known, str) and isinstance(value, str):
            self._texts.setdefault(key, [known]).append(value)
        elif is_list(known) and is_list(value):
            if key not in self._lists:
                self._lists.add(key)
                self._data[key] = known = list(known)
            known.extend(value)
        elif value is not None or known is None:
            self._data[key] = value
            self._texts.pop(key, None)

    def end(self, out: list[Delta]) -> None:
        """Nothing to do."""

    def part(self, provider: str) -> Part:
        """The block."""
        data = self._data | {key: "".join(texts) for key, texts in self._texts.items()}
        text = "".join(self._pieces)
        if not text.strip():
            return ProviderPart(provider, self._kind, data)
        try:
            value = loads(text)
        except ValueError:
            value = None
        return ProviderPart(
            provider, self._kind, data | {"input": value if is_object(value) else {"INVALID_JSON": text}}
        )


def _input(block: Piece, path: str) -> str:
    """The arguments that stand in the beginning of a block, as text: none, or all of them."""
    value = block.get("input")
    if not value:
        return ""
    if not is_object(value):
        raise WrongShapeError(f"{path}.input", "an object")  # noqa: EM102 - a path
    return dumps(value)
