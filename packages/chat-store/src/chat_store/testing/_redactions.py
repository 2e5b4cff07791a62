"""Conformance scenarios for redactions: content that is removed from a stored conversation for good."""

from __future__ import annotations

from chat_core import ChatBuilder, FunctionCall, Messages
from chat_core.errors import ChatError, ConflictError, UsageError
from chat_core.messages import Text, Tool, Turn
from chat_core.testing import ScriptedProvider

from chat_store.errors import UnknownConversationError
from chat_store.jobs import Job
from chat_store.store import ConversationStore
from chat_store.testing._fixtures import Stores, answer, call, paused, refused, require

_CARD = "4711 0815 1234"
_WHY = "request of the customer"


async def a_redacted_turn_is_gone(stores: Stores) -> None:
    """`redact()` removes a text from turns, summaries, description and jobs, and records who did it, when and why."""
    async with stores.open() as here, stores.open() as there:
        name = await _create_conversation(here)
        before = await there.load(name)
        stores.clock.advance(hours=1)
        await here.redact(name, 0, by="dpo", reason=_WHY)
        after = await there.load(name)
        require(_CARD not in after.messages.to_json(), "the text is gone from the messages and their summaries")
        require(after.messages[0].text == "[redacted]", f"[redacted] replaces the text, not {after.messages[0]}")
        require(after.messages[1].text == "Noted.", "other turns are not changed")
        require(after.messages.view().turns[0][1].parts == (Text("[redacted]"),), "the old summary has no effect")
        require((after.revision, after.owner) == (before.revision, "ana"), "the revision and the owner are not changed")
        meta = await there.meta(name)
        require(
            (meta.title, dict(meta.data)) == ("[redacted]", {"tag": "card", "note": "[redacted]"}),
            f"the text is gone from the title and the data, not {meta}",
        )
        (job,) = await there.jobs(conversation=name)
        require(
            job.payload == {"text": ["[redacted]"], "size": 1}, f"the text is gone from its jobs, not {job.payload}"
        )
        events = await there.history(name)
        require(
            [item.event for item in events] == ["created", "redacted"],
            f"the history begins with the redacted state, not {events}",
        )
        found = (events[1].target, events[1].by, events[1].reason, events[1].at)
        require(found == (0, "dpo", _WHY, stores.clock.time), f"the redaction is recorded, not {found}")
        await here.redact(name, 1, by="dpo", reason="again")
        records = [item.target for item in await there.history(name) if item.event == "redacted"]
        require(records == [0, 1], f"the history keeps earlier redactions, not {records}")


async def a_redacted_call_is_gone(stores: Stores) -> None:
    """`redact()` removes the arguments, the result and the notes about a call, and no other call."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused(call("a"), _create_waiting_call("b")))
        snapshot = await here.load(name)
        snapshot.messages.tool("b").approve(by="bo", note=f"card {_CARD}", arguments={"card": f"{_CARD} 5"})
        await here.save(name, snapshot.messages, revision=snapshot.revision)
        with refused(ConflictError, "a call that has not ended is not redacted"):
            await there.redact(name, "b", by="dpo", reason=_WHY)
        with refused(ConflictError, "a turn with a call that waits is not redacted"):
            await there.redact(name, 1, by="dpo", reason=_WHY)
        snapshot = await here.load(name)
        snapshot.messages.tool("b").fail(f"card {_CARD} was refused")
        await here.save(name, snapshot.messages, revision=snapshot.revision)
        await there.redact(name, "b", by="dpo", reason=_WHY)
        messages = (await here.load(name)).messages
        require(_CARD not in messages.to_json(), "the content of the call is gone")
        require([item.by for item in messages.tool("b").decisions] == ["bo"], "the name of the approver is kept")
        require(messages.tool("a").call.arguments == {"cents": 1}, "another call keeps its arguments")
        require([item.wait.path for item in await there.waiting()] == [("a",)], "another call still waits")


async def a_redacted_post_is_gone(stores: Stores) -> None:
    """`redact()` removes a posted turn that no run has appended yet. A run appends the text that replaces it."""
    text = f"My card is {_CARD}."
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused(call("a")))
        await here.post(name, Turn([Text(text)], state={"card": _CARD}), key="1")
        await here.post(name, Turn([Text("Other.")]), key="2")
        await here.apply(name, meta={"title": text}, jobs=[Job("index", "1", {"text": text})])
        await there.redact(name, "1", by="dpo", reason=_WHY)
        posted = (await there.load(name)).posted
        found = {key: (turn.text, turn.state) for key, turn in posted.items()}
        require(found == {"1": ("[redacted]", None), "2": ("Other.", None)}, f"only one post is redacted, not {found}")
        require((await here.meta(name)).title == "[redacted]", "the text is gone from the title")
        require(
            (await here.jobs(conversation=name))[0].payload == {"text": "[redacted]"}, "the text is gone from the job"
        )
        events = await here.history(name)
        require((events[-1].event, events[-1].target) == ("redacted", "1"), f"the redaction is recorded, not {events}")
        require(not await here.post(name, Turn([Text(text)]), key="1"), "a second post with the key is ignored")
        async with there.open(name) as conversation:
            conversation.messages.tool("a").reject("no")
        async with there.open(name) as conversation:
            await conversation.claim()
            require(await conversation.apply_posts() == 2, "a run appends both turns")
        messages = (await here.load(name)).messages
        require(
            [turn.text for turn in messages[-1].turns] == ["[redacted]", "Other."],
            f"[redacted] replaces the posted text, not {messages[-1]}",
        )


async def a_redacted_conversation_resumes(stores: Stores) -> None:
    """A chat continues a redacted conversation. An object that had it open cannot write the content again."""
    model = ScriptedProvider("Noted.", "Done.", by_history=True)
    chat = ChatBuilder().with_model(model).build()
    async with stores.open() as here, stores.open() as there:
        name = await _create_conversation(here)
        with refused(UnknownConversationError, "a conversation that was open during a redaction is not saved"):
            async with here.open(name) as conversation:
                await there.redact(name, 0, by="dpo", reason=_WHY)
                conversation.messages.user("More.")
        old = await there.load(name)
        old.messages.user("Go on.")
        await there.save(name, old.messages, revision=old.revision)
        require(
            [item.conversation for item in await here.due()] == [name], "a new turn makes the redacted conversation due"
        )
        async with here.open(name) as conversation:
            await chat.complete(conversation)
        messages = (await there.load(name)).messages
        require(
            messages[-1].text == "Done." and _CARD not in messages.to_json(),
            "a run continues the redacted conversation",
        )


async def a_live_run_prevents_a_redaction(stores: Stores) -> None:
    """While a run is active, `redact()` changes nothing. A dead run cannot write after a redaction."""
    async with stores.open() as here, stores.open() as there:
        name = await _create_conversation(here)
        with refused(ChatError, "a run that was dead during a redaction is not saved"):
            async with here.open(name) as conversation:
                await conversation.claim()
                with refused(ConflictError, "a conversation with an active run is not redacted"):
                    await there.redact(name, 0, by="dpo", reason=_WHY)
                require(_CARD in (await there.load(name)).messages.to_json(), "a rejected redaction changes nothing")
                stores.clock.advance(hours=1)
                await there.redact(name, 0, by="dpo", reason=_WHY)
                conversation.messages.append("model", answer(_CARD))
                await conversation.write_turn((), "model", conversation.messages[-1].turns[-1])
        require(_CARD not in (await there.load(name)).messages.to_json(), "the dead run has written nothing")


async def a_redaction_needs_an_existing_target(stores: Stores) -> None:
    """`redact()` refuses turns and calls that do not exist, and records nothing if it removes nothing."""
    async with stores.open() as here, stores.open() as there:
        name = await _create_conversation(here)
        for target in (4, "unknown"):
            with refused(UsageError, f"there is no {target}"):
                await there.redact(name, target, by="dpo", reason=_WHY)
        with refused(UnknownConversationError, "only a stored conversation can be redacted"):
            await there.redact("unknown", 0, by="dpo", reason=_WHY)
        for _ in range(2):
            await there.redact(name, 0, by="dpo", reason=_WHY)
        events = [item.event for item in await here.history(name)]
        require(events == ["created", "redacted"], f"a second redaction removes nothing, so it is not {events}")


def _create_waiting_call(id: str) -> Tool:
    tool = Tool(FunctionCall("pay", {"card": _CARD}), id=id)
    tool.await_approval()
    return tool


async def _create_conversation(store: ConversationStore) -> str:
    """Store a conversation whose first turn was posted, and is repeated by a summary, the description and a job."""
    text = f"My card is {_CARD}."
    name = await store.create(Messages(), owner="ana")
    await store.post(name, Turn([Text(text)]), key="1")
    async with store.open(name) as conversation:
        await ChatBuilder().with_model(ScriptedProvider("Noted.", by_history=True)).build().complete(conversation)
        conversation.messages.user("And now?")
        conversation.messages.summarize(f"The card is {_CARD}.", 2)
    job = Job("index", "1", {"text": [text], "size": 1})
    await store.apply(name, meta={"title": f"About: {text}", "data": {"tag": "card", "note": text}}, jobs=[job])
    return name


SCENARIOS = (
    a_redacted_turn_is_gone,
    a_redacted_call_is_gone,
    a_redacted_post_is_gone,
    a_redacted_conversation_resumes,
    a_live_run_prevents_a_redaction,
    a_redaction_needs_an_existing_target,
)
