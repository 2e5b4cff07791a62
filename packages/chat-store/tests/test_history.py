"""The history of a conversation, as read from its journal."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from chat_core.messages import (
    FunctionCall,
    Messages,
    Text,
    Tool,
    Turn,
)
from chat_store.file_conversation import FileConversation

pytestmark = pytest.mark.anyio


class Clock:
    def __init__(self) -> None:
        self.time = datetime(2030, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time

    def advance(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


def call(id: str) -> Tool:
    tool = Tool(FunctionCall("pay", {"cents": 1}), id=id)
    tool.await_approval()
    return tool


def waiting(*ids: str) -> Messages:
    messages = Messages.from_user("Pay.")
    messages.append("model", Turn([call(id) for id in ids], finish_reason="tool_calls"))
    return messages


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chat.jsonl"


async def store(path: Path, messages: Messages) -> None:
    async with FileConversation.create(path, messages):
        pass


async def test_the_history_lists_events_with_approver_time_and_holder(path: Path) -> None:
    clock = Clock()
    await store(path, waiting("one"))
    async with FileConversation.open(path, now=clock) as conversation:
        conversation.messages.tool("one").approve(by="ana", note="fine")
        await conversation.claim()
        turn = Turn([Text("Paid.")])
        conversation.messages.append("model", turn)
        await conversation.renew()
        await conversation.write_turn((), "model", turn)
        await conversation.release()
        history = await conversation.history()
    assert [entry.event for entry in history] == ["created", "claimed", "tool", "turn", "released"]
    decided = history[2]
    assert decided.tool is not None
    assert (decided.path, decided.at, decided.tool.decisions[0].by) == (("one",), clock.time, "ana")
    assert (history[3].role, history[3].turn) == ("model", turn)
    assert history[2].turn is None
    assert history[1].holder is not None
    assert str(os.getpid()) in history[1].holder
