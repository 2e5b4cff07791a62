"""What a run may take in place of messages."""

from __future__ import annotations

from chat_core.conversation import Conversation
from chat_core.testing.memory_conversation import MemoryConversation


def test_a_conversation_in_memory_is_a_conversation() -> None:
    assert isinstance(MemoryConversation(), Conversation)
