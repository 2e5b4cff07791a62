"""The information about a model that strategies receive."""

from __future__ import annotations

import pytest
from chat_core import ProviderMeta, Usage
from chat_router import Breaker, Candidate, Price
from chat_router.candidate import LATENCY_SECONDS
from router_helpers import Clock


def candidate(clock: Clock, model: str = "gpt", price: Price | None = None) -> Candidate:
    data = {} if price is None else {"price": price}
    return Candidate(None, ProviderMeta("openai", model, data=data), "openai/gpt", Breaker(clock=clock))


def test_the_latency_is_an_average_that_weighs_recent_responses_more() -> None:
    clock = Clock()
    subject = candidate(clock)
    assert subject.latency is None
    subject.measure(clock.now - 1.0)
    assert subject.latency == pytest.approx(1.0)
    subject.measure(clock.now - 2.0)
    assert subject.latency == pytest.approx(1.3)


def test_an_old_latency_is_forgotten() -> None:
    clock = Clock()
    subject = candidate(clock)
    subject.measure(clock.now - 9.0)
    clock.advance(LATENCY_SECONDS + 1)
    assert subject.latency is None
    subject.measure(clock.now - 1.0)
    assert subject.latency == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("provider", "name", "expected"),
    [
        ("openai", "gpt", True),
        ("openai", "gpt-2026-01-01", True),
        ("openai", "gpt-mini", False),
        ("openai", None, False),
        ("azure", "gpt", False),
    ],
)
def test_a_response_is_attributed_to_the_model_that_wrote_it(
    provider: str, name: str | None, *, expected: bool
) -> None:
    assert candidate(Clock()).wrote(provider, name) is expected


def test_the_cost_uses_the_given_price_or_the_known_one() -> None:
    usage = Usage(1_000_000, 1_000_000)
    assert candidate(Clock(), price=Price(1, 2)).cost(usage) == 3
    assert candidate(Clock(), model="no-such-model").cost(usage) is None
    known = candidate(Clock(), model="gpt-4o-mini").cost(usage)
    assert known is not None
    assert known > 0
    assert repr(candidate(Clock())) == "Candidate('openai/gpt', closed)"
