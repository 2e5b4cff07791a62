"""Token usage reported by Chat Completions servers, which use different field names."""

from __future__ import annotations

from typing import Final

from chat_core.usage import NO_USAGE, Usage, new_usage
from chat_core.wire.shapes import is_mapping, whole_numbers

CACHE_READ: Final = ("prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens", "cache_read_input_tokens")
"""Fields with the number of cached input tokens, from servers that do not use `prompt_tokens_details`."""


def read_usage(raw: object) -> Usage:
    """Parse a `usage` object into a `Usage`. A missing or invalid count is 0."""
    if not is_mapping(raw):
        return NO_USAGE
    counts = whole_numbers(raw)
    inputs = whole_numbers(raw.get("prompt_tokens_details"))
    outputs = whole_numbers(raw.get("completion_tokens_details"))
    output = counts.get("completion_tokens", 0)
    reasoning = outputs.get("reasoning_tokens", 0) or counts.get("reasoning_tokens", 0)
    # Most servers include reasoning in `completion_tokens`. Add it if the numbers show that a server does not.
    if reasoning > output or (
        reasoning and counts.get("total_tokens") == counts.get("prompt_tokens", 0) + output + reasoning
    ):
        output += reasoning
    return new_usage(
        counts.get("prompt_tokens", 0),
        output,
        inputs.get("cached_tokens", 0) or next(filter(None, map(counts.get, CACHE_READ)), 0),
        inputs.get("cache_write_tokens", 0) or counts.get("cache_creation_input_tokens", 0),
        reasoning,
    )
