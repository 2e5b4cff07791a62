"""Conversations that a run accepts instead of messages."""

from __future__ import annotations

from chat_core.conversation import Conversation
from chat_core.testing.memory_conversation import MemoryConversation


def test_memory_conversation_implements_the_conversation_protocol() -> None:
    assert isinstance(MemoryConversation(), Conversation)
