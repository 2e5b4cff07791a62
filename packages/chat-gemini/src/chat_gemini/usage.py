"""What an answer cost, as this wire counts."""

from __future__ import annotations

from chat_core.usage import Usage
from chat_core.wire.shapes import is_mapping, whole_numbers


def read_usage(raw: object) -> Usage:
    """The counts of a `usageMetadata` object. A count that is missing, or no number, is 0.

    Thoughts are counted beside the candidates, and what tools of the server put into the prompt beside the prompt; the
    total has both. So do our counts of output and input.
    """
    if not is_mapping(raw):
        return Usage()
    counts = whole_numbers(raw)
    thoughts = counts.get("thoughtsTokenCount", 0)
    return Usage(
        input_tokens=counts.get("promptTokenCount", 0) + counts.get("toolUsePromptTokenCount", 0),
        output_tokens=counts.get("candidatesTokenCount", 0) + thoughts,
        cache_read_tokens=counts.get("cachedContentTokenCount", 0),
        reasoning_tokens=thoughts,
    )
