"""Benchmark clients that stream: a chat, and an agent over the same chat."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Never

from chat_agents import AgentConfig, AgentEngine, AgentFlow, AgentSession
from chat_core import (
    ChatBuilder,
    ChatOptions,
    Execute,
    FunctionCall,
    Messages,
    OutputSchema,
    ProviderMeta,
    ProviderStream,
    ScopedCollection,
    ToolCollection,
    ToolDeclarations,
    ToolScope,
    Turn,
    TurnStream,
)
from ours import provider
from work import EVENTS, SENTENCE, STEPS, Slot, Works, require, weather


class WholeTurns:
    """A provider that streams complete responses, because the server's loops have no streams."""

    def __init__(self, model: Any) -> None:  # noqa: ANN401 - the provider types have no common base
        self._model = model

    @property
    def metadata(self) -> ProviderMeta:
        """The description of the provider."""
        metadata: ProviderMeta = self._model.metadata
        return metadata

    async def complete(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, structured_output: OutputSchema | None
    ) -> Turn:
        """Return the complete response."""
        turn: Turn = await self._model.complete(messages, tools, options, structured_output)
        return turn

    @asynccontextmanager
    async def stream(
        self, messages: Messages, tools: ToolDeclarations, options: ChatOptions, structured_output: OutputSchema | None
    ) -> AsyncGenerator[ProviderStream]:
        """Stream the complete response in one batch."""
        async with TurnStream.opened(await self.complete(messages, tools, options, structured_output)) as stream:
            yield stream


class Weather(AgentFlow):
    """A flow with the tool of the loop."""

    name = "weather"

    def scopes(self) -> Sequence[ToolScope[Never]]:
        """Return the tool, which always runs."""
        tools = ToolCollection()

        @tools.tool
        async def get_weather(city: str) -> str:
            """The weather."""
            return weather(city)

        return [ScopedCollection(tools, _execute)]


def _execute(call: FunctionCall, meta: None) -> Execute:
    del call, meta
    return Execute()


class Streaming:
    """Client that streams each run, by a chat or by an agent."""

    def __init__(self, base: str, work: str, wire: str, kind: str) -> None:
        model = provider(wire, base, "")
        model = WholeTurns(model) if work in STEPS else model
        steps = STEPS.get(work, 1) + 1
        self._is_agent = kind == "agent"
        self._flow = Weather()
        builder = ChatBuilder().with_model(model).with_max_steps(steps)
        self._chat = builder.with_scoped_tools(self._flow.scopes()[0]).build()
        self._engine = AgentEngine(model, AgentConfig(max_tool_rounds=steps))

    def works(self) -> Works:
        """Return the supported work by name."""
        return {"stream": self._stream, **dict.fromkeys(STEPS, self._loop)}

    def _stream(self) -> Slot:
        async def slot() -> None:
            require(await self._run() >= EVENTS - 1)

        return slot

    def _loop(self) -> Slot:
        async def slot() -> None:
            require(await self._run())

        return slot

    async def _run(self) -> int:
        """Run once, and return the number of events."""
        count = 0
        if self._is_agent:
            async with self._engine.run(self._flow, AgentSession(flow="weather"), SENTENCE) as run:
                async for _ in run:
                    count += 1
        else:
            async with self._chat.stream(Messages.from_user(SENTENCE)) as stream:
                async for _ in stream:
                    count += 1
        return count
