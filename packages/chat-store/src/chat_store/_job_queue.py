"""The job queue of a store, which takes and cancels jobs, and renews the leases of taken jobs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar, final

import anyio
from anyio import CancelScope
from chat_core.concurrency import aligned_pause, finish_in_thread
from chat_core.errors import ChatError, LeaseLostError, UsageError
from chat_core.model_texts import raised

from chat_store import _job_rules
from chat_store._arguments import require_text
from chat_store._job_rules import JobStorage, JobTransaction
from chat_store._shared_renewals import SharedRenewals
from chat_store.jobs import StoredJob

T = TypeVar("T")

_SAFE_PART = 0.9
"""Fraction of a lease after which the worker's block is cancelled if no renewal succeeded.

The lease has not expired yet, so no other worker has taken the job.
"""


@final
@dataclass(slots=True)
class _Renewal:
    """State of the renewals of one job lease.

    Attributes:
        lost: the error of the renewal that detected the loss of the lease.
        failure: the error of the last renewal, if it could not reach the storage.
    """

    lost: LeaseLostError | None = None
    failure: OSError | None = None


@final
class JobQueue:
    """A queue from which workers take jobs. While a worker has a job, the queue renews its lease.

    Args:
        storage: the database or file that contains the jobs.
        lease_length: duration of a lease after each renewal.
        now: the clock. It returns times in UTC.
    """

    def __init__(self, storage: JobStorage, lease_length: timedelta, now: Callable[[], datetime]) -> None:
        self._storage = storage
        self._lease_length = lease_length
        self._now = now
        self._renewals = SharedRenewals(self._renew)

    @asynccontextmanager
    async def take(self, kinds: tuple[str, ...]) -> AsyncGenerator[StoredJob | None]:
        """Implement `ConversationStore.take_job()`."""
        _require_kinds(kinds)
        end = self._next_deadline()
        job = await self._change_jobs(partial(_job_rules.take, kinds=kinds, lease_length=self._lease_length))
        if job is None:
            yield None
            return
        failure: Exception | None = None
        renewal = _Renewal()
        # The deadline does not wait for a renewal that hangs.
        block = CancelScope(deadline=end)
        try:
            async with anyio.create_task_group() as group:
                with block:
                    group.start_soon(self._keep_lease, job, renewal, block)
                    try:
                        yield job
                    except Exception as error:  # noqa: BLE001 - raised below, when the failure is stored
                        failure = error
                group.cancel_scope.cancel()
        except BaseException:
            # The worker is being stopped: another worker can take the job at once.
            with CancelScope(shield=True), suppress(LeaseLostError, OSError):
                await self._change_jobs(partial(_job_rules.give_back, job=job))
            raise
        if failure is not None:
            await self._store_failure(job, failure)
            raise failure
        if renewal.lost is not None:
            raise renewal.lost
        if block.cancelled_caught:
            msg = (
                f"the lease of job {job.kind!r} ({job.key!r}) could not be renewed in time, so the job was stopped. "
                "Another worker can take it. Check the connection to the store"
            )
            raise LeaseLostError(msg) from renewal.failure
        await self._change_jobs(partial(_job_rules.complete, job=job))

    async def _store_failure(self, job: StoredJob, failure: Exception) -> None:
        try:
            await self._change_jobs(partial(_job_rules.fail, job=job, error=raised(failure)))
        except LeaseLostError:
            pass
        except OSError as error:
            failure.add_note(f"this failure of the job {job.kind!r} {job.key!r} could not be stored: {error}")

    async def cancel(self, kind: str, key: str) -> bool:
        """Implement `ConversationStore.cancel_job()`."""
        require_text(kind=kind, key=key)
        return await self._change_jobs(partial(_job_rules.cancel, kind=kind, key=key))

    async def _keep_lease(self, job: StoredJob, renewal: _Renewal, block: CancelScope) -> None:
        """Renew the lease of a job until the task is cancelled. Each renewal extends the deadline of the block.

        Args:
            job: the taken job.
            renewal: receives the errors of the renewals.
            block: the scope of the worker's block. It is cancelled if the lease is lost.
        """
        length = self._lease_length.total_seconds()
        pause = self._renewal_pause()
        while True:
            await anyio.sleep(pause)
            end = self._next_deadline()
            try:
                await self._renewals.renew(job)
            except LeaseLostError as error:
                if not block.cancel_called:  # a job that passed its deadline was stopped already
                    renewal.lost = error
                    block.cancel()
                return
            except OSError as error:
                # TimeoutError is an OSError, too. Try again soon: the deadline of the block is unchanged.
                renewal.failure, pause = error, length / 20
            else:
                renewal.failure, pause = None, self._renewal_pause()
                block.deadline = end

    async def _renew(self, jobs: Sequence[StoredJob]) -> list[ChatError | None]:
        """Renew the leases of jobs in one transaction, and return the error of each job or `None`."""
        errors: dict[int, ChatError] = {}

        def renew(transaction: JobTransaction, now: datetime) -> None:
            # Transactions that lock several jobs lock them in the same order.
            for job in sorted(jobs, key=lambda job: (job.kind, job.key)):
                try:
                    _job_rules.renew(transaction, job, now, self._lease_length)
                except ChatError as error:
                    errors[id(job)] = error

        await self._change_jobs(renew)
        return [errors.get(id(job)) for job in jobs]

    def _renewal_pause(self) -> float:
        """Return the seconds until the next renewal, which shares a transaction with the renewals of other jobs."""
        return aligned_pause(self._lease_length.total_seconds() / 3, anyio.current_time())

    def _next_deadline(self) -> float:
        """Return the event loop time at which a block must be stopped if its lease is renewed now."""
        return anyio.current_time() + _SAFE_PART * self._lease_length.total_seconds()

    async def _change_jobs(self, work: Callable[..., T]) -> T:
        """Call `work` in a thread with a job transaction and the current time, and return its result."""

        def change() -> T:
            with self._storage.job_transaction() as transaction:
                # Read the clock inside the transaction, which may have waited for another transaction.
                return work(transaction, now=self._now())

        return await finish_in_thread(change)


def _require_kinds(kinds: tuple[str, ...]) -> None:
    if not kinds:
        msg = "take_job() needs the kinds of jobs to take, as in take_job('index')"
        raise UsageError(msg)
    for kind in kinds:
        require_text(kind=kind)
