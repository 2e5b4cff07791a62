"""Metrics of a process."""

from __future__ import annotations

from chat_service.counters import Counters


def test_counters_begin_at_zero_and_are_not_shared() -> None:
    first, second = Counters(), Counters()
    first.ended["failed"] += 1

    assert (first.ended["failed"], second.ended["failed"], second.running) == (1, 0, 0)
