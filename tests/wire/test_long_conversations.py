"""The work of one request in a long conversation that is held open, counted in lines of Python and bytes of JSON."""

from __future__ import annotations

import sys
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
import pytest
from chat_core import (
    ChatBuilder,
    Completed,
    ContextPolicy,
    Conversation,
    FunctionCall,
    Messages,
    Middleware,
    ProviderRequest,
    Send,
    Summarize,
    Text,
    Tool,
    Turn,
    Usage,
    Window,
)
from chat_core.testing import Answer, ScriptedProvider
from chat_store import FileConversation, MemoryStore, SqliteStore

from .test_views import WIRES

PACKAGES = str(Path(__file__).parents[2] / "packages")
JSON = str(Path("chat_core", "json.py"))
POLICIES: dict[str, ContextPolicy] = {
    "window": Window(4_000, 2_000),
    "summaries": Summarize(ScriptedProvider(*[Answer(["They spoke."], usage=Usage())] * 10), 4_000, 2_000),
}
REQUESTS = 3


@dataclass
class Work:
    """Lines of Python and bytes of JSON in the packages of this repository, while `counts` is set."""

    counts: bool = False
    lines: int = 0
    json_bytes: int = 0

    def enter(self, frame: FrameType, event: str, arg: object) -> Any:
        del event, arg
        file = frame.f_code.co_filename
        if not self.counts or not file.startswith(PACKAGES):
            return None
        if file.endswith(JSON) and frame.f_code.co_name.startswith("loads"):
            self.json_bytes += len(frame.f_locals["data"])
        return self.step

    def step(self, frame: FrameType, event: str, arg: object) -> Any:
        self.lines += event == "line"
        if event == "return" and isinstance(arg, (str, bytes)) and frame.f_code.co_filename.endswith(JSON):
            self.json_bytes += len(arg)
        return self.step


@contextmanager
def traced(work: Work) -> Generator[None]:
    before = sys.gettrace()
    threading.settrace(work.enter)  # the threads of stores begin later
    sys.settrace(work.enter)
    try:
        yield
    finally:
        sys.settrace(before)
        threading.settrace(before)  # pyright: ignore[reportArgumentType] - any trace function


class Wires(Middleware):
    """Middleware that encodes each request for all wires and answers it itself."""

    async def complete(self, request: ProviderRequest, send: Send, /) -> Turn:
        """Return a short answer."""
        del send
        for encode in WIRES.values():
            encode(request.messages)
        return Turn([Text("Yes.")], finish_reason="stop")


def conversation_of(turns: int) -> Messages:
    messages = Messages()
    for number in range(turns // 2):
        messages.user(f"Question {number}. {'More words. ' * 20}")
        tool = Tool(FunctionCall("look", {}), id=f"look_{number}", status=Completed("More words. " * 20))
        messages.append("model", Turn([Text(f"Answer {number}."), tool], finish_reason="tool_calls"))
    return messages


@asynccontextmanager
async def stored(kind: str, messages: Messages, folder: Path) -> AsyncGenerator[Conversation]:
    if kind == "file":
        async with FileConversation.create(folder / "chat.jsonl", messages) as conversation:
            yield conversation
    else:
        store = MemoryStore() if kind == "memory" else SqliteStore(folder / "chats.db")
        async with store:
            name = await store.create(messages)
            async with store.open(name) as conversation:
                yield conversation


async def count_work(kind: str, policy: str, turns: int, folder: Path) -> Work:
    """Return the work of some questions in one run each, after the first ones have filled the caches."""
    work = Work()
    builder = ChatBuilder().with_model(ScriptedProvider()).with_context(POLICIES[policy])
    chat = builder.with_middleware(Wires()).build()
    with traced(work):
        async with stored(kind, conversation_of(turns), folder) as conversation:
            for number in range(2 + REQUESTS):
                work.counts = number >= 2
                conversation.messages.user(f"Another question {number}.")
                await chat.complete(conversation)
            work.counts = False
    return work


@pytest.mark.parametrize(
    ("kind", "policy"), [("memory", "window"), ("memory", "summaries"), ("sqlite", "window"), ("file", "window")]
)
def test_the_work_for_a_request_does_not_grow_with_the_conversation(kind: str, policy: str, tmp_path: Path) -> None:
    counted: list[Work] = []
    for turns in (100, 10_000):
        folder = tmp_path / str(turns)
        folder.mkdir()
        counted.append(anyio.run(count_work, kind, policy, turns, folder))
    short, long = counted
    assert short.json_bytes > 1_000
    assert long.lines <= 1.5 * short.lines
    assert long.json_bytes <= 1.5 * short.json_bytes
