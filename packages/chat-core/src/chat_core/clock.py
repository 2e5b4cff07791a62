"""Clocks in UTC, and arithmetic with times.

Python computes with the wall-clock time of a zone: an hour that a change to summer time skips or repeats is counted
wrong. All arithmetic is therefore done in UTC.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from chat_core.errors import UsageError


def utc_clock(now: Callable[[], datetime]) -> Callable[[], datetime]:
    """Return a clock that returns the times of `now` in UTC.

    Raises:
        UsageError: when the clock is called, if `now` returns a time without a zone, or outside of the years 1 to 9999.
    """
    return lambda: to_utc(now(), "the time of a clock")


def to_utc(time: datetime, name: str) -> datetime:
    """Return a time in UTC.

    Args:
        time: the time, with a zone.
        name: what the time is, for the error.

    Raises:
        UsageError: the time has no zone, or is outside of the years 1 to 9999 in UTC.
    """
    if time.utcoffset() is None:
        msg = f"{name} needs a zone, not {time!r}: pass datetime(…, tzinfo=timezone.utc)"
        raise UsageError(msg)
    try:
        return time.astimezone(UTC)
    except OverflowError:
        msg = f"{name} must be a time of the years 1 to 9999 in UTC, not {time!r}"
        raise UsageError(msg) from None


def add(time: datetime, duration: timedelta) -> datetime | None:
    """Return a time after a duration, or None if no date is that late.

    Args:
        time: the time, in UTC.
        duration: the duration.
    """
    try:
        return time + duration
    except OverflowError:
        return None
