"""Token usage reported by the Messages API."""

from __future__ import annotations

from typing import Final, cast

from chat_core.usage import Usage
from chat_core.wire.shapes import COUNT_LIMIT, Json, is_mapping, mapping

EXTRA_FIELDS: Final = (
    "server_tool_use", "service_tier", "cache_creation", "iterations", "speed", "inference_geo", "fallback_credit",
    "cost",
)  # fmt: skip
"""Usage fields without a field in `Usage`, which are stored in the metadata."""

INPUT_FIELDS: Final = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
"""Fields whose sum is the number of input tokens."""


def merge_usage(known: Json, usage: object) -> Json:
    """Return the usage fields in `known`, updated with the fields in `usage` from a later event.

    Counts are cumulative, so later values replace earlier values. Missing fields keep their values. Input counts that
    are all zero are ignored: some gateways send them at the end of a stream, but every request has input.

    Args:
        known: usage fields of earlier events.
        usage: `usage` object of the event; ignored if it is not an object.
    """
    if not is_mapping(usage):
        return known
    reported = {name: value for name, value in usage.items() if value is not None or name not in known}
    if not any(reported.get(name) for name in INPUT_FIELDS):
        reported = {name: value for name, value in reported.items() if name not in INPUT_FIELDS or name not in known}
    return known | reported


def read_usage(usage: object) -> Usage:
    """Parse a `usage` object into a `Usage`.

    The API's `input_tokens` excludes cached tokens, but `Usage.input_tokens` includes them.
    """
    counts = mapping(usage)
    read, written = (
        _token_count(counts.get("cache_read_input_tokens")),
        _token_count(counts.get("cache_creation_input_tokens")),
    )
    return Usage(
        _token_count(counts.get("input_tokens")) + read + written,
        _token_count(counts.get("output_tokens")),
        read,
        written,
        _token_count(mapping(counts.get("output_tokens_details")).get("thinking_tokens")),
    )


def extra_usage_fields(usage: object) -> Json:
    """Return the nonempty fields of `usage` that are named in `EXTRA_FIELDS`."""
    counts = mapping(usage)
    return {name: value for name in EXTRA_FIELDS if _is_set(value := counts.get(name))}


def _is_set(value: object) -> bool:
    return any(value.values()) if is_mapping(value) else bool(value)


def _token_count(value: object) -> int:
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return int(cast("float", value)) if whole and 0 <= cast("float", value) < COUNT_LIMIT else 0
