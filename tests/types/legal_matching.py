"""Legal: results and events are matched exhaustively."""

from __future__ import annotations

from typing import Never, assert_never, assert_type

from chat_core import (
    AttemptReset,
    ChatBuilder,
    ChatResponse,
    ChatStream,
    Compacted,
    Compacting,
    Data,
    Done,
    FilePart,
    NestedEvent,
    Paused,
    ReasoningDelta,
    ScopedCollection,
    StepFinished,
    StreamEvent,
    StructuredDelta,
    StructuredPart,
    StructuredResponse,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolData,
    ToolProgress,
    ToolResult,
    ToolStarted,
)

from world import City, ask_if_high, city, full, hi, pays, risky, true


async def l40_match_a_chat_that_never_pauses() -> str:
    answer = await ChatBuilder().with_model(full).build().complete(hi())
    match answer:
        case ChatResponse(text=text):
            return text
        case _:
            assert_never(answer)


async def l41_match_a_chat_that_may_pause() -> str:
    chat = ChatBuilder().with_model(pays).with_scoped_tools(ScopedCollection(risky, ask_if_high)).build()
    result = await chat.complete(hi())
    match result:
        case ChatResponse(text=text):
            return text
        case Paused(waiting):
            return f"{len(waiting)} waiting"
        case _:
            assert_never(result)


async def l42_match_a_structured_chat() -> str:
    chat = ChatBuilder().with_model(city).with_structured_output(City)
    result = await chat.with_scoped_tools(ScopedCollection(risky, ask_if_high)).build().complete(hi())
    match result:
        case StructuredResponse(value=found):
            assert_type(found, City)
            return found.name
        case Paused():
            return "paused"
        case _:
            assert_never(result)


async def l43_match_the_events_of_a_chat_that_never_pauses() -> str:
    text = ""
    async with ChatBuilder().with_model(full).with_tools(risky).build().stream(hi()) as stream:
        assert_type(stream, ChatStream[ChatResponse, Never])
        async for event in stream:
            match event:
                case TextDelta(delta):
                    text += delta
                case ToolCall(tool) | ToolStarted(tool) | ToolData(tool) | ToolResult(tool):
                    text += tool.name
                case ReasoningDelta() | ToolCallDelta() | ToolProgress() | StructuredDelta() | FilePart():
                    pass
                case StepFinished() | AttemptReset() | NestedEvent() | StructuredPart() | Compacting() | Compacted():
                    pass
                case Done(response):
                    assert_type(response, ChatResponse)
                    true(response.text == text)
                case _:
                    assert_never(event)
    return text


async def l45_the_response_of_the_last_event_by_its_class() -> str:
    text = ""
    async with ChatBuilder().with_model(full).build().stream(hi()) as stream:
        async for event in stream:
            if isinstance(event, Done):
                assert_type(event, Done[ChatResponse])
                text = assert_type(event.response, ChatResponse).text
    return text


async def l44_match_the_events_of_a_chat_that_may_pause() -> str:
    chat = ChatBuilder().with_model(pays).with_scoped_tools(ScopedCollection(risky, ask_if_high)).build()
    end = ""
    async with chat.stream(hi()) as stream:
        assert_type(stream, ChatStream[ChatResponse, Paused])
        async for event in stream:
            match event:
                case TextDelta() | ReasoningDelta() | ToolCallDelta() | ToolCall() | ToolStarted() | ToolProgress():
                    pass
                case ToolData(_, data):
                    assert_type(data, Data)
                case StructuredPart(value):
                    assert_type(value, object)
                case ToolResult() | StructuredDelta() | FilePart() | StepFinished() | AttemptReset() | NestedEvent():
                    pass
                case Compacting() | Compacted():
                    pass
                case Done(response):
                    end = response.text
                case Paused(waiting):
                    end = waiting[0].name
                case _:
                    assert_never(event)
    true(end == "pay")
    return end


def render(event: StreamEvent) -> str:
    match event:
        case TextDelta(text):
            return text
        case ToolCall(tool) | ToolStarted(tool) | ToolProgress(tool) | ToolData(tool) | ToolResult(tool):
            return tool.name
        case ReasoningDelta(text) | ToolCallDelta(text) | StructuredDelta(text):
            return text
        case FilePart(file):
            return file.mime
        case StructuredPart(value):
            return str(value)
        case StepFinished(count) | Compacting(count) | Compacted(tokens=count):
            return str(count)
        case AttemptReset(attempt, reason):
            return f"{attempt}: {reason}"
        case NestedEvent(path, _):
            return "/".join(path)
        case Done(response):
            return response.text
        case _:
            assert_never(event)


def render_pause(event: StreamEvent[ChatResponse, Paused]) -> str:
    return "paused" if isinstance(event, Paused) else render(event)


async def l45_handlers_of_events() -> None:
    text = ChatBuilder().with_model(full).build()
    waits = ChatBuilder().with_model(pays).with_scoped_tools(ScopedCollection(risky, ask_if_high)).build()
    async with text.stream(hi()) as stream:
        true([render(event) async for event in stream])
    async with text.stream(hi()) as stream:
        true([render_pause(event) async for event in stream])
    async with waits.stream(hi()) as stream_of_pauses:
        true([render_pause(event) async for event in stream_of_pauses][-1] == "paused")


async def l46_until_it_is_answered() -> ChatResponse:
    chat = ChatBuilder().with_model(full).with_scoped_tools(ScopedCollection(risky, ask_if_high)).build()
    messages = hi()
    while isinstance(result := await chat.complete(messages), Paused):
        true(result.waiting)
    assert_type(result, ChatResponse)
    return result
