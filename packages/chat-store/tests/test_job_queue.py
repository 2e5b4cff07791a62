"""The block of a job ends before another worker can take the job, also while the database cannot be reached."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime

import anyio
import pytest
from chat_core.errors import LeaseLostError
from chat_core.messages import Messages
from chat_store import Job, MemoryStore, StoredJob
from chat_store._base_store import BaseStore, utc_now
from chat_store._job_rules import JobTransaction
from chat_store.memory import MemoryBackend

pytestmark = pytest.mark.anyio


class Unreliable(MemoryBackend):
    """A database that can be made unreachable for jobs."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[], None] = lambda: None

    @contextmanager
    def job_transaction(self) -> Generator[JobTransaction]:
        self.before()
        with super().job_transaction() as transaction:
            yield transaction


def refuse() -> None:
    msg = "no route to the database"
    raise OSError(msg)


def lease_end(job: StoredJob | None) -> datetime:
    assert job is not None
    assert job.lease_until is not None
    return job.lease_until


async def test_a_job_block_stops_before_its_lease_ends_if_the_database_is_down() -> None:
    backend = Unreliable()
    store = BaseStore(backend, 2.0, utc_now)
    await store.create(Messages(), jobs=[Job("run", "1")])
    stopped: list[datetime] = []
    ends: list[datetime] = []

    with anyio.fail_after(6), pytest.raises(LeaseLostError, match="could not be renewed") as failure:
        async with store.take_job("run") as job:
            ends.append(lease_end(job))
            backend.before = refuse
            try:
                await anyio.sleep_forever()
            finally:
                stopped.append(datetime.now(UTC))

    assert isinstance(failure.value.__cause__, OSError)
    assert stopped[0] < ends[0]


async def test_a_job_block_stops_before_its_lease_ends_if_a_renewal_hangs() -> None:
    backend, answered = Unreliable(), threading.Event()

    def wait() -> None:
        answered.wait(6)

    store = BaseStore(backend, 2.0, utc_now)
    await store.create(Messages(), jobs=[Job("run", "1")])
    stopped: list[datetime] = []
    ends: list[datetime] = []

    with anyio.fail_after(6), pytest.raises(LeaseLostError, match="could not be renewed"):
        async with store.take_job("run") as job:
            ends.append(lease_end(job))
            backend.before = wait
            try:
                await anyio.sleep_forever()
            finally:
                stopped.append(datetime.now(UTC))
                answered.set()

    assert stopped[0] < ends[0]


async def test_a_job_block_continues_if_the_database_returns_in_time() -> None:
    backend = Unreliable()
    failures = [None, None]

    def refuse_twice() -> None:
        if failures:
            failures.pop()
            refuse()

    store = BaseStore(backend, 1.0, utc_now)
    await store.create(Messages(), jobs=[Job("run", "1")])
    async with store.take_job("run"):
        backend.before = refuse_twice
        await anyio.sleep(1.5)

    assert not failures
    assert [job.state for job in await store.jobs()] == ["done"]


async def test_an_error_in_the_cleanup_of_a_stopped_job_block_is_raised() -> None:
    backend = Unreliable()
    store = BaseStore(backend, 0.3, utc_now)
    await store.create(Messages(), jobs=[Job("run", "1")])

    with anyio.fail_after(10), pytest.raises(ValueError, match="cleanup failed"):
        async with store.take_job("run"):
            backend.before = refuse
            try:
                await anyio.sleep_forever()
            finally:
                backend.before = lambda: None
                msg = "cleanup failed"
                raise ValueError(msg)


async def test_an_error_in_a_job_block_is_raised_while_the_database_is_down() -> None:
    backend = Unreliable()
    store = BaseStore(backend, 30, utc_now)
    await store.create(Messages(), jobs=[Job("run", "1")])

    with pytest.raises(ValueError, match="no such parcel") as failure:
        async with store.take_job("run"):
            backend.before = refuse
            msg = "no such parcel"
            raise ValueError(msg)

    assert "no route to the database" in failure.value.__notes__[0]


async def test_the_lease_of_a_long_job_is_renewed() -> None:
    async with MemoryStore(lease_seconds=0.5) as store:
        await store.create(Messages(), jobs=[Job("run", "1")])
        async with store.take_job("run"):
            await anyio.sleep(1.2)
        assert [job.state for job in await store.jobs()] == ["done"]
