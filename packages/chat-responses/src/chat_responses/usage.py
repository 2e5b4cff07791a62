"""What a response cost."""

from __future__ import annotations

from typing import Final

from chat_core.usage import Usage
from chat_core.wire.shapes import is_mapping

MOST: Final = 1 << 53
"""No count is as high as this, and no infinity is lower."""


def read_usage(raw: object) -> Usage:
    """The counts of a `usage` object. A count that is missing, or no number, is 0."""
    if not is_mapping(raw):
        return Usage()
    counts = _counts(raw)
    inputs = _counts(raw.get("input_tokens_details"))
    outputs = _counts(raw.get("output_tokens_details"))
    return Usage(
        input_tokens=counts.get("input_tokens", 0),
        output_tokens=counts.get("output_tokens", 0),
        cache_read_tokens=inputs.get("cached_tokens", 0),
        cache_write_tokens=inputs.get("cache_write_tokens", 0),
        reasoning_tokens=outputs.get("reasoning_tokens", 0),
    )


def _counts(value: object) -> dict[str, int]:
    """The whole numbers in an object."""
    if not is_mapping(value):
        return {}
    # Some servers write them as floats; what is no number, or none that counts, is left out.
    return {name: int(count) for name, count in value.items() if count.__class__ in (int, float) and 0 <= count < MOST}
