"""Prices of tokens."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from chat_core import ProviderMeta, Usage, UsageError
from chat_router import Price
from chat_router.prices import price_of


def test_each_kind_of_token_has_its_price() -> None:
    price = Price("3", "15", cache_read="0.3", cache_write="3.75")
    usage = Usage(1_000_000, 200_000, cache_read_tokens=400_000, cache_write_tokens=100_000)
    assert price.cost(usage) == Decimal(3) * Decimal("0.5") + Decimal("0.12") + Decimal("0.375") + Decimal(3)


def test_cached_tokens_without_their_own_price_have_the_price_of_others() -> None:
    assert Price(2, 0).cost(Usage(1_000_000, cache_read_tokens=500_000)) == 2
    assert Price(0.1, 0).cost(Usage(10)) == Decimal("0.000001")


@pytest.mark.parametrize("value", [-1, "free", float("nan"), "Infinity"])
def test_a_price_that_is_no_number_from_0_is_refused(value: Any) -> None:
    with pytest.raises(UsageError, match="a price must be a number of at least 0"):
        Price(value, 1)


def test_a_price_of_another_type_is_refused_and_not_ignored() -> None:
    assert price_of(ProviderMeta("a", "m")) is None
    with pytest.raises(UsageError, match="the price of a/m must be a Price"):
        price_of(ProviderMeta("a", "m", data={"price": 3.0}))
