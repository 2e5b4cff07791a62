"""Data and state changes that a tool returns in addition to its result."""

from __future__ import annotations

import pytest
from chat_core import (
    ChatBuilder,
    ChatResponse,
    Data,
    FunctionCall,
    Messages,
    Paused,
    RequireApproval,
    ScopedCollection,
    StreamingChat,
    ToolCollection,
    ToolContext,
    ToolData,
    ToolOutput,
    ToolResult,
    ToolStarted,
    UsageError,
)
from chat_core.events import NestedEvent
from chat_core.messages import Completed, Failed, File
from chat_core.testing import MemoryConversation, ScriptedProvider
from chat_core.testing.memory_conversation import Call

pytestmark = pytest.mark.anyio

CHART = Data("chart", {"points": [1, 2]}, keep=True)
NOTE = Data("note", None)


def one_tool(value: object) -> ToolCollection[None]:
    tools = ToolCollection()

    @tools.tool
    async def run() -> object:
        return value

    return tools


def chat_of(value: object, *, max_kept: int | None = None) -> StreamingChat[ChatResponse]:
    model = ScriptedProvider([FunctionCall("run", {}, id="a")], "done")
    builder = ChatBuilder().with_model(model).with_tools(one_tool(value))
    return (builder if max_kept is None else builder.with_max_kept_data(max_kept)).build()


async def result_of(value: object, *, max_kept: int | None = None) -> Completed | Failed:
    messages = Messages.from_user("go")
    await chat_of(value, max_kept=max_kept).complete(messages)
    status = messages.tool("a").status
    assert isinstance(status, (Completed, Failed))
    return status


async def test_data_events_follow_the_stored_result_and_precede_the_result_event() -> None:
    log: list[object] = []

    def record(call: Call) -> None:
        log.append(str(call))

    conversation = MemoryConversation(Messages.from_user("go"), on_call=record)
    output = ToolOutput("text", data=[CHART, NOTE], state={"shown": True})
    async with chat_of(output).stream(conversation) as stream:
        log.extend([event async for event in stream if isinstance(event, (ToolStarted, ToolData, ToolResult))])
    tool = conversation.messages.tool("a")
    stored = log.index("write_tool a Completed")
    assert log.index("write_tool a Running") < stored
    events = [item for item in log if not isinstance(item, str)]
    assert events == [ToolStarted(tool), ToolData(tool, CHART), ToolData(tool, NOTE), ToolResult(tool)]
    assert conversation.resting().tool("a").status == Completed("text", data=(CHART,), state={"shown": True})


async def test_data_events_are_yielded_after_the_data_is_stored() -> None:
    conversation = MemoryConversation(Messages.from_user("go"))
    async with chat_of(ToolOutput("text", data=CHART)).stream(conversation) as stream:
        async for event in stream:
            if isinstance(event, ToolData):
                assert conversation.resting().tool("a").data == (CHART,)


async def test_the_model_receives_only_the_content_of_a_tool_output() -> None:
    messages = Messages.from_user("go")
    model = ScriptedProvider([FunctionCall("run", {}, id="a")], "done")
    chat = ChatBuilder().with_model(model).with_tools(one_tool(ToolOutput("", data=CHART, state={"a": 1}))).build()
    await chat.complete(messages)
    assert messages.tool("a").result_text() == ""
    assert messages.state == {"a": 1}


async def test_only_kept_data_is_stored_with_the_result() -> None:
    status = await result_of(ToolOutput(1, data=[NOTE, CHART]))
    assert status == Completed(1, data=(CHART,))


async def test_a_failed_call_sends_no_data_and_changes_no_state() -> None:
    tools = ToolCollection()

    @tools.tool
    async def run() -> object:
        ToolOutput("text", data=CHART, state={"a": 1})
        raise ValueError

    messages = Messages.from_user("go")
    model = ScriptedProvider([FunctionCall("run", {}, id="a")], "done")
    async with ChatBuilder().with_model(model).with_tools(tools).build().stream(messages) as stream:
        assert not [event async for event in stream if isinstance(event, ToolData)]
    assert messages.state == {}


async def test_a_call_fails_if_any_data_of_its_output_is_invalid() -> None:
    output = ToolOutput("text", data=[CHART, Data("bad", object())], state={"a": 1})
    messages = Messages.from_user("go")
    async with chat_of(output).stream(messages) as stream:
        assert not [event async for event in stream if isinstance(event, ToolData)]
    assert isinstance(messages.tool("a").status, Failed)
    assert messages.state == {}


async def test_a_call_fails_if_its_kept_data_exceeds_the_limit_in_bytes() -> None:
    exact = Data("text", "x" * 8, keep=True)
    assert isinstance(await result_of(ToolOutput(1, data=exact), max_kept=10), Completed)
    status = await result_of(ToolOutput(1, data=[exact, Data("one", 1, keep=True)]), max_kept=10)
    assert isinstance(status, Failed)
    assert "11 bytes, and 10 are allowed: pass a File" in status.error


async def test_the_limit_of_kept_data_is_64_kib_and_files_and_events_are_exempt() -> None:
    fits = "x" * (64 * 1024 - 2)
    assert isinstance(await result_of(ToolOutput(1, data=Data("text", fits, keep=True))), Completed)
    assert isinstance(await result_of(ToolOutput(1, data=Data("text", fits + "x", keep=True))), Failed)
    assert isinstance(await result_of(ToolOutput(1, data=Data("text", fits + "x"))), Completed)
    file = File("image/png", data=b"x" * 100_000)
    kept = await result_of(ToolOutput(1, data=Data("chart", file, keep=True)))
    assert kept == Completed(1, data=(Data("chart", file, keep=True),))


async def test_kept_data_survives_the_round_trip_through_a_document() -> None:
    messages = Messages.from_user("go")
    file = Data("page", File("text/html", url="https://example.org"), keep=True)
    await chat_of(ToolOutput("text", data=[CHART, file])).complete(messages)
    assert Messages.from_json(messages.to_json()).tool("a").data == (CHART, file)


async def test_a_tool_reads_the_state_from_the_beginning_of_its_turn() -> None:
    tools = ToolCollection()

    @tools.tool(sequential=True)
    async def count(context: ToolContext) -> ToolOutput:
        number = context.state.get("n", 0)
        assert isinstance(number, int)
        return ToolOutput(number, state={"n": number + 1})

    messages = Messages(state={"n": 5})
    messages.user("go")
    turns = [[FunctionCall("count", {}, id=f"{turn}{call}") for call in "ab"] for turn in "12"]
    await ChatBuilder().with_model(ScriptedProvider(*turns, "done")).with_tools(tools).build().complete(messages)
    assert [tool.result_text() for content in messages for tool in content.tools] == ["5", "5", "6", "6"]
    assert messages.state == {"n": 7}


async def test_state_of_an_inner_chat_is_separate_and_its_data_events_are_nested() -> None:
    outer = ScriptedProvider([FunctionCall("ask", {"request": "go"}, id="outer")], "done")
    inner = chat_of(ToolOutput("text", data=NOTE, state={"secret": 1}))
    chat = ChatBuilder().with_model(outer).with_scoped_tools(inner.as_tool(name="ask", description="")).build()
    messages = Messages(state={"own": 1})
    messages.user("go")
    async with chat.stream(messages) as stream:
        events = [event async for event in stream]
    assert messages.state == {"own": 1}
    nested = [event.event for event in events if isinstance(event, NestedEvent)]
    assert [event.data for event in nested if isinstance(event, ToolData)] == [NOTE]


def drawing() -> ToolCollection[None]:
    tools = ToolCollection()

    @tools.tool
    async def run() -> ToolOutput:
        return ToolOutput("drawn", data=NOTE, state={"shape": "circle", "secret": 1})

    return tools


def report(response: ChatResponse, messages: Messages) -> ToolOutput:
    return ToolOutput(f"It said: {response.text}", data=CHART, state={"shape": messages.state["shape"]})


async def test_the_output_function_of_an_inner_chat_sets_result_data_and_state() -> None:
    inner = (
        ChatBuilder().with_model(ScriptedProvider([FunctionCall("run", {})], "a circle")).with_tools(drawing()).build()
    )
    ask = inner.as_tool(name="ask", description="", output=report)
    outer = ScriptedProvider([FunctionCall("ask", {"request": "go"}, id="outer")], "done")
    chat = ChatBuilder().with_model(outer).with_scoped_tools(ask).build()
    messages = Messages(state={"own": 1}).user("go")
    async with chat.stream(messages) as stream:
        events = [event async for event in stream]

    assert messages.state == {"own": 1, "shape": "circle"}
    assert messages.tool("outer").result_text() == "It said: a circle"
    assert [event.data for event in events if isinstance(event, ToolData)] == [CHART]
    restored = Messages.from_json(messages.to_json())
    assert restored.state == messages.state
    assert restored.tool("outer").data == (CHART,)


async def test_the_output_function_of_a_paused_inner_chat_runs_after_it_ends() -> None:
    def policy(call: FunctionCall, meta: None) -> RequireApproval:
        return RequireApproval()

    scope = ScopedCollection(drawing(), policy)
    inner_model = ScriptedProvider([FunctionCall("run", {}, id="inner")], "a circle")
    inner = ChatBuilder().with_model(inner_model).with_scoped_tools(scope).build()
    model = ScriptedProvider([FunctionCall("ask", {"request": "go"}, id="outer")], "done")
    ask = inner.as_tool(name="ask", description="", output=report)
    chat = ChatBuilder().with_model(model).with_scoped_tools(ask).build()
    messages = Messages.from_user("go")
    assert isinstance(await chat.complete(messages), Paused)
    resumed = Messages.from_json(messages.to_json())
    assert resumed.state == {}
    resumed.tool("outer", "inner").approve()

    response = await chat.complete(resumed)

    assert isinstance(response, ChatResponse)
    assert resumed.state == {"shape": "circle"}


async def test_output_functions_of_nested_chats_change_only_the_state_of_their_parent() -> None:
    inner = (
        ChatBuilder().with_model(ScriptedProvider([FunctionCall("run", {})], "a circle")).with_tools(drawing()).build()
    )
    states: list[dict[str, object]] = []

    def middle_report(response: ChatResponse, messages: Messages) -> ToolOutput:
        states.append(dict(messages.state))
        return ToolOutput(response.text, state={"seen": len(messages.state)})

    middle_model = ScriptedProvider([FunctionCall("draw", {"request": "go"})], "middle")
    draw = inner.as_tool(name="draw", description="", output=report)
    middle = ChatBuilder().with_model(middle_model).with_scoped_tools(draw).build()
    model = ScriptedProvider([FunctionCall("ask", {"request": "go"})], "done")
    ask = middle.as_tool(name="ask", description="", output=middle_report)
    messages = Messages.from_user("go")
    await ChatBuilder().with_model(model).with_scoped_tools(ask).build().complete(messages)

    assert states == [{"shape": "circle"}]
    assert messages.state == {"seen": 1}


async def test_a_call_fails_and_changes_no_state_if_the_output_function_raises() -> None:
    def broken(_response: ChatResponse, messages: Messages) -> ToolOutput:
        return ToolOutput("fine", state={"shape": messages.state["missing"]})

    ask = (
        ChatBuilder()
        .with_model(ScriptedProvider("a circle"))
        .build()
        .as_tool(name="ask", description="", output=broken)
    )
    model = ScriptedProvider([FunctionCall("ask", {"request": "go"}, id="outer")], "done")
    messages = Messages.from_user("go")
    await ChatBuilder().with_model(model).with_scoped_tools(ask).build().complete(messages)

    assert isinstance(messages.tool("outer").status, Failed)
    assert messages.state == {}


def test_as_tool_refuses_an_output_that_is_no_function() -> None:
    chat = ChatBuilder().with_model(ScriptedProvider()).build()
    with pytest.raises(UsageError, match=r"output of as_tool\(\) must be a function"):
        chat.as_tool(name="ask", description="", output=ToolOutput("text"))  # type: ignore[arg-type]  # wrong on purpose
