"""Reader and writer for the metadata of turns in stored JSON documents. Token counts of zero are omitted."""

from __future__ import annotations

from typing import cast

from chat_core.messages._fields import (
    Fields,
    merge_unknown_fields,
    read_integer,
    read_nested,
    read_optional_object,
    read_optional_seconds,
    read_optional_string,
    unknown_fields,
)
from chat_core.usage import NO_USAGE, Metadata, Usage

_METADATA = frozenset({"provider", "model", "id", "finish_reason", "usage", "extra", "duration"})
_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
_USAGE = frozenset(_COUNTS)


def write_metadata(metadata: Metadata) -> Fields:
    """Return the metadata of a turn as a JSON object."""
    data: Fields = {}
    if metadata.provider is not None:
        data["provider"] = metadata.provider
    if metadata.model is not None:
        data["model"] = metadata.model
    if metadata.id is not None:
        data["id"] = metadata.id
    if metadata.finish_reason is not None:
        data["finish_reason"] = metadata.finish_reason
    unread = metadata.unread
    counts: Fields = dict(metadata.usage.to_dict())
    if unread and isinstance(unknown := unread.get("usage"), dict):
        merge_unknown_fields(counts, cast("Fields", unknown), _COUNTS)
    if counts:
        data["usage"] = counts
    if metadata.extra:
        data["extra"] = dict(metadata.extra)
    if metadata.duration is not None:
        data["duration"] = metadata.duration
    return merge_unknown_fields(data, unread, _METADATA) if unread else data


def read_metadata(data: Fields) -> Metadata:
    """Return the metadata of a turn, parsed from a JSON object."""
    counts = read_optional_object(data, "usage")
    unread = unknown_fields(data, _METADATA)
    usage = NO_USAGE
    if counts:
        usage = read_nested(counts, "usage", read_usage)
        if unknown := unknown_fields(counts, _USAGE):
            unread = {**(unread or {}), "usage": unknown}
    return Metadata(
        read_optional_string(data, "provider"),
        read_optional_string(data, "model"),
        read_optional_string(data, "id"),
        read_optional_string(data, "finish_reason"),
        usage,
        read_optional_object(data, "extra") or {},
        unread,
        read_optional_seconds(data, "duration") if "duration" in data else None,
    )


def read_usage(data: Fields) -> Usage:
    """Return the token usage in a JSON object. Missing counts are zero."""
    return Usage(*[read_integer(data, name, 0) if name in data else 0 for name in _COUNTS])
