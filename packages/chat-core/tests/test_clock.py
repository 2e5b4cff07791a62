"""Times are compared and computed in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from chat_core.clock import add, isoformat, to_utc, utc_clock
from chat_core.errors import UsageError
from chat_core.tools import Schedule

BERLIN = ZoneInfo("Europe/Berlin")


def test_utc_clock_converts_zoned_times_to_utc() -> None:
    times = [datetime(2030, 10, 27, 2, 30, tzinfo=BERLIN, fold=fold) for fold in (0, 1)]
    clock = utc_clock(lambda: times.pop(0))
    first, second = clock(), clock()
    assert first.tzinfo is UTC
    assert second - first == timedelta(hours=1)


def test_isoformat_accepts_no_time() -> None:
    assert (isoformat(None), isoformat(datetime(2030, 1, 1, tzinfo=UTC))) == (None, "2030-01-01T00:00:00+00:00")


def test_to_utc_refuses_a_naive_time() -> None:
    with pytest.raises(UsageError, match="the start needs a time zone"):
        to_utc(datetime(2030, 1, 1), "the start")  # noqa: DTZ001 - that is the point


@pytest.mark.parametrize("hours", [-12, 12])
def test_to_utc_refuses_a_time_outside_the_years_1_to_9999(hours: int) -> None:
    zone = timezone(timedelta(hours=hours))
    edge = datetime(9999, 12, 31, 23, tzinfo=zone) if hours < 0 else datetime(1, 1, 1, tzinfo=zone)
    with pytest.raises(UsageError, match="years 1 to 9999"):
        to_utc(edge, "the start")
    with pytest.raises(UsageError, match="years 1 to 9999"):
        Schedule(edge)


def test_add_returns_none_for_a_time_after_the_year_9999() -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    assert add(now, timedelta(hours=1)) == datetime(2030, 1, 1, 1, tzinfo=UTC)
    assert add(now, timedelta.max) is None
