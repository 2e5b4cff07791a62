from __future__ import annotations

import pytest
from chat_completions.usage import read_usage
from chat_core.usage import Usage


def test_cached_and_reasoning_tokens_are_included_in_the_totals() -> None:
    usage = read_usage(
        {
            "prompt_tokens": 100,
            "completion_tokens": 50,
            "total_tokens": 150,
            "prompt_tokens_details": {"cached_tokens": 80, "cache_write_tokens": 5},
            "completion_tokens_details": {"reasoning_tokens": 40},
        }
    )
    assert usage == Usage(100, 50, 80, 5, 40)


@pytest.mark.parametrize(
    "name", ["prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens", "cache_read_input_tokens"]
)
def test_cached_input_is_read_from_every_known_field_name(name: str) -> None:
    assert read_usage({"prompt_tokens": 9, name: 4}).cache_read_tokens == 4


def test_cache_writes_are_read_from_the_alternative_field_name() -> None:
    assert read_usage({"prompt_tokens": 9, "cache_creation_input_tokens": 4}).cache_write_tokens == 4


def test_reasoning_tokens_counted_separately_are_added_to_the_output() -> None:
    raw = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 115, "reasoning_tokens": 100}
    assert read_usage(raw) == Usage(10, 105, reasoning_tokens=100)


def test_reasoning_tokens_included_in_the_output_are_not_added_again() -> None:
    raw = {"prompt_tokens": 10, "completion_tokens": 105, "total_tokens": 115, "reasoning_tokens": 100}
    assert read_usage(raw) == Usage(10, 105, reasoning_tokens=100)


@pytest.mark.parametrize("raw", [None, "many", [], {}, {"prompt_tokens": "3", "prompt_tokens_details": None}])
def test_invalid_token_counts_are_ignored(raw: object) -> None:
    assert read_usage(raw) == Usage()
