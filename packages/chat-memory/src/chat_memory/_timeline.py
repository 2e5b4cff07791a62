"""The periods in which facts are current, computed from the statements about them.

A single-valued predicate, such as `lives_in`, has one current object for each subject at any time. Statements about the
same subject and predicate are therefore alternatives, and `open_entries()` decides which of them is current. The
statements of a multi-valued predicate, such as `likes`, are alternatives only if their objects are equal too. Such
statements support the same fact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, TypeAlias

FOREVER = 1 << 62
"""The end of a period without an end, in microseconds."""

PeriodKind: TypeAlias = Literal["current", "candidate"]


@dataclass(frozen=True, slots=True)
class Entry:
    """The fields of a stored statement that determine when its fact is current.

    Attributes:
        key: the key of the statement's row.
        fact: the key of the fact's row.
        rank: the strength of the source. A greater number means a stronger source.
        valid_from: time from which the statement is true, in microseconds.
        valid_to: time until which the statement is true, or `FOREVER`.
        said_at: the time of the statement, in microseconds.
        confidence: the confidence in the statement, from 0 to 1.
        object: the normalized object.
        tie: the text and the key of the statement, which break ties.
    """

    key: int
    fact: int
    rank: int
    valid_from: int
    valid_to: int
    said_at: int
    confidence: float
    object: str
    tie: str

    @property
    def order(self) -> tuple[int, int, float, str, int, str]:
        """Sort key for statements of equal strength.

        The key does not depend on the order in which statements were stored.
        """
        return self.valid_from, self.said_at, self.confidence, self.object, -self.valid_to, self.tie


@dataclass(frozen=True, slots=True)
class Period:
    """A period in which one fact is current or a candidate.

    Attributes:
        fact: the key of the fact's row.
        statement: the key of the row of the statement that describes the fact.
        kind: the status of the fact during the period.
        begins: the beginning, in microseconds.
        ends: the end, which is not part of the period.
    """

    fact: int
    statement: int
    kind: PeriodKind
    begins: int
    ends: int


def open_entries(entries: Iterable[Entry], at: int) -> list[Entry]:
    """Return the statements that are in force at a time. The statement of the current fact is first.

    A statement is in force from `valid_from` until `valid_to`, or until the `valid_from` of a later statement that is
    at least as strong. The strongest statement in force makes its fact current. The facts of the other statements are
    candidates.

    Args:
        entries: all statements about one subject and predicate. For a multi-valued predicate, those about one object.
        at: the time, in microseconds.
    """
    latest: dict[int, Entry] = {}
    for entry in entries:
        if entry.valid_from <= at and (entry.rank not in latest or entry.order >= latest[entry.rank].order):
            latest[entry.rank] = entry
    return _select_in_force(latest, at)


def timeline(entries: Sequence[Entry]) -> list[Period]:
    """Return the periods of all facts, ordered by kind and beginning.

    Args:
        entries: the statements, as for `open_entries()`, in any order.
    """
    moments = sorted({time for entry in entries for time in (entry.valid_from, entry.valid_to)} - {FOREVER})
    by_start = sorted(entries, key=lambda entry: entry.order)
    latest: dict[int, Entry] = {}
    known = 0
    pieces: dict[PeriodKind, list[tuple[Entry, int, int]]] = {"current": [], "candidate": []}
    for moment, end in pairwise([*moments, FOREVER]):
        while known < len(by_start) and by_start[known].valid_from <= moment:
            latest[by_start[known].rank] = by_start[known]
            known += 1
        found = _select_in_force(latest, moment)
        pieces["current"] += [(entry, moment, end) for entry in found[:1]]
        # A weaker statement that supports the current fact contradicts nothing.
        rivals = {entry.fact: entry for entry in reversed(found) if entry.fact != found[0].fact}
        pieces["candidate"] += [(entry, moment, end) for entry in rivals.values()]
    return [period for kind, found in pieces.items() for period in _merge_periods(kind, found)]


def _select_in_force(latest: dict[int, Entry], at: int) -> list[Entry]:
    """Return the statements in force, strongest first, given the latest statement of each strength."""
    found: list[Entry] = []
    closing: Entry | None = None
    for _, entry in sorted(latest.items(), reverse=True):
        if closing is not None and closing.order >= entry.order:
            continue
        closing = entry
        if entry.valid_to > at:
            found.append(entry)
    return found


def _merge_periods(kind: PeriodKind, pieces: Iterable[tuple[Entry, int, int]]) -> Iterator[Period]:
    """Merge adjacent periods of the same fact. The strongest and latest statement describes a merged period."""
    open_periods: dict[int, tuple[Period, Entry]] = {}
    for entry, begins, ends in pieces:
        period, best = open_periods.pop(entry.fact, (None, entry))
        if period is not None and period.ends == begins:
            best = max(best, entry, key=lambda item: (item.rank, item.order))
            period = replace(period, statement=best.key, ends=ends)
        else:
            if period is not None:
                yield period
            period, best = Period(entry.fact, entry.key, kind, begins, ends), entry
        open_periods[entry.fact] = (period, best)
    for period, _ in open_periods.values():
        yield period
