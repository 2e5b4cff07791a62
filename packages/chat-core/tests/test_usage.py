from __future__ import annotations

import sys
from typing import Any

import pytest
from chat_core.usage import Metadata, Usage
from hypothesis import given
from hypothesis import strategies as st

usages = st.builds(Usage, *[st.integers(0, 10**12)] * 5)


def test_adding_usage_adds_each_count() -> None:
    assert Usage(1, 2, 3, 4, 5) + Usage(10, 20, 30, 40, 50) == Usage(11, 22, 33, 44, 55)


@given(usages, usages, usages)
def test_usage_addition_is_commutative_and_associative(one: Usage, two: Usage, three: Usage) -> None:
    assert one + two + three == three + (two + one)
    assert one + Usage() == one


def test_total_tokens_is_the_sum_of_input_and_output_tokens() -> None:
    assert Usage(10, 5, 8, 1, 4).total_tokens == 15


def test_usage_without_counts_is_false() -> None:
    assert not Usage()
    assert Usage(reasoning_tokens=1)


def test_usage_as_text_and_dict_omits_counts_that_are_zero() -> None:
    assert str(Usage(120, 35, 64)) == "120 in, 35 out"
    assert Usage(120, 35, 64).to_dict() == {"input_tokens": 120, "output_tokens": 35, "cache_read_tokens": 64}
    assert Usage().to_dict() == {}


def test_metadata_is_immutable_and_empty_by_default() -> None:
    assert Metadata() == Metadata(None, None, None, None, Usage(), {}, None)
    assert Metadata().extra is not Metadata().extra
    with pytest.raises(AttributeError):
        Metadata().model = "m"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue] - that is the test


@pytest.mark.parametrize("count", [-1, -(10**40), float("nan"), float("inf"), -0.5, None, "7", [1]])
def test_count_that_is_not_a_number_from_0_is_stored_as_0(count: Any) -> None:
    usage = Usage(count, 5, count, count, count)
    assert usage == Usage(0, 5)
    assert Usage(3) + usage == Usage(3, 5)


@pytest.mark.parametrize(("count", "whole"), [(7.0, 7), (7.9, 7), (True, 1), (10**400, 10**400)])
def test_counts_are_converted_to_integers(count: Any, whole: int) -> None:
    usage = Usage(output_tokens=count)
    assert (usage.output_tokens, type(usage.output_tokens)) == (whole, int)


def test_names_and_ids_of_metadata_are_converted_to_strings() -> None:
    wrong: Any = 7
    assert Metadata(wrong, wrong, wrong, wrong) == Metadata("7", "7", "7", "7")


def test_cost_is_computed_from_the_installed_prices() -> None:
    cost = Usage(1_000_000, 1_000_000).cost("claude-sonnet-4-5", provider="anthropic")
    cached = Usage(1_000_000, cache_read_tokens=1_000_000).cost("claude-sonnet-4-5")
    uncached = Usage(1_000_000).cost("claude-sonnet-4-5")

    assert cost is not None
    assert cached is not None
    assert uncached is not None
    assert cost > uncached > cached > 0
    assert Usage().cost("claude-sonnet-4-5") == 0


def test_cost_of_an_unknown_model_or_provider_is_none() -> None:
    assert Usage(5).cost("a-model-of-nobody") is None
    assert Usage(5).cost("claude-sonnet-4-5", provider="nobody") is None


def test_cost_without_the_prices_package_raises_and_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)

    with pytest.raises(ImportError, match=r'pip install "chat-core\[prices\]"'):
        Usage(5).cost("claude-sonnet-4-5")
