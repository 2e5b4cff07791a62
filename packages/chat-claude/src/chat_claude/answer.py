"""Decoders for the content blocks of a response.

A stream sends the start of a block, its deltas and its end. A complete response contains whole blocks. Text, thinking
and tool calls become parts of their own types. Every other block becomes a `ProviderPart`, because the API requires
the block at the same position in later requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol, TypeAlias, final

from chat_core.events import ReasoningDelta, TextDelta, ToolCallDelta
from chat_core.json import dumps, loads_limited
from chat_core.messages import FunctionCall, Opaque, Part, ProviderPart, Reasoning, Text, Tool
from chat_core.provider import Delta
from chat_core.wire.shapes import Json, WrongShapeError, is_list, is_object, require_list, require_text

BlockFields: TypeAlias = Mapping[str, Any]

CALL_FIELDS: Final = ("id", "name", "input")

DEFAULT_CALLER: Final = {"type": "direct"}
"""Default value of `caller`, for calls that the model itself makes. It is not stored."""


class Block(Protocol):
    """Protocol for classes that decode one content block of a response."""

    def add_delta(self, delta: BlockFields, out: list[Delta]) -> None:
        """Add one streamed delta to the block.

        Args:
            delta: the `delta` object of the event.
            out: list to which deltas for the caller are appended.

        Raises:
            WrongShapeError: a field of the delta has the wrong type.
        """
        ...

    def end(self, out: list[Delta]) -> None:
        """Append the remaining deltas to `out` at the end of the block. Some gateways send more deltas later."""
        ...

    def part(self, provider: str) -> Part:
        """Return the block as a part of the turn. `provider` is recorded as the owner of its opaque data."""
        ...


def _extra_fields(block: BlockFields, *own: str) -> Json:
    """Return the fields of `block` that are not null or empty lists, except `type` and the fields named in `own`."""
    return {key: value for key, value in block.items() if key not in own and key != "type" and value not in (None, [])}


@final
class TextBlock:
    """A text block with its citations. If `quiet` is set, no deltas are produced for the caller."""

    __slots__ = ("_citations", "_extra_fields", "quiet", "texts")

    def __init__(self, block: BlockFields, out: list[Delta], *, quiet: bool) -> None:
        self._extra_fields = _extra_fields(block, "text", "citations")
        self._citations: list[Any] = list(require_list(block.get("citations") or [], "content_block.citations"))
        self.texts: list[str] = []
        self.quiet: bool = quiet
        if text := require_text(block.get("text") or "", "content_block.text"):
            self._add_text(text, out)

    @property
    def text(self) -> str:
        """The text received so far."""
        return "".join(self.texts)

    def _add_text(self, text: str, out: list[Delta]) -> None:
        self.texts.append(text)
        if not self.quiet:
            out.append(TextDelta(text))

    def add_delta(self, delta: BlockFields, out: list[Delta]) -> None:
        """Implement `Block.add_delta`: add a piece of text or a citation."""
        if (text := delta.get("text")) is not None:
            self._add_text(require_text(text, "delta.text"), out)
        elif citation := delta.get("citation"):
            self._citations.append(citation)

    def end(self, out: list[Delta]) -> None:
        """Do nothing, because all deltas of a text have already been appended."""

    def extra_fields(self) -> Json:
        """Return all fields of the block except its text and type. Citations are included."""
        return {**self._extra_fields, "citations": self._citations} if self._citations else self._extra_fields

    def part(self, provider: str) -> Part:
        """Return the text as a `Text` part. Citations and other fields become its opaque data."""
        extra_fields = self.extra_fields()
        return Text(self.text, Opaque(provider, extra_fields) if extra_fields else None)


@final
class ThinkingBlock:
    """A thinking block with its signature."""

    __slots__ = ("_extra_fields", "_signature", "_texts")

    def __init__(self, block: BlockFields, out: list[Delta]) -> None:
        self._extra_fields = _extra_fields(block, "thinking", "signature")
        self._signature = require_text(block.get("signature") or "", "content_block.signature")
        self._texts: list[str] = []
        if text := require_text(block.get("thinking") or "", "content_block.thinking"):
            self._texts.append(text)
            out.append(ReasoningDelta(text))

    def add_delta(self, delta: BlockFields, out: list[Delta]) -> None:
        """Implement `Block.add_delta`: add a piece of thinking text, or store the signature."""
        if (text := delta.get("thinking")) is not None:
            self._texts.append(require_text(text, "delta.thinking"))
            if text:
                out.append(ReasoningDelta(text))
        if (signature := delta.get("signature")) is not None:
            self._signature = require_text(signature, "delta.signature")

    def end(self, out: list[Delta]) -> None:
        """Do nothing, because all deltas of a thinking block have already been appended."""

    def part(self, provider: str) -> Part:
        """Return the thinking as a `Reasoning` part. Its opaque data marks the signature as the provider's."""
        return Reasoning("".join(self._texts), self._signature or None, Opaque(provider, self._extra_fields))


@final
class CallBlock:
    """A block with a call to one of the chat's tools."""

    __slots__ = ("_extra_fields", "_fragments", "_index", "_input_json", "id", "name")

    def __init__(self, block: BlockFields, index: int, path: str, out: list[Delta]) -> None:
        self.name: str = require_text(block.get("name"), f"{path}.name")
        self.id: str = require_text(block.get("id") or "", f"{path}.id")
        self._input_json = _input_json(block, path)
        self._index = index
        self._fragments: list[str] = []
        self._extra_fields = _extra_fields(block, *CALL_FIELDS)
        if self._extra_fields.get("caller") == DEFAULT_CALLER:
            del self._extra_fields["caller"]
        out.append(ToolCallDelta("", index, self.name, self.id or None))

    def add_delta(self, delta: BlockFields, out: list[Delta]) -> None:
        """Implement `Block.add_delta`: add a piece of the JSON arguments."""
        if text := require_text(delta.get("partial_json") or "", "delta.partial_json"):
            self._fragments.append(text)
            out.append(ToolCallDelta(text, self._index))

    def end(self, out: list[Delta]) -> None:
        """Append the arguments sent with the block's start to `out`, if no deltas were received."""
        if not self._fragments and self._input_json:
            self._fragments.append(self._input_json)
            out.append(ToolCallDelta(self._fragments[0], self._index))

    def part(self, provider: str) -> Part:
        """Return the call as a `Tool` part with the arguments as received. Missing arguments become an empty object."""
        raw = "".join(self._fragments) or self._input_json
        opaque = Opaque(provider, self._extra_fields) if self._extra_fields else None
        return Tool(FunctionCall.parse(self.name, raw, opaque=opaque), call_id=self.id or None)


@final
class OutputBlock:
    """A block with structured output, sent as arguments of the output tool and returned as text."""

    __slots__ = ("_fragments", "_input_json")

    def __init__(self, block: BlockFields, path: str) -> None:
        self._input_json = _input_json(block, path)
        self._fragments: list[str] = []

    def add_delta(self, delta: BlockFields, out: list[Delta]) -> None:
        """Implement `Block.add_delta`: add a piece of the JSON arguments."""
        if text := require_text(delta.get("partial_json") or "", "delta.partial_json"):
            self._fragments.append(text)
            out.append(TextDelta(text))

    def end(self, out: list[Delta]) -> None:
        """Append the output sent with the block's start to `out`, if no deltas were received."""
        if not self._fragments:
            self._fragments.append(self._input_json or "{}")
            out.append(TextDelta(self._fragments[0]))

    def part(self, provider: str) -> Part:  # noqa: ARG002 - as the others
        """Return the structured output as a `Text` part that contains JSON."""
        return Text("".join(self._fragments))


@final
class OtherBlock:
    """A block of any other type, whose fields are stored unchanged."""

    __slots__ = ("_data", "_fragments", "_kind", "_lists", "_texts")

    def __init__(self, block: BlockFields) -> None:
        self._kind = str(block.get("type") or "unknown")
        self._data: Json = dict(block)
        self._fragments: list[str] = []
        self._texts: dict[str, list[str]] = {}
        self._lists: set[str] = set()

    def add_delta(self, delta: BlockFields, out: list[Delta]) -> None:  # noqa: ARG002 - as the others
        """Implement `Block.add_delta`: add a piece of JSON arguments, or merge other fields into the block."""
        if delta.get("type") == "input_json_delta":
            self._fragments.append(require_text(delta.get("partial_json") or "", "delta.partial_json"))
            return
        fields = {key: value for key, value in delta.items() if key != "type"}
        if delta.get("type") == "compaction_delta":
            self._data |= fields  # sent whole; null after a failure, where the API rejects an empty text
            return
        for key, value in fields.items():
            if key == "citation":
                self._append_value("citations", [value])
            else:
                self._append_value(key, value)

    def _append_value(self, key: str, value: object) -> None:
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
        """Do nothing, because blocks of other types have no deltas for the caller."""

    def part(self, provider: str) -> Part:
        """Return the whole block as a `ProviderPart` of its type."""
        data = self._data | {key: "".join(texts) for key, texts in self._texts.items()}
        text = "".join(self._fragments)
        if not text.strip():
            return ProviderPart(provider, self._kind, data)
        try:
            value = loads_limited(text)
        except ValueError:
            value = None
        return ProviderPart(
            provider, self._kind, data | {"input": value if is_object(value) else {"INVALID_JSON": text}}
        )


def _input_json(block: BlockFields, path: str) -> str:
    """Return the `input` field of `block` as JSON text, or an empty string if the field is empty."""
    value = block.get("input")
    if not value:
        return ""
    if not is_object(value):
        raise WrongShapeError(f"{path}.input", "an object")  # noqa: EM102 - a path
    return dumps(value)
