"""Decisions of several writers in one journal are merged per call, in every order."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Literal, TypeAlias

import anyio
import hypothesis.strategies as st
import pytest
from chat_core.errors import (
    ConflictError,
)
from chat_core.messages import (
    Approved,
    Pending,
    Rejected,
    Running,
    Suspended,
    Text,
    Tool,
    Turn,
)
from chat_store.file_conversation import FileConversation
from chat_store.testing._fixtures import paused
from file_helpers import content_of, store, stored
from hypothesis import given, settings

pytestmark = pytest.mark.anyio


async def test_decisions_on_nested_calls_of_one_tool_are_merged(path: Path) -> None:
    messages = paused("outer")
    outer = messages.tool("outer")
    outer.approve()
    outer.start()
    outer.suspend(paused("left", "right"))
    await store(path, messages)
    async with FileConversation.open(path) as ana, FileConversation.open(path) as ben:
        ana.messages.tool("outer", "left").approve(by="ana")
        ben.messages.tool("outer", "right").reject("no", by="ben")
        await ana.save()
        await ben.save()
        assert isinstance(ben.messages.tool("outer", "left").status, Approved)
        history = await ben.history()
        assert [entry.path for entry in history if entry.event == "tool"] == [("outer", "left"), ("outer", "right")]
        ana.messages.tool("outer").cancel("enough")
        with pytest.raises(ConflictError, match="outer"):
            await ana.save()
        assert isinstance(ana.messages.tool("outer", "right").status, Rejected)
        ana.messages.tool("outer").cancel("enough")
        await ana.save()
        ben.messages.tool("outer", "left").reject()
        with pytest.raises(ConflictError, match="outer"):
            await ben.save()
        assert isinstance(ben.messages.tool("outer").status, Rejected)
    assert isinstance((await stored(path)).tool("outer").status, Rejected)


async def test_a_suspended_chat_is_stored_with_its_conversation(path: Path) -> None:
    async with FileConversation.create(path, paused("outer")) as conversation:
        outer = conversation.messages.tool("outer")
        outer.approve()
        await conversation.claim()
        outer.start()
        await conversation.write_tool((outer.id,), outer)
        outer.suspend(paused("inner"))
        await conversation.write_tool((outer.id,), outer)
        assert isinstance((await stored(path)).tool("outer").status, Suspended)
        outer.start()
        inner = outer.inner
        assert inner is not None
        inner.tool("inner").approve()
        inner.append("model", Turn([Text("more")]))
        await conversation.write_tool((outer.id,), outer)
        assert (await stored(path)) == conversation.messages


Action: TypeAlias = tuple[int, Literal["approve", "reject", "start", "complete", "save", "claim", "release"], int]

ACTIONS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from(["approve", "reject", "start", "complete", "save", "claim", "release"]),
        st.integers(0, 2),
    ),
    max_size=25,
)
IDS = ("a", "b", "c")


class TwoWriters:
    """State machine with two writers of one file and a record of the confirmed writes."""

    def __init__(self, path: Path, writers: Sequence[FileConversation]) -> None:
        self.path = path
        self.writers = writers
        self.runs: set[int] = set()
        self.promised: dict[str, list[str]] = {id: [] for id in IDS}

    async def act(self, who: int, action: str, place: int) -> None:
        writer = self.writers[who]
        tool = writer.messages.tool(IDS[place])
        if action in ("approve", "reject"):
            if isinstance(tool.status, Pending):
                getattr(tool, action)(by=f"{who}-{len(self.promised[tool.id])}")
        elif action == "start":
            if who in self.runs and isinstance(tool.status, Approved) and await self.write(writer, tool, tool.start):
                self.promised[tool.id].append("started")
        elif action == "complete":
            if who in self.runs and isinstance(tool.status, Running):
                assert await self.write(writer, tool, lambda: tool.complete("done"))
        elif action == "release":
            await writer.release()
            self.runs.discard(who)
        else:
            await self.settle(who, action)

    async def write(self, writer: FileConversation, tool: Tool, step: object) -> bool:
        assert callable(step)
        step()
        try:
            await writer.write_tool((tool.id,), tool)
        except ConflictError:
            return False
        return True

    async def settle(self, who: int, action: str) -> None:
        writer = self.writers[who]
        before = content_of(self.path)
        try:
            await (writer.claim() if action == "claim" else writer.save())
        except ConflictError:
            assert content_of(self.path) == before
            return
        if action == "claim":
            assert not self.runs
            self.runs.add(who)
        for id in IDS:
            self.promised[id] += [
                str(decision.by)
                for decision in writer.messages.tool(id).decisions
                if decision.by not in self.promised[id]
            ]
        durable = await stored(self.path)
        for id in IDS:
            assert durable.tool(id) == writer.messages.tool(id)


async def _play(path: Path, actions: list[Action]) -> dict[str, list[str]]:
    """Let two writers play the actions; return the decisions and starts of each call that were confirmed as stored."""
    await store(path, paused(*IDS))
    async with AsyncExitStack() as stack:
        writers = [await stack.enter_async_context(FileConversation.open(path)) for _ in range(2)]
        game = TwoWriters(path, writers)
        for action in actions:
            await game.act(*action)
        for writer in writers:
            await writer.release()
        for who in (0, 1, 0, 1):
            await game.settle(who, "save")
    return game.promised


@settings(max_examples=60, deadline=None)
@given(actions=ACTIONS)
def test_concurrent_writers_lose_no_decision_and_start_no_call_twice(
    tmp_path_factory: pytest.TempPathFactory, actions: list[Action]
) -> None:
    path = tmp_path_factory.mktemp("two") / "chat.jsonl"
    promised = anyio.run(_play, path, actions)
    durable = anyio.run(stored, path)
    for id_, confirmed in promised.items():
        tool, starts = durable.tool(id_), confirmed.count("started")
        assert [str(decision.by) for decision in tool.decisions] == [item for item in confirmed if item != "started"]
        assert starts <= 1
        assert tool.attempts == starts
