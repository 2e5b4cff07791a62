"""Confidence in a fact, computed from its source, its age and its supporting statements."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from chat_core.arguments import require_number, require_time, require_type
from chat_core.errors import UsageError

from chat_memory.facts import Fact

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class ConfidenceSettings:
    """The settings of `effective_confidence()`.

    Attributes:
        boost: amount that each reinforcement adds to the factor, which is 1 without reinforcements.
        max_boost: the maximum factor for reinforcements.
        fresh_days: the number of days since the last access during which the confidence is not reduced.
        stale_days: the number of days after which the confidence is not reduced further.
        floor: the factor for a fact that is at least `stale_days` old.
    """

    boost: float = 0.1
    max_boost: float = 1.5
    fresh_days: float = 30
    stale_days: float = 365
    floor: float = 0.3

    def __post_init__(self) -> None:
        for name in ("boost", "max_boost", "fresh_days", "stale_days", "floor"):
            require_number(name, getattr(self, name))
        if not (self.boost >= 0 and self.max_boost >= 1 and 0 <= self.floor <= 1):
            msg = f"boost must be at least 0, max_boost at least 1, and floor between 0 and 1: {self}"
            raise UsageError(msg)
        if not 0 <= self.fresh_days < self.stale_days:
            msg = f"fresh_days must be at least 0 and less than stale_days: {self}"
            raise UsageError(msg)


def effective_confidence(fact: Fact, now: datetime, settings: ConfidenceSettings = ConfidenceSettings()) -> float:
    """Return the confidence in a fact, from 0 to 1. It is 0 unless the fact is current or a candidate.

    The confidence of the statement is multiplied by one factor for reinforcements and another factor for age. The age
    of a fact is the time since its last access, its statement or its storage, whichever is latest.

    Args:
        fact: the fact whose confidence is computed.
        now: the current time.
        settings: the factors.
    """
    require_type("fact", fact, Fact, "a Fact")
    require_time("now", now)
    require_type("settings", settings, ConfidenceSettings, "ConfidenceSettings(...)")
    if fact.status not in ("current", "candidate"):
        return 0.0
    boost = min(1 + settings.boost * fact.reinforcements, settings.max_boost)
    last = max(time for time in (fact.accessed_at, fact.said_at, fact.recorded_at) if time is not None)
    days = (now - last) / _DAY
    share = (days - settings.fresh_days) / (settings.stale_days - settings.fresh_days)
    age = 1 - min(max(share, 0.0), 1.0) * (1 - settings.floor)
    return min(max(fact.confidence * boost * age, 0.0), 1.0)
