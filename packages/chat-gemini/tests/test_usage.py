from __future__ import annotations

import pytest
from chat_core.usage import Usage
from chat_gemini.usage import read_usage


def test_thoughts_count_as_output_and_tool_results_as_input() -> None:
    counts = {
        "promptTokenCount": 10,
        "toolUsePromptTokenCount": 5,
        "candidatesTokenCount": 3,
        "thoughtsTokenCount": 4,
        "cachedContentTokenCount": 6,
        "totalTokenCount": 22,
    }
    usage = read_usage(counts)
    assert usage == Usage(15, 7, cache_read_tokens=6, reasoning_tokens=4)
    assert usage.total_tokens == counts["totalTokenCount"]


@pytest.mark.parametrize("raw", [None, [], "10", 7, {}])
def test_missing_token_counts_are_zero(raw: object) -> None:
    assert read_usage(raw) == Usage()


@pytest.mark.parametrize("count", [None, "3", -1, float("nan"), float("inf"), 1 << 60, True, {}])
def test_invalid_token_counts_are_zero(count: object) -> None:
    assert read_usage({"promptTokenCount": count, "candidatesTokenCount": 2.0}) == Usage(0, 2)
