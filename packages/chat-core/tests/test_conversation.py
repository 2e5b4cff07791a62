"""What a run may take in place of messages."""

from __future__ import annotations

from pathlib import Path

import pytest
from chat_core.conversation import Conversation
from chat_core.file_conversation import FileConversation
from chat_core.messages import FunctionCall, Messages, Tool, Turn
from chat_core.testing.memory_conversation import MemoryConversation

pytestmark = pytest.mark.anyio


def asked() -> Messages:
    messages = Messages.from_user("Pay both.")
    messages.append("model", Turn([Tool(FunctionCall("pay", {"cents": 1}), id="one")], finish_reason="tool_calls"))
    return messages


async def test_both_conversations_of_this_package_are_conversations(tmp_path: Path) -> None:
    assert isinstance(MemoryConversation(), Conversation)
    async with FileConversation.open(tmp_path / "chat.jsonl") as conversation:
        assert isinstance(conversation, Conversation)
