"""Parts as JSON objects, tools apart: each is tagged with its `type`, and leaves out what is at its default."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from chat_core.messages._fields import (
    Fields,
    MalformedError,
    array,
    expected,
    fields,
    keep,
    mapping,
    mapping_or_none,
    nested,
    rest,
    string,
    string_or_none,
)
from chat_core.messages.parts import NOBODY, Embedding, File, Opaque, ProviderPart, Reasoning, Structured, Text

if TYPE_CHECKING:
    from typing import TypeAlias

    SimplePart: TypeAlias = Text | Reasoning | Structured | File | Embedding | ProviderPart

OPAQUE = frozenset({"provider", "data"})
TEXT = frozenset({"type", "text", "opaque"})
REASONING = frozenset({"type", "text", "signature", "opaque"})
STRUCTURED = frozenset({"type", "value"})
FILE = frozenset({"type", "mime", "data", "url", "name", "opaque"})
EMBEDDING = frozenset({"type", "vector"})
PROVIDER = frozenset({"type", "provider", "kind", "data"})


def write_opaque(opaque: Opaque) -> Fields:
    """A provider's own data."""
    return keep({"provider": opaque.provider, "data": dict(opaque.data)}, opaque.extra, OPAQUE)


def read_opaque(data: Fields) -> Opaque | None:
    """The field `opaque` of `data`, which may be absent."""
    value = mapping_or_none(data, "opaque")
    return None if value is None else nested(value, "opaque", _read_opaque)


def _read_opaque(data: Fields) -> Opaque:
    return Opaque(string(data, "provider"), mapping(data, "data"), rest(data, OPAQUE))


def write_text(part: Text) -> Fields:
    """Words."""
    data: Fields = {"type": "text", "text": part.text}
    if part.opaque is None and part.extra is None:
        return data
    if part.opaque is not None:
        data["opaque"] = write_opaque(part.opaque)
    return keep(data, part.extra, TEXT)


def read_text(data: Fields) -> Text:
    """Words."""
    text = data.get("text")
    if type(text) is str and len(data) == 2:  # noqa: PLR2004 - `type` and `text`, as nearly always
        return Text(text)
    return Text(string(data, "text"), read_opaque(data), rest(data, TEXT))


def write_reasoning(part: Reasoning) -> Fields:
    """What a model thought."""
    data: Fields = {"type": "reasoning", "text": part.text}
    if part.signature is not None:
        data["signature"] = part.signature
    if part.opaque is not None:
        data["opaque"] = write_opaque(part.opaque)
    return keep(data, part.extra, REASONING)


def _read_reasoning(data: Fields) -> Reasoning:
    return Reasoning(string(data, "text"), string_or_none(data, "signature"), read_opaque(data), rest(data, REASONING))


def write_structured(part: Structured) -> Fields:
    """A JSON value."""
    return keep({"type": "structured", "value": part.value}, part.extra, STRUCTURED)


def _read_structured(data: Fields) -> Structured:
    if "value" not in data:
        raise MalformedError("missing", "value")
    return Structured(data["value"], rest(data, STRUCTURED))


def write_file(part: File) -> Fields:
    """A file: its bytes as base64, its URL, or what its provider knows it by."""
    data: Fields = {"type": "file", "mime": part.mime}
    if part.data is not None:
        data["data"] = base64.b64encode(part.data).decode()
    if part.url is not None:
        data["url"] = part.url
    if part.name is not None:
        data["name"] = part.name
    if part.opaque is not None:
        data["opaque"] = write_opaque(part.opaque)
    return keep(data, part.extra, FILE)


def read_file(value: object) -> File:
    """A file, with its tag or without."""
    data = fields(value)
    encoded = string_or_none(data, "data")
    url = string_or_none(data, "url")
    opaque = read_opaque(data)
    if encoded is not None and url is not None:
        raise MalformedError(expected("bytes or a URL, not both", url), "url")
    if encoded is None and url is None and opaque is None:
        raise MalformedError(expected("a file with data, a url, or opaque data", value))
    try:
        content = None if encoded is None else base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise MalformedError(expected("base64", encoded), "data") from None
    return File(string(data, "mime"), content, url, string_or_none(data, "name"), opaque, rest(data, FILE))


def write_embedding(part: Embedding) -> Fields:
    """A vector."""
    return keep({"type": "embedding", "vector": list(part.vector)}, part.extra, EMBEDDING)


def _read_embedding(data: Fields) -> Embedding:
    vector: list[float] = []
    for value in array(data, "vector"):
        try:
            if value is None:
                # JSON has no word for what is not a number; it is written as null.
                vector.append(math.nan)
            elif type(value) is float or type(value) is int:
                vector.append(float(value))
            else:
                raise MalformedError(expected("a number", value), "vector", f"[{len(vector)}]")
        except OverflowError:
            raise MalformedError(expected("a number in range", value), "vector", f"[{len(vector)}]") from None
    return Embedding(tuple(vector), rest(data, EMBEDDING))


def write_provider(part: ProviderPart) -> Fields:
    """A provider's own block; one of a type that is unknown here is written back as it was."""
    if part.provider == NOBODY:
        return {"type": part.kind, **part.data}
    data: Fields = {"type": "provider", "provider": part.provider, "kind": part.kind, "data": dict(part.data)}
    return keep(data, part.extra, PROVIDER)


def _read_provider(data: Fields) -> ProviderPart:
    provider = string(data, "provider")
    if provider == NOBODY:
        raise MalformedError(expected("a provider's name", provider), "provider")
    return ProviderPart(provider, string(data, "kind"), mapping(data, "data"), rest(data, PROVIDER))


def read_unknown(data: Fields, kind: str) -> ProviderPart:
    """A part of a type that this version does not know."""
    return ProviderPart(NOBODY, kind, {key: value for key, value in data.items() if key != "type"})


READERS: dict[str, Callable[[Fields], SimplePart]] = {
    "text": read_text,
    "reasoning": _read_reasoning,
    "structured": _read_structured,
    "file": read_file,
    "embedding": _read_embedding,
    "provider": _read_provider,
}
"""By type; tools are read in `_tool_codec.py`, since they hold whole conversations."""
