"""Legal: the states of the builder, the chats that they build, and their attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Never, TypeVar, assert_type

from chat_core import (
    Chat,
    ChatBuilder,
    ChatOptions,
    ChatProvider,
    ChatResponse,
    CompletionProvider,
    Delivery,
    Done,
    EmbeddingsBuilder,
    EmbeddingsChat,
    EmbeddingsProvider,
    EmbeddingsResponse,
    Messages,
    OutputSpec,
    Paused,
    ProgressEvent,
    ReadyChatBuilder,
    Retry,
    ScopedCollection,
    StreamEvent,
    StreamingChat,
    StructuredOutput,
    StructuredResponse,
    Text,
    Turn,
    Usage,
)

from fakes import FakeComplete, FakeEmbed, FakeFull, Watcher
from world import City, ask_if_high, city, complete_only, embed_only, full, hi, plain, risky, true

ModelT = TypeVar("ModelT")
OutT = TypeVar("OutT")
PauseT = TypeVar("PauseT", bound=Paused)
CompletesT = TypeVar("CompletesT", bound=CompletionProvider)
StreamsT = TypeVar("StreamsT", bound=ChatProvider)


async def l01_text_chat() -> None:
    chat = ChatBuilder().with_model(full).build()
    assert_type(ChatBuilder(), ChatBuilder[ChatResponse, Never])
    assert_type(ChatBuilder().with_model(full), ReadyChatBuilder[FakeFull, ChatResponse, Never])
    assert_type(chat, StreamingChat[ChatResponse, Never])
    answer = await chat.complete(hi())
    assert_type(answer, ChatResponse)
    true(answer.text == "Utrecht")


async def l02_options_keep_the_state() -> None:
    chat = ChatBuilder().with_retry(3).with_model(full).with_tools(plain).with_max_steps(4).build()
    assert_type(chat, StreamingChat[ChatResponse, Never])
    scoped = ChatBuilder().with_model(full).with_scoped_tools(ScopedCollection(risky, ask_if_high))
    assert_type(scoped.with_observer(Watcher()).build(), StreamingChat[ChatResponse, Paused])
    assert_type(ChatBuilder().with_observer(Watcher()), ChatBuilder[ChatResponse, Never])
    assert_type(scoped.with_retry(2).with_tools(plain).build(), StreamingChat[ChatResponse, Paused])


async def l03_structured() -> None:
    chat = ChatBuilder().with_model(city).with_structured_output(City).build()
    answer = await chat.complete(hi())
    assert_type(answer, StructuredResponse[City])
    true(answer.value == City("Utrecht"))


async def l04_structured_then_options() -> None:
    chat = ChatBuilder().with_model(city).with_structured_output(City, max_retries=2).with_retry(2).with_tools(plain)
    assert_type(chat, ReadyChatBuilder[FakeFull, StructuredResponse[City], Never])
    assert_type(await chat.build().complete(hi()), StructuredResponse[City])


async def l05_structured_before_the_model() -> None:
    chat = ChatBuilder().with_structured_output(City).with_model(city).build()
    assert_type(await chat.complete(hi()), StructuredResponse[City])


async def l06_embeddings() -> None:
    builder = ChatBuilder().with_model(full).with_embeddings()
    assert_type(builder, EmbeddingsBuilder)
    chat = builder.with_retry(2).with_options(ChatOptions(timeout=5)).build()
    assert_type(chat, EmbeddingsChat)
    texts: Sequence[str] = ("hi", "hello")
    assert_type(await chat.embed(texts), EmbeddingsResponse)
    answer = await chat.embed(["hi", "hello"])
    assert_type(answer, EmbeddingsResponse)
    assert_type(answer.vectors, tuple[tuple[float, ...], ...])
    true(answer.vectors == ((2.0,), (5.0,)))


async def l07_stream() -> None:
    async with ChatBuilder().with_model(full).build().stream(hi()) as stream:
        async for event in stream:
            assert_type(event, ProgressEvent | Done[ChatResponse])
            assert_type(event, StreamEvent[ChatResponse, Never])


async def ask(chat: Chat[ChatResponse]) -> str:
    return (await chat.complete(hi())).text


async def l08_pass_a_chat_around() -> None:
    true(await ask(ChatBuilder().with_model(full).build()) == "Utrecht")
    await ask(ChatBuilder().with_model(complete_only).build())


async def twice(chat: Chat[OutT]) -> tuple[OutT, OutT]:
    return await chat.complete(hi()), await chat.complete(hi())


async def l09_generic_over_the_result() -> None:
    assert_type(await twice(ChatBuilder().with_model(full).build()), tuple[ChatResponse, ChatResponse])
    pair = await twice(ChatBuilder().with_model(city).with_structured_output(City).build())
    assert_type(pair, tuple[StructuredResponse[City], StructuredResponse[City]])


def house(builder: ReadyChatBuilder[ModelT, OutT, PauseT]) -> ReadyChatBuilder[ModelT, OutT, PauseT]:
    return builder.with_retry(5).with_tools(plain)


async def l10_helper_that_keeps_the_state() -> None:
    ready = ChatBuilder().with_model(full)
    assert_type(house(ready), ReadyChatBuilder[FakeFull, ChatResponse, Never])
    assert_type(await house(ready).build().complete(hi()), ChatResponse)
    scoped = house(ready.with_scoped_tools(ScopedCollection(risky, ask_if_high)))
    assert_type(scoped, ReadyChatBuilder[FakeFull, ChatResponse, Paused])


async def bare(chat: Chat) -> str:
    answer = await chat.complete(hi())
    assert_type(answer, ChatResponse)
    return answer.text


async def l11_bare_annotation() -> None:
    await bare(ChatBuilder().with_model(full).build())


async def l12_branches(fast: bool = True) -> None:
    base = ChatBuilder().with_model(full)
    builder = base.with_retry(3) if fast else base
    assert_type(await builder.build().complete(hi()), ChatResponse)


async def l13_embed_only_model() -> None:
    chat = ChatBuilder().with_model(embed_only).with_embeddings().build()
    assert_type(await chat.embed(["hi"]), EmbeddingsResponse)


async def l14_any_type_form() -> None:
    ready = ChatBuilder().with_model(FakeFull('{"value": [{"name": "Utrecht"}]}'))
    chat = ready.with_structured_output(list[City] | None).build()
    answer = await chat.complete(hi())
    assert_type(answer, StructuredResponse[list[City] | None])
    true(answer.value == [City("Utrecht")])
    assert_type(ready.with_structured_output(City | int).build(), StreamingChat[StructuredResponse[City | int], Never])
    early = ChatBuilder().with_structured_output(list[City] | None)
    assert_type(early, ChatBuilder[StructuredResponse[list[City] | None], Never])


def from_interface(model: CompletionProvider) -> None:
    assert_type(ChatBuilder().with_model(model).build(), Chat[ChatResponse, Never])
    if isinstance(model, ChatProvider):
        assert_type(ChatBuilder().with_model(model).build(), StreamingChat[ChatResponse, Never])


def from_union(model: FakeFull | FakeComplete) -> None:
    assert_type(ChatBuilder().with_model(model).build(), Chat[ChatResponse, Never])


def from_any(model: Any) -> Chat:
    return ChatBuilder().with_model(model).build()


def finish(builder: ReadyChatBuilder[CompletesT, OutT, PauseT]) -> Chat[OutT, PauseT]:
    return builder.with_retry(3).build()


def finish_streaming(builder: ReadyChatBuilder[StreamsT, OutT, PauseT]) -> StreamingChat[OutT, PauseT]:
    return builder.build()


async def l15_models_by_interface() -> None:
    from_interface(full)
    from_union(complete_only)
    ready = ChatBuilder().with_model(full)
    assert_type(finish(ready), Chat[ChatResponse, Never])
    assert_type(finish_streaming(ready), StreamingChat[ChatResponse, Never])
    scoped = ready.with_scoped_tools(ScopedCollection(risky, ask_if_high)).with_structured_output(City)
    assert_type(finish(scoped), Chat[StructuredResponse[City], Paused])
    assert_type(finish_streaming(scoped), StreamingChat[StructuredResponse[City], Paused])
    true(isinstance(from_any(full), StreamingChat))


class Upper:
    @property
    def schema(self) -> None:
        return None

    def decode(self, answer: ChatResponse, /) -> str:
        return answer.text.upper()


async def l16_an_output_of_ones_own() -> None:
    spec: OutputSpec[str] = Upper()
    true(spec.decode(ChatResponse(Turn([Text("a")]))) == "A")
    cities: OutputSpec[StructuredResponse[City]] = StructuredOutput(City)
    true(cities.schema)


async def l17_options_and_retries() -> None:
    ready = ChatBuilder().with_options(ChatOptions(temperature=0.5, stop=("END",))).with_model(full)
    chat = ready.with_retry(Retry(times=1, budget=5)).with_options(ChatOptions(max_tokens=100)).build()
    assert_type(chat, StreamingChat[ChatResponse, Never])
    assert_type(await chat.complete(hi(), options=ChatOptions(seed=1)), ChatResponse)
    async with chat.stream(hi(), options=ChatOptions(seed=1)) as stream:
        async for text in stream.text():
            assert_type(text, str)
    assert_type(stream.response, ChatResponse)
    true(stream.response.text == "Utrecht")


def log(messages: Messages) -> None:
    true(messages)


async def log_async(messages: Messages) -> None:
    true(messages)


def bill(messages: Messages, delivery: Delivery) -> None:
    assert_type(delivery.key, str)
    true(messages)


async def bill_async(messages: Messages, delivery: Delivery) -> None:
    assert_type(delivery.usage, Usage)
    true(messages)


async def l18_hooks_and_limits() -> None:
    builder = ChatBuilder().with_before(log).with_after(bill_async).with_tool_concurrency(2).with_tool_timeout(1.5)
    assert_type(builder, ChatBuilder[ChatResponse, Never])
    ready = builder.with_model(full).with_before(log_async).with_after(bill)
    ready = ready.with_after(lambda messages, delivery: true(bool(messages) and delivery.key))
    assert_type(ready, ReadyChatBuilder[FakeFull, ChatResponse, Never])
    assert_type(await ready.build().complete(hi()), ChatResponse)


async def l19_chats_are_closed_by_a_block() -> None:
    async with ChatBuilder().with_model(full).build() as chat:
        assert_type(chat, StreamingChat[ChatResponse, Never])
        assert_type(await chat.complete(hi()), ChatResponse)
    async with ChatBuilder().with_model(embed_only).with_embeddings().build() as embeds:
        assert_type(embeds, EmbeddingsChat)
    provider: EmbeddingsProvider = FakeEmbed()
    await ChatBuilder().with_model(provider).with_embeddings().build().aclose()
