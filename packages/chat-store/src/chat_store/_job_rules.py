"""The rules for leases, fences, attempts and cancellation of jobs, shared by all backends.

The stored state of a job is `queued` or final. `running` is not stored: a queued job counts as running while its lease
lasts. If the lease of the last attempt expires, the job counts as failed. An attempt whose job was given back to the
queue does not count.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, Protocol, cast, final

from chat_core.clock import to_utc
from chat_core.errors import LeaseLostError
from chat_core.json import dump_bytes, loads

from chat_store._arguments import require_choice, require_optional_text, require_page
from chat_store.deltas import ResponseDelta
from chat_store.jobs import MAX_BACKOFF, MAX_ERROR_CHARACTERS, Job, JobState, StoredJob
from chat_store.sql.values import from_microseconds, to_microseconds

_DIED: Final = "the worker stopped during the last attempt"


@final
@dataclass(frozen=True, slots=True)
class JobFilter:
    """Filters and page limits for the list of jobs.

    The fields are the arguments of `ConversationStore.jobs()`.
    """

    kind: str | None = None
    state: JobState | None = None
    conversation: str | None = None
    limit: int | None = None
    after: str | None = None
    key_prefix: str | None = None

    def __post_init__(self) -> None:
        require_optional_text(kind=self.kind, conversation=self.conversation, key_prefix=self.key_prefix)
        require_choice("state", self.state, JobState)
        require_page(self.limit, self.after)


class JobTransaction(Protocol):
    """A transaction on stored jobs. Until it ends, no other transaction can write the jobs that it returns."""

    def find(self, kind: str, key: str) -> StoredJob | None:
        """Return the job with this kind and key, or None if it is not stored."""
        ...

    def find_due(self, kinds: Sequence[str], now: datetime) -> StoredJob | None:
        """Return the longest overdue job of these kinds that can be taken, or None. Skip locked jobs."""
        ...

    def write(self, job: StoredJob) -> None:
        """Replace the stored job that has the same kind and key."""
        ...


class JobStorage(Protocol):
    """A database or file that stores jobs."""

    def job_transaction(self) -> AbstractContextManager[JobTransaction]:
        """Return a context manager for a job transaction. It commits on exit, or rolls back if the block raises."""
        ...


def queue(conversation: str, job: Job, now: datetime) -> StoredJob:
    """Convert a new job to a `StoredJob`, which can be taken from its start time on.

    Args:
        conversation: the id of the conversation.
        job: the job to store. Without a start time, it can be taken at once.
        now: the current time.

    Raises:
        UsageError: the payload is not a JSON object.
    """
    payload = loads(dump_bytes(dict(job.payload)))
    at = now if job.at is None else to_utc(job.at, "at")
    return StoredJob(
        conversation,
        job.kind,
        job.key,
        cast("dict[str, object]", payload),
        at,
        max_attempts=job.max_attempts,
        backoff_seconds=job.backoff_seconds,
    )


def can_be_taken(job: StoredJob, now: datetime) -> bool:
    """Return whether a worker may take a job now."""
    return job.state == "queued" and job.attempts < job.max_attempts and now >= takeable_at(job)


def takeable_at(job: StoredJob) -> datetime:
    """Return the time from which a job can be taken: the later of its start time and the expiry of its lease."""
    return job.at if job.lease_until is None else max(job.at, job.lease_until)


def observed(job: StoredJob, now: datetime, cursor: str = "") -> StoredJob:
    """Return a copy of a stored job with its state at `now`, such as `running` until its lease expires.

    Args:
        job: the stored job.
        now: the current time.
        cursor: the position of the job in the list of jobs.
    """
    if job.state != "queued" or job.lease_until is None:
        return replace(job, cursor=cursor)
    if now < job.lease_until:
        return replace(job, state="running", cursor=cursor)
    if job.attempts < job.max_attempts:
        return replace(job, lease_until=None, cursor=cursor)
    return replace(job, state="failed", lease_until=None, error=_DIED, cursor=cursor)


def take(transaction: JobTransaction, kinds: Sequence[str], now: datetime, lease_length: timedelta) -> StoredJob | None:
    """Take the longest overdue job, and return it in the state `running`. Return None if no job can be taken.

    Args:
        transaction: the open transaction, which the caller commits.
        kinds: the kinds of jobs to take.
        now: the current time.
        lease_length: duration of the lease.
    """
    job = transaction.find_due(kinds, now)
    if job is None:
        return None
    taken = replace(
        job,
        # If the worker dies, the next attempt begins no earlier than if the job had failed now.
        at=now + _delay_before_retry(job, job.attempts + 1),
        attempts=job.attempts + 1,
        fence=job.fence + 1,
        holder=f"{socket.gethostname()}/{os.getpid()}",
        lease_until=now + lease_length,
    )
    transaction.write(taken)
    return replace(taken, state="running")


def renew(transaction: JobTransaction, job: StoredJob, now: datetime, lease_length: timedelta) -> None:
    """Extend the lease of a taken job.

    Args:
        transaction: the open transaction, which the caller commits.
        job: the job, as `take()` returned it.
        now: the current time.
        lease_length: duration of the lease.

    Raises:
        LeaseLostError: the lease has expired, or the job was cancelled.
    """
    transaction.write(replace(_require_lease(transaction, job, now), lease_until=now + lease_length))


def complete(transaction: JobTransaction, job: StoredJob, now: datetime) -> None:
    """Mark a taken job as done.

    Raises:
        LeaseLostError: the lease has expired, or the job was cancelled.
    """
    transaction.write(replace(_require_lease(transaction, job, now), state="done", lease_until=None, error=None))


def fail(transaction: JobTransaction, job: StoredJob, now: datetime, error: str) -> None:
    """End an attempt of a taken job as failed. The job is queued again, unless this was the last attempt.

    Args:
        transaction: the open transaction, which the caller commits.
        job: the job, as `take()` returned it.
        now: the current time.
        error: a description of the failure.

    Raises:
        LeaseLostError: the lease has expired, or the job was cancelled.
    """
    held = _require_lease(transaction, job, now)
    state: JobState = "queued" if held.attempts < held.max_attempts else "failed"
    at = now + _delay_before_retry(held, held.attempts)
    transaction.write(replace(held, state=state, at=at, lease_until=None, error=error[:MAX_ERROR_CHARACTERS]))


def give_back(transaction: JobTransaction, job: StoredJob, now: datetime) -> None:
    """Queue a taken job again at once, without counting the attempt.

    Raises:
        LeaseLostError: the lease has expired, or the job was cancelled.
    """
    held = _require_lease(transaction, job, now)
    transaction.write(replace(held, at=now, attempts=held.attempts - 1, lease_until=None))


def cancel(transaction: JobTransaction, kind: str, key: str, now: datetime) -> bool:
    """Cancel a job that has not ended. The worker of a running job loses its lease.

    Args:
        transaction: the open transaction, which the caller commits.
        kind: the kind of the job.
        key: the key of the job.
        now: the current time.

    Returns:
        True if the job was cancelled, False if it has ended or is not stored.
    """
    job = transaction.find(kind, key)
    if job is None or observed(job, now).state not in {"queued", "running"}:
        return False
    transaction.write(replace(job, state="cancelled", fence=job.fence + 1, lease_until=None))
    return True


def has_lease(job: StoredJob | None, delta: ResponseDelta, now: datetime) -> bool:
    """Return whether the worker that wrote a delta has the job of the delta.

    Args:
        job: the stored job, if there is one.
        delta: the delta, with the conversation and fence of its writer.
        now: the current time.
    """
    is_same = job is not None and (job.conversation, job.fence) == (delta.conversation, delta.fence)
    return is_same and _is_leased(job, now)


def _is_leased(job: StoredJob | None, now: datetime) -> bool:
    return job is not None and job.lease_until is not None and now < job.lease_until


def _require_lease(transaction: JobTransaction, job: StoredJob, now: datetime) -> StoredJob:
    found = transaction.find(job.kind, job.key)
    if found is None or found.fence != job.fence or not _is_leased(found, now):
        msg = (
            f"the worker no longer has the job {job.kind!r} {job.key!r}: it stalled for longer than its lease, or the "
            "job was cancelled"
        )
        raise LeaseLostError(msg)
    return found


def _delay_before_retry(job: StoredJob, attempts: int) -> timedelta:
    """Return the delay before the next attempt of a job.

    Args:
        job: the job, whose `backoff_seconds` is the delay after the first attempt.
        attempts: the number of attempts that have been made.
    """
    limit = MAX_BACKOFF.total_seconds()
    factor = 2.0 ** min(attempts - 1, 64)
    return timedelta(seconds=min(limit, job.backoff_seconds * factor))


# --- The stored form -------------------------------------------------------------------------------------------------


def job_to_dict(job: StoredJob) -> dict[str, object]:
    """Return a job as a JSON object."""
    return {
        "conversation": job.conversation,
        "kind": job.kind,
        "key": job.key,
        "payload": dict(job.payload),
        "at": to_microseconds(job.at),
        "state": job.state,
        "attempts": job.attempts,
        "max_attempts": job.max_attempts,
        "backoff_seconds": job.backoff_seconds,
        "error": job.error,
        "fence": job.fence,
        "holder": job.holder,
        "until": to_microseconds(job.lease_until),
    }


def job_from_dict(document: dict[str, object]) -> StoredJob:
    """Parse a job from a JSON object.

    Raises:
        LookupError, TypeError: the object was not written by `job_to_dict()`.
    """
    return StoredJob(
        cast("str", document["conversation"]),
        cast("str", document["kind"]),
        cast("str", document["key"]),
        cast("dict[str, object]", document["payload"]),
        from_microseconds(cast("int", document["at"])),
        cast("JobState", document["state"]),
        cast("int", document["attempts"]),
        cast("int", document["max_attempts"]),
        cast("float", document["backoff_seconds"]),
        cast("str | None", document["error"]),
        cast("int", document["fence"]),
        cast("str", document["holder"]),
        from_microseconds(cast("int | None", document["until"])),
    )
