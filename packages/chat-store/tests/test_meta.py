"""The description of a conversation, including whether the conversation is open."""

from __future__ import annotations

from datetime import UTC, datetime

from chat_store import ConversationMeta


def test_a_conversation_is_open_until_it_is_closed() -> None:
    assert ConversationMeta("1").state == "open"
    assert ConversationMeta("1", closed_at=datetime.now(UTC)).state == "closed"
