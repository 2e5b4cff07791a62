"""Limits of jobs, and values that cannot be stored."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import anyio
import pytest
from anyio.lowlevel import checkpoint
from chat_core.errors import LeaseLostError, UsageError
from chat_core.messages import Messages
from chat_store import Job, MemoryStore
from chat_store.jobs import MAX_BACKOFF, MAX_ERROR_CHARACTERS

pytestmark = pytest.mark.anyio


class Clock:
    def __init__(self) -> None:
        self.time = datetime(2030, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time


def test_a_job_with_invalid_attempts_time_or_backoff_is_refused() -> None:
    assert Job("run", "1", max_attempts=1, backoff_seconds=0, at=datetime.now(UTC)).max_attempts == 1
    with pytest.raises(UsageError, match=r"max_attempts must be a whole number from 1 to .*, not 0"):
        Job("run", "1", max_attempts=0)
    for seconds in (-0.1, float("inf"), float("nan")):
        with pytest.raises(UsageError, match="backoff_seconds"):
            Job("run", "1", backoff_seconds=seconds)
    with pytest.raises(UsageError, match="needs a time zone"):
        Job("run", "1", at=datetime(2030, 1, 1))  # noqa: DTZ001 - what is refused


@pytest.mark.parametrize(
    "job",
    [
        Job("", "1"),
        Job("run", ""),
        Job("run", "\0"),
        Job("\ud800", "1"),
        Job("run", "1", {"x": object()}),
        Job("run", "1", {"x": float("inf")}),
    ],
    ids=["no kind", "no key", "a null character", "half a character", "no JSON", "infinite"],
)
async def test_a_job_that_cannot_be_stored_is_refused_with_the_whole_change(job: Job) -> None:
    async with MemoryStore() as store:
        name = await store.create(Messages.from_user("Hello."))

        with pytest.raises(UsageError):
            await store.apply(name, meta={"title": "No"}, jobs=[job])

        assert (await store.meta(name)).title is None
        assert await store.jobs() == []


@pytest.mark.parametrize("extra", [-1, 0, 1])
async def test_a_long_job_error_is_truncated(extra: int) -> None:
    text = "x" * (MAX_ERROR_CHARACTERS - len("ValueError: ") + extra)
    async with MemoryStore() as store:
        await store.create(Messages(), jobs=[Job("run", "1")])

        with pytest.raises(ValueError, match="x"):
            async with store.take_job("run"):
                raise ValueError(text)

        (job,) = await store.jobs()
        assert job.error is not None
        assert len(job.error) == min(MAX_ERROR_CHARACTERS, MAX_ERROR_CHARACTERS + extra)


async def test_the_backoff_of_a_job_doubles_up_to_the_maximum() -> None:
    clock = Clock()
    async with MemoryStore(now=clock) as store:
        await store.create(Messages(), jobs=[Job("run", "1", max_attempts=2000, backoff_seconds=1000)])
        waits: list[float] = []
        for _ in range(1100):
            with pytest.raises(ValueError, match="no"):
                async with store.take_job("run") as job:
                    assert job is not None
                    raise ValueError("no")
            (failed,) = await store.jobs()
            waits.append((failed.at - clock.time).total_seconds())
            clock.time = failed.at

    limit = MAX_BACKOFF.total_seconds()
    assert waits[:4] == [1000, 2000, limit, limit]
    assert set(waits[4:]) == {limit}


@pytest.mark.usefixtures("no_pauses")
async def test_the_lease_of_a_job_is_renewed_while_its_block_runs() -> None:
    async with MemoryStore() as store:
        await store.create(Messages(), jobs=[Job("run", "1")])

        async with store.take_job("run"):
            (before,) = await store.jobs()
            with anyio.fail_after(30):
                while (await store.jobs())[0].lease_until == before.lease_until:
                    await checkpoint()

        assert [job.state for job in await store.jobs()] == ["done"]


@pytest.mark.usefixtures("no_pauses")
async def test_cancelling_a_job_cancels_the_block_of_its_worker() -> None:
    async with MemoryStore() as store:
        await store.create(Messages(), jobs=[Job("run", "1")])

        with anyio.fail_after(30), pytest.raises(LeaseLostError, match="cancelled"):
            async with store.take_job("run"):
                await store.cancel_job("run", "1")
                await anyio.sleep_forever()

        assert [job.state for job in await store.jobs()] == ["cancelled"]


async def test_take_job_without_a_kind_raises_usage_error() -> None:
    async with MemoryStore() as store:
        with pytest.raises(UsageError, match="take_job\\('index'\\)"):
            async with store.take_job():
                pass


async def test_a_job_lease_is_lost_at_its_exact_end() -> None:
    clock = Clock()
    async with MemoryStore(lease_seconds=30, now=clock) as store:
        await store.create(Messages(), jobs=[Job("run", "1"), Job("run", "2")])
        async with store.take_job("run"):
            clock.time += timedelta(seconds=30) - timedelta(microseconds=1)
        with pytest.raises(LeaseLostError):
            async with store.take_job("run"):
                clock.time += timedelta(seconds=30)


async def test_a_worker_that_lost_its_lease_does_not_end_the_job() -> None:
    clock = Clock()
    taken, ended = anyio.Event(), anyio.Event()
    async with MemoryStore(lease_seconds=30, now=clock) as here, MemoryStore(beside=here, now=clock) as there:
        await here.create(Messages(), jobs=[Job("run", "1")])

        async def take_over() -> None:
            async with there.take_job("run") as job:
                assert job is not None
                taken.set()
                await ended.wait()

        async with anyio.create_task_group() as group:
            with pytest.raises(LeaseLostError):
                async with here.take_job("run"):
                    clock.time += timedelta(hours=1)
                    group.start_soon(take_over)
                    await taken.wait()
            assert [job.state for job in await here.jobs()] == ["running"]
            ended.set()
        assert [job.state for job in await here.jobs()] == ["done"]
