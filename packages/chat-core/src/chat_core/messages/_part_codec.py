"""Readers and writers for the parts of a turn in stored JSON documents, except tool calls.

Each JSON object has a `type`. Fields with default values are omitted.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from chat_core.errors import UsageError
from chat_core.messages._fields import (
    Fields,
    MalformedError,
    describe_mismatch,
    format_time,
    merge_unknown_fields,
    read_array,
    read_integer,
    read_items,
    read_nested,
    read_object,
    read_optional_object,
    read_optional_string,
    read_optional_time,
    read_string,
    require_object,
    unknown_fields,
)
from chat_core.messages.parts import (
    NOBODY,
    Embedding,
    File,
    Opaque,
    ProviderPart,
    Reasoning,
    Recalled,
    RecalledNote,
    Rewind,
    Structured,
    Summary,
    Text,
)

if TYPE_CHECKING:
    from typing import TypeAlias

    SimplePart: TypeAlias = (
        Text | Reasoning | Structured | File | Embedding | ProviderPart | Summary | Rewind | Recalled
    )

OPAQUE = frozenset({"provider", "data"})
TEXT = frozenset({"type", "text", "opaque"})
REASONING = frozenset({"type", "text", "signature", "opaque"})
STRUCTURED = frozenset({"type", "value"})
FILE = frozenset({"type", "mime", "data", "url", "name", "opaque"})
EMBEDDING = frozenset({"type", "vector"})
PROVIDER = frozenset({"type", "provider", "kind", "data"})
SUMMARY = frozenset({"type", "text", "covers", "digest"})
REWIND = frozenset({"type", "to"})
RECALLED = frozenset({"type", "notes"})
NOTE = frozenset({"text", "source", "said_at", "confidence", "id"})


def write_opaque(opaque: Opaque) -> Fields:
    """Return the opaque data of a provider as a JSON object."""
    return merge_unknown_fields({"provider": opaque.provider, "data": dict(opaque.data)}, opaque.extra, OPAQUE)


def read_opaque(data: Fields) -> Opaque | None:
    """Return the opaque data in the field `opaque` of `data`, or None if the field is absent."""
    value = read_optional_object(data, "opaque")
    return None if value is None else read_nested(value, "opaque", _read_opaque)


def _read_opaque(data: Fields) -> Opaque:
    return Opaque(read_string(data, "provider"), read_object(data, "data"), unknown_fields(data, OPAQUE))


def write_text(part: Text) -> Fields:
    """Return a text part as a JSON object."""
    data: Fields = {"type": "text", "text": part.text}
    if part.opaque is None and part.extra is None:
        return data
    if part.opaque is not None:
        data["opaque"] = write_opaque(part.opaque)
    return merge_unknown_fields(data, part.extra, TEXT)


def read_text(data: Fields) -> Text:
    """Return a text part, parsed from a JSON object."""
    text = data.get("text")
    if type(text) is str and len(data) == 2:  # noqa: PLR2004 - only `type` and `text`, the usual case
        return Text(text)
    return Text(read_string(data, "text"), read_opaque(data), unknown_fields(data, TEXT))


def write_reasoning(part: Reasoning) -> Fields:
    """Return a reasoning part as a JSON object."""
    data: Fields = {"type": "reasoning", "text": part.text}
    if part.signature is not None:
        data["signature"] = part.signature
    if part.opaque is not None:
        data["opaque"] = write_opaque(part.opaque)
    return merge_unknown_fields(data, part.extra, REASONING)


def _read_reasoning(data: Fields) -> Reasoning:
    return Reasoning(
        read_string(data, "text"),
        read_optional_string(data, "signature"),
        read_opaque(data),
        unknown_fields(data, REASONING),
    )


def write_structured(part: Structured) -> Fields:
    """Return a structured part as a JSON object."""
    return merge_unknown_fields({"type": "structured", "value": part.value}, part.extra, STRUCTURED)


def _read_structured(data: Fields) -> Structured:
    if "value" not in data:
        raise MalformedError("missing", "value")
    try:
        return Structured(data["value"], unknown_fields(data, STRUCTURED))
    except UsageError:
        raise MalformedError(describe_mismatch("JSON with finite numbers", data["value"]), "value") from None


def write_file(part: File) -> Fields:
    """Return a file part as a JSON object, with its content in base64."""
    data: Fields = {"type": "file", "mime": part.mime}
    if part.data is not None:
        data["data"] = base64.b64encode(part.data).decode()
    if part.url is not None:
        data["url"] = part.url
    if part.name is not None:
        data["name"] = part.name
    if part.opaque is not None:
        data["opaque"] = write_opaque(part.opaque)
    return merge_unknown_fields(data, part.extra, FILE)


def read_file(value: object) -> File:
    """Return a file part, parsed from a JSON object with or without the field `type`."""
    data = require_object(value)
    encoded = read_optional_string(data, "data")
    url = read_optional_string(data, "url")
    opaque = read_opaque(data)
    if encoded is not None and url is not None:
        raise MalformedError(describe_mismatch("bytes or a URL, not both", url), "url")
    if encoded is None and url is None and opaque is None:
        raise MalformedError(describe_mismatch("a file with data, a url, or opaque data", value))
    try:
        content = None if encoded is None else base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise MalformedError(describe_mismatch("base64", encoded), "data") from None
    return File(
        read_string(data, "mime"), content, url, read_optional_string(data, "name"), opaque, unknown_fields(data, FILE)
    )


def write_embedding(part: Embedding) -> Fields:
    """Return an embedding part as a JSON object."""
    return merge_unknown_fields({"type": "embedding", "vector": list(part.vector)}, part.extra, EMBEDDING)


def _read_embedding(data: Fields) -> Embedding:
    vector: list[float] = []
    for value in read_array(data, "vector"):
        try:
            if value is None:
                # NaN is not JSON, and is written as null.
                vector.append(math.nan)
            elif type(value) is float or type(value) is int:
                vector.append(float(value))
            else:
                raise MalformedError(describe_mismatch("a number", value), "vector", f"[{len(vector)}]")
        except OverflowError:
            raise MalformedError(describe_mismatch("a number in range", value), "vector", f"[{len(vector)}]") from None
    return Embedding(tuple(vector), unknown_fields(data, EMBEDDING))


def write_summary(part: Summary) -> Fields:
    """Return a summary part as a JSON object."""
    data: Fields = {"type": "summary", "text": part.text, "covers": part.covers, "digest": part.digest}
    return merge_unknown_fields(data, part.extra, SUMMARY)


def _read_summary(data: Fields) -> Summary:
    return Summary(
        read_string(data, "text"),
        read_integer(data, "covers", -1),
        read_string(data, "digest"),
        unknown_fields(data, SUMMARY),
    )


def write_rewind(part: Rewind) -> Fields:
    """Return a rewind part as a JSON object."""
    return merge_unknown_fields({"type": "rewind", "to": part.to}, part.extra, REWIND)


def _read_rewind(data: Fields) -> Rewind:
    return Rewind(read_integer(data, "to", -1), unknown_fields(data, REWIND))


def write_recalled(part: Recalled) -> Fields:
    """Return a part with recalled notes as a JSON object."""
    data: Fields = {"type": "recalled", "notes": [_write_note(note) for note in part.notes]}
    return merge_unknown_fields(data, part.extra, RECALLED)


def _write_note(note: RecalledNote) -> Fields:
    said_at = None if note.said_at is None else format_time(note.said_at)
    optional = {"source": note.source, "said_at": said_at, "confidence": note.confidence, "id": note.id}
    data: Fields = {"text": note.text, **{key: value for key, value in optional.items() if value is not None}}
    return merge_unknown_fields(data, note.extra, NOTE)


def _read_recalled(data: Fields) -> Recalled:
    return Recalled(tuple(read_items(data, "notes", _read_note)), unknown_fields(data, RECALLED))


def _read_note(value: object) -> RecalledNote:
    data = require_object(value)
    return RecalledNote(
        read_string(data, "text"),
        read_optional_string(data, "source"),
        read_optional_time(data, "said_at"),
        _read_confidence(data),
        read_optional_string(data, "id"),
        unknown_fields(data, NOTE),
    )


def _read_confidence(data: Fields) -> float | None:
    value = data.get("confidence")
    if value is None:
        return None
    if (type(value) is not float and type(value) is not int) or not 0 <= value <= 1:
        raise MalformedError(describe_mismatch("a number from 0 to 1", value), "confidence")
    return float(value)


def write_provider(part: ProviderPart) -> Fields:
    """Return a provider part as a JSON object. A part of unknown type is written as it was read."""
    if part.provider == NOBODY:
        return {"type": part.kind, **part.data}
    data: Fields = {"type": "provider", "provider": part.provider, "kind": part.kind, "data": dict(part.data)}
    return merge_unknown_fields(data, part.extra, PROVIDER)


def _read_provider(data: Fields) -> ProviderPart:
    provider = read_string(data, "provider")
    if provider == NOBODY:
        raise MalformedError(describe_mismatch("a provider's name", provider), "provider")
    return ProviderPart(provider, read_string(data, "kind"), read_object(data, "data"), unknown_fields(data, PROVIDER))


def write_simple_part(part: SimplePart) -> Fields:  # noqa: PLR0911 - one case for each part
    """Return a part other than a tool call as a JSON object."""
    match part:
        case Text():
            return write_text(part)
        case Reasoning():
            return write_reasoning(part)
        case Structured():
            return write_structured(part)
        case File():
            return write_file(part)
        case Embedding():
            return write_embedding(part)
        case Summary():
            return write_summary(part)
        case Rewind():
            return write_rewind(part)
        case Recalled():
            return write_recalled(part)
        case ProviderPart():
            return write_provider(part)


def read_unknown(data: Fields, kind: str) -> ProviderPart:
    """Return a `ProviderPart` that keeps all fields of a part whose type `kind` is unknown to this version."""
    return ProviderPart(NOBODY, kind, {key: value for key, value in data.items() if key != "type"})


READERS: dict[str, Callable[[Fields], SimplePart]] = {
    "text": read_text,
    "reasoning": _read_reasoning,
    "structured": _read_structured,
    "file": read_file,
    "embedding": _read_embedding,
    "provider": _read_provider,
    "summary": _read_summary,
    "rewind": _read_rewind,
    "recalled": _read_recalled,
}
"""Reader for each `type` of part. Tool calls are read in `_tool_codec.py`, because they can contain conversations."""
