"""A chat as a tool of another chat: pauses with their path, decisions by path, one document."""

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
    RequireApproval,
    ScopedCollection,
    StreamingChat,
    ToolCollection,
    Usage,
)
from chat_core.errors import ConflictError, InterruptedToolsError, PendingToolsError, ProviderError
from chat_core.events import NestedEvent, StepFinished, TextDelta, ToolResult
from chat_core.messages import Completed, Interrupted, Suspended
from chat_core.testing import MemoryConversation, ScriptedProvider
from chat_core.testing.memory_conversation import Call

pytestmark = pytest.mark.anyio


class Office:
    """A clerk who pays on approval, an assistant who asks the clerk, a desk that asks the assistant."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.tools = ToolCollection()

        @self.tools.tool
        async def pay(cents: int) -> str:
            self.paid.append(cents)
            return "paid"

        self.asks: ScopedCollection[None, Paused] = ScopedCollection(self.tools, lambda call, meta: RequireApproval())

    def chat(self, depth: int, *payments: int) -> StreamingChat[ChatResponse, Paused]:
        pays = [FunctionCall("pay", {"cents": cents}, id=f"pay_{cents}") for cents in payments]
        clerk = ScriptedProvider(pays, "The clerk has paid.", by_history=True)
        chat = ChatBuilder().with_model(clerk).with_scoped_tools(self.asks).build()
        for level in range(1, depth):
            ask = FunctionCall("ask", {"request": "pay"}, id=f"ask_{level}")
            model = ScriptedProvider([ask], f"Done at level {level}.", by_history=True)
            chat = (
                ChatBuilder().with_model(model).with_scoped_tools(chat.as_tool(name="ask", description="Asks.")).build()
            )
        return chat


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
async def test_one_document_holds_all_levels_and_an_approval_by_path_goes_on(depth: int) -> None:
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


async def test_inner_events_carry_the_path() -> None:
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


async def test_cancelling_the_outer_chat_reaches_the_innermost_tool() -> None:
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

    inner = ChatBuilder().with_model(ScriptedProvider([FunctionCall("hang", {})])).with_tools(tools).build()
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
    assert isinstance(messages.tool("a").status, Interrupted)


async def test_what_an_inner_chat_raises_is_told_to_the_outer_model() -> None:
    inner = ChatBuilder().with_model(ScriptedProvider()).build()
    model = ScriptedProvider([FunctionCall("ask", {"request": "go"}, id="a")], "sorry")
    outer = ChatBuilder().with_model(model).with_scoped_tools(inner.as_tool(name="ask", description="Asks.")).build()
    messages = Messages.from_user("go")
    assert (await outer.complete(messages)).text == "sorry"
    assert messages.tool("a").result_text().startswith("UsageError: the script has 0 answer(s)")


@pytest.mark.parametrize("arguments", [{}, {"request": 5}, {"request": "x", "more": 1}])
async def test_a_chat_takes_one_text(arguments: dict[str, object]) -> None:
    inner = ChatBuilder().with_model(ScriptedProvider()).build()
    model = ScriptedProvider([FunctionCall("ask", arguments, id="a")], "sorry")
    outer = ChatBuilder().with_model(model).with_scoped_tools(inner.as_tool(name="ask", description="Asks.")).build()
    messages = Messages.from_user("go")
    await outer.complete(messages)
    assert "{'request': <text>}" in messages.tool("a").result_text()


# --- Where the chat inside cannot go on ----------------------------------------------------------------------------


async def test_a_policy_inside_that_would_now_execute_is_an_error_outside_and_the_call_still_waits() -> None:
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


async def test_what_was_interrupted_inside_is_an_error_outside_and_the_conversation_inside_is_kept() -> None:
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


async def test_a_chat_that_waits_is_given_up_where_its_name_belongs_to_a_function_now() -> None:
    office = Office()
    messages = Messages.from_user("pay")
    await office.chat(2, 5).complete(messages)
    ran: list[str] = []
    tools = ToolCollection()

    @tools.tool
    async def ask(request: str) -> None:
        ran.append(request)

    scope = ScopedCollection(tools, lambda call, meta: RequireApproval())
    chat = ChatBuilder().with_model(ScriptedProvider("sorry")).with_scoped_tools(scope).build()
    assert isinstance(await chat.complete(messages), ChatResponse)
    assert ran == []
    assert "no chat any more" in messages.tool("ask_1").result_text()


# --- What it costs -------------------------------------------------------------------------------------------------


async def test_what_a_chat_inside_has_cost_counts_when_it_fails() -> None:
    tools = ToolCollection()

    @tools.tool
    async def nothing() -> None: ...

    clerk = ScriptedProvider(FunctionCall("nothing", {}), ProviderError("no", status=400))
    inner = ChatBuilder().with_model(clerk).with_tools(tools).build()
    model = ScriptedProvider([FunctionCall("ask", {"request": "go"}, id="a")], "sorry")
    outer = ChatBuilder().with_model(model).with_scoped_tools(inner.as_tool(name="ask", description="Asks.")).build()
    assert (await outer.complete(Messages.from_user("go"))).usage == Usage(30, 15)


async def test_what_a_chat_inside_has_cost_counts_when_it_is_out_of_time() -> None:
    tools = ToolCollection()

    @tools.tool
    async def hang() -> None:
        await anyio.sleep_forever()

    clerk = ScriptedProvider(FunctionCall("hang", {}))
    inner = ChatBuilder().with_model(clerk).with_tools(tools).build()
    model = ScriptedProvider([FunctionCall("ask", {"request": "go"}, id="a")], "sorry")
    outer = (
        ChatBuilder()
        .with_model(model)
        .with_scoped_tools(inner.as_tool(name="ask", description="Asks."))
        .with_tool_timeout(0.05)
        .build()
    )
    assert (await outer.complete(Messages.from_user("go"))).usage == Usage(30, 15)


async def test_what_a_chat_inside_has_cost_counts_when_the_stream_is_left() -> None:
    office = Office()
    async with office.chat(2, 5).stream(Messages.from_user("pay")) as stream:
        async for event in stream:
            if isinstance(event, NestedEvent) and isinstance(event.event, StepFinished):
                break
    assert stream.usage == Usage(20, 10)


async def test_chats_inside_are_left_in_order_wherever_the_stream_is_left() -> None:
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


async def test_waits_stand_in_the_order_of_the_calls_whether_they_are_inside_or_not() -> None:
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


async def test_a_chat_that_is_given_up_while_its_siblings_run_does_not_pause_the_run() -> None:
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


async def test_a_barrier_does_not_start_past_a_chat_that_pauses_before_it() -> None:
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


async def test_a_chat_that_waits_is_given_up_where_it_is_gone() -> None:
    office = Office()
    messages = Messages.from_user("pay")
    await office.chat(2, 5).complete(messages)
    chat = ChatBuilder().with_model(ScriptedProvider("sorry")).build()
    assert (await chat.complete(messages)).text == "sorry"
    assert messages.tool("ask_1").result_text().startswith("The call was cancelled: There is no tool named 'ask'")


async def test_a_structured_answer_of_a_chat_inside_is_its_json() -> None:
    inner = ChatBuilder().with_model(ScriptedProvider('{"value": [1, 2]}')).with_structured_output(list[int]).build()
    model = ScriptedProvider([FunctionCall("ask", {"request": "go"}, id="a")], "thanks")
    outer = ChatBuilder().with_model(model).with_scoped_tools(inner.as_tool(name="ask", description="Asks.")).build()
    messages = Messages.from_user("go")
    await outer.complete(messages)
    assert messages.tool("a").result_text() == '{"value": [1, 2]}'


async def test_a_call_inside_that_is_decided_elsewhere_while_the_chat_is_resumed_is_looked_at_again() -> None:
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
