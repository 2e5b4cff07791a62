"""Conformance scenarios for grants: they are stored with the conversation, and can be revoked at any time."""

from __future__ import annotations

from dataclasses import replace

from chat_core.approvals import approve_with_grant
from chat_core.errors import ConflictError
from chat_core.messages import Approved, Grant, Messages, Pending, Rejected, Running

from chat_store.testing._fixtures import Stores, answer, call, paused, refused, require


async def a_grant_is_stored_with_the_approval_that_gave_it(stores: Stores) -> None:
    """A grant and the approval of its call are one change, visible to other processes and in the history."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused("a", "b"))
        async with there.open(name) as yours:
            async with here.open(name) as mine:
                grant = _approve_with_grant(stores, mine.messages, "a")
            await yours.save()
            require([*yours.messages.grants] == [grant], "another process reads the grant with its next write")
        found = await there.load(name)
        require(isinstance(found.messages.tool("a").status, Approved), "the call is approved")
        require([*found.messages.grants] == [grant], "load() returns the grant")
        revoked = found.messages.grants.revoke(grant.id, by="ben", at=stores.clock())
        now = await there.save(name, found.messages, revision=found.revision)
        require([*now.messages.grants] == [revoked], "save() stores the revocation")
        require(now.revision > found.revision, "a revocation is a new revision")
        events = [(entry.event, entry.grant) for entry in await here.history(name) if entry.grant is not None]
        require(events == [("granted", grant), ("revoked", revoked)], f"the history names grants, not {events}")
        require([*(await here.load(name)).messages.grants] == [revoked], "a revoked grant stays revoked")


async def a_conflicting_approval_stores_no_grant(stores: Stores) -> None:
    """If an approval with a grant conflicts with another decision, the grant is not stored either."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused("a"))
        async with here.open(name) as mine, there.open(name) as yours:
            _approve_with_grant(stores, mine.messages, "a")
            yours.messages.tool("a").reject("no", by="ben", at=stores.clock())
            await yours.save()
            with refused(ConflictError, "the second decision about a call is refused"):
                await mine.save()
            require(len(mine.messages.grants) == 0, "the refused grant is no longer in messages")
        found = (await here.load(name)).messages
        require(isinstance(found.tool("a").status, Rejected), "the first decision holds")
        require(len(found.grants) == 0, "a rejected save stores no grant")


async def a_grant_is_revoked_during_a_run(stores: Stores) -> None:
    """During a run, a grant can be revoked. The run can then no longer approve or start a call under the grant."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused("a", "b", "c"))
        async with here.open(name) as run, there.open(name) as other:
            grant = _approve_with_grant(stores, run.messages, "a")
            await run.claim()
            _approve_under(run.messages, "b", grant)
            await run.write_tool(("b",), run.messages.tool("b"))
            run.messages.tool("a").start(stores.clock())
            await run.write_tool(("a",), run.messages.tool("a"))

            await other.save()
            other.messages.grants.revoke(grant.id, by="ben", at=stores.clock())
            await other.save()

            run.messages.tool("b").start(stores.clock())
            _approve_under(run.messages, "c", grant)
            for id, stored in (("b", Approved), ("c", Pending)):
                with refused(ConflictError, f"the call {id} cannot use a grant that was revoked"):
                    await run.write_tool((id,), run.messages.tool(id))
                require(isinstance(run.messages.tool(id).status, stored), "the run continues with the stored state")
            require(run.messages.grants[grant.id].revoked_by == "ben", "the run reads the revocation")
            run.messages.tool("a").complete("paid")
            await run.write_tool(("a",), run.messages.tool("a"))
            await run.release()
        found = (await here.load(name)).messages
        require(found.tool("a").resolved, "a call that had started when the grant was revoked keeps its result")
        require(not isinstance(found.tool("b").status, Running), "no call starts under a grant that was revoked")


async def the_first_of_two_revocations_is_recorded(stores: Stores) -> None:
    """Two processes can revoke one grant. The conversation records the first revocation, and neither call raises."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused("a"))
        async with here.open(name) as mine:
            grant = _approve_with_grant(stores, mine.messages, "a")
        async with here.open(name) as mine, there.open(name) as yours:
            mine.messages.grants.revoke(grant.id, by="ana", at=stores.clock())
            yours.messages.grants.revoke(grant.id, by="ben", at=stores.clock())
            await yours.save()
            await mine.save()
            require(mine.messages.grants[grant.id].revoked_by == "ben", "messages has the stored revocation")
        require((await here.load(name)).messages.grants[grant.id].revoked_by == "ben", "the first revocation holds")


async def a_revocation_does_not_make_a_conversation_due(stores: Stores) -> None:
    """Revoking a grant does not make a conversation due. Adding a grant does if the conversation has waiting calls."""
    async with stores.open() as here:
        name = await here.create(paused(call("a")))
        async with here.open(name) as conversation:
            grant = _approve_with_grant(stores, conversation.messages, "a")
        require([due.conversation for due in await here.due()] == [name], "an approved call makes the conversation due")
        async with here.open(name) as conversation:
            await conversation.claim()
            tool = conversation.messages.tool("a")
            tool.start(stores.clock())
            tool.complete("paid")
            await conversation.write_tool(("a",), tool)
            conversation.messages.append("model", answer())
            await conversation.write_turn((), "model", conversation.messages[-1].turns[-1])
            await conversation.release()
        require(await here.due() == [], "a conversation with an answer is not due")
        async with here.open(name) as conversation:
            conversation.messages.grants.revoke(grant.id, at=stores.clock())
        require(await here.due() == [], "a revocation makes no conversation due")


def _approve_with_grant(stores: Stores, messages: Messages, *path: str) -> Grant:
    return approve_with_grant(messages, path, until=stores.clock.after(days=1), by="ana", at=stores.clock())


def _approve_under(messages: Messages, id: str, grant: Grant) -> None:
    """Approve a call as a run does if a grant covers the call."""
    tool = messages.tool(id)
    tool.approve(by=grant.by, at=grant.at)
    *before, last = tool.decisions
    tool.decisions = (*before, replace(last, grant=grant.id))


SCENARIOS = (
    a_grant_is_stored_with_the_approval_that_gave_it,
    a_conflicting_approval_stores_no_grant,
    a_grant_is_revoked_during_a_run,
    the_first_of_two_revocations_is_recorded,
    a_revocation_does_not_make_a_conversation_due,
)
