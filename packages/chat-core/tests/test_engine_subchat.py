"""Chats as tools of other chats: pauses with paths, decisions by path, and one stored document."""

from __future__ import annotations

import anyio
import pytest
from chat_core import (
    ChatBuilder,
    ChatResponse,
    Execute,
    FunctionCall,
    Messages,
    Paused,
    ScopedCollection,
    StreamingChat,
    ToolCollection,
    Usage,
)
from chat_core.errors import (
    ConflictError,
    InterruptedToolsError,
    PendingToolsError,
    ProviderError,
)
from chat_core.events import NestedEvent, StepFinished, TextDelta, ToolResult
from chat_core.messages import Completed, Interrupted, Suspended
from chat_core.testing import MemoryConversation, ScriptedProvider
from chat_core.testing.memory_conversation import Call
from inner_office import Office

pytestmark = pytest.mark.anyio


async def test_an_inner_pause_pauses_the_outer_chat_with_the_path() -> None:
    office = Office()
    messages = Messages.from_user("pay")
    end = await office.chat(2, 5).complete(messages)
    assert isinstance(end, Paused)
    assert end.waiting[0].path == ("ask_1", "pay_5")
    assert end.waiting[0].tool_id == "pay_5"
    assert end.usage == Usage(20, 10)
    assert isinstance(messages.tool("ask_1").status, Suspended)


@pytest.mark.parametrize("depth", [2, 3, 4])
async def test_an_approval_by_path_in_a_stored_document_resumes_nested_chats(depth: int) -> None:
    office = Office()
    messages = Messages.from_user("pay")
    end = await office.chat(depth, 5).complete(messages)
    assert isinstance(end, Paused)
    path = end.waiting[0].path
    assert len(path) == depth
    elsewhere = Messages.from_json(messages.to_json())
    elsewhere.tool(*path).approve(arguments={"cents": 4})
    done = await office.chat(depth, 5).complete(elsewhere)
    assert isinstance(done, ChatResponse)
    assert done.text == f"Done at level {depth - 1}."
    assert office.paid == [4]
    assert elsewhere.tool(path[0]).status == Completed(
        "The clerk has paid." if depth == 2 else f"Done at level {depth - 2}."
    )


async def test_some_inner_calls_may_be_decided_while_others_wait() -> None:
    office = Office()
    messages = Messages.from_user("pay")
    await office.chat(2, 5, 6).complete(messages)
    messages.tool("ask_1", "pay_6").approve()
    end = await office.chat(2, 5, 6).complete(messages)
    assert isinstance(end, Paused)
    assert [wait.path for wait in end.waiting] == [("ask_1", "pay_5")]
    messages.tool("ask_1", "pay_5").reject("no")
    assert isinstance(await office.chat(2, 5, 6).complete(messages), ChatResponse)
    assert office.paid == [6]


async def test_events_of_inner_chats_have_the_path_of_their_call() -> None:
    office = Office()
    messages = Messages.from_user("pay")
    await office.chat(3, 5).complete(messages)
    messages.tool("ask_2", "ask_1", "pay_5").approve()
    async with office.chat(3, 5).stream(messages) as stream:
        nested = [event async for event in stream if isinstance(event, NestedEvent)]
    assert any(event.path == ("ask_2", "ask_1") and isinstance(event.event, ToolResult) for event in nested)
    told = "".join(
        [event.event.text for event in nested if event.path == ("ask_2",) and isinstance(event.event, TextDelta)]
    )
    assert told == "Done at level 1."
    assert isinstance(stream.response, ChatResponse)
    assert stream.response.usage == Usage(30, 15)


async def test_cancelling_the_outer_chat_cancels_the_tool_of_the_inner_chat() -> None:
    started = anyio.Event()
    tools = ToolCollection()
    cancelled = False

    @tools.tool
    async def hang() -> None:
        nonlocal cancelled
        started.set()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            cancelled = True
            raise

    inner = ChatBuilder().with_model(ScriptedProvider([FunctionCall("hang", {}, id="hang")])).with_tools(tools).build()
    model = ScriptedProvider([FunctionCall("ask", {"request": "go"}, id="a")])
    outer = ChatBuilder().with_model(model).with_scoped_tools(inner.as_tool(name="ask", description="Asks.")).build()
    messages = Messages.from_user("go")
    async with anyio.create_task_group() as group:

        async def run() -> None:
            await outer.complete(messages)

        group.start_soon(run)
        await started.wait()
        group.cancel_scope.cancel()
    assert cancelled
    assert isinstance(messages.tool("a").status, Suspended)
    assert isinstance(messages.tool("a", "hang").status, Interrupted)


async def test_the_error_of_an_inner_chat_is_reported_to_the_outer_model() -> None:
    inner = ChatBuilder().with_model(ScriptedProvider()).build()
    model = ScriptedProvider([FunctionCall("ask", {"request": "go"}, id="a")], "sorry")
    outer = ChatBuilder().with_model(model).with_scoped_tools(inner.as_tool(name="ask", description="Asks.")).build()
    messages = Messages.from_user("go")
    assert (await outer.complete(messages)).text == "sorry"
    assert messages.tool("a").result_text().startswith("UsageError: the script has 0 answer(s)")


@pytest.mark.parametrize("arguments", [{}, {"request": 5}, {"request": "x", "more": 1}])
async def test_a_chat_as_a_tool_accepts_only_one_request_text(arguments: dict[str, object]) -> None:
    inner = ChatBuilder().with_model(ScriptedProvider()).build()
    model = ScriptedProvider([FunctionCall("ask", arguments, id="a")], "sorry")
    outer = ChatBuilder().with_model(model).with_scoped_tools(inner.as_tool(name="ask", description="Asks.")).build()
    messages = Messages.from_user("go")
    await outer.complete(messages)
    assert "{'request': <text>}" in messages.tool("a").result_text()


# --- Inner chats that cannot continue ------------------------------------------------------------------------------


async def test_a_run_raises_if_the_inner_policy_now_executes_a_waiting_call() -> None:
    office = Office()
    messages = Messages.from_user("pay")
    await office.chat(3, 5).complete(messages)
    asks, office.asks = office.asks, ScopedCollection(office.tools, lambda call, meta: Execute())
    with pytest.raises(PendingToolsError, match="in the chat of tool") as caught:
        await office.chat(3, 5).complete(messages)
    assert caught.value.tool_ids == ("ask_2/ask_1/pay_5",)
    assert isinstance(messages.tool("ask_2").status, Suspended)
    assert office.paid == []
    office.asks = asks
    messages.tool("ask_2", "ask_1", "pay_5").approve()
    assert isinstance(await office.chat(3, 5).complete(messages), ChatResponse)
    assert office.paid == [5]


async def test_an_interrupted_inner_call_raises_and_the_inner_conversation_is_kept() -> None:
    office = Office()
    messages = Messages.from_user("pay")
    await office.chat(2, 5).complete(messages)
    messages.tool("ask_1", "pay_5").approve()
    messages.tool("ask_1", "pay_5").start()
    with pytest.raises(InterruptedToolsError) as caught:
        await office.chat(2, 5).complete(Messages.from_json(messages.to_json()))
    assert caught.value.tool_ids == ("ask_1/pay_5",)
    with pytest.raises(InterruptedToolsError):
        await office.chat(2, 5).complete(messages)
    messages.tool("ask_1", "pay_5").complete("paid by hand")
    assert isinstance(await office.chat(2, 5).complete(messages), ChatResponse)
    assert office.paid == []


# --- Usage ---------------------------------------------------------------------------------------------------------


async def test_the_usage_of_an_inner_chat_is_counted_if_it_fails() -> None:
    tools = ToolCollection()

    @tools.tool
    async def nothing() -> None: ...

    clerk = ScriptedProvider(FunctionCall("nothing", {}), ProviderError("no", status=400))
    inner = ChatBuilder().with_model(clerk).with_tools(tools).build()
    model = ScriptedProvider([FunctionCall("ask", {"request": "go"}, id="a")], "sorry")
    outer = ChatBuilder().with_model(model).with_scoped_tools(inner.as_tool(name="ask", description="Asks.")).build()
    assert (await outer.complete(Messages.from_user("go"))).usage == Usage(30, 15)


async def test_the_usage_of_an_inner_chat_is_counted_if_the_stream_is_closed_early() -> None:
    office = Office()
    async with office.chat(2, 5).stream(Messages.from_user("pay")) as stream:
        async for event in stream:
            if isinstance(event, NestedEvent) and isinstance(event.event, StepFinished):
                break
    assert stream.usage == Usage(20, 10)


async def test_inner_conversations_are_valid_if_the_stream_is_closed_at_any_event() -> None:
    events = 0
    left = True
    while left:
        events += 1
        office = Office()
        messages = Messages.from_user("pay")
        await office.chat(3, 5).complete(messages)
        messages.tool("ask_2", "ask_1", "pay_5").approve()
        heard = 0
        with anyio.fail_after(30):
            async with office.chat(3, 5).stream(messages) as stream:
                async for _ in stream:
                    heard += 1
                    if heard == events:
                        break
        left = heard == events
        assert not messages.busy
        assert Messages.from_json(messages.to_json()) == messages
        assert isinstance(messages.tool("ask_2").status, (Completed, Interrupted, Suspended))
        inner = messages.tool("ask_2").inner
        assert inner is None or not inner.busy
        assert len(office.paid) <= 1
    assert events > 6


async def test_waits_of_inner_and_outer_calls_are_in_the_order_of_the_calls() -> None:
    office = Office()
    inner = office.chat(1, 5)
    model = ScriptedProvider(
        [
            FunctionCall("ask", {"request": "pay"}, id="first"),
            FunctionCall("pay", {"cents": 6}, id="second"),
            FunctionCall("ask", {"request": "pay"}, id="third"),
        ]
    )
    chat = (
        ChatBuilder()
        .with_model(model)
        .with_scoped_tools(inner.as_tool(name="ask", description="Asks."))
        .with_scoped_tools(office.asks)
        .build()
    )
    end = await chat.complete(Messages.from_user("pay"))
    assert isinstance(end, Paused)
    assert [wait.path for wait in end.waiting] == [("first", "pay_5"), ("second",), ("third", "pay_5")]


async def test_an_inner_chat_cancelled_while_its_siblings_run_does_not_pause_the_run() -> None:
    office = Office()
    messages = Messages.from_user("pay")
    siblings = ToolCollection()

    @siblings.tool
    async def slow() -> None:
        await anyio.wait_all_tasks_blocked()
        messages.tool("first").cancel("never mind")

    model = ScriptedProvider(
        [FunctionCall("ask", {"request": "pay"}, id="first"), FunctionCall("slow", {}, id="second")], "done"
    )
    chat = (
        ChatBuilder()
        .with_model(model)
        .with_scoped_tools(office.chat(1, 5).as_tool(name="ask", description="Asks."))
        .with_tools(siblings)
        .build()
    )
    end = await chat.complete(messages)
    assert isinstance(end, ChatResponse)
    assert messages.tool("first").result_text() == "The call was cancelled: never mind"
    assert office.paid == []


async def test_a_sequential_tool_does_not_start_after_an_inner_chat_that_pauses() -> None:
    office = Office()
    ran: list[str] = []
    siblings = ToolCollection()

    @siblings.tool(sequential=True)
    async def alone() -> None:
        ran.append("alone")

    @siblings.tool
    async def behind() -> None:
        ran.append("behind")

    script = [FunctionCall("ask", {"request": "pay"}, id="a"), FunctionCall("alone", {}), FunctionCall("behind", {})]
    model = ScriptedProvider(script, "done", by_history=True)

    def chat() -> StreamingChat[ChatResponse, Paused]:
        asks = office.chat(1, 5).as_tool(name="ask", description="Asks.")
        return ChatBuilder().with_model(model).with_scoped_tools(asks).with_tools(siblings).build()

    messages = Messages.from_user("pay")
    assert isinstance(await chat().complete(messages), Paused)
    assert ran == []
    messages.tool("a", "pay_5").approve()
    assert isinstance(await chat().complete(messages), ChatResponse)
    assert ran == ["alone", "behind"]


async def test_the_result_of_an_inner_chat_with_structured_output_is_json() -> None:
    inner = ChatBuilder().with_model(ScriptedProvider('{"value": [1, 2]}')).with_structured_output(list[int]).build()
    model = ScriptedProvider([FunctionCall("ask", {"request": "go"}, id="a")], "thanks")
    outer = ChatBuilder().with_model(model).with_scoped_tools(inner.as_tool(name="ask", description="Asks.")).build()
    messages = Messages.from_user("go")
    await outer.complete(messages)
    assert messages.tool("a").result_text() == '{"value": [1, 2]}'


async def test_an_inner_call_decided_elsewhere_during_the_resume_is_triaged_again() -> None:
    office = Office()
    messages = Messages.from_user("pay")
    await office.chat(2, 5, 6).complete(messages)
    messages.tool("ask_1", "pay_5").approve()
    refused: list[Call] = []

    def store(call: Call) -> None:
        if str(call) == "write_tool ask_1 Running" and not refused:
            refused.append(call)
            elsewhere = conversation.resting().tool("ask_1")
            assert elsewhere.inner is not None
            elsewhere.inner.tool("pay_6").approve()
            messages.tool("ask_1").adopt(elsewhere)
            raise ConflictError("pay_6 was approved")

    conversation = MemoryConversation(messages, on_call=store)
    assert isinstance(await office.chat(2, 5, 6).complete(conversation), ChatResponse)
    assert refused
    assert sorted(office.paid) == [5, 6]
