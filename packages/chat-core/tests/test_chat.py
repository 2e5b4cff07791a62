"""Chat classes: accepted and refused arguments, and closing."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from chat_core import (
    ChatBuilder,
    ChatOptions,
    ChatStream,
    ChatTool,
    Done,
    EmbeddingsChat,
    FunctionCall,
    Messages,
    StreamingChat,
    TextDelta,
    UsageError,
)
from chat_core.testing import MemoryConversation, ScriptedProvider

pytestmark = pytest.mark.anyio


class Closable:
    """Model that counts the calls of `aclose()`."""

    def __init__(self, *script: str) -> None:
        self._model = ScriptedProvider(*script)
        self.metadata = self._model.metadata
        self.complete = self._model.complete
        self.stream = self._model.stream
        self.embed = self._model.embed
        self.closed = 0

    async def aclose(self) -> None:
        self.closed += 1


def chat_of(*script: Any) -> StreamingChat:
    return ChatBuilder().with_model(ScriptedProvider(*script)).build()


def untyped(chat: object) -> Any:
    return chat


async def test_complete_accepts_a_conversation_in_place_of_messages() -> None:
    conversation = MemoryConversation(Messages.from_user("hi"))
    answer = await chat_of("hello").complete(conversation)
    assert answer.text == "hello"
    assert not conversation.claimed


async def test_stream_accepts_a_conversation_in_place_of_messages() -> None:
    conversation = MemoryConversation(Messages.from_user("hi"))
    async with chat_of("hello").stream(conversation) as stream:
        events = [event async for event in stream]
    assert isinstance(events[-1], Done)
    assert "".join([event.text for event in events if isinstance(event, TextDelta)]) == "hello"
    assert stream.response.text == "hello"


async def test_one_chat_serves_many_conversations() -> None:
    chat = chat_of("one", "two")
    first, second = Messages.from_user("a"), Messages.from_user("b")
    assert (await chat.complete(first)).text == "one"
    assert (await chat.complete(second)).text == "two"
    assert (len(first), len(second)) == (2, 2)


async def test_no_request_is_sent_before_a_stream_is_entered() -> None:
    model = ScriptedProvider("hello")
    stream = ChatBuilder().with_model(model).build().stream(Messages.from_user("hi"))
    assert type(stream) is ChatStream
    assert model.asked == []


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("hi", r"needs Messages or a Conversation, not 'hi': Messages\.from_user\('hi'\)"),
        (["hi"], r"needs Messages or a Conversation, not \['hi'\]$"),
        (None, r"needs Messages or a Conversation, not None$"),
        (nullcontext(), r"needs Messages .*: open the conversation first, with `async with store\.open\(id\)"),
    ],
)
async def test_complete_and_stream_refuse_targets_that_are_no_conversations(target: object, sentence: str) -> None:
    with pytest.raises(UsageError, match=r"complete\(\) " + sentence):
        await untyped(chat_of("hello")).complete(target)
    with pytest.raises(UsageError, match=r"stream\(\) " + sentence):
        untyped(chat_of("hello")).stream(target)


async def test_complete_and_stream_refuse_options_of_another_type() -> None:
    messages = Messages.from_user("hi")
    with pytest.raises(UsageError, match=r"complete\(\) needs ChatOptions, not 5"):
        await untyped(chat_of("hello")).complete(messages, options=5)
    with pytest.raises(UsageError, match=r"stream\(\) needs ChatOptions, not 5"):
        untyped(chat_of("hello")).stream(messages, options=5)
    assert (await chat_of("hello").complete(messages, options=ChatOptions())).text == "hello"


async def test_as_tool_makes_a_chat_a_tool_of_another_chat() -> None:
    tool = chat_of("It is in Utrecht.").as_tool(name="where", description="Finds things.")
    assert type(tool) is ChatTool
    model = ScriptedProvider(FunctionCall("where", {"request": "the dom"}, id="call_1"), "Utrecht, then.")
    answer = await ChatBuilder().with_model(model).with_scoped_tools(tool).build().complete(Messages.from_user("hi"))
    assert answer.text == "Utrecht, then."
    assert [declared.description for declared in model.asked[0].tools] == ["Finds things."]


async def test_exiting_the_block_of_a_chat_closes_its_model() -> None:
    model = Closable("hello")
    async with ChatBuilder().with_model(model).build() as chat:
        assert (await chat.complete(Messages.from_user("hi"))).text == "hello"
        assert model.closed == 0
    assert model.closed == 1


async def test_exiting_the_block_of_an_embeddings_chat_closes_its_model() -> None:
    model = Closable()
    async with ChatBuilder().with_model(model).with_embeddings().build() as chat:
        assert type(chat) is EmbeddingsChat
        assert (await chat.embed(["abc"])).vectors == ((3.0,),)
    assert model.closed == 1


async def test_closing_a_chat_does_nothing_if_its_model_has_no_aclose() -> None:
    chat = chat_of("hello")
    await chat.aclose()
    assert (await chat.complete(Messages.from_user("hi"))).text == "hello"
