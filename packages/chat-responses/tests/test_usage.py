from __future__ import annotations

import pytest
from chat_core.usage import Usage
from chat_responses.usage import read_usage


def test_all_token_counts_are_read() -> None:
    raw = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 15,
    }
    assert read_usage(raw) == Usage(10, 5, 4, 2, 3)


@pytest.mark.parametrize("raw", [None, [], "many", {}, {"input_tokens": None, "output_tokens": "x"}])
def test_missing_and_invalid_token_counts_are_ignored(raw: object) -> None:
    assert read_usage(raw) == Usage()


def test_unusual_numbers_are_converted_to_counts_or_ignored() -> None:
    assert read_usage(
        {"input_tokens": 3.0, "output_tokens": -1, "input_tokens_details": {"cached_tokens": 1e300}}
    ) == Usage(3)
