"""Benchmark client of chat-agents: the work of `ours.Ours`, done by an agent with a session in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Never

from chat_agents import AgentConfig, AgentEngine, AgentFlow, AgentSession, Text
from chat_core import Execute, FunctionCall, RunContext, ScopedCollection, ToolCollection, ToolScope
from ours import provider
from work import EVENTS, SENTENCE, STEPS, Slot, Works, require, weather


class Weather(AgentFlow):
    """The flow of the benchmark."""

    name = "weather"

    def instructions(self, _context: RunContext, /) -> str:
        """Return no instructions: the chat that this is compared with has none."""
        return ""

    def scopes(self) -> Sequence[ToolScope[Never]]:
        """Return the tool of the loop."""
        tools = ToolCollection()

        @tools.tool
        async def get_weather(city: str) -> str:
            """The weather."""
            return weather(city)

        return [ScopedCollection(tools, _allow)]


def _allow(_call: FunctionCall, _meta: None) -> Execute:
    return Execute()


class Agent:
    """Client that runs a flow."""

    def __init__(self, base: str, wire: str) -> None:
        self._engine = AgentEngine(provider(wire, base, ""), AgentConfig(max_tool_rounds=STEPS["streamed10"] + 1))
        self._flow = Weather()

    def works(self) -> Works:
        """Return the supported work by name."""
        return {"stream": self._stream, "streamed10": self._loop}

    async def _texts(self) -> list[str]:
        async with self._engine.run(self._flow, AgentSession(flow="weather"), SENTENCE) as run:
            return [event.delta async for event in run if isinstance(event, Text)]

    def _stream(self) -> Slot:
        async def slot() -> None:
            require(len(await self._texts()) >= EVENTS - 1)

        return slot

    def _loop(self) -> Slot:
        async def slot() -> None:
            require(await self._texts())

        return slot
