"""What a provider reported beside an answer, as a JSON object; counts of 0 are left out."""

from __future__ import annotations

from typing import cast

from chat_core.messages._fields import Fields, integer, keep, mapping_or_none, nested, rest, string_or_none
from chat_core.usage import NO_USAGE, Metadata, Usage

_METADATA = frozenset({"provider", "model", "id", "finish_reason", "usage", "extra"})
_COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
_USAGE = frozenset(_COUNTS)


def write_metadata(metadata: Metadata) -> Fields:
    """Who answered, and what it cost."""
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
        keep(counts, cast("Fields", unknown), _COUNTS)
    if counts:
        data["usage"] = counts
    if metadata.extra:
        data["extra"] = dict(metadata.extra)
    return keep(data, unread, _METADATA) if unread else data


def read_metadata(data: Fields) -> Metadata:
    """Who answered, and what it cost."""
    counts = mapping_or_none(data, "usage")
    unread = rest(data, _METADATA)
    usage = NO_USAGE
    if counts:
        usage = nested(counts, "usage", _read_usage)
        if unknown := rest(counts, _USAGE):
            unread = {**(unread or {}), "usage": unknown}
    return Metadata(
        string_or_none(data, "provider"),
        string_or_none(data, "model"),
        string_or_none(data, "id"),
        string_or_none(data, "finish_reason"),
        usage,
        mapping_or_none(data, "extra") or {},
        unread,
    )


def _read_usage(data: Fields) -> Usage:
    return Usage(*[integer(data, name, 0) if name in data else 0 for name in _COUNTS])
