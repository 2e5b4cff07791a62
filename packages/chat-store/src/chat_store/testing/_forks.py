"""Conformance scenarios for forks: a new conversation that begins with the first turns of another conversation."""

from __future__ import annotations

from chat_core import ChatBuilder, FunctionCall, Messages, ToolCollection
from chat_core.errors import PendingToolsError, UsageError
from chat_core.messages import Completed, Text, Turn
from chat_core.testing import ScriptedProvider

from chat_store.errors import ConversationExistsError, UnknownConversationError
from chat_store.jobs import Job
from chat_store.meta import MetaChanges
from chat_store.testing._fixtures import Stores, answer, paused, refused, require


async def a_fork_begins_with_the_first_turns(stores: Stores) -> None:
    """`fork()` copies the first turns, the owner, the person, the description and the state, and nothing else."""
    async with stores.open() as here, stores.open() as there:
        messages = Messages(state={"step": 1}).user("One.")
        messages.append("model", answer())
        messages.user("Two.", state={"step": 2})
        meta: MetaChanges = {"title": "Parcel", "flow": "support", "data": {"tag": "a", "size": 1}}
        await here.create(messages, id="old", person="bo", owner="ana", meta=meta, jobs=[Job("index", "1")])
        await here.post("old", Turn([Text("Later.")]), key="1")
        before = (await there.load("old")).messages.to_json()
        name = await here.fork("old", 2, meta={"title": "Copy", "data": {"size": None}}, jobs=[Job("run", "2")])
        copy = await there.load(name)
        require([item.role for item in copy.messages] == ["user", "model"], "the copy has the first turns")
        require(
            copy.messages.state == {"step": 1}, f"the copy has the state after its last turn, not {copy.messages.state}"
        )
        require((copy.owner, copy.person) == ("ana", "bo"), "the copy has the owner and the person of the original")
        require(not copy.posted, "a posted turn is not copied")
        found = await there.meta(name)
        described = (found.title, found.flow, dict(found.data))
        require(described == ("Copy", "support", {"tag": "a"}), f"the copy keeps the description, not {found}")
        require([job.key for job in await there.jobs(conversation=name)] == ["2"], "the copy has its own jobs")
        require([item.event for item in await there.history(name)] == ["created"], "the copy has a history of its own")
        whole = await there.fork("old", new_id="whole")
        require(len((await here.load(whole)).messages) == 3, "without a number, all turns are copied")
        require((await here.load("old")).messages.to_json() == before, "the original does not change")
        with refused(ConversationExistsError, "a fork does not replace a stored conversation"):
            await there.fork("old", 1, new_id="whole")
        with refused(UsageError, "a fork has no more turns than the original"):
            await there.fork("old", 4)
        with refused(UnknownConversationError, "a conversation that is not stored has no fork"):
            await there.fork("unknown")


async def a_fork_has_no_call_that_can_still_run(stores: Stores) -> None:
    """`fork()` refuses turns with a call that has not ended, even if it was approved. Earlier turns can be copied."""
    async with stores.open() as here, stores.open() as there:
        await here.create(paused("a"), id="old")
        for step in ("waits", "was approved"):
            with refused(PendingToolsError, f"a call that {step} is not copied"):
                await there.fork("old", 2, new_id="new")
            snapshot = await here.load("old")
            if step == "waits":
                snapshot.messages.tool("a").approve()
                await here.save("old", snapshot.messages, revision=snapshot.revision)
        with refused(UnknownConversationError, "a refused fork stores nothing"):
            await there.load("new")
        name = await here.fork("old", 1)
        require(len((await there.load(name)).messages) == 1, "the turns before the call are copied")


async def a_call_in_a_fork_does_not_run_again(stores: Stores) -> None:
    """A run on a fork uses the results of its calls. A change of the fork does not change the original."""
    paid: list[int] = []
    tools = ToolCollection()

    @tools.tool()
    def pay(cents: int) -> str:
        """Pay."""
        paid.append(cents)
        return f"paid {cents}"

    model = ScriptedProvider(FunctionCall("pay", {"cents": 1}, id="pay"), "Done.", by_history=True)
    chat = ChatBuilder().with_model(model).with_tools(tools).build()
    async with stores.open() as here, stores.open() as there:
        async with here.open("old") as conversation:
            conversation.messages.user("Pay.")
            await chat.complete(conversation)
        before = (await there.load("old")).messages.to_json()
        require(
            [due.conversation for due in await there.due()] == [], "the original, which ends with an answer, is not due"
        )
        await there.fork("old", 2, new_id="new")
        require([due.conversation for due in await here.due()] == ["new"], "a fork after a result is due")
        async with here.open("new") as conversation:
            await chat.complete(conversation)
        copy = (await there.load("new")).messages
        require(isinstance(copy.tool("pay").status, Completed), "the call of the copy keeps its result")
        require(copy[-1].turns[-1].parts == (Text("Done."),), f"the run continues after the result, not with {copy}")
        require(paid == [1], f"the call ran once, not {len(paid)} times")
        require((await here.load("old")).messages.to_json() == before, "a run on the fork does not change the original")


SCENARIOS = (
    a_fork_begins_with_the_first_turns,
    a_fork_has_no_call_that_can_still_run,
    a_call_in_a_fork_does_not_run_again,
)
