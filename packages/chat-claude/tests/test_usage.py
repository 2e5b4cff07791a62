from __future__ import annotations

from chat_claude.usage import kept, merged, read_usage
from chat_core.usage import Usage


def test_what_the_cache_gave_and_took_is_input_too() -> None:
    counts = {
        "input_tokens": 5,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 20,
        "output_tokens": 7,
        "output_tokens_details": {"thinking_tokens": 3},
    }
    assert read_usage(counts) == Usage(125, 7, 100, 20, 3)


def test_counts_that_are_none_are_nothing() -> None:
    assert read_usage(None) == Usage()
    assert read_usage({"input_tokens": None, "output_tokens": "7", "output_tokens_details": []}) == Usage()


def test_later_counts_take_the_place_of_earlier_ones_and_are_never_added() -> None:
    first = merged({}, {"input_tokens": 10, "output_tokens": 1})
    last = merged(first, {"output_tokens": 40})
    assert read_usage(last) == Usage(10, 40)
    assert read_usage(merged(last, {"output_tokens": 41, "input_tokens": 12})) == Usage(12, 41)


def test_an_input_of_zero_does_not_take_back_what_was_counted() -> None:
    first = {"input_tokens": 10, "cache_read_input_tokens": 5}
    known = merged(first, {"input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 2})
    assert known == {**first, "output_tokens": 2}
    assert merged(known, None) == known
    assert merged({}, {"input_tokens": 0, "output_tokens": None}) == {"input_tokens": 0, "output_tokens": None}


def test_another_model_s_counts_replace_those_of_the_one_that_gave_up() -> None:
    first = {"input_tokens": 10, "cache_read_input_tokens": 500}
    assert read_usage(merged(first, {"input_tokens": 30, "cache_read_input_tokens": 0})) == Usage(30)


def test_what_stands_beside_the_counts_is_kept_where_it_says_anything() -> None:
    usage = {
        "server_tool_use": {"web_search_requests": 2},
        "cache_creation": {"ephemeral_5m_input_tokens": 0},
        "service_tier": "standard",
        "iterations": None,
        "other": 1,
    }
    assert kept(usage) == {"server_tool_use": {"web_search_requests": 2}, "service_tier": "standard"}
    assert kept(None) == {}


def test_a_count_may_be_written_as_a_whole_number_with_a_point() -> None:
    assert read_usage({"input_tokens": 5.0, "output_tokens": 1.5}) == Usage(5, 0)


def test_where_the_model_ran_is_kept() -> None:
    assert kept({"inference_geo": "eu", "speed": "fast"}) == {"speed": "fast", "inference_geo": "eu"}
