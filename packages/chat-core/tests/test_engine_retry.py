"""Delays before retries."""

from __future__ import annotations

import pytest
from chat_core import Retry
from chat_core.errors import NetworkError, RateLimitedError, UsageError


def test_the_retry_delay_is_the_retry_after_of_the_provider() -> None:
    assert Retry().delay(RateLimitedError("x", retry_after=12.5), 1) == 12.5


def test_the_retry_delay_is_drawn_from_an_interval_that_doubles_up_to_a_cap() -> None:
    retry = Retry(base=0.5, cap=3.0, jitter=lambda low, high: high)
    assert [retry.delay(NetworkError("x"), attempt) for attempt in range(1, 6)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert all(0.0 <= Retry().delay(NetworkError("x"), 3) <= 2.0 for _ in range(100))


def test_a_negative_number_of_retries_is_refused() -> None:
    with pytest.raises(UsageError, match="0 disables retries"):
        Retry(times=-1)


def test_the_retry_delay_has_its_cap_after_any_number_of_attempts() -> None:
    retry = Retry(times=10_000, base=0.5, cap=4.0, jitter=lambda _least, most: most)
    assert [retry.delay(NetworkError("e"), attempt) for attempt in (4, 5, 1025, 9_999)] == [4.0] * 4
