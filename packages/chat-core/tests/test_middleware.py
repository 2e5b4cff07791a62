"""Middlewares of provider calls."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace

import pytest
from chat_core import (
    AttemptReset,
    Chat,
    ChatBuilder,
    ChatOptions,
    Done,
    FunctionCall,
    Messages,
    Middleware,
    NetworkError,
    OpenStream,
    OverloadedError,
    ProviderRequest,
    ProviderStream,
    Retry,
    Send,
    StreamingChat,
    Text,
    TextDelta,
    ToolCollection,
    Turn,
    TurnStream,
    UsageError,
)
from chat_core.testing import Answer, ScriptedProvider

pytestmark = pytest.mark.anyio


class Spy(Middleware):
    """Middleware that records requests and adds an option."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self.log = log
        self.requests: list[ProviderRequest] = []

    async def complete(self, request: ProviderRequest, send: Send, /) -> Turn:
        self.requests.append(request)
        self.log.append(f"{self.name} in")
        turn = await send(replace(request, options=ChatOptions(seed=(request.options.seed or 0) + 1)))
        self.log.append(f"{self.name} out")
        return turn

    @asynccontextmanager
    async def stream(self, request: ProviderRequest, open_stream: OpenStream, /) -> AsyncGenerator[ProviderStream]:
        self.requests.append(request)
        self.log.append(f"{self.name} in")
        async with open_stream(request) as stream:
            yield stream
        self.log.append(f"{self.name} out")


class Cache(Middleware):
    """Middleware that responds without the provider."""

    async def complete(self, request: ProviderRequest, send: Send, /) -> Turn:
        del request, send
        return Turn([Text("cached")], finish_reason="stop")

    def stream(
        self, request: ProviderRequest, open_stream: OpenStream, /
    ) -> AbstractAsyncContextManager[ProviderStream]:
        del request, open_stream
        return TurnStream.opened(Turn([Text("cached")], finish_reason="stop"))


def chat_of(model: ScriptedProvider, *middleware: Middleware) -> StreamingChat:
    builder = ChatBuilder().with_model(model).with_retry(Retry(base=0, after_delivery=True))
    for item in middleware:
        builder = builder.with_middleware(item)
    return builder.build()


async def test_the_first_middleware_is_the_outermost() -> None:
    log: list[str] = []
    model = ScriptedProvider("hello", "hello")
    chat = chat_of(model, Spy("a", log), Spy("b", log))

    response = await chat.complete(Messages.from_user("hi"))
    completed, log[:] = [*log], []
    async with chat.stream(Messages.from_user("hi")) as stream:
        text = [piece async for piece in stream.text()]

    assert response.text == "".join(text) == "hello"
    assert completed == log == ["a in", "b in", "b out", "a out"]
    assert model.asked[0].options.seed == 2


async def test_middleware_receives_the_whole_request() -> None:
    tools = ToolCollection()

    @tools.tool
    def clock() -> str:
        """Tell the time."""
        return "noon"

    spy = Spy("a", [])
    model = ScriptedProvider(FunctionCall("clock"), "noon")
    builder = ChatBuilder().with_model(model).with_tools(tools).with_middleware(spy)
    messages = Messages.from_user("what time is it?")

    await builder.build().complete(messages, options=ChatOptions(seed=7))

    assert [request.messages is messages for request in spy.requests] == [True, True]
    assert [item.name for item in spy.requests[0].tools] == ["clock"]
    assert spy.requests[0].options.seed == 7
    assert spy.requests[0].provider == model.metadata
    assert spy.requests[0].attempt.number == 1


async def test_middleware_runs_once_for_each_attempt() -> None:
    spy = Spy("a", [])
    model = ScriptedProvider(OverloadedError("busy"), NetworkError("gone"), "hello")

    await chat_of(model, spy).complete(Messages.from_user("hi"))

    assert [request.attempt.number for request in spy.requests] == [1, 2, 3]
    assert [str(error) for error in spy.requests[2].attempt.failed] == ["busy", "gone"]


async def test_middleware_can_answer_without_calling_the_provider() -> None:
    model = ScriptedProvider()
    chat = chat_of(model, Cache())

    response = await chat.complete(Messages.from_user("hi"))
    async with chat.stream(Messages.from_user("hi")) as stream:
        events = [event async for event in stream]

    assert response.text == "cached"
    assert events[0] == TextDelta("cached")
    assert isinstance(events[-1], Done)
    assert model.asked == []


async def test_errors_of_a_middleware_are_retried_like_provider_errors() -> None:
    class Flaky(Middleware):
        calls = 0

        async def complete(self, request: ProviderRequest, send: Send, /) -> Turn:
            Flaky.calls += 1
            if Flaky.calls == 1:
                msg = "the cache is down"
                raise NetworkError(msg)
            return await send(request)

    response = await chat_of(ScriptedProvider("hello"), Flaky()).complete(Messages.from_user("hi"))

    assert response.text == "hello"
    assert Flaky.calls == 2


async def test_middleware_can_replace_the_sent_messages_without_changing_the_history() -> None:
    class Redact(Middleware):
        async def complete(self, request: ProviderRequest, send: Send, /) -> Turn:
            return await send(replace(request, messages=Messages.from_user("[redacted]")))

    model = ScriptedProvider("hello")
    messages = Messages.from_user("my name is Ana")

    await chat_of(model, Redact()).complete(messages)

    assert "redacted" in model.asked[0].document
    assert messages.contents[0].text == "my name is Ana"


async def test_closing_a_stream_early_closes_the_provider_stream_behind_a_middleware() -> None:
    log: list[str] = []
    model = ScriptedProvider("hello world")
    chat = chat_of(model, Spy("a", log))

    async with chat.stream(Messages.from_user("hi")) as stream:
        async for _ in stream:
            break

    assert model.open_streams == 0


async def test_broken_stream_is_retried_through_the_middleware() -> None:
    spy = Spy("a", [])
    model = ScriptedProvider(Answer(["one two three"], fail_after=1), "one two three")

    async with chat_of(model, spy).stream(Messages.from_user("hi")) as stream:
        events = [event async for event in stream]

    assert sum(isinstance(event, AttemptReset) for event in events) == 1
    assert [request.attempt.number for request in spy.requests] == [1, 2]


@pytest.mark.parametrize("wrong", [Spy, object(), None])
def test_with_middleware_raises_if_the_value_is_not_a_middleware(wrong: object) -> None:
    with pytest.raises(UsageError, match=r"with_middleware\(\) needs a Middleware"):
        ChatBuilder().with_middleware(wrong)  # type: ignore[arg-type]  # wrong on purpose


def test_with_embeddings_raises_if_the_builder_has_a_middleware() -> None:
    builder = ChatBuilder().with_model(ScriptedProvider()).with_middleware(Cache())

    with pytest.raises(UsageError, match=r"remove with_middleware\(\)"):
        builder.with_embeddings()


async def test_chat_model_is_the_provider_without_middleware() -> None:
    model = ScriptedProvider()
    chat: Chat[object] = chat_of(model, Cache())

    assert chat.model is model
