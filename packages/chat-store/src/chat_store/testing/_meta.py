"""Conformance scenarios for `ConversationStore.meta()`, `conversations()`, `close()` and `reopen()`."""

from __future__ import annotations

from chat_core.errors import ConflictError, LeaseLostError, UsageError
from chat_core.messages import Messages

from chat_store.errors import ConversationClosedError, UnknownConversationError
from chat_store.jobs import Job
from chat_store.store import ConversationStore
from chat_store.testing._fixtures import Stores, answer, paused, refused, require


async def a_conversation_keeps_its_owner(stores: Stores) -> None:
    """The owner of a conversation is set when it is created, and never changes."""
    async with stores.open() as here, stores.open() as there:
        await here.create(paused("a"), id="1", person="ben", owner="ana")
        async with there.open("1", owner="eve", person="eve") as conversation:
            require(conversation.owner == "ana", "open() does not change the owner of a stored conversation")
            conversation.messages.tool("a").approve(by="eve")
        await there.assign("1", "carl")
        require((await here.load("1")).owner == "ana", "neither a decision nor assign() changes the owner")
        async with here.open("2", owner="ana") as conversation:
            require(conversation.owner == "ana", "open(owner=) sets the owner of a new conversation")
            conversation.messages.user("Hello.")
            await conversation.claim()
            await conversation.release()
        require((await there.meta("2")).owner == "ana", "open() stores the owner of a new conversation")
        require((await there.load(await here.create(paused("a")))).owner is None, "a conversation needs no owner")


async def a_conversation_is_described(stores: Stores) -> None:
    """`meta()` returns the owner, the person and the times of a conversation, and raises for an unknown id."""
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
        require(
            (meta.owner, meta.person, meta.state) == ("ana", "ben", "open"),
            f"meta() returns owner, person and state, not {meta}",
        )
        require(meta.created_at == created, f"the conversation was created at {created}, not {meta.created_at}")
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
        await _approve_call(here, "2")
        require(
            await _list_ids(there, owner="ana") == ["2", "4", "0"],
            "the most recently active conversation comes first",
        )
        require(await _list_ids(there) == ["2", "4", "3", "1", "0"], "without an owner, everything is listed")
        require(await _list_ids(there, owner="eve") == [], "a user without conversations has none")
        (first,) = await there.conversations(owner="ana", limit=1)
        rest = await there.conversations(owner="ana", after=first.cursor)
        require(
            [item.id for item in rest] == ["4", "0"], "conversations(after=) continues after the first conversation"
        )
        require(
            await there.conversations(owner="ana", after=rest[-1].cursor) == [],
            "conversations(after=) lists nothing after the last conversation",
        )
        for cursor in ("", "x", first.cursor + "x"):
            with refused(UsageError, "conversations(after=) rejects an invalid cursor"):
                await there.conversations(after=cursor)


async def conversations_are_counted_and_skipped(stores: Stores) -> None:
    """`count_conversations()` counts what `conversations()` lists, and `offset` skips the first conversations."""
    name = "6b1e0a4c-5d0f-4c39-9f0e-2a7d8f6b3c11"
    async with stores.open() as here, stores.open() as there:
        for id, owner in (("a", "ana"), (name, "ana"), (name[:-1], "ben"), (name.upper(), "ana")):
            await here.create(Messages(), id=id, owner=owner)
            stores.clock.advance(minutes=1)
        await here.close("a")
        counts = [
            await there.count_conversations(),
            await there.count_conversations(owner="ana"),
            await there.count_conversations(owner="ana", state="open"),
            await there.count_conversations(owner="ana", state="closed", uuid_only=True),
            await there.count_conversations(uuid_only=True),
        ]
        require(counts == [4, 3, 2, 0, 1], f"the filters select 4, 3, 2, 0 and 1 conversations, not {counts}")
        ids = [item.id for item in await there.conversations(uuid_only=True)]
        require(ids == [name], f"uuid_only selects ids in the form of a UUID, not {ids}")
        everything = [item.id for item in await there.conversations()]
        for offset, limit in ((0, 2), (1, 2), (3, 2), (4, 2)):
            page = [item.id for item in await there.conversations(offset=offset, limit=limit)]
            require(page == everything[offset : offset + limit], "offset skips the first conversations of the list")


async def a_description_is_changed_key_by_key(stores: Stores) -> None:
    """`apply(meta=)` changes the given keys, and two writers of different keys do not overwrite each other."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused("a"), owner="ana", meta={"title": "Parcel", "data": {"tag": "a", "n": 1}})
        await here.apply(name, meta={"data": {"n": 2}})
        await there.apply(name, meta={"flow": "support", "data": {"tag": None, "é": [1, {"x": None}]}})
        meta = await here.meta(name)
        require(
            (meta.owner, meta.title, meta.flow) == ("ana", "Parcel", "support"),
            f"keys that are not given do not change, not {meta}",
        )
        require(meta.data == {"n": 2, "é": [1, {"x": None}]}, f"the data is merged key by key, not {meta.data}")
        await there.apply(name, meta={"title": None})
        require((await here.meta(name)).title is None, "None removes the title")
        with refused(UnknownConversationError, "apply() needs a stored conversation"):
            await here.apply("2", meta={"title": "None"})


async def a_closed_conversation_is_only_read(stores: Stores) -> None:
    """A closed conversation is not due, and its calls do not wait. Runs, decisions and turns raise until `reopen()`."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused("a", "b"))
        async with there.open(name) as conversation:
            conversation.messages.tool("a").approve()
        await here.close(name, jobs=[Job("index", "1")])
        await there.close(name, jobs=[Job("index", "2")])
        require([job.key for job in await here.jobs()] == ["1"], "close() queues its jobs once")
        require(
            [item.id for item in await there.conversations(state="closed")] == [name],
            "the closed conversation is listed as closed",
        )
        require(await there.conversations(state="open") == [], "the closed conversation is not listed as open")
        require(
            await there.waiting() == [] and await there.due() == [],
            "a closed conversation has no waiting calls and is not due",
        )
        require((await there.meta(name)).closed_at == stores.clock(), "meta() returns the time of closing")
        snapshot = await there.load(name)
        snapshot.messages.tool("b").approve()
        with refused(ConversationClosedError, "a closed conversation is not decided"):
            await there.save(name, snapshot.messages, revision=snapshot.revision)
        async with there.open(name) as run:
            with refused(ConversationClosedError, "a closed conversation is not run"):
                await run.claim()
        await there.apply(name, meta={"title": "Archived"})
        await here.reopen(name)
        await here.reopen(name)
        require(
            [item.wait.tool_id for item in await there.waiting()] == ["b"],
            "the calls of a reopened conversation wait again",
        )
        require(
            [item.id for item in await there.conversations(state="open")] == [name],
            "a reopened conversation is listed as open",
        )
        with refused(UnknownConversationError, "close() needs a stored conversation"):
            await here.close("2")
        with refused(UnknownConversationError, "reopen() needs a stored conversation"):
            await here.reopen("2")


async def a_conversation_with_a_live_run_is_not_closed(stores: Stores) -> None:
    """A conversation with an active run is not closed. A dead run cannot write after closing."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(Messages.from_user("Hello."))
        with refused(LeaseLostError, "a run that died before the conversation was closed writes nothing"):
            async with here.open(name) as run:
                await run.claim()
                with refused(ConflictError, "a conversation with an active run is not closed"):
                    await there.close(name)
                stores.clock.advance(days=1)
                await there.close(name)
                turn = answer()
                run.messages.append("model", turn)
                await run.write_turn((), "model", turn)
        require(len((await there.load(name)).messages) == 1, "a closed conversation gets no turn")
        await there.reopen(name)
        require([item.conversation for item in await there.due()] == [name], "a reopened conversation is due again")


async def _approve_call(store: ConversationStore, name: str) -> None:
    async with store.open(name) as conversation:
        conversation.messages.tool("a").approve()


async def _list_ids(store: ConversationStore, *, owner: str | None = None) -> list[str]:
    return [item.id for item in await store.conversations(owner=owner)]


SCENARIOS = (
    a_conversation_keeps_its_owner,
    a_conversation_is_described,
    conversations_are_listed_by_owner,
    conversations_are_counted_and_skipped,
    a_description_is_changed_key_by_key,
    a_closed_conversation_is_only_read,
    a_conversation_with_a_live_run_is_not_closed,
)
