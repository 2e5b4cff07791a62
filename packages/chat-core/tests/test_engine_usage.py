"""Usage of a conversation: turns, failed requests and inner chats, each stored with its source."""

from __future__ import annotations

import pytest
from chat_core import (
    ChatBuilder,
    ChatResponse,
    FunctionCall,
    InvalidResponseError,
    Messages,
    Paused,
    RateLimitedError,
    RequireApproval,
    Retry,
    ScopedCollection,
    StreamingChat,
    ToolCollection,
    Usage,
)
from chat_core.errors import ChatError
from chat_core.testing import Answer, MemoryConversation, ScriptedProvider

pytestmark = pytest.mark.anyio

NO_WAIT = Retry(times=2, base=0.0)


def busy(tokens: int) -> RateLimitedError:
    error = RateLimitedError("busy")
    error.usage = Usage(tokens, 0)
    return error


async def run(chat: StreamingChat[ChatResponse], target: Messages | MemoryConversation, *, streaming: bool) -> None:
    if streaming:
        async with chat.stream(target) as stream:
            async for _ in stream:
                pass
    else:
        await chat.complete(target)


@pytest.mark.parametrize("streaming", [False, True], ids=["complete", "stream"])
async def test_usage_of_failed_attempts_is_stored_with_the_following_turn(*, streaming: bool) -> None:
    model = ScriptedProvider(busy(100), busy(900), "Hello.")
    chat = ChatBuilder().with_model(model).with_retry(NO_WAIT).build()
    conversation = MemoryConversation(Messages.from_user("hi"))
    await run(chat, conversation, streaming=streaming)
    stored = conversation.resting()
    assert stored[-1].turns[-1].failed_usage == Usage(1000, 0)
    assert stored.usage == conversation.messages.usage == Usage(1010, 5)
    assert Messages.from_json(stored.to_json()).usage == Usage(1010, 5)


@pytest.mark.parametrize("streaming", [False, True], ids=["complete", "stream"])
async def test_usage_of_a_failed_request_is_stored_with_the_preceding_turn(*, streaming: bool) -> None:
    model = ScriptedProvider(busy(100), busy(200), busy(300), busy(400), "Hello.")
    chat = ChatBuilder().with_model(model).with_retry(NO_WAIT).build()
    conversation = MemoryConversation(Messages.from_user("hi"))
    with pytest.raises(RateLimitedError) as caught:
        await run(chat, conversation, streaming=streaming)
    assert caught.value.usage == Usage(600, 0)
    assert conversation.resting().usage == Usage(600, 0)
    await run(chat, conversation, streaming=streaming)
    assert conversation.resting().usage == Usage(1010, 5)
    assert [turn.failed_usage for content in conversation.resting() for turn in content.turns] == [
        Usage(600, 0),
        Usage(400, 0),
    ]


async def test_usage_of_invalid_responses_and_of_streams_closed_early_is_counted() -> None:
    model = ScriptedProvider(
        Answer([FunctionCall("pay", {})], finish_reason="other"), Answer(["one two three"], usage=Usage(7, 3))
    )
    chat = ChatBuilder().with_model(model).build()
    messages = Messages.from_user("hi")
    with pytest.raises(InvalidResponseError):
        await chat.complete(messages)
    assert messages.usage == Usage(10, 5)
    async with chat.stream(messages) as stream:
        async for _ in stream:
            break
    assert messages.usage.input_tokens >= 10


async def test_a_failure_to_store_the_usage_does_not_hide_the_error() -> None:
    def refuse(call: object) -> None:
        if str(call) == "write_marks":
            msg = "the disk is full"
            raise OSError(msg)

    chat = ChatBuilder().with_model(ScriptedProvider(busy(100))).with_retry(0).build()
    conversation = MemoryConversation(Messages.from_user("hi"), on_call=refuse)
    with pytest.raises(RateLimitedError):
        await chat.complete(conversation)
    assert conversation.operations[-1] == "release"


class Office:
    """A chat that pays on approval, inside another chat."""

    def __init__(self) -> None:
        self.tools = ToolCollection()

        @self.tools.tool
        async def pay(cents: int) -> str:
            return f"paid {cents}"

    def chat(self, *script: Answer | ChatError) -> StreamingChat[ChatResponse, Paused]:
        scope = ScopedCollection(self.tools, lambda _call, _meta: RequireApproval())
        clerk = ChatBuilder().with_model(ScriptedProvider(*script)).with_scoped_tools(scope).with_retry(NO_WAIT)
        ask = FunctionCall("ask", {"request": "pay"}, id="ask")
        model = ScriptedProvider(ask, "Done.", by_history=True)
        inner = clerk.build().as_tool(name="ask", description="Asks.")
        return ChatBuilder().with_model(model).with_scoped_tools(inner).build()


async def test_the_usage_of_an_inner_chat_is_stored_with_its_call() -> None:
    office = Office()
    chat = office.chat(busy(1000), Answer(["Paid."], usage=Usage(500, 50)))
    conversation = MemoryConversation(Messages.from_user("pay"))
    done = await chat.complete(conversation)
    assert isinstance(done, ChatResponse)
    assert done.usage == Usage(1520, 60)
    stored = conversation.resting()
    assert stored.tool("ask").usage == Usage(1500, 50)
    assert stored.usage == conversation.messages.usage == Usage(1520, 60)
    assert Messages.from_json(stored.to_json()).usage == Usage(1520, 60)


async def test_the_usage_of_an_inner_chat_is_counted_once_during_and_after_its_wait() -> None:
    office = Office()
    pay = Answer([FunctionCall("pay", {"cents": 5}, id="pay")], usage=Usage(500, 50))
    chat = office.chat(pay, Answer(["Paid."], usage=Usage(300, 30)))
    messages = Messages.from_user("pay")
    assert isinstance(await chat.complete(messages), Paused)
    assert messages.usage == Usage(510, 55)
    messages = Messages.from_json(messages.to_json())
    assert messages.usage == Usage(510, 55)
    messages.tool("ask", "pay").approve()
    assert isinstance(await chat.complete(messages), ChatResponse)
    assert messages.usage == Usage(820, 90)
    assert messages.tool("ask").inner is None


async def test_the_usage_of_an_inner_chat_that_failed_or_was_cancelled_is_kept() -> None:
    office = Office()
    failing = office.chat(busy(100), busy(200), busy(300))
    messages = Messages.from_user("pay")
    await failing.complete(messages)
    assert messages.tool("ask").failed
    assert messages.usage == Usage(620, 10)

    waiting = office.chat(Answer([FunctionCall("pay", {"cents": 5}, id="pay")], usage=Usage(500, 50)))
    messages = Messages.from_user("pay")
    await waiting.complete(messages)
    messages.cancel_pending("never mind")
    assert messages.usage == Usage(510, 55)
    assert Messages.from_json(messages.to_json()).usage == Usage(510, 55)
