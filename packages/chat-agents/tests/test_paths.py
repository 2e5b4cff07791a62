"""The table of `docs/concepts/agents.md`: each path ends as described there, in the first and second round."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from agent_helpers import NO_RETRIES, short
from chat_agents import AgentConfig, AgentEngine, AgentFlow, AgentSession, to_sse_event
from chat_core import (
    AuthenticationError,
    ChatError,
    Execute,
    FunctionCall,
    InvalidResponseError,
    NetworkError,
    Paused,
    Reject,
    RequireApproval,
    ScopedCollection,
    ToolCollection,
    ToolScope,
)
from chat_core.testing import Answer, ScriptedProvider
from chat_store import MemoryStore

PAGE = Path(__file__).parents[3] / "docs" / "concepts" / "agents.md"
LEAK = "https://eu.vertex.example/v1/projects/secret?key=sk-123 said 404, see /etc/passwd"
LEAKS = ["vertex", "projects/", "://", "404", "sk-123", "/etc", "chat_core", "chat_agents", "Traceback", "unforeseen"]
TEXT = "One moment. "


def read_table() -> dict[str, tuple[str, str]]:
    section = PAGE.read_text(encoding="utf-8").split("\n## ")[1]
    rows = re.findall(r"^\| ([^|]+?) \| ([^|]+?) \| ([^|]+?) \|$", section, re.MULTILINE)
    return {path: (before, after) for path, before, after in rows if not path.startswith(("path", "-"))}


TABLE = read_table()


@pytest.fixture
def anyio_backend() -> str:
    """One event loop: other tests run on both, and these are many."""
    return "asyncio"


def repeat(arguments: dict[str, Any]) -> dict[str, Any]:
    return arguments


class Desk(AgentFlow[Paused]):
    name = "desk"

    def scopes(self) -> Sequence[ToolScope[Paused]]:
        tools = ToolCollection()

        @tools.tool
        async def call() -> str:
            """Succeed."""
            return "fine"

        @tools.tool(name="raises")
        async def raises() -> str:
            """Raise."""
            raise LookupError(LEAK)

        @tools.tool(name="hangs")
        async def hangs() -> str:
            """Hang."""
            await anyio.sleep_forever()
            return ""

        for name in ("first", "rejected", "unforeseen", "approval"):
            tools.register(name, {"type": "object"}, repeat)
        return [ScopedCollection(tools, decide)]


def decide(call: FunctionCall, meta: None) -> Execute | Reject | RequireApproval:
    del meta
    if call.name == "unforeseen":
        raise LookupError(LEAK)
    if call.name == "approval":
        return RequireApproval()
    return Reject(LEAK) if call.name == "rejected" else Execute()


@dataclass
class Story:
    """A path: the response that fails or calls, and what else is broken."""

    tool: str = ""
    error: ChatError | None = None
    truncated: bool = False
    is_last_round: bool = False
    breaks: str = ""
    config: dict[str, Any] = field(default_factory=dict[str, Any])


STORIES = {
    "the model answers": Story(),
    "the provider refuses the request": Story(error=AuthenticationError(LEAK)),
    "the connection fails": Story(error=NetworkError(LEAK)),
    "the stream is truncated": Story(truncated=True),
    "the response is malformed": Story(error=InvalidResponseError(LEAK)),
    "a tool runs": Story("call"),
    "a tool raises": Story("raises"),
    "a tool times out": Story("hangs", config={"tool_timeout": 0.01}),
    "the model calls an unknown tool": Story("nonsense"),
    "a policy rejects the call": Story("rejected"),
    "a policy raises": Story("unforeseen"),
    "a policy requires an approval": Story("approval"),
    "the rounds are used up": Story("call", is_last_round=True),
    "the store fails": Story("call", breaks="store"),
    "another run takes the session over": Story("call", breaks="lease"),
    "anything else raises": Story(error=cast("Any", LookupError(LEAK))),
}


class Clock:
    """A clock that a test advances."""

    def __init__(self) -> None:
        self.time = datetime(2026, 11, 23, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time


def failing_response(story: Story, *, after_text: bool, before: Callable[[], Awaitable[object]] | None) -> Answer:
    text = [TEXT.strip() + " "] if after_text else []
    if story.tool:
        return Answer([*text, FunctionCall(story.tool, id="the_call")], before=before)
    if story.error is not None:
        return Answer([TEXT + "rest"], error=story.error, fail_after=2 if after_text else None, before=before)
    if story.truncated:
        return Answer([TEXT + "rest"], fail_after=2 if after_text else 0, before=before)
    return Answer([TEXT + "text" if after_text else "text"], before=before)


def expected_events(path: str, story: Story, number: int, *, after_text: bool) -> list[str]:
    names = [name.strip() for name in TABLE[path][after_text].split(",")]
    events = [re.sub(r"^call ", f"{story.tool} ", name) for name in names]
    events = ["text text" if event == "text" else "paused 1" if event == "paused" else event for event in events]
    if after_text and events[0] == "text text":
        events[0] = f"text {TEXT}text"
    elif after_text:
        events.insert(0, f"text {TEXT}")
    return ["first calling", "first done"] * (number == 2) + events


@asynccontextmanager
async def broken(kind: str, store: MemoryStore, clock: Clock) -> AsyncGenerator[Callable[[], Awaitable[object]] | None]:
    """What happens just before the response, so that storing it fails."""

    async def take_over() -> None:
        clock.time += timedelta(hours=1)
        async with store.open("s") as other:
            await other.claim()

    async def fill_the_disk() -> None:
        def refuse(*_: object, **__: object) -> None:
            raise OSError(28, LEAK)

        vars(store.memory)["write_transaction"] = refuse

    yield {"store": fill_the_disk, "lease": take_over}.get(kind)
    vars(store.memory).pop("write_transaction", None)


def test_the_documented_table_has_a_test_case_for_each_path() -> None:
    assert list(TABLE) == list(STORIES)


@pytest.mark.anyio
@pytest.mark.parametrize("after_text", [False, True], ids=["before_text", "after_text"])
@pytest.mark.parametrize("number", [1, 2], ids=["round_1", "round_2"])
@pytest.mark.parametrize("path", STORIES)
async def test_a_path_has_the_events_of_the_documented_table(path: str, number: int, *, after_text: bool) -> None:
    story, clock = STORIES[path], Clock()
    async with MemoryStore(now=clock) as store, broken(story.breaks, store, clock) as before:
        response = failing_response(story, after_text=after_text, before=before)
        script: list[Any] = [FunctionCall("first", id="first")] * (number - 1) + [response, "text"]
        provider = ScriptedProvider(*script)
        rounds = number if story.is_last_round else 5
        config = AgentConfig(max_tool_rounds=rounds, retry=NO_RETRIES, **story.config)
        session = await AgentSession.open(store, "s", flow="desk")
        async with AgentEngine(provider, config).run(Desk(), session, "go") as run:
            events = [event async for event in run]
        assert session.messages == (await store.load("s")).messages

    assert short(events) == expected_events(path, story, number, after_text=after_text)
    sent = b"".join([to_sse_event(event) for event in events]).decode()
    assert [leak for leak in LEAKS if leak in sent.replace(f'"{story.tool}"', "")] == []
