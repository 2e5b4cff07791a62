"""Illegal: a pause that is not handled, or a type that hides or invents one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Never, TypeVar, assert_never

from chat_core import (
    AnyChat,
    AttemptReset,
    Chat,
    ChatBuilder,
    ChatResponse,
    Compacted,
    Compacting,
    Defer,
    Done,
    Execute,
    FilePart,
    FunctionCall,
    NestedEvent,
    Paused,
    ReadyChatBuilder,
    ReasoningDelta,
    RequireApproval,
    Schedule,
    ScopedCollection,
    StepFinished,
    Strategy,
    StreamEvent,
    StreamingChat,
    StructuredDelta,
    StructuredPart,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolCollection,
    ToolData,
    ToolProgress,
    ToolResult,
    ToolScope,
    ToolStarted,
)

from fakes import FakeFull
from world import LATER, City, Risk, ask_if_high, ask_if_high_async, city, hi, pays, refuse_if_high, risky

OutT = TypeVar("OutT")
AnyT = TypeVar("AnyT")
PauseT = TypeVar("PauseT", bound=Paused)


ready = ChatBuilder().with_model(pays)
asks = ScopedCollection(risky, ask_if_high)
waits = ready.with_scoped_tools(asks).build()


async def bare(chat: Chat) -> str:
    return (await chat.complete(hi())).text


async def live(chat: StreamingChat) -> None:
    async with chat.stream(hi()) as stream:
        async for event in stream:
            print(event)


def render(event: StreamEvent) -> str:
    return repr(event)


def on_pause(scope: ToolScope[PauseT]) -> Callable[[PauseT], None]:
    return lambda pause: None


def text_only(builder: ReadyChatBuilder[FakeFull]) -> Chat:
    return builder.build()


async def x20_text_of_a_result_that_may_be_paused() -> None:  # R: AttributeError: 'Paused'
    print((await waits.complete(hi())).text)  # E: Paused


async def x21_the_same_with_a_lambda() -> None:  # R: AttributeError: 'Paused'
    scoped = ScopedCollection(risky, lambda call, risk: Schedule(LATER) if risk.high else Execute())
    print((await ready.with_scoped_tools(scoped).build().complete(hi())).text)  # E: Paused


async def x22_the_same_with_a_coroutine_function() -> None:  # R: AttributeError: 'Paused'
    scoped = ScopedCollection(risky, ask_if_high_async)
    print((await ready.with_scoped_tools(scoped).build().complete(hi())).text)  # E: Paused


async def x23_a_pausing_chat_where_none_may_pause() -> None:  # R: AttributeError: 'Paused'
    await bare(waits)  # E: Paused


async def x24_a_pausing_stream_where_none_may_pause() -> None:
    await live(waits)  # E: Paused


async def x25_an_unhandled_pause() -> None:  # R: AssertionError: Expected code to be unreachable
    result = await waits.complete(hi())
    match result:
        case ChatResponse():
            pass
        case _:
            assert_never(result)  # E: Paused


async def x26_an_unhandled_pause_in_a_stream() -> None:  # R: AssertionError: Expected code to be unreachable
    async with waits.stream(hi()) as stream:
        async for event in stream:
            match event:
                case TextDelta() | ReasoningDelta() | ToolCallDelta() | ToolCall() | ToolStarted() | ToolProgress():
                    pass
                case (
                    ToolData()
                    | ToolResult()
                    | StructuredDelta()
                    | FilePart()
                    | StructuredPart()
                    | StepFinished()
                    | AttemptReset()
                    | Compacting()
                    | Compacted()
                    | NestedEvent()
                    | Done()
                ):
                    pass
                case _:
                    assert_never(event)  # E: Paused


async def x27_a_pause_is_not_an_answer() -> None:
    answer: ChatResponse = await waits.complete(hi())  # E: Paused
    print(answer)


async def x28_one_scope_that_waits_is_enough() -> None:
    never = ScopedCollection(ToolCollection(Risk), refuse_if_high)
    chat = ready.with_scoped_tools(asks).with_scoped_tools(never).build()
    await bare(chat)  # E: Paused


async def x29_a_fallback_that_waits_is_enough() -> None:
    chat = ready.with_scoped_tools(ScopedCollection(risky, refuse_if_high, fallback=RequireApproval())).build()
    await bare(chat)  # E: Paused


async def x30_an_inner_chat_that_waits_is_enough() -> None:
    chat = ready.with_scoped_tools(waits.as_tool(name="pays", description="Pays bills.")).build()
    print((await chat.complete(hi())).text)  # E: Paused


def x31_embeddings_after_a_scope_that_waits() -> None:  # R: UsageError: an embeddings chat has no tools
    ready.with_scoped_tools(asks).with_embeddings()  # E: Paused


def x32_a_pausing_builder_where_none_may_pause() -> None:
    text_only(ready.with_scoped_tools(asks))  # E: Paused


async def x33_an_unhandled_event() -> None:
    async with waits.stream(hi()) as stream:
        async for event in stream:
            match event:
                case TextDelta() | ReasoningDelta() | ToolCallDelta() | ToolCall() | ToolStarted() | ToolProgress():
                    pass
                case Compacting() | Compacted():
                    pass
                case StructuredDelta() | FilePart() | StepFinished() | AttemptReset() | NestedEvent() | ToolData():
                    pass
                case StructuredPart():
                    pass
                case Done() | Paused():
                    pass
                case _:
                    assert_never(event)  # E: ToolResult


async def x34_a_pause_that_is_no_pause(chat: Chat[ChatResponse, str]) -> None:  # E: (str|Paused)
    print(await chat.complete(hi()))


async def x35_a_pausing_structured_chat() -> None:  # R: AttributeError: 'Paused'
    chat = ready.with_structured_output(City).with_scoped_tools(asks).build()
    print((await chat.complete(hi())).value)  # E: Paused


async def x36_any_chat_promises_no_text() -> None:
    chats: list[AnyChat] = [waits]
    print((await chats[0].complete(hi())).text)  # E: text


def x37_a_collection_said_never_to_wait() -> None:
    scoped: ScopedCollection[Risk, Never] = ScopedCollection(risky, ask_if_high)  # E: Never
    print(scoped)


def x38_a_collection_made_never_to_wait() -> None:
    ScopedCollection[Risk, Never](risky, ask_if_high)  # E: Never


def x39_a_chat_said_never_to_pause() -> None:
    scoped = ScopedCollection(risky, lambda call, risk: RequireApproval())
    chat: Chat = ready.with_scoped_tools(scoped).build()  # E: Paused
    print(chat)


def x40_a_factory_said_to_make_chats_that_never_pause() -> Chat:
    return ready.with_scoped_tools(ScopedCollection(risky, ask_if_high_async)).build()  # E: Paused


def x41_a_strategy_said_never_to_wait() -> None:
    policy: Strategy[Risk, Never] = ask_if_high  # E: RequireApproval
    print(policy)


async def x42_a_handler_of_events_that_knows_no_pause() -> None:
    async with waits.stream(hi()) as stream:
        async for event in stream:
            render(event)  # E: Paused|union elements|to "render"


def x43_a_handler_of_no_pause() -> None:
    handler = on_pause(ScopedCollection(risky, refuse_if_high))
    needed: Callable[[Paused], None] = handler  # E: Never
    print(needed)


async def x44_a_helper_whose_pause_could_be_anything(chat: Chat[OutT, AnyT]) -> OutT | AnyT:  # E: Paused
    return await chat.complete(hi())


async def x125_text_of_a_streams_response_that_may_be_paused() -> None:  # R: AttributeError: 'Paused'
    async with waits.stream(hi()) as stream:
        async for event in stream:
            print(event)
    print(stream.response.text)  # E: Paused


async def x126_a_structured_stream_does_not_end_in_text() -> None:  # R: AttributeError: 'StructuredResponse'
    async with ChatBuilder().with_model(city).with_structured_output(City).build().stream(hi()) as stream:
        async for event in stream:
            if isinstance(event, Done):
                print(event.response.text)  # E: text


async def x127_a_snapshot_promises_nothing(delta: StructuredDelta) -> None:
    print(delta.snapshot().name)  # E: name


async def x128_a_stream_is_not_awaited() -> None:  # R: TypeError
    await waits.stream(hi())  # E: ChatStream


def x129_a_conversation_is_not_a_document(chat: Chat, document: str) -> None:
    chat.complete(document)  # E: Messages


def defers(call: FunctionCall, risk: Risk) -> Execute | Defer:
    return Defer() if risk.high else Execute()


async def x148_a_policy_that_defers_may_pause() -> None:
    chat = ready.with_scoped_tools(ScopedCollection(risky, defers)).build()
    await bare(chat)  # E: Paused


def x149_a_pause_for_a_result_where_none_may_pause() -> None:
    scope = ScopedCollection(risky, refuse_if_high, fallback=Defer())
    text_only(ready.with_scoped_tools(scope))  # E: Paused
