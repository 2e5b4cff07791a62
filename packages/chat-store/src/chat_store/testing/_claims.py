"""Conformance scenarios for leases: one run at a time, and a run that lost its lease changes nothing."""

from __future__ import annotations

import anyio
from chat_core.errors import ConflictError, LeaseLostError
from chat_core.messages import Completed, Interrupted

from chat_store.store import OpenConversation
from chat_store.testing._fixtures import Stores, answer, paused, refused, require


async def a_live_run_excludes_other_runs(stores: Stores) -> None:
    """A second run is rejected while the first run holds the lease."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused("a"))
        async with here.open(name) as run, there.open(name) as other:
            await run.claim()
            with refused(ConflictError, "a second run is refused while the first one is active"):
                await other.claim()
            with refused(ConflictError, "a conversation with an active run is not deleted"):
                await there.delete(name)


async def a_released_lease_can_be_taken(stores: Stores) -> None:
    """Another run can take a released lease at once."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused("a"))
        async with here.open(name) as run, there.open(name) as other:
            await run.claim()
            await run.release()
            await other.claim()
            with refused(ConflictError, "after a release, exactly one run can take the lease"):
                await run.claim()


async def a_lease_of_a_dead_process_expires(stores: Stores) -> None:
    """The lease of a dead process expires, and another run can then take it."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused("a"))
        async with here.open(name) as run, there.open(name) as other:
            await run.claim()
            stores.clock.advance(days=1)
            await other.claim()


async def renewals_and_writes_extend_a_lease(stores: Stores) -> None:
    """`renew()` and every write extend the lease."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused("a"))
        async with here.open(name) as run, there.open(name) as other:
            await run.claim()
            every = run.renew_every
            require(every is not None, "a store with expiring leases has a renewal interval in renew_every")
            for _ in range(10):
                stores.clock.advance(seconds=every or 0)
                await run.renew()
            with refused(ConflictError, "renew() extends the lease"):
                await other.claim()
            for number in range(10):
                stores.clock.advance(seconds=every or 0)
                turn = answer(str(number))
                run.messages.append("model", turn)
                await run.write_turn((), "model", turn)
            with refused(ConflictError, "every write extends the lease"):
                await other.claim()


async def writes_after_a_lost_lease_are_rejected(stores: Stores) -> None:
    """Every write of a run that lost its lease raises `LeaseLostError`, and does not change the stored messages."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused("a"))
        with refused(LeaseLostError, "the open() block raises if it cannot save the late changes of its run"):
            async with here.open(name) as run, there.open(name) as other:
                await _overtake(stores, run, other)
                with refused(LeaseLostError, "renew() raises in a run that lost its lease"):
                    await run.renew()
                tool = run.messages.tool("a")
                tool.complete("late")
                with refused(LeaseLostError, "write_tool() raises in a run that lost its lease"):
                    await run.write_tool((tool.id,), tool)
                require(isinstance(tool.status, Interrupted), "the messages of the run have the stored state")
                turn = answer("late")
                run.messages.append("model", turn)
                with refused(LeaseLostError, "write_turn() raises in a run that lost its lease"):
                    await run.write_turn((), "model", turn)
        read = (await there.load(name)).messages
        require(
            isinstance(read.tool("a").status, Interrupted), "the late result of a run that lost its lease is not stored"
        )
        require(
            read.last is not None and len(read.last.turns) == 1,
            "the late turn of a run that lost its lease is not stored",
        )


async def a_late_result_is_recorded_as_late(stores: Stores) -> None:
    """The history keeps the result of a run that lost its lease, as a late entry."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused("a"))
        async with here.open(name) as run, there.open(name) as other:
            await _overtake(stores, run, other)
            tool = run.messages.tool("a")
            tool.complete("paid at last")
            with refused(LeaseLostError, "write_tool() raises in a run that lost its lease"):
                await run.write_tool((tool.id,), tool)
        late = [entry.tool for entry in await there.history(name) if entry.event == "late"]
        require(
            [tool and tool.status for tool in late] == [Completed("paid at last")],
            "the history has the result of a run that lost its lease as late",
        )


async def a_late_result_does_not_replace_a_decision(stores: Stores) -> None:
    """A user decision made after the lease expired is not overwritten by the late result of the run."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused("a"))
        async with here.open(name) as run:
            await _start_call(stores, run)
            stores.clock.advance(days=1)
            async with there.open(name) as person:
                person.messages.tool("a").complete("looked up", by="ana")
            tool = run.messages.tool("a")
            tool.complete("late")
            with refused(LeaseLostError, "write_tool() raises in a run that lost its lease"):
                await run.write_tool((tool.id,), tool)
            require(tool.status == Completed("looked up"), "the messages of the run have the stored state")
        read = (await there.load(name)).messages.tool("a")
        require(read.status == Completed("looked up"), "the user's decision about the call of a dead run is kept")
        late = [entry.tool and entry.tool.status for entry in await there.history(name) if entry.event == "late"]
        require(late == [Completed("late")], "the history has the result of the dead run as late")


async def a_lost_lease_is_not_released(stores: Stores) -> None:
    """Releasing a lost lease does not release the lease of the run that took over."""
    async with stores.open() as here, stores.open() as there, stores.open() as elsewhere:
        name = await here.create(paused("a"))
        async with here.open(name) as run, there.open(name) as other, elsewhere.open(name) as third:
            await _overtake(stores, run, other)
            await run.release()
            with refused(ConflictError, "release() by a run that lost its lease does not release the new lease"):
                await third.claim()


async def one_of_ten_concurrent_claims_succeeds(stores: Stores) -> None:
    """Exactly one of ten concurrent claims succeeds."""
    async with stores.open() as first:
        name = await first.create(paused("a"))
        outcomes: list[str] = []
        done = anyio.Event()

        async def claim() -> None:
            async with stores.open() as store, store.open(name) as conversation:
                try:
                    await conversation.claim()
                except ConflictError:
                    outcomes.append("refused")
                else:
                    outcomes.append("claimed")
                if len(outcomes) == 10:
                    done.set()
                # Hold the lease until every task has tried to claim the conversation.
                await done.wait()

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                for _ in range(10):
                    group.start_soon(claim)
        require(
            sorted(outcomes) == ["claimed"] + ["refused"] * 9,
            f"exactly one of ten concurrent claims succeeds, not {outcomes}",
        )


async def _start_call(stores: Stores, run: OpenConversation) -> None:
    """Claim the conversation, and store that its approved call is running."""
    run.messages.tool("a").approve()
    await run.claim()
    tool = run.messages.tool("a")
    tool.start(stores.clock())
    await run.write_tool((tool.id,), tool)


async def _overtake(stores: Stores, run: OpenConversation, other: OpenConversation) -> None:
    """Start a call in `run`, let the lease expire, and let `other` take over and mark the call as interrupted."""
    await _start_call(stores, run)
    stores.clock.advance(days=1)
    await other.claim()
    found = other.messages.tool("a")
    found.lost("its process stands still")
    await other.write_tool((found.id,), found)


SCENARIOS = (
    a_live_run_excludes_other_runs,
    a_released_lease_can_be_taken,
    a_lease_of_a_dead_process_expires,
    renewals_and_writes_extend_a_lease,
    writes_after_a_lost_lease_are_rejected,
    a_late_result_is_recorded_as_late,
    a_late_result_does_not_replace_a_decision,
    a_lost_lease_is_not_released,
    one_of_ten_concurrent_claims_succeeds,
)
