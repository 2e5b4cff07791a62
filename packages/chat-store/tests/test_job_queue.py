"""The block of a job ends before another worker can take the job, also while the database cannot be reached."""

# The tests choose the order of tasks, which only private members show.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import AsyncExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import anyio
import pytest
from anyio.lowlevel import checkpoint
from chat_core.clock import utc_now
from chat_core.errors import LeaseLostError
from chat_core.messages import Messages
from chat_store import Job, MemoryStore, StoredJob, _job_queue
from chat_store._base_store import BaseStore
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


class Counting(MemoryBackend):
    """A database that counts the jobs that each transaction changes."""

    def __init__(self) -> None:
        super().__init__()
        self.changed: list[int] = []

    @contextmanager
    def job_transaction(self) -> Generator[JobTransaction]:
        self.changed.append(0)
        with super().job_transaction() as transaction:
            yield CountingTransaction(transaction, self.changed)


class Locking(MemoryBackend):
    """A database in which another process has locked the row of a job."""

    def __init__(self) -> None:
        super().__init__()
        self.locked = ""

    @contextmanager
    def job_transaction(self) -> Generator[JobTransaction]:
        with super().job_transaction() as transaction:
            yield CountingTransaction(transaction, [0], self.locked)


class CountingTransaction:
    """A transaction that counts its changes, and that cannot lock the row of one job."""

    def __init__(self, inner: JobTransaction, changed: list[int], locked: str = "") -> None:
        self._inner = inner
        self._changed = changed
        self._locked = locked

    def find(self, kind: str, key: str) -> StoredJob | None:
        if key == self._locked:
            msg = "the row is locked"
            raise TimeoutError(msg)
        return self._inner.find(kind, key)

    def find_due(self, kinds: Sequence[str], now: datetime) -> StoredJob | None:
        return self._inner.find_due(kinds, now)

    def write(self, job: StoredJob) -> None:
        self._changed[-1] += 1
        self._inner.write(job)


def refuse() -> None:
    msg = "no route to the database"
    raise OSError(msg)


def lease_end(job: StoredJob | None) -> datetime:
    assert job is not None
    assert job.lease_until is not None
    return job.lease_until


def stop_time() -> datetime:
    """Return the time at which the block that calls this is cancelled, if no renewal succeeds."""
    now = datetime.now(UTC)
    return now + timedelta(seconds=anyio.current_effective_deadline() - anyio.current_time())


async def until_renewed() -> None:
    """Wait until a renewal has put off the end of the block that calls this."""
    first = anyio.current_effective_deadline()
    while anyio.current_effective_deadline() == first:
        await checkpoint()


async def until_stored(store: BaseStore, key: str) -> None:
    """Wait until a renewal of a job's lease is stored."""
    first = await stored_end(store, key)
    while await stored_end(store, key) == first:
        await checkpoint()


async def stored_end(store: BaseStore, key: str) -> datetime:
    (job,) = await store.jobs(key_prefix=key)
    return lease_end(job)


async def test_a_job_block_stops_before_its_lease_ends_if_the_database_is_down() -> None:
    backend = Unreliable()
    store = BaseStore(backend, 2.0, utc_now)
    await store.create(Messages(), jobs=[Job("run", "1")])

    with anyio.fail_after(60), pytest.raises(LeaseLostError, match="could not be renewed") as failure:
        async with store.take_job("run") as job:
            backend.before = refuse
            assert stop_time() < lease_end(job)
            await anyio.sleep_forever()

    assert isinstance(failure.value.__cause__, OSError)


async def test_a_job_block_stops_before_its_lease_ends_if_a_renewal_hangs() -> None:
    backend, answered = Unreliable(), threading.Event()

    def wait() -> None:
        answered.wait(60)

    store = BaseStore(backend, 2.0, utc_now)
    await store.create(Messages(), jobs=[Job("run", "1")])

    with anyio.fail_after(60), pytest.raises(LeaseLostError, match="could not be renewed"):
        async with store.take_job("run") as job:
            backend.before = wait
            try:
                assert stop_time() < lease_end(job)
                await anyio.sleep_forever()
            finally:
                answered.set()


@pytest.mark.usefixtures("no_pauses")
async def test_a_job_block_continues_if_the_database_returns_in_time() -> None:
    backend = Unreliable()
    failures = [None, None]

    def refuse_twice() -> None:
        if failures:
            failures.pop()
            refuse()

    store = BaseStore(backend, 30, utc_now)
    await store.create(Messages(), jobs=[Job("run", "1")])
    async with store.take_job("run"):
        backend.before = refuse_twice
        await until_renewed()

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


@pytest.mark.usefixtures("no_pauses")
async def test_a_job_whose_error_has_no_readable_message_is_tried_again() -> None:
    class UnreadableError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    async with MemoryStore() as store:
        await store.create(Messages.from_user("Hi."), jobs=[Job("index", "1")])
        with pytest.raises(UnreadableError):
            async with store.take_job("index"):
                raise UnreadableError
        (job,) = await store.jobs()
        assert (job.state, job.error) == ("queued", "UnreadableError: its message cannot be read")


async def test_the_lease_of_a_long_job_is_renewed() -> None:
    async with MemoryStore() as store:
        await store.create(Messages(), jobs=[Job("run", "1")])
        async with store.take_job("run"):
            await until_renewed()
        assert [job.state for job in await store.jobs()] == ["done"]


@pytest.mark.usefixtures("no_pauses")
async def test_leases_that_are_due_are_renewed_in_one_transaction() -> None:
    backend = Counting()
    store = BaseStore(backend, 30, utc_now)
    await store.create(Messages(), jobs=[Job("run", str(number)) for number in range(3)])
    with anyio.fail_after(60):
        async with AsyncExitStack() as stack:
            for _ in range(3):
                await stack.enter_async_context(store.take_job("run"))
            while max(backend.changed) < 2:
                await checkpoint()

    assert {job.state for job in await store.jobs()} == {"done"}


@pytest.mark.usefixtures("no_pauses")
async def test_a_locked_row_does_not_prevent_other_renewals() -> None:
    backend = Locking()
    store = BaseStore(backend, 30, utc_now)
    await store.create(Messages(), jobs=[Job("run", "1"), Job("run", "2")])

    with anyio.fail_after(60):
        async with store.take_job("run") as first, store.take_job("run") as second:
            assert first is not None
            assert second is not None
            await until_stored(store, first.key)
            backend.locked = first.key
            await until_stored(store, second.key)  # a renewal of both may have begun before
            locked_end = await stored_end(store, first.key)
            await until_stored(store, second.key)
            assert await stored_end(store, first.key) == locked_end
            backend.locked = ""

    assert {job.state for job in await store.jobs()} == {"done"}


@pytest.mark.usefixtures("no_pauses")
async def test_a_lost_lease_does_not_prevent_other_renewals() -> None:
    store = MemoryStore(lease_seconds=30)
    await store.create(Messages(), jobs=[Job("run", "1"), Job("run", "2")])
    with anyio.fail_after(60):
        async with store.take_job("run"):
            with pytest.raises(LeaseLostError):
                async with store.take_job("run"):
                    await store.cancel_job("run", "2")
                    await anyio.sleep_forever()
            await until_renewed()

    assert [job.state for job in await store.jobs()] == ["done", "cancelled"]


async def test_jobs_that_were_taken_at_different_times_are_renewed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[float] = []
    second = math.floor(anyio.current_time())
    now = second + 0.3

    async def note_end(seconds: float) -> None:
        assert 9 <= seconds <= 10
        ends.append(now + seconds)
        await anyio.sleep_forever()

    used = {"sleep": note_end, "current_time": lambda: now, "create_task_group": anyio.create_task_group}
    monkeypatch.setattr(_job_queue, "anyio", SimpleNamespace(**used))
    store = MemoryStore(lease_seconds=30)
    await store.create(Messages(), jobs=[Job("run", "1"), Job("run", "2")])
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(store.take_job("run"))
        while not ends:
            await checkpoint()
        now = second + 0.9
        await stack.enter_async_context(store.take_job("run"))
        while len(ends) < 2:
            await checkpoint()

    assert ends[0] == pytest.approx(ends[1])
