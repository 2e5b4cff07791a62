"""Illegal: the builder's states. Each line that ends in `# E: <regex>` must be rejected, and by a message that matches.

A function that ends in `# R: <regex>` must also fail at run time. The others are lies about types only, which running
cannot see.
"""

from __future__ import annotations

from chat_core import Chat, ChatBuilder, ChatResponse, ScopedCollection, StreamingChat

from fakes import FakeFull
from world import City, ask_if_high, city, complete_only, embed_only, hi, pays, plain, risky, stream_only

ready = ChatBuilder().with_model(pays)
asks = ScopedCollection(risky, ask_if_high)
waits = ready.with_scoped_tools(asks).build()


async def ask(chat: Chat[ChatResponse]) -> str:
    return (await chat.complete(hi())).text


async def bare(chat: Chat) -> str:
    return (await chat.complete(hi())).text


async def live(chat: StreamingChat) -> None:
    async with chat.stream(hi()) as stream:
        async for event in stream:
            print(event)


def needs_text(text: str) -> None:
    print(text)


def x01_build_without_a_model() -> None:  # R: AttributeError: build\(\) needs a model: call .with_model
    ChatBuilder().build()  # E: attribute .?build


def x02_build_without_a_model_after_options() -> None:  # R: AttributeError: build\(\) needs a model
    ChatBuilder().with_retry(3).with_tools(risky).build()  # E: attribute .?build


def x03_structured_twice() -> None:  # R: UsageError: with_structured_output\(\) cannot follow
    ready.with_structured_output(City).with_structured_output(str)  # E: StructuredResponse\[City\]


def x04_embeddings_on_a_model_without_them() -> None:  # R: UsageError: .* can embed; FakeComplete cannot
    ChatBuilder().with_model(complete_only).with_embeddings()  # E: EmbeddingsProvider


def x05_embeddings_after_structured() -> None:  # R: UsageError: with_embeddings\(\) cannot follow
    ready.with_structured_output(City).with_embeddings()  # E: StructuredResponse\[City\]


async def x06_complete_on_an_embeddings_chat() -> None:  # R: AttributeError: 'EmbeddingsChat'
    await ready.with_embeddings().build().complete(hi())  # E: attribute .?complete


def x07_stream_on_a_model_without_it() -> None:  # R: AttributeError: 'Chat' object has no attribute 'stream'
    ChatBuilder().with_model(complete_only).build().stream(hi())  # E: attribute .?stream


async def x08_embed_on_a_completing_chat() -> None:  # R: AttributeError: 'StreamingChat'
    await ready.build().embed(["hi"])  # E: attribute .?embed


def x09_not_a_model() -> None:  # R: UsageError: with_model\(\) needs a model, not 'gpt-5'
    ChatBuilder().with_model("gpt-5")  # E: (str|gpt-5)


def x10_build_a_chat_from_an_embed_only_model() -> None:  # R: UsageError: .* can complete; FakeEmbed cannot
    ChatBuilder().with_model(embed_only).build()  # E: build


async def x11_a_structured_result_is_not_text() -> None:
    chat = ChatBuilder().with_model(city).with_structured_output(City).build()
    text: ChatResponse = await chat.complete(hi())  # E: StructuredResponse\[City\]
    print(text)


async def x12_a_non_streaming_chat_where_a_streaming_one_is_needed() -> None:  # R: AttributeError
    await live(ChatBuilder().with_model(complete_only).build())  # E: StreamingChat


async def x13_a_structured_chat_where_a_text_chat_is_needed() -> None:  # R: AttributeError
    await ask(ChatBuilder().with_model(city).with_structured_output(City).build())  # E: StructuredResponse\[City\]


def x14_with_model_twice() -> None:  # R: AttributeError: 'ReadyChatBuilder'
    ready.with_model(complete_only)  # E: attribute .?with_model


def x15_a_chat_is_not_a_model() -> None:  # R: UsageError: with_model\(\) needs a model
    ChatBuilder().with_model(waits)  # E: StreamingChat


def x16_a_model_that_only_streams() -> None:  # R: UsageError: with_model\(\) needs a model
    ChatBuilder().with_model(stream_only)  # E: FakeStream


def x17_a_typo() -> None:  # R: AttributeError: 'ChatBuilder' object has no attribute 'biuld'
    ChatBuilder().biuld()  # E: attribute .?biuld


def x18_not_a_type_form() -> None:  # R: UsageError: with_structured_output\(\) needs a type
    ready.with_structured_output(42)  # E: TypeForm|type expression


async def x19_a_part_of_a_union() -> None:
    answer = await ChatBuilder().with_model(city).with_structured_output(City | None).build().complete(hi())
    print(answer.value.name)  # E: None


def x110_a_class_is_not_a_model() -> None:  # R: UsageError: with_model\(\) needs a model, not <class .*: create
    ChatBuilder().with_model(FakeFull)  # E: FakeFull


def x111_options_that_are_none() -> None:  # R: UsageError: with_options\(\) needs ChatOptions, not {'seed': 1}
    ready.with_options({"seed": 1})  # E: dict|ChatOptions


async def x112_options_of_a_run_that_are_none() -> None:  # R: UsageError: complete\(\) needs ChatOptions
    await ready.build().complete(hi(), options={"seed": 1})  # E: dict|ChatOptions


async def x113_a_text_is_not_a_conversation() -> None:  # R: UsageError: complete\(\) needs Messages
    await ready.build().complete("hi")  # E: Messages


def x114_a_text_is_not_a_conversation_in_a_stream() -> None:  # R: UsageError: stream\(\) needs Messages
    ready.build().stream("hi")  # E: Messages


async def x115_messages_are_not_texts() -> None:  # R: UsageError: embed\(\) needs a list of strings, not Messages
    await ready.with_embeddings().build().embed(hi())  # E: Messages


async def x116_numbers_are_not_texts() -> None:  # R: UsageError: embed\(\) needs a list of strings, but item 0 is 1
    await ready.with_embeddings().build().embed([1, 2])  # E: int


def x117_a_retry_that_is_no_number() -> None:  # R: UsageError: with_retry\(\) needs a number, not 'often'
    ready.with_retry("often")  # E: Retry


def x118_a_step_limit_that_is_no_number() -> None:  # R: UsageError: with_max_steps\(\) needs a number, not 2.5
    ready.with_max_steps(2.5)  # E: int


def x119_a_hook_over_something_else() -> None:
    ready.with_before(needs_text)  # E: Messages|str


def x120_a_hook_that_is_no_function() -> None:  # R: UsageError: with_after\(\) needs a function, not 'log'
    ready.with_after("log")  # E: str|log


def x121_hooks_on_an_embeddings_builder() -> None:  # R: AttributeError: 'EmbeddingsBuilder'
    ready.with_embeddings().with_before(print)  # E: attribute .?with_before


def x122_steps_of_an_embeddings_builder() -> None:  # R: AttributeError: 'EmbeddingsBuilder'
    ready.with_embeddings().with_max_steps(3)  # E: attribute .?with_max_steps


def x123_embeddings_without_a_model() -> None:  # R: AttributeError: with_embeddings\(\) needs a model
    ChatBuilder().with_embeddings()  # E: attribute .?with_embeddings


def x124_a_stream_is_not_its_text() -> None:
    text: str = ready.build().stream(hi())  # E: ChatStream
    print(text)


def x130_tools_of_a_collection_that_is_none() -> None:  # R: UsageError: with_tools\(\) needs a ToolCollection
    ready.with_tools([plain])  # E: ToolCollection


async def x145_embeddings_of_one_text() -> None:  # R: UsageError: embed\(\) needs a list of strings, not one string
    await ready.with_embeddings().build().embed("hi")  # E: str|Texts


def x146_blocking_embeddings_of_one_text() -> None:  # R: UsageError: embed\(\) needs a list of strings
    ready.with_embeddings().build().blocking.embed("hi")  # E: str|Texts


def x147_a_limit_of_steps_before_embeddings() -> None:  # R: UsageError: an embeddings chat has no runs and no tools
    ready.with_max_steps(3).with_embeddings()


def x148_tools_before_embeddings() -> None:  # R: UsageError: an embeddings chat has no tools
    ready.with_tools(plain).with_embeddings()


def x149_a_hook_before_embeddings() -> None:  # R: UsageError: an embeddings chat has no hooks
    ready.with_before(lambda _messages: None).with_embeddings()


async def x150_a_stream_that_is_not_entered() -> None:  # R: UsageError: read a stream inside its block
    async for _event in ready.build().stream(hi()):
        pass


def x151_one_collection_in_two_scopes() -> None:  # R: UsageError: the tool 'pay' is in two scopes.*only once
    ready.with_scoped_tools(asks).with_tools(risky).build()
