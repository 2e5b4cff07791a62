"""What an answer cost, in the words of this wire."""

from __future__ import annotations

from typing import Final

from chat_core.usage import Usage
from chat_core.wire.shapes import Json, is_mapping, mapping

EXTRA_FIELDS: Final = (
    "server_tool_use", "service_tier", "cache_creation", "iterations", "speed", "inference_geo", "fallback_credit",
    "cost",
)  # fmt: skip
"""What else is told with the counts, and may be wanted."""


INPUT: Final = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
"""The counts that together are the input."""


def merge_usage(known: Json, usage: object) -> Json:
    """Counts with later ones. Each time they are those of the whole answer so far: nothing is added up.

    What is not said again stays. So does the input where all of it is zero afterwards, as some gateways say: there is
    no answer without any.
    """
    if not is_mapping(usage):
        return known
    reported = {name: value for name, value in usage.items() if value is not None or name not in known}
    if not any(reported.get(name) for name in INPUT):
        reported = {name: value for name, value in reported.items() if name not in INPUT or name not in known}
    return known | reported


def read_usage(usage: object) -> Usage:
    """The counts. What was read from the cache or written to it is input beside `input_tokens`, and counted with it."""
    counts = mapping(usage)
    read, written = _count(counts.get("cache_read_input_tokens")), _count(counts.get("cache_creation_input_tokens"))
    return Usage(
        _count(counts.get("input_tokens")) + read + written,
        _count(counts.get("output_tokens")),
        read,
        written,
        _count(mapping(counts.get("output_tokens_details")).get("thinking_tokens")),
    )


def extra_usage_fields(usage: object) -> Json:
    """What was told beside the counts, where it says anything."""
    counts = mapping(usage)
    return {name: value for name in EXTRA_FIELDS if _is_set(value := counts.get(name))}


def _is_set(value: object) -> bool:
    return any(value.values()) if is_mapping(value) else bool(value)


def _count(value: object) -> int:
    return int(value) if isinstance(value, int) or (isinstance(value, float) and value.is_integer()) else 0
