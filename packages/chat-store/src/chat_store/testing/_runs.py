"""Conformance scenarios with complete runs of a chat on a store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
from chat_core import (
    ChatBuilder,
    ChatResponse,
    FunctionCall,
    Messages,
    Paused,
    RequireApproval,
    ScopedCollection,
    StreamingChat,
    ToolCollection,
)
from chat_core.errors import ConflictError
from chat_core.messages import Completed, Running
from chat_core.testing import Answer, ScriptedProvider

from chat_store.testing._fixtures import Stores, require

Body = Callable[[], Awaitable[object]]


def _build_payment_chat(body: Body, before_answer: Body | None = None) -> StreamingChat[ChatResponse, Paused]:
    """Build a chat whose model requests one payment, which needs approval, and then answers with text."""
    tools = ToolCollection()

    @tools.tool()
    async def pay(cents: int) -> str:
        """Pay."""
        await body()
        return f"paid {cents}"

    model = ScriptedProvider(
        FunctionCall("pay", {"cents": 1}, id="pay"),
        Answer(("Done.",), before=before_answer),
        by_history=True,
    )
    scope = ScopedCollection(tools, lambda _call, _meta: RequireApproval())
    return ChatBuilder().with_model(model).with_scoped_tools(scope).with_interrupted(RequireApproval()).build()


async def _do_nothing() -> None:
    """Do nothing. Used where a scenario needs no code inside the function of its payment tool."""


async def _pause_payment(stores: Stores) -> None:
    async with stores.open() as store, store.open("chat", person="ana") as conversation:
        conversation.messages.user("Pay.")
        outcome = await _build_payment_chat(_do_nothing).complete(conversation)
        require(isinstance(outcome, Paused), "a run pauses where a call waits")


async def _approve_payment(stores: Stores) -> None:
    async with stores.open() as store, store.open("chat") as conversation:
        conversation.messages.tool("pay").approve(by="ana", note="fine")


async def a_paused_chat_is_resumed_by_another_process(stores: Stores) -> None:
    """A chat pauses in one store, is approved in a second, and resumes in a third."""
    await _pause_payment(stores)
    await _approve_payment(stores)
    async with stores.open() as store:
        async with store.open("chat") as conversation, _build_payment_chat(_do_nothing).stream(conversation) as stream:
            text = "".join([piece async for piece in stream.text()])
        require(text == "Done.", "a run continues where another process paused")
        messages = (await store.load("chat")).messages
        require(messages.tool("pay").status == Completed("paid 1"), "the approved call has run")
        require(not messages.pending(), "no call waits after the run")


async def a_call_is_stored_as_running_before_it_starts(stores: Stores) -> None:
    """A call is stored as running before its tool function starts, so that a crash leaves a trace."""
    await _pause_payment(stores)
    await _approve_payment(stores)
    seen: list[bool] = []
    async with stores.open() as here, stores.open() as there:

        async def body() -> None:
            tool = (await there.load("chat")).messages.tool("pay")
            seen.append(isinstance(tool.status, Running) and bool(tool.idempotency_key))

        async with here.open("chat") as conversation:
            await _build_payment_chat(body).complete(conversation)
    require(seen == [True], "Running is stored, with the idempotency key, before the tool function starts")


async def a_result_is_stored_before_the_model_is_asked_again(stores: Stores) -> None:
    """A tool result is stored before the next model request, so that a crash loses no result."""
    await _pause_payment(stores)
    await _approve_payment(stores)
    seen: list[object] = []
    async with stores.open() as here, stores.open() as there:

        async def look() -> None:
            seen.append((await there.load("chat")).messages.tool("pay").status)

        async with here.open("chat") as conversation:
            await _build_payment_chat(_do_nothing, look).complete(conversation)
    require(seen == [Completed("paid 1")], "a result is durable before the model is asked again")


async def an_answer_is_delivered_once(stores: Stores) -> None:
    """If several workers run the same due conversation, the after-hooks of its answer are called once."""
    bills: list[str] = []
    async with stores.open() as here, stores.open() as there:
        model = ScriptedProvider("Hello.", by_history=True)
        chat = ChatBuilder().with_model(model).with_after(lambda _, delivery: bills.append(delivery.key)).build()
        name = await here.create(Messages.from_user("Hello."))
        for store in (here, there, here):
            async with store.open(name) as conversation:
                response = await chat.complete(conversation)
            require(response.text == "Hello.", "each run returns the stored answer")
    require(len(bills) == 1, f"an answer is delivered once, not {len(bills)} times")


async def one_of_ten_concurrent_runs_resumes_a_pause(stores: Stores) -> None:
    """One of ten concurrent runs resumes a paused chat. The other runs are rejected before they have any effect."""
    await _pause_payment(stores)
    await _approve_payment(stores)
    effects: list[str] = []
    outcomes: list[str] = []
    done = anyio.Event()

    def end(outcome: str) -> None:
        outcomes.append(outcome)
        if len(outcomes) == 9:
            done.set()

    async def body() -> None:
        effects.append("paid")
        await done.wait()

    async def resume() -> None:
        async with stores.open() as store, store.open("chat") as conversation:
            try:
                await _build_payment_chat(body).complete(conversation)
            except ConflictError:
                end("refused")
            else:
                end("answered")

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(resume)
    require(effects == ["paid"], f"one of ten concurrent runs executes the call, not {len(effects)}")
    require(
        sorted(outcomes) == ["answered"] + ["refused"] * 9, f"the other nine runs raise ConflictError, not {outcomes}"
    )


async def calls_inside_a_chat_are_decided_one_by_one(stores: Stores) -> None:
    """A nested chat pauses together with its outer chat, and any process can resume both where they paused."""
    effects: list[str] = []

    async def run() -> ChatResponse | Paused:
        async with stores.open() as store, store.open("chat") as conversation:
            if not conversation.messages:
                conversation.messages.user("Pay both.")
            return await _build_nested_chat(effects).complete(conversation)

    require(isinstance(await run(), Paused), "a chat pauses where a chat in it pauses")
    async with stores.open() as store:
        paths = [item.wait.path for item in await store.waiting()]
        require(paths == [("ask", "maria"), ("ask", "ben")], f"waiting() returns the paths of inner calls, not {paths}")
        async with store.open("chat") as conversation:
            conversation.messages.tool("ask", "ben").approve(by="ana")
        require(len(await store.due()) == 1, "a decision inside a chat makes the conversation due")
    require(isinstance(await run(), Paused), "the undecided call still waits")
    require(effects == ["ben"], f"only the approved call has run, not {effects}")
    async with stores.open() as store, store.open("chat") as conversation:
        conversation.messages.tool("ask", "maria").reject("no", by="ana")
    outcome = await run()
    require(
        isinstance(outcome, ChatResponse) and outcome.text == "Both are settled.", "the chat continues to its answer"
    )
    require(effects == ["ben"], f"the approved call ran once, and the rejected call did not run, not {effects}")


def _build_nested_chat(effects: list[str]) -> StreamingChat[ChatResponse, Paused]:
    """Build a chat that calls a nested chat, which requests two payments."""
    tools = ToolCollection()

    @tools.tool()
    async def pay(to: str) -> str:
        """Pay."""
        effects.append(to)
        return f"paid {to}"

    both = [FunctionCall("pay", {"to": name}, id=name) for name in ("maria", "ben")]
    clerk = ScriptedProvider(both, "The clerk is done.", by_history=True)
    scope = ScopedCollection(tools, lambda _call, _meta: RequireApproval())
    inner = ChatBuilder().with_model(clerk).with_scoped_tools(scope).build()
    ask = FunctionCall("ask", {"request": "Pay both."}, id="ask")
    model = ScriptedProvider(ask, "Both are settled.", by_history=True)
    return ChatBuilder().with_model(model).with_scoped_tools(inner.as_tool(name="ask", description="Asks.")).build()


async def the_history_contains_every_event(stores: Stores) -> None:
    """The history lists decisions, runs and turns in order."""
    await _pause_payment(stores)
    await _approve_payment(stores)
    async with stores.open() as store:
        async with store.open("chat") as conversation:
            await _build_payment_chat(_do_nothing).complete(conversation)
        history = await store.history("chat")
    told = [entry.event if entry.tool is None else type(entry.tool.status).__name__ for entry in history]
    expected = ["created", "claimed", "turn", "turn", "Pending", "released"]
    expected += ["Approved", "claimed", "Running", "Completed", "turn", "released"]
    require(told == expected, f"the history has {expected}, not {told}")
    times = [entry.at for entry in history]
    require(times == sorted(times), "the history is in order")
    decisions = [decision for entry in history if entry.tool for decision in entry.tool.decisions]
    require(
        {(decision.action, decision.by, decision.note) for decision in decisions} == {("approve", "ana", "fine")},
        "the history has each decision with its approver and note",
    )


SCENARIOS = (
    a_paused_chat_is_resumed_by_another_process,
    a_call_is_stored_as_running_before_it_starts,
    a_result_is_stored_before_the_model_is_asked_again,
    an_answer_is_delivered_once,
    one_of_ten_concurrent_runs_resumes_a_pause,
    calls_inside_a_chat_are_decided_one_by_one,
    the_history_contains_every_event,
)
