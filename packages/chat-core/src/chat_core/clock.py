"""Clocks in UTC, and time arithmetic.

Arithmetic with two times of one time zone ignores daylight saving time (see the documentation of `datetime`), so a
duration may be wrong by an hour. All arithmetic is therefore done in UTC.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import cast

from chat_core.errors import UsageError


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def utc_clock(now: Callable[[], datetime]) -> Callable[[], datetime]:
    """Return a function that calls the clock `now` and converts the time to UTC.

    Raises:
        UsageError: `now` is not callable. The returned function raises `UsageError` if `now` returns a time without a
            time zone, or outside of the years 1 to 9999.
    """
    if not callable(now):
        msg = f"now must be a function that returns a datetime with a time zone, not {now!r}"
        raise UsageError(msg)
    return now if now is utc_now else lambda: to_utc(now(), "the time that now() returns")


def to_utc(time: datetime, name: str) -> datetime:
    """Convert a time to UTC.

    Args:
        time: a timezone-aware time.
        name: description of the time, for the error message.

    Raises:
        UsageError: `time` is not a `datetime`, has no time zone, or is outside of the years 1 to 9999 in UTC.
    """
    if not isinstance(cast("object", time), datetime):
        msg = f"{name} must be a datetime with a time zone, not {time!r}"
        raise UsageError(msg)
    if time.tzinfo is UTC:
        return time
    if time.utcoffset() is None:
        msg = f"{name} needs a time zone, not {time!r}: pass datetime(…, tzinfo=timezone.utc)"
        raise UsageError(msg)
    try:
        return time.astimezone(UTC)
    except OverflowError:
        msg = f"{name} must be in the years 1 to 9999 in UTC, not {time!r}"
        raise UsageError(msg) from None


def isoformat(time: datetime | None) -> str | None:
    """Return a time in ISO 8601, or `None` for no time."""
    return None if time is None else time.isoformat()


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
