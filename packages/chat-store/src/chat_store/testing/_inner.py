"""Conformance scenarios for chats used as tools, whose inner turns and calls are written by path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from chat_core import (
    ChatBuilder,
    ChatResponse,
    FunctionCall,
    Paused,
    RequireApproval,
    StreamingChat,
    ToolCollection,
)
from chat_core.errors import LeaseLostError
from chat_core.messages import Approved, Completed, Messages, Running, Suspended, Text, Tool, Turn
from chat_core.testing import ScriptedProvider

from chat_store.store import ConversationStore, OpenConversation
from chat_store.testing._fixtures import Stores, answer, call, paused, require


def _chat_call(inner: Messages) -> Tool:
    """Create a call of a chat used as a tool, suspended with the inner conversation `inner`."""
    tool = call("outer")
    tool.approve()
    tool.start()
    tool.suspend(inner)
    return tool


async def _resume(store: ConversationStore, name: str, run: OpenConversation) -> tuple[Tool, Messages]:
    """Claim the conversation, start its outer call, and return the call and its inner conversation.

    Args:
        store: another store for the same data. The function checks that it reads the call as running.
        name: the id of the conversation.
        run: the conversation, opened by the run.
    """
    await run.claim()
    outer = run.messages.tool("outer")
    outer.start()
    await run.write_tool(("outer",), outer)
    read = (await store.load(name)).messages.tool("outer")
    require(isinstance(read.status, Running), "other stores read the call of a resumed chat as running")
    require(outer.inner is not None and read.inner == outer.inner, "a chat that resumes keeps its conversation")
    return outer, outer.inner or Messages()


async def the_steps_of_an_inner_chat_are_durable(stores: Stores) -> None:
    """Other stores can read the turns and calls of an inner conversation as soon as their write returns."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused(_chat_call(paused("inner"))))
        async with here.open(name) as run:
            outer, inner = await _resume(there, name, run)
            tool = inner.tool("inner")
            for step in (tool.approve, tool.start, lambda: tool.complete("paid")):
                step()
                await run.write_tool(("outer", "inner"), tool)
                read = (await there.load(name)).messages.tool("outer", "inner")
                require(read == tool, "write_tool() of a call inside a chat is durable when it returns")
            turn = Turn([Text("And another one."), call("second")])
            inner.append("model", turn)
            await run.write_turn(("outer",), "model", turn)
            read_inner = (await there.load(name)).messages.tool("outer").inner
            require(read_inner == inner, "write_turn() of a conversation inside a chat is durable when it returns")
            inner.tool("second").approve()
            await run.write_tool(("outer", "second"), inner.tool("second"))
            outer.suspend(inner)
            await run.write_tool(("outer",), outer)
        read_all = (await there.load(name)).messages
        require(read_all.tool("outer") == outer, "the status of a chat is stored without changing what is inside")


async def the_steps_of_a_chat_inside_a_chat_are_durable(stores: Stores) -> None:
    """Turns and calls can be written by path in inner conversations at any depth."""
    middle = paused(_chat_call(paused("inner")))
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused(_chat_call(middle)))
        async with here.open(name) as run:
            await _resume(there, name, run)
            path = ("outer", "outer", "inner")
            tool = run.messages.tool(*path)
            tool.approve()
            await run.write_tool(path, tool)
            inner = run.messages.tool("outer", "outer").inner or Messages()
            turn = answer("Fine.")
            inner.append("model", turn)
            await run.write_turn(path[:-1], "model", turn)
            read = (await there.load(name)).messages
            require(read == run.messages, "paths of three ids lead to the call and to the conversation")


async def an_inner_call_is_decided_while_its_chat_runs(stores: Stores) -> None:
    """A decision inside a running chat reaches the run with its next write, and no write of the run overwrites it."""
    async with stores.open() as here, stores.open() as there:
        name = await here.create(paused(_chat_call(paused("a", "b"))))
        async with here.open(name) as run:
            outer, inner = await _resume(there, name, run)
            waiting = [item.wait.path for item in await there.waiting()]
            require(waiting == [("outer", "a"), ("outer", "b")], f"calls wait while their chat runs: {waiting}")
            async with there.open(name) as person:
                person.messages.tool("outer", "b").approve(by="ana")
            tool = inner.tool("a")
            tool.approve()
            tool.start()
            await run.write_tool(("outer", "a"), tool)
            require(
                isinstance(inner.tool("b").status, Approved), "a decision inside reaches the run with its next write"
            )
            async with there.open(name) as person:
                require(
                    isinstance(person.messages.tool("outer", "a").status, Running),
                    "another store reads the step of the run",
                )
            tool.complete("paid")
            await run.write_tool(("outer", "a"), tool)
            outer.suspend(inner)
            await run.write_tool(("outer",), outer)
        read = (await there.load(name)).messages
        require(
            isinstance(read.tool("outer", "b").status, Approved), "the status of a chat overwrites no decision in it"
        )
        require(read.tool("outer", "a").status == Completed("paid"), "the result of an inner call is kept")


async def an_inner_chat_that_can_resume_is_due(stores: Stores) -> None:
    """A conversation is due if its suspended inner chat can resume: after a retry, or after a run that ended early."""
    async with stores.open() as here, stores.open() as there:
        ready, waiting = _chat_call(Messages.from_user("Pay.")), _chat_call(paused("inner"))
        names = [await here.create(paused(ready), id="ready"), await here.create(paused(waiting), id="waiting")]
        for name in names:
            async with here.open(name) as run:
                await run.claim()
                await run.release()
        due = [item.conversation for item in await there.due()]
        require(due == ["ready"], f"only the conversation whose inner chat can resume is due, not {due}")
        lost = _chat_call(paused("inner"))
        lost.start()
        lost.lost("its process ended")
        name = await here.create(paused(lost), id="lost")
        async with here.open(name) as person:
            require(not [item for item in await there.due() if item.conversation == name], "an interrupted call waits")
            person.messages.tool("outer").retry(by="ana")
        require(isinstance((await there.load(name)).messages.tool("outer").status, Suspended), "a retried chat resumes")
        require(name in [item.conversation for item in await there.due()], "a retried chat is due")


async def a_run_that_died_in_an_inner_chat_is_taken_over(stores: Stores) -> None:
    """A run that takes over reports the interrupted inner call by its path, and does not repeat finished calls."""
    effects: list[str] = []
    async with stores.open() as here, stores.open() as there:

        async def take_over() -> None:
            stores.clock.advance(hours=1)
            async with there.open("chat") as other:
                outcome = await _build_office_chat(effects).complete(other)
                require(isinstance(outcome, Paused), "a run that takes over pauses at the interrupted call")
                waits = [(wait.kind, wait.path) for wait in outcome.waiting] if isinstance(outcome, Paused) else []
                require(
                    waits == [("interrupted", ("ask", "ben"))],
                    f"the pause has the path of the interrupted call, not {waits}",
                )
                other.messages.tool("ask", "ben").complete("looked up", by="ana")

        async with here.open("chat") as run:
            run.messages.user("Pay both.")
            try:
                await _build_office_chat(effects, take_over).complete(run)
            except LeaseLostError:
                pass
            else:
                require(False, "a run that lost its lease during an inner chat raises LeaseLostError")  # noqa: FBT003 - the line must not be reached
        async with there.open("chat") as last:
            outcome = await _build_office_chat(effects).complete(last)
        require(isinstance(outcome, ChatResponse), "the chat continues to its answer")
        require(effects == ["maria", "ben"], f"finished calls inside a chat do not run again: {effects}")


def _build_office_chat(
    effects: list[str], at_last: Callable[[], Awaitable[object]] | None = None
) -> StreamingChat[ChatResponse, Paused]:
    """Build a chat that calls a nested chat, which pays Maria, then Ben. The second payment calls `at_last`."""
    tools = ToolCollection()

    @tools.tool(sequential=True)
    async def pay(to: str) -> str:
        """Pay."""
        effects.append(to)
        if to == "ben" and at_last is not None:
            await at_last()
        return f"paid {to}"

    both = [FunctionCall("pay", {"to": name}, id=name) for name in ("maria", "ben")]
    clerk = ScriptedProvider(both, "The clerk is done.", by_history=True)
    inner = ChatBuilder().with_model(clerk).with_tools(tools).with_interrupted(RequireApproval()).build()
    ask = FunctionCall("ask", {"request": "Pay both."}, id="ask")
    model = ScriptedProvider(ask, "Both are settled.", by_history=True)
    return ChatBuilder().with_model(model).with_scoped_tools(inner.as_tool(name="ask", description="Asks.")).build()


SCENARIOS = (
    the_steps_of_an_inner_chat_are_durable,
    the_steps_of_a_chat_inside_a_chat_are_durable,
    an_inner_call_is_decided_while_its_chat_runs,
    an_inner_chat_that_can_resume_is_due,
    a_run_that_died_in_an_inner_chat_is_taken_over,
)
