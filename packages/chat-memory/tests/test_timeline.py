"""The periods of competing facts: equal for every order, and equal to the rule stated in the simplest way."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import permutations

from chat_memory._timeline import FOREVER, Entry, Period, open_entries, timeline
from hypothesis import given, settings
from hypothesis import strategies as st


def entry(fact: int, rank: int, begins: int, length: int | None, said: int, text: str) -> Entry:  # noqa: PLR0917 - the columns of a table
    ends = FOREVER if length is None else begins + length
    return Entry(0, fact, rank, begins, ends, said, 0.5, f"object {fact}", text)


ENTRIES = st.lists(
    st.builds(
        entry,
        st.integers(1, 3),
        st.integers(0, 3),
        st.integers(0, 6),
        st.none() | st.integers(1, 4),
        st.integers(0, 3),
        st.sampled_from(["a", "b"]),
    ),
    max_size=6,
)


def arrived(entries: list[Entry]) -> list[Entry]:
    """Number the rows in the order of arrival."""
    return [replace(item, key=number) for number, item in enumerate(entries, 1)]


def current_by_the_rule(entries: list[Entry], at: int) -> int | None:
    """State the rule directly: no later statement of equal or greater strength; of the rest, the strongest."""
    known = [entry for entry in entries if entry.valid_from <= at]
    in_force = [
        entry
        for entry in known
        if entry.valid_to > at and not any(other.rank >= entry.rank and other.order > entry.order for other in known)
    ]
    best = max(in_force, key=lambda entry: (entry.rank, entry.order), default=None)
    return None if best is None else best.fact


def at_time(periods: list[Period], at: int) -> set[int]:
    return {period.fact for period in periods if period.kind == "current" and period.begins <= at < period.ends}


@settings(deadline=None, derandomize=True)
@given(ENTRIES, st.randoms(use_true_random=False))
def test_periods_do_not_depend_on_the_order_of_entries(drawn: list[Entry], shuffler: random.Random) -> None:
    order = list(drawn)
    shuffler.shuffle(order)

    def result(entries: list[Entry]) -> set[tuple[Entry, str, int, int]]:
        rows = {item.key: replace(item, key=0) for item in entries}
        return {(rows[period.statement], period.kind, period.begins, period.ends) for period in timeline(entries)}

    assert result(arrived(order)) == result(arrived(drawn))


@settings(deadline=None, derandomize=True)
@given(ENTRIES)
def test_periods_match_the_reference_rule_at_every_time(drawn: list[Entry]) -> None:
    # Equal statements have no order, so the rule does not decide between them.
    entries = arrived(list({(e.rank, e.order): e for e in drawn}.values()))
    periods = timeline(entries)
    for at in range(-1, 12):
        expected = current_by_the_rule(entries, at)
        assert at_time(periods, at) == (set() if expected is None else {expected})
        found = open_entries(entries, at)
        assert (found[0].fact if found else None) == expected


def test_adjacent_periods_of_a_fact_are_merged() -> None:
    entries = [Entry(1, 1, 3, 0, FOREVER, 0, 1.0, "a", ""), Entry(2, 1, 3, 5, FOREVER, 5, 1.0, "a", "")]
    assert timeline(entries) == [Period(1, 2, "current", 0, FOREVER)]


def test_a_fact_may_have_two_periods() -> None:
    entries = [Entry(n, fact, 3, n, FOREVER, n, 1.0, str(fact), "") for n, fact in ((1, 1), (2, 2), (3, 1))]
    for order in permutations(entries):
        found = sorted((period.fact, period.begins, period.ends) for period in timeline(order))
        assert found == [(1, 1, 2), (1, 3, FOREVER), (2, 2, 3)]


def test_a_timeline_without_entries_has_no_periods() -> None:
    assert timeline([]) == []
