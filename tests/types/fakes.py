"""Scripted models for the corpora: one for each set of abilities."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import final

from chat_core import (
    ChatOptions,
    Delta,
    EmbeddingsResponse,
    FunctionCall,
    Messages,
    OutputSchema,
    ProviderMeta,
    ProviderStream,
    Text,
    TextDelta,
    Tool,
    ToolDeclarations,
    Turn,
)
from chat_core.observer import CallRecord, Observation, RunRecord, ToolRecord, WaitRecord

META = ProviderMeta("fake", "scripted")


def answer(script: tuple[str | FunctionCall, ...], messages: Messages) -> Turn:
    """Return the scripted response for the number of model turns. The last response is repeated."""
    step = sum(len(content.turns) for content in messages if content.role == "model")
    said = script[min(step, len(script) - 1)]
    if isinstance(said, str):
        return Turn([Text(said)], finish_reason="stop")
    call = FunctionCall(said.name, said.arguments)
    return Turn([Tool(call, call_id=said.id or "call_1")], finish_reason="tool_calls")


@final
class FakeComplete:
    """A model that only completes."""

    def __init__(self, *script: str | FunctionCall) -> None:
        self._script = script or ("Utrecht",)

    @property
    def metadata(self) -> ProviderMeta:
        return META

    async def complete(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> Turn:
        del tools, options, structured_output
        return answer(self._script, messages)


@final
class Letters:
    """A streamed answer with one character in each delta."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn

    async def __aiter__(self) -> AsyncIterator[Sequence[Delta]]:
        for letter in self._turn.text:
            yield [TextDelta(letter)]

    def close(self) -> Turn:
        return self._turn

    def partial(self) -> Turn:
        return self._turn


@final
class FakeStream:
    """A model that only streams."""

    def __init__(self, *script: str | FunctionCall) -> None:
        self._script = script or ("Utrecht",)

    @property
    def metadata(self) -> ProviderMeta:
        return META

    @asynccontextmanager
    async def stream(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> AsyncGenerator[ProviderStream]:
        del tools, options, structured_output
        yield Letters(answer(self._script, messages))


@final
class FakeEmbed:
    """A model that only embeds."""

    @property
    def metadata(self) -> ProviderMeta:
        return META

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        del options
        return EmbeddingsResponse(tuple([(float(len(text)),) for text in texts]))


@final
class FakeFull:
    """A model that completes, streams and embeds."""

    def __init__(self, *script: str | FunctionCall) -> None:
        self._script = script or ("Utrecht",)

    @property
    def metadata(self) -> ProviderMeta:
        return META

    async def complete(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> Turn:
        del tools, options, structured_output
        return answer(self._script, messages)

    @asynccontextmanager
    async def stream(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> AsyncGenerator[ProviderStream]:
        del tools, options, structured_output
        yield Letters(answer(self._script, messages))

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        del options
        return EmbeddingsResponse(tuple([(float(len(text)),) for text in texts]))


@final
class Watcher:
    """An observer that stores nothing."""

    def run(self, record: RunRecord, /) -> Observation:
        del record
        return self

    def model_call(self, record: CallRecord, /) -> Observation:
        del record
        return self

    def tool(self, record: ToolRecord, /) -> Observation:
        del record
        return self

    def decided(self, record: WaitRecord, /) -> None: ...

    def inside(self) -> AbstractContextManager[object]:
        return nullcontext()

    def end(self) -> None: ...
