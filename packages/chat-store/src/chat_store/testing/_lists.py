"""Conformance scenarios for `ConversationStore.waiting()` and `due()`."""

from __future__ import annotations

from dataclasses import replace

from chat_core.errors import UsageError
from chat_core.messages import FunctionCall, Messages, Tool
from chat_core.response import Wait, WaitKind
from chat_core.usage import Usage

from chat_store.store import ConversationStore
from chat_store.testing._fixtures import Stores, answer, call, paused, refused, require


async def a_waiting_call_is_listed_with_its_details(stores: Stores) -> None:
    """`waiting()` returns everything that an approver needs to decide a call, without the messages."""
    async with stores.open() as here, stores.open() as there:
        tomorrow, later = stores.clock.after(days=1), stores.clock.after(days=2)
        lost = call("lost")
        lost.approve()
        lost.start(stores.clock())
        lost.lost("nobody knows")
        messages = paused(call("asked", expires_at=tomorrow), call("planned", at=later), lost)
        name = await here.create(messages, person="ana", owner="bo")
        found = await there.waiting()
        require(
            [(item.conversation, item.person) for item in found] == [(name, "ana")] * 3,
            "each item has its conversation and person",
        )
        expected = [
            replace(wait, conversation=name, owner="bo")
            for wait in (
                Wait("approval", "asked", ("asked",), "pay", {"cents": 1}, expires_at=tomorrow),
                Wait("schedule", "planned", ("planned",), "pay", {"cents": 1}, at=later),
                Wait("interrupted", "lost", ("lost",), "pay", {"cents": 1}, error="nobody knows"),
            )
        ]
        waits = [item.wait for item in found]
        require(waits == expected, f"waiting() returns {expected}, not {waits}")


async def waiting_calls_are_found_by_person(stores: Stores) -> None:
    """`waiting(person=)` lists the calls in conversations that this person is in charge of now."""
    async with stores.open() as here:
        await here.create(paused("a"), id="1", person="ana")
        await here.create(paused("b"), id="2", person="ben")
        await here.create(paused("c"), id="3")
        require(
            await _waiting_ids(here, person="ana") == {"a"},
            "waiting(person=) lists the calls that this person is in charge of",
        )
        require(await _waiting_ids(here) == {"a", "b", "c"}, "waiting() without a person lists all calls")
        await here.assign("3", "ana")
        require(await _waiting_ids(here, person="ana") == {"a", "c"}, "assign() changes the person in charge")
        require((await here.load("3")).person == "ana", "load() returns the assigned person")
        async with here.open("4", person="ana") as conversation:
            conversation.messages.user("Pay.")
        require((await here.load("4")).person == "ana", "open(person=) sets the person in charge of a new conversation")


async def waiting_calls_are_found_by_time_and_kind(stores: Stores) -> None:
    """`waiting()` lists calls by deadline, earliest first, filters them by kind and time, and limits their number."""
    async with stores.open() as here:
        after = stores.clock.after
        await here.create(paused("never", call("later", expires_at=after(days=3))), id="1")
        await here.create(paused(call("planned", at=after(days=2)), call("soon", expires_at=after(days=1))), id="2")
        order = [item.wait.tool_id for item in await here.waiting()]
        require(
            order == ["soon", "planned", "later", "never"], f"waiting() lists the earliest deadline first, not {order}"
        )
        require(await _waiting_ids(here, kind="schedule") == {"planned"}, "waiting(kind=) lists the calls of this kind")
        soon = [item.wait.tool_id for item in await here.waiting(before=after(days=2))]
        require(soon == ["soon"], "waiting(before=) lists the calls before this time, without the call at this time")
        two = [item.wait.tool_id for item in await here.waiting(limit=2)]
        require(two == ["soon", "planned"], "waiting(limit=) lists the first calls")


async def the_lists_are_read_in_pages(stores: Stores) -> None:
    """`waiting(after=)` and `due(after=)` continue after a listed item, even if it is no longer in the list."""
    async with stores.open() as here, stores.open() as there:
        soon, later = stores.clock.after(hours=1), stores.clock.after(hours=2)
        await here.create(paused("c", "d", call("b", expires_at=later)), id="1")
        await here.create(paused(call("a", expires_at=soon), "e"), id="2")
        everything = [item.wait.tool_id for item in await there.waiting()]
        require(everything[:2] == ["a", "b"], "waiting() lists the earliest deadline first")
        found: list[str] = []
        cursor: str | None = None
        while page := await there.waiting(limit=2, after=cursor):
            found += [item.wait.tool_id for item in page]
            require(len(found) <= len(everything), "waiting(after=) lists nothing twice")
            cursor = page[-1].cursor
            async with here.open(page[-1].conversation) as conversation:
                conversation.messages.tool(*page[-1].wait.path).reject("no")
        require(found == everything, f"the pages of waiting() are the whole list {everything}, not {found}")
        stores.clock.advance(hours=3)
        due = await _list_due_ids(there)
        require(len(due) == 2, "both conversations are due")
        (first,) = await there.due(limit=1)
        (second,) = await there.due(limit=1, after=first.cursor)
        require([first.conversation, second.conversation] == due, "due(after=) continues after the first conversation")
        require(await there.due(after=second.cursor) == [], "due(after=) lists nothing after the last conversation")
        for cursor in ("", "x", first.cursor + "x"):
            with refused(UsageError, "waiting(after=) rejects an invalid cursor"):
                await there.waiting(after=cursor)
            with refused(UsageError, "due(after=) rejects an invalid cursor"):
                await there.due(after=cursor)


async def a_decided_call_is_not_listed_as_waiting(stores: Stores) -> None:
    """A call that a user approved or rejected, or that a policy refused, is no longer listed as waiting."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused("a", "b", "c"))
        async with here.open(name) as conversation:
            conversation.messages.tool("a").approve()
            conversation.messages.tool("b").reject("no")
        require(await _waiting_ids(there) == {"c"}, "approved and rejected calls are not listed as waiting")
        async with there.open(name) as conversation:
            await conversation.claim()
            tool = conversation.messages.tool("c")
            tool.refuse("too late", "expiry")
            await conversation.write_tool((tool.id,), tool)
            require(await _waiting_ids(here) == set(), "a call that a policy rejected is not listed as waiting")


async def an_inner_waiting_call_is_listed_with_its_path(stores: Stores) -> None:
    """`waiting()` lists a call inside a nested chat with its path, and the path selects it for a decision."""
    async with stores.open() as here, stores.open() as there:
        outer = Tool(FunctionCall("agent", {"request": "Pay."}), id="outer")
        outer.start(stores.clock())
        outer.suspend(paused("inner", "other"))
        name = await here.create(paused(outer))
        paths = [item.wait.path for item in await there.waiting()]
        require(
            paths == [("outer", "inner"), ("outer", "other")],
            f"waiting() returns the paths of inner calls, not {paths}",
        )
        async with there.open(name) as conversation:
            conversation.messages.tool("outer", "inner").reject("no")
        require(await _waiting_ids(here) == {"other"}, "a decided inner call is not listed as waiting")
        async with here.open(name) as conversation:
            conversation.messages.tool("outer", "other").approve()
        read = (await there.load(name)).messages
        require(read.tool("outer", "inner").failed, "decisions about inner calls are merged")


async def a_reached_time_makes_a_conversation_due(stores: Stores) -> None:
    """A conversation becomes due at a scheduled time, at an approval's expiry, or at an interrupted call's deadline."""
    async with stores.open() as here:
        lost = call("lost")
        lost.approve()
        lost.start(stores.clock())
        lost.lost("nobody knows")
        lost.await_outcome(at=stores.clock.after(hours=3))
        await here.create(paused(lost), id="lost")
        await here.create(paused(call("planned", at=stores.clock.after(hours=1)), "open"), id="planned")
        await here.create(paused(call("asked", expires_at=stores.clock.after(hours=2))), id="asked")
        await here.create(paused("forever"), id="forever")
        require(await _list_due_ids(here) == [], "no conversation is due before its time")
        stores.clock.advance(hours=1)
        require(await _list_due_ids(here) == ["planned"], "a schedule is due when its time has come")
        stores.clock.advance(hours=1)
        require(await _list_due_ids(here) == ["planned", "asked"], "an approval is due when it has expired")
        stores.clock.advance(hours=1)
        require(await _list_due_ids(here) == ["planned", "asked", "lost"], "an interrupted call is due at its deadline")


async def a_decision_makes_a_conversation_due(stores: Stores) -> None:
    """`due()` lists conversations with a new decision or an unanswered user turn."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused("a", "b"), person="ana")
        async with here.open(name) as conversation:
            conversation.messages.tool("a").approve()
        require(await _list_due_ids(there) == [name], "a conversation with a new decision is due")
        require(
            [item.person for item in await there.due(person="ana")] == ["ana"],
            "due(person=) lists the conversation of this person",
        )
        require(await there.due(person="ben") == [], "due(person=) omits the conversations of others")
        await _finish(there, name)
        require(await _list_due_ids(there) == [], "a conversation is not due after a run has continued it")
        await here.create(Messages.from_user("Hello."), id="hello")
        require(await _list_due_ids(there) == ["hello"], "a conversation without an answer is due")


async def a_dead_run_makes_a_conversation_due(stores: Stores) -> None:
    """A conversation whose run died is due when the lease expires, but not while a run is active."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(Messages.from_user("Pay."))
        async with here.open(name) as run:
            await run.claim()
            require(await _list_due_ids(there) == [], "a conversation with an active run is not due")
            stores.clock.advance(days=1)
            require(
                await _list_due_ids(there) == [name], "a conversation with a dead run is due when the lease has expired"
            )


async def an_answered_conversation_is_not_due(stores: Stores) -> None:
    """A conversation with a final model turn is not due."""
    async with stores.open() as here, stores.open() as there, here.open("chat") as run:
        run.messages.user("Hello.")
        await run.claim()
        turn = answer()
        run.messages.append("model", turn)
        await run.write_turn((), "model", turn)
        await run.release()
        require(await _list_due_ids(there) == [], "an answered conversation is not due")


async def a_conversation_with_a_delivered_answer_is_not_due(stores: Stores) -> None:
    """A conversation whose answer is marked as delivered is never due, even if the process of the run dies."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(Messages.from_user("Hello."))
        async with here.open(name) as run:
            await run.claim()
            turn = answer()
            run.messages.append("model", turn)
            await run.write_turn((), "model", turn)
            turn.delivered = True
            turn.failed_usage = Usage(3, 4)
            await run.write_marks()
            await run.renew()
            stores.clock.advance(days=1)
            require(
                await _list_due_ids(there) == [], "a conversation with a delivered answer is not due after its run died"
            )
            async with there.open(name) as other:
                last = other.messages[-1].turns[-1]
                require(last.delivered and last.failed_usage == Usage(3, 4), "the marks of a turn are durable")
                await other.claim()
                stores.clock.advance(days=1)
                require(
                    await _list_due_ids(here) == [],
                    "opening a conversation with a delivered answer does not make it due",
                )
                await other.release()
            snapshot = await there.load(name)
            require(snapshot.messages[-1].turns[-1].delivered, "load() returns the marks of a turn")
            snapshot.messages.user("And now?")
            await there.save(name, snapshot.messages, revision=snapshot.revision)
            require(await _list_due_ids(here) == [name], "a turn after a delivered answer makes the conversation due")


async def a_decision_that_a_run_missed_makes_a_conversation_due(stores: Stores) -> None:
    """A decision made between the last write of a run and its release makes the conversation due."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused("a", "b"))
        async with here.open(name) as run:
            await run.claim()
            async with there.open(name) as person:
                person.messages.tool("a").approve()
            await run.release()
        require(
            await _list_due_ids(there) == [name],
            "a decision that was stored as the run ended makes the conversation due",
        )


async def a_conversation_that_no_run_can_continue_is_not_due(stores: Stores) -> None:
    """After a run has done all that it can, a conversation is due again only after a change or at a later deadline."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused("a"))
        async with there.open(name) as person:
            person.messages.tool("a").approve(arguments={"cents": 2})
        await _stall_run(stores, here, name)
        require(await _list_due_ids(there) == [], "a conversation that no run can continue is not due")
        stores.clock.advance(hours=1)
        require(await _list_due_ids(there) == [], "the conversation is not due before a deadline")
        async with there.open(name) as person:
            person.messages.tool("a").reject()
        require(
            await _list_due_ids(there) == [name],
            "a decision makes a conversation due after a run that could not continue",
        )
        other = await here.create(paused(call("c", expires_at=stores.clock.after(days=1))))
        await _stall_run(stores, here, other)
        stores.clock.advance(days=1)
        require(
            other in await _list_due_ids(there),
            "a deadline makes a conversation due after a run that could not continue",
        )


async def _stall_run(stores: Stores, store: ConversationStore, name: str) -> None:
    async with store.open(name) as run:
        await run.claim()
        await run.release(looked_at=stores.clock())


async def _waiting_ids(
    store: ConversationStore, *, person: str | None = None, kind: WaitKind | None = None
) -> set[str]:
    return {item.wait.tool_id for item in await store.waiting(person=person, kind=kind)}


async def _list_due_ids(store: ConversationStore) -> list[str]:
    return [item.conversation for item in await store.due()]


async def _finish(store: ConversationStore, name: str) -> None:
    """Run the approved calls of a conversation, and release it again."""
    async with store.open(name) as run:
        await run.claim()
        for tool in run.messages.pending():
            if type(tool.status).__name__ == "Approved":
                tool.start()
                await run.write_tool((tool.id,), tool)
                tool.complete("paid")
                await run.write_tool((tool.id,), tool)
        await run.release()


SCENARIOS = (
    a_waiting_call_is_listed_with_its_details,
    waiting_calls_are_found_by_person,
    waiting_calls_are_found_by_time_and_kind,
    the_lists_are_read_in_pages,
    a_decided_call_is_not_listed_as_waiting,
    an_inner_waiting_call_is_listed_with_its_path,
    a_reached_time_makes_a_conversation_due,
    a_decision_makes_a_conversation_due,
    a_dead_run_makes_a_conversation_due,
    an_answered_conversation_is_not_due,
    a_conversation_with_a_delivered_answer_is_not_due,
    a_decision_that_a_run_missed_makes_a_conversation_due,
    a_conversation_that_no_run_can_continue_is_not_due,
)
