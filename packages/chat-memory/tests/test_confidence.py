"""The confidence in a fact: its source, reinforcements and age, and every setting."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from chat_core.errors import UsageError
from chat_memory import SOURCE_CONFIDENCE, ConfidenceSettings, Fact, Source, effective_confidence

SAID = datetime(2026, 1, 1, tzinfo=UTC)


def fact(source: Source = "stated", reinforcements: int = 0) -> Fact:
    trust = SOURCE_CONFIDENCE[source]
    names = ("0" * 32, "user", "likes", "tea", "user likes tea")
    return Fact(*names, "current", source, trust, SAID, SAID, None, SAID, None, None, reinforcements)


@pytest.mark.parametrize(
    ("source", "reinforcements", "days", "expected"),
    [
        ("stated", 0, 0, 1.0),
        ("system", 0, 0, 0.9),
        ("observed", 0, 0, 0.7),
        ("inferred", 0, 0, 0.5),
        ("inferred", 2, 0, 0.6),
        ("inferred", 5, 0, 0.75),
        ("inferred", 99, 0, 0.75),
        ("stated", 99, 0, 1.0),
        ("stated", 0, 30, 1.0),
        ("stated", 0, 197.5, 0.65),
        ("stated", 0, 365, 0.3),
        ("stated", 0, 9999, 0.3),
    ],
)
def test_confidence_depends_on_source_reinforcements_and_age(
    source: Source, reinforcements: int, days: float, expected: float
) -> None:
    now = SAID + timedelta(days=days)
    assert effective_confidence(fact(source, reinforcements), now) == pytest.approx(expected)


def test_an_access_makes_a_fact_fresh() -> None:
    now = SAID + timedelta(days=400)
    assert effective_confidence(replace(fact(), accessed_at=now), now) == 1.0


@pytest.mark.parametrize("status", ["historical", "retracted"])
def test_a_historical_or_retracted_fact_has_no_confidence(status: str) -> None:
    past = replace(fact(), status=status)  # type: ignore[arg-type]  # each of the statuses
    assert effective_confidence(past, SAID) == 0.0


@pytest.mark.parametrize(
    "changed",
    [
        ConfidenceSettings(boost=0.2),
        ConfidenceSettings(max_boost=1.1),
        ConfidenceSettings(fresh_days=100),
        ConfidenceSettings(stale_days=200),
        ConfidenceSettings(floor=0.5),
    ],
)
def test_every_setting_changes_the_confidence(changed: ConfidenceSettings) -> None:
    now = SAID + timedelta(days=150)
    assert effective_confidence(fact("inferred", 2), now, changed) != effective_confidence(fact("inferred", 2), now)


@pytest.mark.parametrize("wrong", [{"floor": 2}, {"boost": -1}, {"max_boost": 0.5}, {"fresh_days": 365}])
def test_a_setting_out_of_range_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        ConfidenceSettings(**wrong)
