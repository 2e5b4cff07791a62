from __future__ import annotations

import pytest
from chat_completions.usage import read_usage
from chat_core.usage import Usage


def test_cached_and_reasoning_tokens_are_parts_of_the_whole() -> None:
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
def test_cached_input_has_many_names(name: str) -> None:
    assert read_usage({"prompt_tokens": 9, name: 4}).cache_read_tokens == 4


def test_input_written_to_a_cache_has_another_name_too() -> None:
    assert read_usage({"prompt_tokens": 9, "cache_creation_input_tokens": 4}).cache_write_tokens == 4


def test_reasoning_that_a_server_counts_beside_the_answer_is_added_to_it() -> None:
    raw = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 115, "reasoning_tokens": 100}
    assert read_usage(raw) == Usage(10, 105, reasoning_tokens=100)


def test_reasoning_that_a_server_counts_within_the_answer_is_not_added_again() -> None:
    raw = {"prompt_tokens": 10, "completion_tokens": 105, "total_tokens": 115, "reasoning_tokens": 100}
    assert read_usage(raw) == Usage(10, 105, reasoning_tokens=100)


@pytest.mark.parametrize("raw", [None, "many", [], {}, {"prompt_tokens": "3", "prompt_tokens_details": None}])
def test_what_is_no_count_counts_nothing(raw: object) -> None:
    assert read_usage(raw) == Usage()
