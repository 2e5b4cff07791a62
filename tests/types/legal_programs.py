"""Legal: chats in annotations, in helpers, in one another, and in whole programs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Never, Protocol, TypeVar, assert_type

from typing_extensions import TypedDict

from chat_core import (
    AnyChat,
    Chat,
    ChatBuilder,
    ChatOptions,
    ChatResponse,
    ChatStream,
    ChatTool,
    Done,
    FunctionCall,
    Messages,
    Paused,
    ReadyChatBuilder,
    ScopedCollection,
    StreamingChat,
    StructuredResponse,
    ToolScope,
)

from fakes import FakeFull
from world import City, ask_if_high, city, complete_only, full, hi, more, pays, plain, refuse_if_high, risky, true

ModelT = TypeVar("ModelT")
OutT = TypeVar("OutT")
OutT_co = TypeVar("OutT_co", covariant=True)
PauseT = TypeVar("PauseT", bound=Paused)


async def twice_or_paused(chat: Chat[OutT, PauseT]) -> OutT | PauseT:
    await chat.complete(hi())
    return await chat.complete(hi())


async def text_or_pause(chat: Chat[ChatResponse, Paused]) -> str:
    result = await chat.complete(hi())
    return "paused" if isinstance(result, Paused) else result.text


async def halted(chat: AnyChat) -> bool:
    return isinstance(await chat.complete(hi()), Paused)


async def show(chat: StreamingChat[OutT, PauseT]) -> OutT | PauseT:
    async with chat.stream(hi()) as stream:
        async for event in stream:
            if isinstance(event, Done):
                return event.response
            if isinstance(event, Paused):
                return event
    raise AssertionError


async def drain(stream: ChatStream[OutT, PauseT]) -> OutT | PauseT:
    async for _ in stream:
        pass
    return stream.response


async def l50_generic_over_output_and_pause() -> None:
    text = ChatBuilder().with_model(full).build()
    waits = ChatBuilder().with_model(full).with_scoped_tools(ScopedCollection(risky, ask_if_high)).build()
    assert_type(await twice_or_paused(text), ChatResponse)
    assert_type(await twice_or_paused(waits), ChatResponse | Paused)
    assert_type(await show(text), ChatResponse)
    assert_type(await show(waits), ChatResponse | Paused)
    async with text.stream(hi()) as stream:
        assert_type(await drain(stream), ChatResponse)
    async with waits.stream(hi()) as stream_of_pauses:
        assert_type(await drain(stream_of_pauses), ChatResponse | Paused)


async def l51_a_chat_that_never_pauses_is_one_that_may() -> None:
    text = ChatBuilder().with_model(full).build()
    waits = ChatBuilder().with_model(pays).with_scoped_tools(ScopedCollection(risky, ask_if_high)).build()
    true(await text_or_pause(text) == "Utrecht")
    true(await text_or_pause(waits) == "paused")


async def l52_any_chat() -> None:
    text = ChatBuilder().with_model(full).build()
    waits = ChatBuilder().with_model(pays).with_scoped_tools(ScopedCollection(risky, ask_if_high)).build()
    typed = ChatBuilder().with_model(city).with_structured_output(City).build()
    chats: list[AnyChat] = [text, waits, typed]
    true([await halted(chat) for chat in chats] == [False, True, False])
    by_name: dict[str, Chat] = {"a": text, "b": ChatBuilder().with_model(complete_only).build()}
    true(by_name)


def narrow(chat: Chat[OutT, PauseT]) -> ChatStream[OutT, PauseT] | None:
    return chat.stream(hi()) if isinstance(chat, StreamingChat) else None


async def l53_narrowing_keeps_the_parameters() -> None:
    assert_type(narrow(ChatBuilder().with_model(full).build()), ChatStream[ChatResponse, Never] | None)


def guarded(builder: ReadyChatBuilder[ModelT, OutT, PauseT]) -> ReadyChatBuilder[ModelT, OutT, PauseT | Paused]:
    return builder.with_scoped_tools(ScopedCollection(risky, ask_if_high))


async def l54_a_helper_that_adds_a_pause() -> None:
    ready = ChatBuilder().with_model(full)
    assert_type(guarded(ready), ReadyChatBuilder[FakeFull, ChatResponse, Paused])
    assert_type(guarded(ready).build(), StreamingChat[ChatResponse, Paused])


researcher = ChatBuilder().with_model(full).build()
payer = ChatBuilder().with_model(pays).with_scoped_tools(ScopedCollection(risky, ask_if_high)).build()
delegates = FakeFull(FunctionCall("delegate", {"request": "do it"}, id="call_0"), "delegated")


async def l60_an_inner_chat_that_never_pauses() -> None:
    tool = researcher.as_tool(name="delegate", description="Looks things up.")
    assert_type(tool, ChatTool[Never])
    chat = ChatBuilder().with_model(delegates).with_scoped_tools(tool).build()
    assert_type(chat, StreamingChat[ChatResponse, Never])
    answer = await chat.complete(hi())
    assert_type(answer, ChatResponse)
    true(answer.text == "delegated")


async def l61_an_inner_chat_that_may_pause() -> None:
    tool = payer.as_tool(name="delegate", description="Pays bills.")
    assert_type(tool, ChatTool[Paused])
    chat = ChatBuilder().with_model(delegates).with_scoped_tools(tool).build()
    assert_type(chat, StreamingChat[ChatResponse, Paused])
    result = await chat.complete(hi())
    assert_type(result, ChatResponse | Paused)
    true(isinstance(result, Paused) and result.waiting[0].path == ("call_0", "call_1"))


async def l62_at_any_depth() -> None:
    inner = payer.as_tool(name="delegate", description="Pays bills.")
    middle = ChatBuilder().with_model(delegates).with_structured_output(City).with_scoped_tools(inner).build()
    assert_type(middle, StreamingChat[StructuredResponse[City], Paused])
    outer = ChatBuilder().with_scoped_tools(middle.as_tool(name="delegate", description="Asks the payer."))
    result = await outer.with_model(delegates).build().complete(hi())
    assert_type(result, ChatResponse | Paused)
    true(isinstance(result, Paused) and result.waiting[0].path == ("call_0", "call_0", "call_1"))


async def l63_beside_other_tools() -> None:
    tool = researcher.as_tool(name="delegate", description="Looks things up.")
    ready = ChatBuilder().with_model(delegates).with_scoped_tools(tool)
    asks = ScopedCollection(risky, ask_if_high)
    assert_type(ready.with_tools(plain).build(), StreamingChat[ChatResponse, Never])
    assert_type(ready.with_scoped_tools(asks).build(), StreamingChat[ChatResponse, Paused])


async def l64_one_scope_or_another(nested: bool = True) -> None:
    asks = ScopedCollection(risky, ask_if_high)
    never = ScopedCollection(more, refuse_if_high)
    ready = ChatBuilder().with_model(full)
    tool = researcher.as_tool(name="delegate", description="Looks things up.")
    assert_type(ready.with_scoped_tools(tool if nested else asks).build(), StreamingChat[ChatResponse, Paused])
    assert_type(ready.with_scoped_tools(tool if nested else never).build(), StreamingChat[ChatResponse, Never])
    assert_type(ready.with_scoped_tools(never if nested else asks).build(), StreamingChat[ChatResponse, Paused])


async def l70_branches_join(approve: bool = True) -> None:
    ready = ChatBuilder().with_model(full)
    builder = ready.with_scoped_tools(ScopedCollection(risky, ask_if_high)) if approve else ready
    result = await builder.build().complete(hi())
    assert_type(result, ChatResponse | Paused)


async def l71_loops() -> None:
    scopes: list[ToolScope[Paused]] = [ScopedCollection(risky, ask_if_high), ScopedCollection(more, refuse_if_high)]
    builder: ReadyChatBuilder[FakeFull, ChatResponse, Paused] = ChatBuilder().with_model(full)
    for scope in scopes:
        builder = builder.with_scoped_tools(scope)
    assert_type(await builder.build().complete(hi()), ChatResponse | Paused)
    never = ChatBuilder().with_model(full)
    for refuses in (ScopedCollection(risky, refuse_if_high), ScopedCollection(more, refuse_if_high)):
        never = never.with_scoped_tools(refuses)
    assert_type(never.build(), StreamingChat[ChatResponse, Never])


async def l72_asyncio() -> None:
    text = ChatBuilder().with_model(full).build()
    waits = ChatBuilder().with_model(full).with_scoped_tools(ScopedCollection(risky, ask_if_high)).build()
    one, two = await asyncio.gather(text.complete(hi()), waits.complete(hi()))
    assert_type(one, ChatResponse)
    assert_type(two, ChatResponse | Paused)
    assert_type(await asyncio.create_task(text.complete(hi())), ChatResponse)
    assert_type(await asyncio.create_task(waits.complete(hi())), ChatResponse | Paused)


class Completes(Protocol[OutT_co]):
    async def complete(self, messages: Messages, /) -> OutT_co: ...


async def by_protocol(chat: Completes[OutT]) -> OutT:
    return await chat.complete(hi())


async def l73_a_protocol_of_ones_own() -> None:
    text = ChatBuilder().with_model(full).build()
    waits = ChatBuilder().with_model(full).with_scoped_tools(ScopedCollection(risky, ask_if_high)).build()
    assert_type(await by_protocol(text), ChatResponse)
    assert_type(await by_protocol(waits), ChatResponse | Paused)


@dataclass(frozen=True)
class App:
    chat: Chat
    approvals: Chat[ChatResponse, Paused]


async def l74_fields_and_options() -> None:
    ready = ChatBuilder().with_model(full).with_options(ChatOptions(seed=7))
    waits = ready.with_scoped_tools(ScopedCollection(risky, ask_if_high)).build()
    assert_type(ready.build(), StreamingChat[ChatResponse, Never])
    assert_type(waits, StreamingChat[ChatResponse, Paused])
    app = App(ready.build(), waits)
    assert_type(await app.chat.complete(hi()), ChatResponse)
    assert_type(await app.approvals.complete(hi()), ChatResponse | Paused)
    true(App(ready.build(), ready.build()))


class Payment(TypedDict):
    cents: int


def l75_the_arguments_of_a_call_as_a_type() -> None:
    call = FunctionCall("pay", {"name": "Utrecht", "cents": 5})
    assert_type(call.arguments_as(City), City)
    assert_type(call.arguments_as(Payment), Payment)
    assert_type(call.arguments_as(dict[str, int | str]), dict[str, int | str])
    true(call.arguments_as(City).name == "Utrecht" and call.arguments_as(Payment)["cents"] == 5)
