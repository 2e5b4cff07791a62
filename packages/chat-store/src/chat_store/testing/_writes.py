"""Conformance scenarios for durability: every store reads what another store has written."""

from __future__ import annotations

from chat_core.messages import Approved, Completed, Messages, Running

from chat_store.errors import ConversationExistsError, UnknownConversationError
from chat_store.testing._fixtures import Stores, answer, paused, refused, require


async def a_created_conversation_is_read_by_other_stores(stores: Stores) -> None:
    """Another store reads the messages, the id and the person that were passed to `create()`."""
    async with stores.open() as here, stores.open() as there:
        messages = paused("a", "b")
        name = await here.create(messages, person="ana")
        found = await there.load(name)
        require(found.messages == messages, "load() returns the messages that create() stored")
        require((found.id, found.person) == (name, "ana"), "load() returns the id and the person in charge")


async def turns_and_decisions_of_a_block_are_stored(stores: Stores) -> None:
    """Exiting the block of `open()` saves turns and decisions."""
    async with stores.open() as here, stores.open() as there:
        async with here.open("chat") as conversation:
            conversation.messages.user("Pay.")
        require(len((await there.load("chat")).messages) == 1, "exiting the open() block stores the turns added in it")
        name = await here.create(paused("a"))
        async with here.open(name) as conversation:
            conversation.messages.tool("a").approve(by="ana", arguments={"cents": 2})
        tool = (await there.load(name)).messages.tool("a")
        require(isinstance(tool.status, Approved), "exiting the open() block stores the decisions made in it")
        require(tool.edited == {"cents": 2}, "an approval is stored with the arguments of the approver")


async def a_block_that_raises_saves_nothing(stores: Stores) -> None:
    """An error in the block of `open()` propagates, and nothing is saved."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused("a"))
        with refused(ZeroDivisionError, "open() does not swallow errors"):
            async with here.open(name) as conversation:
                conversation.messages.tool("a").approve()
                raise ZeroDivisionError
        tool = (await there.load(name)).messages.tool("a")
        require(not isinstance(tool.status, Approved), "exiting the open() block with an error saves nothing")


async def a_conversation_that_is_not_stored_is_unknown(stores: Stores) -> None:
    """Opening a conversation does not store it. Other methods reject unknown ids."""
    async with stores.open() as here:
        async with here.open("nobody"):
            pass
        with refused(UnknownConversationError, "a conversation that was only opened is not stored"):
            await here.load("nobody")
        with refused(UnknownConversationError, "assign() rejects an unknown id"):
            await here.assign("nobody", "ana")
        with refused(UnknownConversationError, "history() rejects an unknown id"):
            await here.history("nobody")


async def the_id_of_a_conversation_is_unique(stores: Stores) -> None:
    """`create()` rejects an existing id, and accepts any text as an id."""
    async with stores.open() as here:
        names = ("17", "a", "A", "a ", "a/b?c", "Grüße an 東京 🌸", "'; DROP TABLE x; --", " ")
        for name in names:
            await here.create(paused(f"call of {name}"), id=name)
        for name in names:
            with refused(ConversationExistsError, f"create() rejects the id {name!r} if it is stored already"):
                await here.create(Messages.from_user("Again."), id=name)
            (tool,) = (await here.load(name)).messages.pending()
            require(tool.id == f"call of {name}", f"the conversation {name!r} is separate and unchanged")


async def a_deleted_conversation_is_gone(stores: Stores) -> None:
    """`delete()` removes a conversation, its history and its waiting calls."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused("a"))
        await there.delete(name)
        with refused(UnknownConversationError, "load() rejects a deleted conversation"):
            await here.load(name)
        require(await here.waiting() == [], "a deleted conversation has no waiting calls")
        with refused(UnknownConversationError, "delete() rejects an unknown id"):
            await here.delete(name)


async def a_turn_is_durable_when_write_turn_returns(stores: Stores) -> None:
    """Other stores can read a turn as soon as `write_turn()` returns."""
    async with stores.open() as here, stores.open() as there, here.open("chat") as conversation:
        conversation.messages.user("Pay.")
        await conversation.claim()
        require(len((await there.load("chat")).messages) == 1, "claim() stores the turns added before")
        turn = answer()
        conversation.messages.append("model", turn)
        await conversation.write_turn((), "model", turn)
        read = (await there.load("chat")).messages
        require(read.last is not None and read.last.turns == [turn], "write_turn() is durable when it returns")


async def a_call_is_durable_when_write_tool_returns(stores: Stores) -> None:
    """Other stores can read each state of a call, with its idempotency key, as soon as `write_tool()` returns."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused("a", "b"))
        async with here.open(name) as conversation:
            await conversation.claim()
            tool = conversation.messages.tool("a")
            tool.approve()
            tool.start(stores.clock())
            await conversation.write_tool((tool.id,), tool)
            read = (await there.load(name)).messages.tool("a")
            require(isinstance(read.status, Running), "Running is durable when write_tool() returns")
            require(read == tool, "the attempt and the idempotency key of a call are stored with it")
            tool.complete("paid")
            await conversation.write_tool((tool.id,), tool)
            read = (await there.load(name)).messages.tool("a")
            require(read.status == Completed("paid"), "a result is durable when write_tool() returns")


async def the_revision_counts_durable_changes(stores: Stores) -> None:
    """The revision grows with every stored change, but not with reads or claims."""
    async with stores.open() as here:
        name = await here.create(paused("a", "b"))
        first = (await here.load(name)).revision
        async with here.open(name) as conversation:
            require(conversation.revision == first, "open() has the same revision as load()")
            await conversation.claim()
            require((await here.load(name)).revision == first, "claim() does not change the revision")
            tool = conversation.messages.tool("a")
            tool.reject("no")
            await conversation.write_tool((tool.id,), tool)
            second = conversation.revision
            require(second > first, "the revision grows with every durable change")
            require((await here.load(name)).revision == second, "another store reads the same revision")


SCENARIOS = (
    a_created_conversation_is_read_by_other_stores,
    turns_and_decisions_of_a_block_are_stored,
    a_block_that_raises_saves_nothing,
    a_conversation_that_is_not_stored_is_unknown,
    the_id_of_a_conversation_is_unique,
    a_deleted_conversation_is_gone,
    a_turn_is_durable_when_write_turn_returns,
    a_call_is_durable_when_write_tool_returns,
    the_revision_counts_durable_changes,
)
