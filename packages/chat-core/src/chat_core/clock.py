"""Clocks in UTC, and time arithmetic.

Python computes with the local time of a zone, so an hour that a change to summer time skips or repeats is counted
wrong. All arithmetic is therefore done in UTC.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import cast

from chat_core.errors import UsageError


def utc_clock(now: Callable[[], datetime]) -> Callable[[], datetime]:
    """Return a function that calls the clock `now` and converts the time to UTC.

    Raises:
        UsageError: `now` cannot be called. The returned function raises it if `now` returns a time without a zone or
            outside of the years 1 to 9999.
    """
    if not callable(now):
        msg = f"now must be a function that returns a time with a zone, not {now!r}"
        raise UsageError(msg)
    return lambda: to_utc(now(), "the time of a clock")


def to_utc(time: datetime, name: str) -> datetime:
    """Convert a time to UTC.

    Args:
        time: a timezone-aware time.
        name: description of the time, for the error message.

    Raises:
        UsageError: the time is no `datetime`, has no zone, or is outside of the years 1 to 9999 in UTC.
    """
    if not isinstance(cast("object", time), datetime):
        msg = f"{name} must be a datetime with a zone, not {time!r}"
        raise UsageError(msg)
    if time.utcoffset() is None:
        msg = f"{name} needs a zone, not {time!r}: pass datetime(…, tzinfo=timezone.utc)"
        raise UsageError(msg)
    try:
        return time.astimezone(UTC)
    except OverflowError:
        msg = f"{name} must be a time of the years 1 to 9999 in UTC, not {time!r}"
        raise UsageError(msg) from None


def add(time: datetime, duration: timedelta) -> datetime | None:
    """Return the time after a duration has passed, or None if the result is later than any supported date.

    Args:
        time: start time in UTC.
        duration: duration to add.
    """
    try:
        return time + duration
    except OverflowError:
        return None
