"""Scenarios of `meta()` and `conversations()`."""

from __future__ import annotations

from chat_core.errors import UsageError
from chat_core.messages import Messages

from chat_store.errors import UnknownConversationError
from chat_store.meta import ConversationState
from chat_store.store import ConversationStore
from chat_store.testing._fixtures import Stores, answer, paused, refused, require


async def a_conversation_keeps_its_owner(stores: Stores) -> None:
    """The owner is given when the conversation is created, and nothing changes it."""
    async with stores.open() as here, stores.open() as there:
        await here.create(paused("a"), id="1", person="ben", owner="ana")
        async with there.open("1", owner="eve", person="eve") as conversation:
            require(conversation.owner == "ana", "open() does not change the owner of a stored conversation")
            conversation.messages.tool("a").approve(by="eve")
        await there.assign("1", "carl")
        require((await here.load("1")).owner == "ana", "neither a decision nor assign() changes the owner")
        async with here.open("2", owner="ana") as conversation:
            require(conversation.owner == "ana", "open() says whose a new conversation is")
            conversation.messages.user("Hello.")
            await conversation.claim()
            await conversation.release()
        require((await there.meta("2")).owner == "ana", "open() stores the owner of a new conversation")
        require((await there.load(await here.create(paused("a")))).owner is None, "a conversation needs no owner")


async def a_conversation_is_described(stores: Stores) -> None:
    """`meta()` returns the owner, the person and the times of a conversation, and raises for an unknown one."""
    async with stores.open() as here, stores.open() as there:
        created = stores.clock()
        await here.create(Messages.from_user("Hello."), id="1", person="ben", owner="ana")
        stores.clock.advance(hours=1)
        async with here.open("1") as run:
            await run.claim()
            turn = answer()
            run.messages.append("model", turn)
            await run.write_turn((), "model", turn)
            stores.clock.advance(hours=1)
            await run.renew()
            await run.release()
        meta = await there.meta("1")
        require((meta.owner, meta.person, meta.state) == ("ana", "ben", "open"), f"meta() describes it, not {meta}")
        require(meta.created_at == created, f"it was created at {created}, not {meta.created_at}")
        active = stores.clock.after(hours=-1)
        require(meta.last_active == active, f"the last turn was stored at {active}, not {meta.last_active}")
        with refused(UnknownConversationError, "meta() needs a stored conversation"):
            await there.meta("2")


async def conversations_are_listed_by_owner(stores: Stores) -> None:
    """`conversations()` lists the conversations of an owner, most recently active first, in pages."""
    async with stores.open() as here, stores.open() as there:
        for number, owner in enumerate(["ana", "ben", "ana", None, "ana"]):
            await here.create(paused("a"), id=str(number), owner=owner)
            stores.clock.advance(minutes=1)
        await _touch(here, "2")
        require(await _listed(there, owner="ana") == ["2", "4", "0"], "what was active last comes first")
        require(await _listed(there) == ["2", "4", "3", "1", "0"], "without an owner, everything is listed")
        require(await _listed(there, owner="eve") == [], "a user without conversations has none")
        (first,) = await there.conversations(owner="ana", limit=1)
        rest = await there.conversations(owner="ana", after=first.cursor)
        require([item.id for item in rest] == ["4", "0"], "conversations(after=) continues behind the first one")
        require(await there.conversations(owner="ana", after=rest[-1].cursor) == [], "nothing is behind the last one")
        for cursor in ("", "x", first.cursor + "x"):
            with refused(UsageError, "conversations(after=) refuses what is not a cursor of it"):
                await there.conversations(after=cursor)


async def _touch(store: ConversationStore, name: str) -> None:
    async with store.open(name) as conversation:
        conversation.messages.tool("a").approve()


async def _listed(
    store: ConversationStore, *, owner: str | None = None, state: ConversationState | None = None
) -> list[str]:
    return [item.id for item in await store.conversations(owner=owner, state=state)]


SCENARIOS = (
    a_conversation_keeps_its_owner,
    a_conversation_is_described,
    conversations_are_listed_by_owner,
)
