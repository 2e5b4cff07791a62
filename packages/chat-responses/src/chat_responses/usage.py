"""Token usage reported by the Responses API."""

from __future__ import annotations

from chat_core.usage import Usage
from chat_core.wire.shapes import is_mapping, whole_numbers


def read_usage(raw: object) -> Usage:
    """Parse a `usage` object into a `Usage`. A missing or invalid count is 0."""
    if not is_mapping(raw):
        return Usage()
    counts = whole_numbers(raw)
    inputs = whole_numbers(raw.get("input_tokens_details"))
    outputs = whole_numbers(raw.get("output_tokens_details"))
    return Usage(
        input_tokens=counts.get("input_tokens", 0),
        output_tokens=counts.get("output_tokens", 0),
        cache_read_tokens=inputs.get("cached_tokens", 0),
        cache_write_tokens=inputs.get("cache_write_tokens", 0),
        reasoning_tokens=outputs.get("reasoning_tokens", 0),
    )
