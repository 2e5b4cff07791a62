"""`Schedule`, the times at which a workflow runs, as a cron expression in a time zone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, TypeAlias, final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from chat_core.arguments import require_text, require_time
from chat_core.errors import UsageError
from cronsim import CronSim, CronSimError

MissedRuns: TypeAlias = Literal["skip", "run-once"]

MISSED: Final = ("skip", "run-once")
"""Allowed values of `Schedule.missed`."""
_FIELDS: Final = 5
_LATE: Final = timedelta(minutes=1)
"""Delay after which a run counts as missed."""
_NEAR: Final = timedelta(days=3)


@final
@dataclass(frozen=True, slots=True)
class Schedule:
    """The times at which a workflow runs.

    Daylight saving time: a daily time that does not exist is run once, directly after the gap. A daily time that exists
    twice is run once, at its first occurrence. These are the rules of cron on Debian.

    Attributes:
        cron: minute, hour, day of month, month and day of week.
        timezone: IANA name of the time zone.
        missed: `"run-once"` runs the workflow once for all runs that were missed while no process was running,
            `"skip"` skips them.

    Raises:
        UsageError: the cron expression, the time zone or `missed` is invalid.
    """

    cron: str
    timezone: str = "UTC"
    missed: MissedRuns = "run-once"

    def __post_init__(self) -> None:
        require_text(cron=self.cron, timezone=self.timezone, missed=self.missed)
        if len(self.cron.split()) != _FIELDS:
            msg = (
                f"'cron' must have 5 fields (minute hour day month weekday), such as '30 7 * * 1-5', not {self.cron!r}"
            )
            raise UsageError(msg)
        if self.missed not in MISSED:
            msg = f"'missed' must be one of {', '.join(MISSED)}, not {self.missed!r}"
            raise UsageError(msg)
        try:
            zone = ZoneInfo(self.timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            msg = f"'timezone' must be the name of a time zone, such as 'Europe/Berlin', not {self.timezone!r}"
            raise UsageError(msg) from None
        try:
            next(CronSim(self.cron, datetime(2000, 1, 1, tzinfo=zone)))
        except CronSimError as error:
            msg = f"'cron' is invalid: {error}: {self.cron!r}"
            raise UsageError(msg) from None
        except StopIteration:
            msg = f"'cron' never matches a date: {self.cron!r}"
            raise UsageError(msg) from None

    def next_after(self, time: datetime) -> datetime:
        """Return the first time of the schedule after `time`, in UTC.

        Args:
            time: a time with a time zone.
        """
        require_time("time", time)
        for found in CronSim(self.cron, time.astimezone(ZoneInfo(self.timezone))):
            # In an hour that exists twice, the search may return the first of two equal times, which has passed.
            if (result := found.astimezone(UTC)) > time:
                return result
        raise AssertionError  # pragma: no cover - a valid expression has a next time

    def due(self, last: datetime, now: datetime) -> datetime | None:
        """Return the time for which the workflow must run now, or None.

        If several times have passed since `last`, only the latest one counts.

        Args:
            last: time of the last run, or the time since which the schedule exists.
            now: the current time.
        """
        require_time("last", last)
        require_time("now", now)
        found: datetime | None = None
        start = max(last, now - _NEAR)
        time = self.next_after(start)
        while time <= now:
            found, time = time, self.next_after(time)
        if found is None and last < start:
            # Searching forward from a time long ago would take too long for a schedule of every minute.
            before = next(CronSim(self.cron, start.astimezone(ZoneInfo(self.timezone)), reverse=True))
            earlier = before.astimezone(UTC)
            found = earlier if earlier > last else None
        if found is not None and self.missed == "skip" and now - found > _LATE:
            return None
        return found
