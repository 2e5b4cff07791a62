"""A program that dies inside a tool of an agent at depth 2, and the parts with which a test resumes it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Never

from agent_helpers import NO_RETRIES
from chat_agents import AgentConfig, AgentEngine, AgentFlow, AgentSession, Delegation, SubAgent
from chat_core import Execute, FunctionCall, ScopedCollection, ToolCollection, ToolScope
from chat_core.testing import ScriptedProvider
from chat_store import SqliteStore


def call_write(word: str) -> FunctionCall:
    return FunctionCall("write", {"word": word}, id=f"write_{word}")


def delegate(agent: str, number: int) -> FunctionCall:
    return FunctionCall("delegate", {"agent": agent, "task": "Do it."}, id=f"delegate_{number}")


def decide(_call: FunctionCall, _meta: None) -> Execute:
    return Execute()


class World(AgentFlow):
    """A flow that delegates to a manager, who delegates to a worker, who writes words into a file."""

    name = "world"

    def __init__(self, folder: Path, *, deadly: bool) -> None:
        self._file = folder / "words"
        self._deadly = deadly

    def delegation(self) -> Delegation[Never]:
        worker = ScriptedProvider(call_write("one"), call_write("two"), "I wrote.", by_history=True)
        manager = ScriptedProvider(delegate("worker", 2), "It is written.", by_history=True)
        agents = [
            SubAgent(name="manager", description="", instructions="", model=manager),
            SubAgent(name="worker", description="", instructions="", model=worker),
        ]
        return Delegation(agents=agents, max_depth=2)

    def scopes(self) -> Sequence[ToolScope[Never]]:
        tools = ToolCollection()

        @tools.tool
        async def write(word: str) -> str:
            with self._file.open("a") as file:
                file.write(f"{word}\n")
            if word == "two" and self._deadly:
                os.kill(os.getpid(), signal.SIGKILL)
            return word

        return [ScopedCollection(tools, decide)]


async def run(folder: Path, message: str | None, *, deadly: bool) -> AgentSession:
    """Run the session of the folder until its run ends, or until the process dies."""
    model = ScriptedProvider(delegate("manager", 1), "Good.", by_history=True)
    engine = AgentEngine(model, AgentConfig(retry=NO_RETRIES))
    async with SqliteStore(folder / "chats.db", lease_seconds=1) as store:
        session = await AgentSession.open(store, "s", flow="world")
        async with engine.run(World(folder, deadly=deadly), session, message) as events:
            async for _ in events:
                pass
        return session


if __name__ == "__main__":
    asyncio.run(run(Path(sys.argv[1]), "Go.", deadly=True))
