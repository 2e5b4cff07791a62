"""The job queue of a store, which takes and cancels jobs, and renews the leases of taken jobs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar, final

import anyio
from anyio import CancelScope
from chat_core.concurrency import finish_in_thread
from chat_core.errors import LeaseLostError, UsageError

from chat_store import _job_rules
from chat_store._job_rules import JobStorage
from chat_store.jobs import StoredJob

T = TypeVar("T")


@final
class JobQueue:
    """A queue from which workers take jobs. While a worker has a job, the queue renews its lease.

    Args:
        storage: the database or file that contains the jobs.
        lease_length: how long a lease lasts after each renewal.
        now: the clock. It returns times in UTC.
    """

    def __init__(self, storage: JobStorage, lease_length: timedelta, now: Callable[[], datetime]) -> None:
        self._storage = storage
        self._lease_length = lease_length
        self._now = now

    @asynccontextmanager
    async def take(self, kinds: tuple[str, ...]) -> AsyncGenerator[StoredJob | None]:
        """Implement `ConversationStore.take_job()`."""
        if not kinds:
            msg = "take_job() needs the kinds of jobs to take, as in take_job('index')"
            raise UsageError(msg)
        job = await self._change(partial(_job_rules.take, kinds=kinds, lease_length=self._lease_length))
        if job is None:
            yield None
            return
        failure: Exception | None = None
        lost: list[LeaseLostError] = []
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._keep_lease, job, lost, group.cancel_scope)
                try:
                    yield job
                except Exception as error:  # noqa: BLE001 - raised below, when the failure is stored
                    failure = error
                group.cancel_scope.cancel()
        except BaseException:
            # The worker is being stopped: another one can take the job at once.
            with CancelScope(shield=True), suppress(LeaseLostError, OSError):
                await self._change(partial(_job_rules.give_back, job=job))
            raise
        if failure is not None:
            with suppress(LeaseLostError):
                text = f"{type(failure).__name__}: {failure}"
                await self._change(partial(_job_rules.fail, job=job, error=text))
            raise failure
        if lost:
            raise lost[0]
        await self._change(partial(_job_rules.complete, job=job))

    async def cancel(self, kind: str, key: str) -> bool:
        """Implement `ConversationStore.cancel_job()`."""
        return await self._change(partial(_job_rules.cancel, kind=kind, key=key))

    async def _keep_lease(self, job: StoredJob, lost: list[LeaseLostError], block: CancelScope) -> None:
        """Renew the lease of a job until the task is cancelled.

        Args:
            job: the taken job.
            lost: receives the error if the lease is lost.
            block: the scope of the worker's block. It is cancelled if the lease is lost.
        """
        while True:
            await anyio.sleep(self._lease_length.total_seconds() / 3)
            try:
                await self._change(partial(_job_rules.renew, job=job, lease_length=self._lease_length))
            except LeaseLostError as error:
                lost.append(error)
                block.cancel()
                return
            except OSError:
                # The next renewal may succeed. TimeoutError is an OSError, too.
                continue

    async def _change(self, work: Callable[..., T]) -> T:
        """Call `work` in a thread with a job transaction and the current time, and return its result."""

        def change() -> T:
            with self._storage.job_transaction() as transaction:
                # Read the clock in the transaction: it may have waited for another one.
                return work(transaction, now=self._now())

        return await finish_in_thread(change)
