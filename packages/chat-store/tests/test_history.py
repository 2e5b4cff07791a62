"""The history of a conversation, as read from its journal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from chat_core.messages import (
    Text,
    Turn,
)
from chat_store.file_conversation import FileConversation
from chat_store.testing._fixtures import Clock, paused
from file_helpers import store

pytestmark = pytest.mark.anyio


async def test_the_history_lists_events_with_approver_time_and_holder(path: Path) -> None:
    clock = Clock()
    await store(path, paused("one"))
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
