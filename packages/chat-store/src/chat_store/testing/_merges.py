"""Conformance scenarios for concurrent changes: they are merged per call, or the second change is rejected."""

from __future__ import annotations

from chat_core.errors import ConflictError, UsageError
from chat_core.messages import Approved, Completed, Messages, Rejected, Running

from chat_store.testing._fixtures import Stores, answer, paused, refused, require


async def saves_that_decide_different_calls_are_merged(stores: Stores) -> None:
    """Two saves that decide different calls are merged."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused("a", "b"))
        mine, yours = await here.load(name), await there.load(name)
        yours.messages.tool("b").reject("no", by="ben")
        await there.save(name, yours.messages, revision=yours.revision)
        mine.messages.tool("a").approve(by="ana")
        now = await here.save(name, mine.messages, revision=mine.revision)
        require(
            isinstance(now.messages.tool("a").status, Approved), "save() stores the decisions in the passed messages"
        )
        require(
            isinstance(now.messages.tool("b").status, Rejected), "save() keeps decisions that another process stored"
        )
        require(now.revision > yours.revision, "save() returns the new revision")
        require((await there.load(name)).messages == now.messages, "save() returns the stored messages")


async def the_first_of_two_saves_of_one_call_wins(stores: Stores) -> None:
    """A save based on an old revision does not overwrite a later decision, and stores nothing."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused("a", "b"))
        mine, yours = await here.load(name), await there.load(name)
        yours.messages.tool("a").reject("no")
        await there.save(name, yours.messages, revision=yours.revision)
        mine.messages.tool("a").approve()
        mine.messages.tool("b").approve()
        with refused(ConflictError, "save() rejects a decision about a call that was decided since the revision"):
            await here.save(name, mine.messages, revision=mine.revision)
        read = (await here.load(name)).messages
        require(isinstance(read.tool("a").status, Rejected), "the first decision holds")
        require(not isinstance(read.tool("b").status, Approved), "a rejected save writes nothing")


async def turns_that_follow_an_old_revision_are_refused(stores: Stores) -> None:
    """Turns based on an old revision are rejected after other turns were added, as their order would be undefined."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused())
        mine, yours = await here.load(name), await there.load(name)
        yours.messages.user("Yours.")
        await there.save(name, yours.messages, revision=yours.revision)
        mine.messages.user("Mine.")
        with refused(ConflictError, "save() rejects turns if other turns were added since the revision"):
            await here.save(name, mine.messages, revision=mine.revision)
        require(len((await here.load(name)).messages[-1].turns) == 1, "a rejected save writes nothing")


async def messages_that_do_not_follow_a_revision_are_refused(stores: Stores) -> None:
    """`save()` rejects an unknown revision, and messages that do not belong to the revision."""
    async with stores.open() as here:
        name = await here.create(paused("a"))
        found = await here.load(name)
        with refused(UsageError, "save() rejects a revision that does not exist"):
            await here.save(name, found.messages, revision=found.revision + 7)
        with refused(UsageError, "save() rejects messages that do not belong to the revision"):
            await here.save(name, paused("another"), revision=found.revision)
        text = await here.create(Messages.from_user("My address is 1 Main Street."))
        with refused(UsageError, "save() rejects messages with the text of another conversation"):
            await here.save(text, Messages.from_user("Cancel my order."), revision=0)


async def the_first_of_two_decisions_wins(stores: Stores) -> None:
    """A second decision on a call raises `ConflictError`, and its author then sees the first decision."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused("a"))
        async with here.open(name) as mine, there.open(name) as yours:
            mine.messages.tool("a").approve(by="ana")
            yours.messages.tool("a").reject("no", by="ben")
            await mine.save()
            with refused(ConflictError, "a second decision about a call is rejected"):
                await yours.save()
            require(
                isinstance(yours.messages.tool("a").status, Approved),
                "the messages of the second approver have the first decision",
            )
        require(isinstance((await there.load(name)).messages.tool("a").status, Approved), "the first decision holds")


async def a_decision_during_a_run_is_kept_with_its_results(stores: Stores) -> None:
    """A decision on one call while another call runs is kept together with the result, and reaches the run."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused("a", "b"))
        async with here.open(name) as run:
            run.messages.tool("a").approve()
            await run.claim()
            tool = run.messages.tool("a")
            tool.start(stores.clock())
            await run.write_tool((tool.id,), tool)
            async with there.open(name) as person:
                person.messages.tool("b").approve(by="ana")
            tool.complete("paid")
            await run.write_tool((tool.id,), tool)
            require(isinstance(run.messages.tool("b").status, Approved), "a decision reaches a run with its next write")
        read = (await there.load(name)).messages
        require(read.tool("a").status == Completed("paid"), "a result is kept if another call was decided meanwhile")
        require(isinstance(read.tool("b").status, Approved), "a decision is not overwritten by a run")


async def a_call_that_was_decided_meanwhile_does_not_start(stores: Stores) -> None:
    """Starting a call that was decided since the run claimed it raises `ConflictError`."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused("a"))
        async with here.open(name) as run:
            run.messages.tool("a").approve()
            await run.claim()
            async with there.open(name) as person:
                person.messages.tool("a").reject("not after all", by="ben")
            tool = run.messages.tool("a")
            tool.start(stores.clock())
            with refused(ConflictError, "a call that was decided meanwhile does not start"):
                await run.write_tool((tool.id,), tool)
            require(isinstance(tool.status, Rejected), "the messages of the run have the decision")


async def a_call_that_runs_cannot_be_decided(stores: Stores) -> None:
    """A call that an active run executes cannot be decided."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused("a"))
        async with here.open(name) as run:
            run.messages.tool("a").approve()
            await run.claim()
            tool = run.messages.tool("a")
            tool.start(stores.clock())
            await run.write_tool((tool.id,), tool)
            with refused(ConflictError, "a call that an active run executes cannot be decided"):
                async with there.open(name) as person:
                    person.messages.tool("a").fail("it hangs")
            require(
                isinstance((await there.load(name)).messages.tool("a").status, Running),
                "a rejected decision changes nothing",
            )


async def no_user_turn_is_added_during_a_run(stores: Stores) -> None:
    """A user turn cannot be added while a run is active."""
    async with stores.open() as here, stores.open() as there, here.open("chat") as run:
        run.messages.user("Pay.")
        await run.claim()
        with refused(ConflictError, "a turn cannot be pushed while a run is active"):
            async with there.open("chat") as person:
                person.messages.user("And another thing.")
        turn = answer()
        run.messages.append("model", turn)
        await run.write_turn((), "model", turn)


SCENARIOS = (
    saves_that_decide_different_calls_are_merged,
    the_first_of_two_saves_of_one_call_wins,
    turns_that_follow_an_old_revision_are_refused,
    messages_that_do_not_follow_a_revision_are_refused,
    the_first_of_two_decisions_wins,
    a_decision_during_a_run_is_kept_with_its_results,
    a_call_that_was_decided_meanwhile_does_not_start,
    a_call_that_runs_cannot_be_decided,
    no_user_turn_is_added_during_a_run,
)
