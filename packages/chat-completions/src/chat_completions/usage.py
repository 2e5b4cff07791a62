"""What an answer cost, in the words of many servers."""

from __future__ import annotations

from typing import Final

from chat_core.usage import Usage
from chat_core.wire.shapes import is_mapping

CACHE_READ: Final = ("prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens", "cache_read_input_tokens")
"""Where servers count cached input outside `prompt_tokens_details`."""

MOST: Final = 1 << 53
"""No count is as high as this, and no infinity is lower."""


def read_usage(raw: object) -> Usage:
    """The counts of a `usage` object. A count that is missing, or no number, is 0."""
    if not is_mapping(raw):
        return Usage()
    counts = _counts(raw)
    inputs = _counts(raw.get("prompt_tokens_details"))
    outputs = _counts(raw.get("completion_tokens_details"))
    output = counts.get("completion_tokens", 0)
    reasoning = outputs.get("reasoning_tokens", 0) or counts.get("reasoning_tokens", 0)
    # Most servers count reasoning in `completion_tokens`; where the numbers show that one does not, it is added.
    if reasoning > output or (
        reasoning and counts.get("total_tokens") == counts.get("prompt_tokens", 0) + output + reasoning
    ):
        output += reasoning
    return Usage(
        input_tokens=counts.get("prompt_tokens", 0),
        output_tokens=output,
        cache_read_tokens=inputs.get("cached_tokens", 0)
        or next((counts[name] for name in CACHE_READ if counts.get(name)), 0),
        cache_write_tokens=inputs.get("cache_write_tokens", 0) or counts.get("cache_creation_input_tokens", 0),
        reasoning_tokens=reasoning,
    )


def _counts(value: object) -> dict[str, int]:
    """The whole numbers in an object."""
    if not value or not is_mapping(value):
        return {}
    # Some servers write them as floats; what is no number, or none that counts, is left out.
    return {name: int(count) for name, count in value.items() if count.__class__ in (int, float) and 0 <= count < MOST}
