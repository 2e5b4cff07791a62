"""Attempts reach providers, directly and through middlewares."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from chat_core import (
    Attempt,
    AttemptReset,
    ChatBuilder,
    ChatOptions,
    Delta,
    Messages,
    Metadata,
    Middleware,
    OutputSchema,
    OverloadedError,
    ProviderMeta,
    ProviderStream,
    Retry,
    ToolDeclarations,
    Turn,
)
from chat_core.testing import Answer, ScriptedProvider

pytestmark = pytest.mark.anyio


class Tagged:
    """A stream whose errors name the model."""

    def __init__(self, stream: ProviderStream, model: str) -> None:
        self.stream = stream
        self.model = model
        self.close = stream.close
        self.partial = stream.partial

    async def __aiter__(self) -> AsyncIterator[Sequence[Delta]]:
        try:
            async for batch in self.stream:
                yield batch
        except OverloadedError as error:
            error.metadata, error.retry_after = Metadata(model=self.model), 0
            raise


class Fallback:
    """A provider that uses the first of several models that has not failed."""

    def __init__(self, *models: ScriptedProvider, attempt: Attempt | None = None) -> None:
        self.models = models
        self.attempt = attempt or Attempt()

    @property
    def metadata(self) -> ProviderMeta:
        return ProviderMeta("fallback")

    def with_attempt(self, attempt: Attempt, /) -> Fallback:
        return Fallback(*self.models, attempt=attempt)

    @property
    def chosen(self) -> ScriptedProvider:
        failed = {error.metadata.model for error in self.attempt.failed if error.metadata is not None}
        return next(model for model in self.models if model.metadata.model not in failed)

    async def complete(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, structured_output: OutputSchema | None
    ) -> Turn:
        chosen = self.chosen
        try:
            return await chosen.complete(messages, tools, options, structured_output)
        except OverloadedError as error:
            error.metadata, error.retry_after = Metadata(model=chosen.metadata.model), 0
            raise

    @asynccontextmanager
    async def stream(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, structured_output: OutputSchema | None
    ) -> AsyncGenerator[ProviderStream]:
        chosen = self.chosen
        async with chosen.stream(messages, tools, options, structured_output) as stream:
            yield Tagged(stream, chosen.metadata.model)


def named(name: str, *script: str | Answer | OverloadedError) -> ScriptedProvider:
    return ScriptedProvider(*script, meta=ProviderMeta("scripted", name))


@pytest.mark.parametrize("middleware", [(), (Middleware(),)])
async def test_a_fallback_provider_uses_its_next_model_on_a_retry(
    middleware: tuple[Middleware, ...],
) -> None:
    first, second = named("first", OverloadedError("busy")), named("second", "hello")
    builder = ChatBuilder().with_model(Fallback(first, second)).with_retry(Retry(times=1, base=1_000))
    for item in middleware:
        builder = builder.with_middleware(item)
    chat, messages = builder.build(), Messages.from_user("hi")

    assert (await chat.complete(messages)).text == "hello"
    assert (len(first.asked), len(second.asked)) == (1, 1)


async def test_each_fallback_counts_as_a_retry() -> None:
    models = [named(str(index), OverloadedError(f"busy {index}")) for index in range(3)]
    chat = ChatBuilder().with_model(Fallback(*models)).with_retry(Retry(times=1)).build()

    with pytest.raises(OverloadedError, match="busy 1") as caught:
        await chat.complete(Messages.from_user("hi"))

    assert caught.value.attempts == 2
    assert [len(model.asked) for model in models] == [1, 1, 0]


async def test_a_broken_stream_is_retried_with_the_next_model() -> None:
    broken = named("first", Answer(["one two three"], fail_after=1, error=OverloadedError("busy")))
    retry = Retry(after_delivery=True, base=1_000)
    chat = ChatBuilder().with_model(Fallback(broken, named("second", "hello"))).with_retry(retry).build()

    async with chat.stream(Messages.from_user("hi")) as stream:
        events = [event async for event in stream]

    assert AttemptReset(2, "busy") in events
    assert stream.response.text == "hello"


async def test_each_model_call_starts_with_the_first_model() -> None:
    first, second = named("first", OverloadedError("busy"), "again"), named("second", "hello")
    chat = ChatBuilder().with_model(Fallback(first, second)).build()

    messages = Messages.from_user("hi")
    await chat.complete(messages)
    response = await chat.complete(messages.user("and now?"))

    assert response.text == "again"
