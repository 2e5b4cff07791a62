"""Schedules run in their time zone, once per time, also when the clocks change and after a break."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from chat_core.errors import UsageError
from chat_pipeline import Schedule

BERLIN = "Europe/Berlin"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def times(cron: str, start: str, count: int) -> list[str]:
    """Return the times at which a clock that advances by minutes starts the workflow, in UTC."""
    schedule, last, now, found = Schedule(cron, BERLIN), at(start), at(start), list[str]()
    while len(found) < count:
        now += timedelta(minutes=1)
        due = schedule.due(last, now)
        if due is not None:
            found.append(f"{due:%m-%d %H:%M}")
        last = due or now
    return found


@pytest.mark.parametrize(
    ("cron", "start", "expected"),
    [
        pytest.param("30 2 * * *", "2026-03-28", ["03-28 01:30", "03-29 01:00", "03-30 00:30"], id="daily-in-the-gap"),
        pytest.param("30 2 * * *", "2026-10-24", ["10-24 00:30", "10-25 00:30", "10-26 01:30"], id="daily-twice"),
        pytest.param("0 * * * *", "2026-03-28T23:30", ["03-29 00:00", "03-29 01:00", "03-29 02:00"], id="hourly-gap"),
        pytest.param("0 * * * *", "2026-10-24T23:30", ["10-25 00:00", "10-25 01:00", "10-25 02:00"], id="hourly-twice"),
        pytest.param(
            "*/30 2 * * *", "2026-03-28T23:30", ["03-30 00:00", "03-30 00:30"], id="every-half-hour-in-the-gap"
        ),
        pytest.param(
            "*/30 2 * * *",
            "2026-10-24",
            ["10-24 00:30", "10-25 00:00", "10-25 00:30", "10-25 01:00", "10-25 01:30", "10-26 01:00"],
            id="every-half-hour-twice",
        ),
    ],
)
def test_a_time_that_is_missing_or_exists_twice_runs_once(cron: str, start: str, expected: list[str]) -> None:
    assert times(cron, start, len(expected)) == expected


@pytest.mark.parametrize(
    ("missed", "now", "expected"),
    [
        pytest.param("run-once", "2026-06-05T12:00", "2026-06-05T05:00", id="once-for-days"),
        pytest.param("run-once", "2027-06-05T04:00", "2027-06-04T05:00", id="once-for-a-year"),
        pytest.param("run-once", "2026-06-01T04:59", None, id="not-yet"),
        pytest.param("skip", "2026-06-05T12:00", None, id="skipped"),
        pytest.param("skip", "2026-06-05T05:01", "2026-06-05T05:00", id="skip-runs-on-time"),
    ],
)
def test_missed_runs(missed: Any, now: str, expected: str | None) -> None:
    schedule = Schedule("0 7 * * *", BERLIN, missed)
    found = schedule.due(at("2026-06-01T04:00"), at(now))
    assert found == (at(expected) if expected else None)


@pytest.mark.parametrize("now", ["2026-06-20T00:00", "2031-01-01T00:00"])
def test_a_rare_schedule_is_found_after_a_long_break(now: str) -> None:
    assert Schedule("0 0 1 6 *", BERLIN).due(at("2026-01-01"), at(now)) is not None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param(("0 7 * *",), "'cron' must have 5 fields", id="four-fields"),
        pytest.param(("0 0 7 * * *",), "'cron' must have 5 fields", id="six-fields"),
        pytest.param(("61 7 * * *",), "'cron' is invalid: Bad minute: '61 7", id="minute"),
        pytest.param(("0 0 31 2 *",), "'cron'", id="never"),
        pytest.param(("0 7 * * *", "Mars/Base"), "'timezone' must be the name of a time zone", id="zone"),
        pytest.param(("0 7 * * *", "../etc/passwd"), "'timezone' must be the name of a time zone", id="path"),
        pytest.param(("0 7 * * *", "UTC", "twice"), "'missed' must be one of skip, run-once, not 'twice'", id="missed"),
    ],
)
def test_an_invalid_schedule_is_refused(values: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Schedule(*values)
