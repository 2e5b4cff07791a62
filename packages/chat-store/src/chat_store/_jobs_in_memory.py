"""The list of jobs that are held in memory, by a store in memory or of a file."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from chat_store._cursor import list_cursor, parse_list_cursor
from chat_store._job_rules import JobFilter, observed
from chat_store.jobs import StoredJob
from chat_store.sql.values import to_microseconds


def list_jobs(jobs: Iterable[StoredJob], now: datetime, filters: JobFilter) -> list[StoredJob]:
    """Return jobs with their states at `now`, in the order of their times.

    Args:
        jobs: the stored jobs.
        now: the current time.
        filters: the arguments of `jobs()`.
    """
    found = [observed(job, now, list_cursor(*_position(job))) for job in jobs]
    found = [
        job
        for job in found
        if filters.kind in (None, job.kind)
        and filters.state in (None, job.state)
        and filters.conversation in (None, job.conversation)
    ]
    if filters.after is not None:
        behind = tuple(parse_list_cursor(filters.after, int, str, str))
        found = [job for job in found if _position(job) > behind]
    return sorted(found, key=_position)[: filters.limit]


def _position(job: StoredJob) -> tuple[int, str, str]:
    return to_microseconds(job.at), job.kind, job.key
