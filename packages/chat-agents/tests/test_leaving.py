"""A client that leaves at any event: the session is valid, and the next run continues with every effect once."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, Never

import anyio
import anyio.lowlevel
import pytest
from agent_helpers import NO_RETRIES, Desk, call_find, call_pay, short
from chat_agents import AgentConfig, AgentEngine, AgentFlow, AgentSession
from chat_core import (
    Completed,
    Execute,
    FunctionCall,
    Interrupted,
    Messages,
    Rejected,
    ScopedCollection,
    ToolCollection,
    ToolScope,
)
from chat_core.testing import ScriptedProvider
from chat_store import ConversationStore, MemoryStore, SqliteStore

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """One event loop: other tests run on both, and these are many."""
    return "asyncio"


SCRIPT: tuple[Any, ...] = (
    ["One moment. ", call_find("A")],
    ["And now ", call_find("B"), call_find("C")],
    call_pay(),
    "All is well.",
    "You are welcome.",
)
EVENTS = 17
"""Number of events of the first run, up to its pause."""
Kind = Literal["session", "memory", "sqlite"]
Way = Literal["break", "raise", "cancel"]


@asynccontextmanager
async def open_store(kind: Kind, folder: Path) -> AsyncGenerator[ConversationStore | None]:
    if kind == "session":
        yield None
    else:
        async with MemoryStore() if kind == "memory" else SqliteStore(folder / "sessions.db") as store:
            yield store


def new_provider() -> AgentEngine:
    return AgentEngine(ScriptedProvider(*SCRIPT, by_history=True), AgentConfig(retry=NO_RETRIES))


async def leave(flow: Desk, session: AgentSession, count: int, way: Way) -> list[object]:
    """Read `count` events of a run, and leave in the given way. After each event, the session's document is valid."""
    seen: list[object] = []
    with anyio.CancelScope() as scope:
        try:
            async with new_provider().run(flow, session, "go") as run:
                async for event in run:
                    seen.append(event)
                    assert AgentSession.from_json(session.to_json()).messages == session.messages
                    if len(seen) < count:
                        continue
                    if way == "break":
                        break
                    if way == "raise":
                        raise LookupError  # noqa: TRY301 - as code of the application would
                    scope.cancel()
                    await anyio.lowlevel.checkpoint()
        except LookupError:
            pass
    return seen


async def reload(store: ConversationStore | None, session: AgentSession) -> AgentSession:
    if store is None:
        return AgentSession.from_json(session.to_json())
    assert (await store.load(session.id)).messages == session.messages
    return await AgentSession.open(store, session.id, flow="desk")


def effects_in(messages: Messages) -> list[str]:
    """The effects that the history knows of: calls that completed, or were interrupted after their start."""
    found: list[str] = []
    for content in messages:
        for tool in content.tools:
            status = tool.status.started if isinstance(tool.status, Rejected) else tool.status
            if isinstance(status, (Completed, Interrupted)):
                found.append(f"{tool.name} {next(iter(tool.effective_arguments.values()))}")
    return found


async def finish(flow: Desk, session: AgentSession, message: str | None) -> Sequence[str]:
    async with new_provider().run(flow, session, message) as run:
        events = [event async for event in run]
    while waiting := session.messages.pending():
        async with session.edit() as messages:
            for tool in waiting:
                messages.tool(tool.id).approve()
        async with new_provider().run(flow, session) as run:
            events = [event async for event in run]
    return short(events)


@pytest.mark.parametrize("way", ["break", "raise", "cancel"])
@pytest.mark.parametrize("count", range(1, EVENTS + 1))
@pytest.mark.parametrize("kind", ["session", "memory"])
async def test_a_run_closed_early_can_be_continued(kind: Kind, count: int, way: Way, tmp_path: Path) -> None:
    await check_that_it_continues(kind, count, way, tmp_path)


@pytest.mark.parametrize("count", range(1, EVENTS + 1, 4))
async def test_a_run_closed_early_can_be_continued_from_sqlite(count: int, tmp_path: Path) -> None:
    await check_that_it_continues("sqlite", count, "break", tmp_path)


async def check_that_it_continues(kind: Kind, count: int, way: Way, folder: Path) -> None:
    async with open_store(kind, folder) as store:
        flow = Desk()
        session = AgentSession("s", flow="desk") if store is None else await AgentSession.open(store, "s", flow="desk")
        seen = await leave(flow, session, count, way)
        assert len(seen) == count

        session = await reload(store, session)
        assert sorted(flow.effects) == sorted(effects_in(session.messages))

        assert await finish(flow, session, None) != []
        assert len(set(flow.effects)) == len(flow.effects)
        assert sorted(flow.effects) == sorted(effects_in(session.messages))
        assert session.messages.pending() == []
        assert session.messages[-1].text.endswith("All is well.")


@pytest.mark.parametrize("count", range(1, EVENTS - 2, 2))
@pytest.mark.parametrize("kind", ["session", "memory"])
async def test_a_session_accepts_another_message_after_a_run_was_closed_early(
    kind: Kind, count: int, tmp_path: Path
) -> None:
    async with open_store(kind, tmp_path) as store:
        flow = Desk()
        session = AgentSession("s", flow="desk") if store is None else await AgentSession.open(store, "s", flow="desk")
        await leave(flow, session, count, "break")

        session = await reload(store, session)
        events = await finish(flow, session, "Never mind.")

        assert events[-1] == "done answered"
        assert len(set(flow.effects)) == len(flow.effects)
        assert sorted(flow.effects) == sorted(effects_in(session.messages))
        assert "Never mind." in [content.text for content in session.messages if content.role == "user"][-1]


async def test_a_run_closed_before_its_first_event_keeps_the_message() -> None:
    flow, session = Desk(), AgentSession("s", flow="desk")
    async with new_provider().run(flow, session, "go"):
        pass

    assert [content.text for content in session.messages] == ["go"]
    assert (await finish(flow, session, None))[-1] == "done answered"


class Slow(AgentFlow):
    name = "slow"

    def __init__(self) -> None:
        self.started = anyio.Event()
        self.starts = 0

    def scopes(self) -> Sequence[ToolScope[Never]]:
        tools = ToolCollection()

        @tools.tool
        async def hang() -> str:
            """Take effect, then hang."""
            self.starts += 1
            self.started.set()
            await anyio.sleep_forever()
            return ""

        return [ScopedCollection(tools, execute)]


def execute(call: FunctionCall, meta: None) -> Execute:
    del call, meta
    return Execute()


@pytest.mark.parametrize("message", [None, "Never mind."])
async def test_a_tool_running_when_the_stream_was_closed_does_not_run_again(message: str | None) -> None:
    async with MemoryStore() as store:
        flow, session = Slow(), await AgentSession.open(store, "s", flow="slow")
        provider = ScriptedProvider(FunctionCall("hang", id="h"), "I cannot know.")
        engine = AgentEngine(provider)
        async with anyio.create_task_group() as group:

            async def read() -> None:
                async with engine.run(flow, session, "go") as run:
                    async for _ in run:
                        pass

            group.start_soon(read)
            await flow.started.wait()
            group.cancel_scope.cancel()
        assert isinstance((await store.load("s")).messages.tool("h").status, Interrupted)

        async with engine.run(flow, session, message) as run:
            events = short([event async for event in run])

        assert events[-2:] == ["text I cannot know.", "done answered"]
        assert flow.starts == 1
        told = [tool.result_text() for _, turn in provider.asked[-1].turns for tool in turn.tools]
        assert "may have taken effect" in told[0] or "outcome" in told[0] or "interrupted" in told[0]
