"""Conformance scenarios for jobs: unique keys, leases, fences, retries, takeover and cancellation."""

from __future__ import annotations

import anyio
import anyio.lowlevel
from chat_core.errors import ConflictError, LeaseLostError, UsageError
from chat_core.messages import Messages, Text, Turn

from chat_store.jobs import Job, StoredJob
from chat_store.store import ConversationStore
from chat_store.testing._fixtures import Stores, paused, refused, require


async def a_job_is_stored_with_its_change_or_not_at_all(stores: Stores) -> None:
    """`apply()` stores turns, tools, the description and jobs in one transaction: either everything or nothing."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused("a"))
        before = await there.load(name)
        snapshot = await here.load(name)
        snapshot.messages.tool("a").approve()
        job = Job("index", "1", {"depth": [1, None, "é"]}, at=stores.clock.after(hours=1))
        tools = [snapshot.messages.tool("a")]
        await here.apply(name, snapshot.revision, tools=tools, meta={"title": "Parcel"}, jobs=[job])
        (found,) = await there.jobs()
        require((found.conversation, found.kind, found.key) == (name, "index", "1"), f"the job is listed, not {found}")
        require(found.payload == job.payload and found.at == job.at, f"the job keeps its payload and time, not {found}")
        require((await there.meta(name)).title == "Parcel", "the description is stored with the job")
        before.messages.tool("a").reject("no")
        with refused(ConflictError, "apply() refuses a call that was decided elsewhere"):
            tools = [before.messages.tool("a")]
            await there.apply(name, before.revision, tools=tools, meta={"title": "No"}, jobs=[Job("index", "2")])
        require((await there.meta(name)).title == "Parcel", "a refused apply() does not change the description")
        require(await _job_keys(there) == ["1"], "a refused apply() queues no job")
        with refused(UsageError, "turns and tools need the revision that they follow"):
            await here.apply(name, turns=[("user", Turn([Text("Hello?")]))], jobs=[Job("index", "3")])
        await here.create(Messages.from_user("Hello."), id="new", meta={"flow": "support"}, jobs=[Job("run", "1")])
        require((await there.meta("new")).flow == "support", "create() stores the description")
        require([job.kind for job in await there.jobs(conversation="new")] == ["run"], "create() queues jobs")


async def a_turn_is_stored_with_its_job(stores: Stores) -> None:
    """`apply()` appends turns after the given revision, and refuses them after a later turn."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(Messages.from_user("One."))
        old = await there.load(name)
        await here.apply(name, old.revision, turns=[("user", Turn([Text("Two.")]))], jobs=[Job("run", "2")])
        require(len((await there.load(name)).messages[0].turns) == 2, "the turn follows the first turn")
        with refused(ConflictError, "a turn does not follow an old revision"):
            await there.apply(name, old.revision, turns=[("user", Turn([Text("Late.")]))], jobs=[Job("run", "3")])
        require(await _job_keys(there) == ["2"], "the job of a refused turn is not queued")


async def a_job_beside_an_unknown_job_is_refused(stores: Stores) -> None:
    """`apply()` with known jobs stores nothing if another process has queued another job of the same kind."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(Messages.from_user("One."), jobs=[Job("run", "1"), Job("index", "1")])
        await here.create(Messages.from_user("One."), id="other", jobs=[Job("run", "other")])
        snapshot, known = await here.load(name), await here.jobs(conversation=name, kind="run")
        await there.apply(name, jobs=[Job("run", "2")], known_jobs=known)
        with refused(ConflictError, "apply() refuses a job beside an unknown job of its kind"):
            turn = Turn([Text("Two.")])
            await here.apply(name, snapshot.revision, turns=[("user", turn)], jobs=[Job("run", "3")], known_jobs=known)
        require(len((await there.load(name)).messages[0].turns) == 1, "a refused apply() stores no turn")
        with refused(ConflictError, "a stored job is an unknown job, too"):
            await here.apply(name, jobs=[Job("run", "2")], known_jobs=known)
        async with there.take_job("run"):
            pass
        known = await here.jobs(conversation=name, kind="run")
        await here.apply(name, jobs=[Job("run", "4")], known_jobs=known)
        await here.apply(name, jobs=[Job("index", "2")], known_jobs=await here.jobs(conversation=name, kind="index"))
        keys = sorted([job.key for job in await there.jobs(conversation=name, kind="run")])
        require(keys == ["1", "2", "4"], f"known jobs in any state are no conflict, not {keys}")


async def a_job_is_queued_once(stores: Stores) -> None:
    """A job whose kind and key are stored already is not queued again, even if the stored job has ended."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused("a"), jobs=[Job("index", "1", {"first": True})])
        await there.apply(name, jobs=[Job("index", "1", {"first": False}), Job("notify", "1")])
        found = [(job.kind, job.payload.get("first")) for job in await here.jobs(conversation=name)]
        require(
            sorted(map(str, found)) == ["('index', True)", "('notify', None)"],
            f"a job is identified by kind and key, not {found}",
        )
        async with there.take_job("index") as job:
            require(job is not None and job.payload == {"first": True}, "the first job is kept")
        await here.apply(name, jobs=[Job("index", "1")])
        async with there.take_job("index") as job:
            require(job is None, "a job that has ended is not queued again")


async def a_job_is_taken_by_one_worker(stores: Stores) -> None:
    """While one worker has a job, the job is running and no other worker gets it. A finished job is not taken again."""
    async with stores.open() as here, stores.open() as there:
        await here.create(paused("a"), jobs=[Job("index", "1")])
        async with here.take_job("notify") as job:
            require(job is None, "take_job() takes only jobs of the given kinds")
        async with here.take_job("index", "notify") as job:
            require(job is not None and (job.key, job.attempts) == ("1", 1), f"the job is taken, not {job}")
            require(await _job_states(there) == ["running"], "a taken job is running")
            async with there.take_job("index") as other:
                require(other is None, "a running job is not taken by another worker")
        require(await _job_states(there) == ["done"], "a job is done when its block ends")
        stores.clock.advance(days=1)
        async with there.take_job("index") as job:
            require(job is None, "a finished job is not taken again")


async def one_of_ten_workers_takes_a_job(stores: Stores) -> None:
    """Of ten workers that take a job at the same time, exactly one gets it."""
    async with stores.open() as first:
        await first.create(paused("a"), jobs=[Job("index", "1")])
        taken: list[bool] = []
        done = anyio.Event()

        async def work() -> None:
            async with stores.open() as store, store.take_job("index") as job:
                taken.append(job is not None)
                if len(taken) == 10:
                    done.set()
                await done.wait()

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for _ in range(10):
                    group.start_soon(work)
        require(sorted(taken) == [False] * 9 + [True], f"one of ten workers takes the job, not {taken.count(True)}")


async def jobs_are_taken_in_the_order_of_their_times(stores: Stores) -> None:
    """A job is not taken before its time. The job that is longest overdue comes first."""
    async with stores.open() as here:
        after = stores.clock.after
        jobs = [Job("run", "late", at=after(hours=3)), Job("run", "b", at=after(hours=2)), Job("run", "now")]
        await here.create(paused("a"), jobs=jobs)
        require(await _complete_next_job(here) == "now", "a job without a time can be taken at once")
        require(await _complete_next_job(here) is None, "a job is not taken before its time")
        stores.clock.advance(hours=3)
        require(
            [await _complete_next_job(here), await _complete_next_job(here)] == ["b", "late"],
            "the earliest time comes first",
        )


async def a_job_that_fails_is_tried_again(stores: Stores) -> None:
    """A job whose block raises is tried again after growing delays, up to its number of attempts. Its error is kept."""
    async with stores.open() as here, stores.open() as there:
        await here.create(paused("a"), jobs=[Job("run", "1", max_attempts=3, backoff_seconds=60)])
        for wait in (60, 120):
            with refused(OSError, "the error of the block is raised"):
                await _fail_job(here)
            (job,) = await there.jobs()
            require((job.state, job.error) == ("queued", "OSError: no route"), f"the job is queued again, not {job}")
            stores.clock.advance(seconds=wait - 1)
            require(await _complete_next_job(there) is None, f"the job is not tried again before {wait} seconds")
            stores.clock.advance(seconds=1)
        with refused(OSError, "the error of the block is raised"):
            await _fail_job(here)
        (job,) = await there.jobs(state="failed")
        require(job.attempts == 3, "after the last attempt, the job has failed")
        stores.clock.advance(days=1)
        require(await _complete_next_job(there) is None, "a job that has failed is not tried again")


async def a_job_of_a_dead_worker_is_taken_over(stores: Stores) -> None:
    """A job whose lease expired is taken by another worker, and the first worker can no longer complete it."""
    async with stores.open() as here, stores.open() as there:
        await here.create(paused("a"), jobs=[Job("run", "1", max_attempts=2)])
        with refused(LeaseLostError, "a worker that stalled for longer than its lease does not complete the job"):
            async with here.take_job("run"):
                stores.clock.advance(hours=1)
                async with there.take_job("run") as job:
                    require(job is not None and job.attempts == 2, "another worker takes the job over")
        require(await _job_states(there) == ["done"], "the job of the second worker is done")


async def a_job_that_nobody_took_over_is_not_completed_late(stores: Stores) -> None:
    """A worker that stalled for longer than its lease cannot end the job, even if no other worker took it."""
    async with stores.open() as here, stores.open() as there:
        await here.create(paused("a"), jobs=[Job("run", "1"), Job("last", "1", max_attempts=1)])
        with refused(LeaseLostError, "the lease has expired"):
            async with here.take_job("run"):
                stores.clock.advance(hours=1)
        require(await _job_states(there, "run") == ["queued"], "the job is queued, and another attempt is made")
        with refused(LeaseLostError, "the lease has expired"):
            async with here.take_job("last"):
                stores.clock.advance(hours=1)
        require(
            await _job_states(there, "last") == ["failed"], "the job has failed if its worker dies in the last attempt"
        )
        async with there.take_job("last") as job:
            require(job is None, "the last attempt is not repeated")


async def a_cancelled_block_gives_its_job_back(stores: Stores) -> None:
    """If a `take_job()` block is cancelled, another worker can take the job at once, and the attempt is not counted."""
    async with stores.open() as here, stores.open() as there:
        await here.create(paused("a"), jobs=[Job("run", "1", max_attempts=1)])
        with anyio.CancelScope() as scope:
            async with here.take_job("run"):
                scope.cancel()
                await anyio.lowlevel.checkpoint()
        require(await _job_states(there) == ["queued"], "the job is queued again")
        require(await _complete_next_job(there) == "1", "another worker takes the job at once")


async def a_job_is_cancelled(stores: Stores) -> None:
    """A queued or running job can be cancelled. The worker of a running job can then not complete the job."""
    async with stores.open() as here, stores.open() as there:
        await here.create(paused("a"), jobs=[Job("run", "1"), Job("run", "2", at=stores.clock.after(hours=1))])
        require(await there.cancel_job("run", "2"), "a queued job is cancelled")
        with refused(LeaseLostError, "a worker does not complete a job that was cancelled"):
            async with here.take_job("run"):
                require(await there.cancel_job("run", "1"), "a running job is cancelled")
        require(await _job_states(there) == ["cancelled", "cancelled"], "both jobs are cancelled")
        require(not await there.cancel_job("run", "1"), "a job that has ended is not cancelled")
        require(not await there.cancel_job("run", "3"), "a job that is not stored is not cancelled")
        stores.clock.advance(days=1)
        require(await _complete_next_job(there) is None, "a cancelled job is not taken")


async def jobs_are_listed(stores: Stores) -> None:
    """`jobs()` lists jobs by kind, state and conversation, in pages."""
    async with stores.open() as here, stores.open() as there:
        after = stores.clock.after
        await here.create(paused("a"), id="1", jobs=[Job("run", "2", at=after(hours=2)), Job("run", "1")])
        await here.create(paused("a"), id="2", jobs=[Job("index", "3", at=after(hours=1))])
        require(await _job_keys(there) == ["1", "3", "2"], "jobs() begins with the earliest time")
        require([job.key for job in await there.jobs(kind="run")] == ["1", "2"], "jobs(kind=) lists this kind")
        require([job.key for job in await there.jobs(conversation="2")] == ["3"], "jobs(conversation=) lists its jobs")
        require(await there.jobs(conversation="3") == [], "an unknown conversation has no jobs")
        require(
            [job.key for job in await there.jobs(state="queued")] == ["1", "3", "2"],
            "jobs(state=) lists all queued jobs",
        )
        require(await there.jobs(state="done") == [], "jobs(state=) lists no finished jobs")
        found: list[StoredJob] = []
        while page := await there.jobs(limit=1, after=found[-1].cursor if found else None):
            found += page
            require(len(found) <= 3, "jobs(after=) lists nothing twice")
        require([job.key for job in found] == ["1", "3", "2"], "the pages of jobs() are the whole list")
        with refused(UsageError, "jobs(after=) rejects an invalid cursor"):
            await there.jobs(after="x")
        await here.apply("1", jobs=[Job("index", "2@%_", at=after(days=1)), Job("run", "12", at=after(days=2))])
        named = [(job.kind, job.key) for job in await there.jobs(key_prefix="2")]
        require(named == [("run", "2"), ("index", "2@%_")], f"jobs(key_prefix=) lists keys that begin with it: {named}")
        require([job.key for job in await there.jobs(key_prefix="2@%_")] == ["2@%_"], "a prefix has no placeholders")
        await here.delete("1")
        require(await _job_keys(there) == ["3"], "a deleted conversation has no jobs")


async def a_job_that_can_be_taken_is_reported(stores: Stores) -> None:
    """`changes()` returns a conversation when a job is queued, when its time comes, and when its lease expires."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused("a"))
        cursor = (await there.changes()).cursor
        await here.apply(name, jobs=[Job("run", "1", at=stores.clock.after(hours=1))])
        cursor = await _require_change(there, cursor, name, "a queued job")
        require(
            (await there.changes(cursor, wait_seconds=0)).conversations == (),
            "changes() returns the conversation once per job",
        )
        stores.clock.advance(hours=1)
        cursor = await _require_change(there, cursor, name, "a job whose time has come")
        with refused(LeaseLostError, "the worker stalled for longer than its lease"):
            async with here.take_job("run"):
                cursor = (await there.changes(cursor, wait_seconds=0)).cursor
                stores.clock.advance(hours=1)
                await _require_change(there, cursor, name, "a job whose worker died")


async def _require_change(store: ConversationStore, cursor: str, name: str, what: str) -> str:
    found = await store.changes(cursor, wait_seconds=0)
    require([item.conversation for item in found.conversations] == [name], f"changes() reports {what}")
    return found.cursor


async def _complete_next_job(store: ConversationStore, *kinds: str) -> str | None:
    """Take and complete a job, and return its key."""
    async with store.take_job(*(kinds or ("run",))) as job:
        return None if job is None else job.key


async def _fail_job(store: ConversationStore) -> None:
    async with store.take_job("run") as job:
        require(job is not None, "the job can be taken")
        msg = "no route"
        raise OSError(msg)


async def _job_states(store: ConversationStore, kind: str | None = None) -> list[str]:
    return [job.state for job in await store.jobs(kind=kind)]


async def _job_keys(store: ConversationStore) -> list[str]:
    return [job.key for job in await store.jobs()]


SCENARIOS = (
    a_job_is_stored_with_its_change_or_not_at_all,
    a_turn_is_stored_with_its_job,
    a_job_beside_an_unknown_job_is_refused,
    a_job_is_queued_once,
    a_job_is_taken_by_one_worker,
    one_of_ten_workers_takes_a_job,
    jobs_are_taken_in_the_order_of_their_times,
    a_job_that_fails_is_tried_again,
    a_job_of_a_dead_worker_is_taken_over,
    a_job_that_nobody_took_over_is_not_completed_late,
    a_cancelled_block_gives_its_job_back,
    a_job_is_cancelled,
    jobs_are_listed,
    a_job_that_can_be_taken_is_reported,
)
