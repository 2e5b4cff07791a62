"""Conformance scenarios for posted turns, which a run appends in order, each once, as soon as no call waits."""

from __future__ import annotations

from chat_core.errors import LeaseLostError, UsageError
from chat_core.messages import FunctionCall, Messages, Summary, Text, Tool, Turn

from chat_store.errors import ConversationClosedError, UnknownConversationError
from chat_store.store import ConversationStore, OpenConversation
from chat_store.testing._fixtures import Stores, answer, paused, refused, require


async def posted_turns_are_applied_once_and_in_order(stores: Stores) -> None:
    """A run appends the turns that are posted during the run, each once and in the order in which they were posted."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(Messages.from_user("One."))
        async with here.open(name) as run:
            await run.claim()
            require(await there.post(name, _user_turn("Two."), key="2"), "a turn is posted during a run")
            require(await here.post(name, _user_turn("Three."), key="3"), "another turn is posted during a run")
            require(
                not await there.post(name, _user_turn("Again."), key="2"), "a second post with the same key is ignored"
            )
            require(list((await there.load(name)).posted) == ["2", "3"], "load() returns the posted turns")
            require(await run.apply_posts() == 2, "the run appends both turns")
            require(_message_texts(run.messages) == ["One.", "Two.", "Three."], "the turns are appended in order")
            require(await run.apply_posts() == 0, "a turn is appended once")
            require(
                not await there.post(name, _user_turn("Again."), key="2"),
                "a key cannot be used again after its turn was appended",
            )
            await _append_answer(run)
            await run.release()
        snapshot = await there.load(name)
        require(
            _message_texts(snapshot.messages) == ["One.", "Two.", "Three.", "Done."], "the appended turns are stored"
        )
        require(
            not snapshot.posted and await _list_due_ids(there) == [],
            "no posted turn is left, and the conversation is not due",
        )


async def a_posted_turn_makes_a_conversation_due(stores: Stores) -> None:
    """A posted turn makes a conversation due, unless a call waits. A turn posted by the engine does not."""
    async with stores.open() as here, stores.open() as there:
        idle = await here.create(Messages.from_user("One."))
        await _finish(here, idle)
        await here.post(idle, Turn([Text("A result.")], by="engine"), key="engine")
        require(await _list_due_ids(there) == [], "a turn of the engine does not make a conversation due")
        await here.post(idle, _user_turn("Two."), key="2")
        require(await _list_due_ids(there) == [idle], "a posted turn makes an answered conversation due")
        await _finish(there, idle)
        require(await _list_due_ids(there) == [], "the conversation is not due after a run appended the turn")
        waiting = await here.create(paused("a"))
        await here.post(waiting, _user_turn("And?"), key="1")
        require(await _list_due_ids(there) == [], "a posted turn does not make the conversation due while a call waits")
        async with there.open(waiting) as conversation:
            conversation.messages.tool("a").reject("no")
        require(await _list_due_ids(there) == [waiting], "the decision makes the conversation due")


async def a_turn_posted_at_the_end_of_a_run_makes_a_conversation_due(stores: Stores) -> None:
    """A posted turn that a run did not append makes the conversation due, even if the run has read the turn."""
    async with stores.open() as here, stores.open() as there:
        for name, renews in (("unread", False), ("read", True)):
            await here.create(Messages.from_user("One."), id=name)
            async with here.open(name) as run:
                await run.claim()
                await _append_answer(run)
                await there.post(name, _user_turn("Two."), key="2")
                if renews:
                    await run.renew()
                await run.release(looked_at=stores.clock())
            require(name in await _list_due_ids(there), "a turn posted at the end of a run makes the conversation due")


async def a_posted_turn_after_a_delivered_answer_outlives_a_dead_run(stores: Stores) -> None:
    """A posted turn makes a conversation with a delivered answer due, even if the process of a run dies."""
    async with stores.open() as here, stores.open() as there:
        for name, posts_first in (("before", True), ("after", False)):
            await here.create(Messages.from_user("One."), id=name)
            async with here.open(name) as run:
                await run.claim()
                await _append_answer(run)
                if posts_first:
                    await there.post(name, _user_turn("Two."), key="2")
                run.messages[-1].turns[-1].delivered = True
                await run.write_marks()
                stores.clock.advance(days=1)
                if not posts_first:
                    require(
                        await _list_due_ids(there) == ["before"], "a conversation with a delivered answer is not due"
                    )
                    await there.post(name, _user_turn("Two."), key="2")
                require(
                    name in await _list_due_ids(there), "a posted turn makes the conversation due after its run died"
                )
                async with there.open(name) as other:
                    await other.claim()
                    require(name not in await _list_due_ids(here), "a conversation with an active run is not due")
                    stores.clock.advance(days=1)
                    require(
                        name in await _list_due_ids(here),
                        "the conversation is due if the next run died before it appended the turn",
                    )


async def a_run_that_lost_its_lease_appends_no_post(stores: Stores) -> None:
    """A run that lost its lease does not append posted turns. The run that took over appends them."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(Messages.from_user("One."))
        async with here.open(name) as run, there.open(name) as other:
            await run.claim()
            stores.clock.advance(days=1)
            await other.claim()
            await there.post(name, _user_turn("Two."), key="2")
            with refused(LeaseLostError, "apply_posts() raises in a run that lost its lease"):
                await run.apply_posts()
            require(await other.apply_posts() == 1, "the run that took over appends the turn")
            await other.release()
        require(_message_texts((await there.load(name)).messages) == ["One.", "Two."], "the turn is appended once")


async def a_turn_that_cannot_be_posted_is_refused(stores: Stores) -> None:
    """`post()` needs a stored, open conversation, a key, and a turn without calls."""
    async with stores.open() as here:
        name = await here.create(Messages.from_user("One."))
        with refused(UnknownConversationError, "post() needs a stored conversation"):
            await here.post("2", _user_turn("Two."), key="2")
        with refused(UsageError, "post() needs a key"):
            await here.post(name, _user_turn("Two."), key="")
        with refused(UsageError, "a posted turn has no calls"):
            await here.post(name, Turn([Tool(FunctionCall("pay", {}))]), key="2")
        await here.close(name)
        with refused(ConversationClosedError, "nothing is posted to a closed conversation"):
            await here.post(name, _user_turn("Two."), key="2")


async def a_summary_does_not_make_a_conversation_due(stores: Stores) -> None:
    """A summary written by the engine does not change whether a conversation needs a response from the model."""
    async with stores.open() as here, stores.open() as there:
        for name, is_answered in (("answered", True), ("unanswered", False)):
            await here.create(Messages.from_user("One."), id=name)
            async with here.open(name) as run:
                await run.claim()
                if is_answered:
                    await _append_answer(run)
                turn = Turn([Summary("A summary.", 1, "")], by="engine")
                run.messages.append("user", turn)
                await run.write_turn((), "user", turn)
                await run.release()
        require(await _list_due_ids(there) == ["unanswered"], "a summary needs no response")


def _user_turn(text: str) -> Turn:
    return Turn([Text(text)])


def _message_texts(messages: Messages) -> list[str]:
    return [part.text for content in messages for part in content.parts if isinstance(part, Text)]


async def _append_answer(run: OpenConversation) -> None:
    turn = answer()
    run.messages.append("model", turn)
    await run.write_turn((), "model", turn)


async def _finish(store: ConversationStore, name: str) -> None:
    """Run a conversation: append its posted turns and an answer."""
    async with store.open(name) as run:
        await run.claim()
        await run.apply_posts()
        await _append_answer(run)
        await run.release()


async def _list_due_ids(store: ConversationStore) -> list[str]:
    return [item.conversation for item in await store.due()]


SCENARIOS = (
    posted_turns_are_applied_once_and_in_order,
    a_posted_turn_makes_a_conversation_due,
    a_turn_posted_at_the_end_of_a_run_makes_a_conversation_due,
    a_posted_turn_after_a_delivered_answer_outlives_a_dead_run,
    a_run_that_lost_its_lease_appends_no_post,
    a_turn_that_cannot_be_posted_is_refused,
    a_summary_does_not_make_a_conversation_due,
)
