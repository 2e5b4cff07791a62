"""Token usage reported by the Gemini API."""

from __future__ import annotations

from chat_core.usage import Usage
from chat_core.wire.shapes import is_mapping, whole_numbers


def read_usage(raw: object) -> Usage:
    """Parse a `usageMetadata` object into a `Usage`. A missing or invalid count is 0.

    The API counts thinking separately from the candidates, and the input from server-side tools separately from the
    prompt. `Usage` includes both: thinking in the output tokens, tool input in the input tokens.
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
