"""Transactions on jobs in memory, and lists of these jobs, for `MemoryStore` and `FileConversation`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import final

from chat_store._cursor import list_cursor, parse_list_cursor
from chat_store._job_rules import JobFilter, can_be_taken, observed
from chat_store.jobs import StoredJob
from chat_store.sql.values import to_microseconds


@final
class JobChanges:
    """A `JobTransaction` on jobs in memory. It collects the changed jobs, which the caller then stores.

    Args:
        jobs: the stored jobs, by kind and key.

    Attributes:
        written: the changed jobs, by kind and key.
    """

    def __init__(self, jobs: Mapping[tuple[str, str], StoredJob]) -> None:
        self._jobs = jobs
        self.written: dict[tuple[str, str], StoredJob] = {}

    def find(self, kind: str, key: str) -> StoredJob | None:
        """Implement `JobTransaction.find()`."""
        return self._jobs.get((kind, key))

    def find_due(self, kinds: Sequence[str], now: datetime) -> StoredJob | None:
        """Implement `JobTransaction.find_due()`."""
        found = [job for job in self._jobs.values() if job.kind in kinds and can_be_taken(job, now)]
        return min(found, key=lambda job: job.at, default=None)

    def write(self, job: StoredJob) -> None:
        """Implement `JobTransaction.write()`."""
        self.written[job.kind, job.key] = job


def list_jobs(jobs: Iterable[StoredJob], now: datetime, filters: JobFilter) -> list[StoredJob]:
    """Return the jobs that match the filters, with their states at `now`, earliest start time first.

    Args:
        jobs: the stored jobs.
        now: the current time.
        filters: the filters, the limit and the cursor.
    """
    found = [observed(job, now, list_cursor(*_job_order(job))) for job in jobs]
    found = [
        job
        for job in found
        if filters.kind in (None, job.kind)
        and filters.state in (None, job.state)
        and filters.conversation in (None, job.conversation)
        and job.key.startswith(filters.key_prefix or "")
    ]
    if filters.after is not None:
        behind = tuple(parse_list_cursor(filters.after, int, str, str))
        found = [job for job in found if _job_order(job) > behind]
    return sorted(found, key=_job_order)[: filters.limit]


def _job_order(job: StoredJob) -> tuple[int, str, str]:
    return to_microseconds(job.at), job.kind, job.key
