"""Stores and conversations without an event loop, and the protocol as type checkers see it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from chat_core import ChatBuilder, Messages
from chat_core.blocking import call, enter
from chat_core.errors import ConflictError
from chat_core.messages import Approved
from chat_core.testing import ScriptedProvider
from chat_store import ConversationStore, FileConversation, MemoryStore, SqliteStore
from chat_store.testing._fixtures import paused
from typing_extensions import get_protocol_members


async def count_due(open_store: Callable[[], ConversationStore]) -> int:
    """Count due conversations through the store protocol only, as a worker does."""
    async with open_store() as store:
        return len(await store.due())


@pytest.mark.anyio
async def test_stores_are_context_managers_by_their_protocol(tmp_path: Path) -> None:
    assert {"__aenter__", "__aexit__"} <= get_protocol_members(ConversationStore)
    assert await count_due(MemoryStore) == 0
    assert await count_due(lambda: SqliteStore(tmp_path / "chats.db")) == 0


def test_a_chat_runs_on_a_stored_conversation_without_an_event_loop(tmp_path: Path) -> None:
    chat = ChatBuilder().with_model(ScriptedProvider("Hello.")).build()
    with enter(SqliteStore(tmp_path / "chats.db")) as store:
        name = call(lambda: store.create(Messages.from_user("hi")))
        assert [item.conversation for item in call(store.due)] == [name]
        with enter(store.open(name)) as conversation:
            assert chat.blocking.complete(conversation).text == "Hello."
        assert call(store.due) == []
        assert call(lambda: store.load(name)).messages[-1].text == "Hello."


def test_a_file_is_opened_and_saved_without_an_event_loop(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    with enter(FileConversation.create(path, paused("a", "b"))) as conversation:
        conversation.messages.tool("a").approve()
    with pytest.raises(ZeroDivisionError), enter(FileConversation.open(path)) as conversation:
        conversation.messages.tool("b").approve()
        raise ZeroDivisionError
    with enter(FileConversation.open(path)) as conversation:
        assert isinstance(conversation.messages.tool("a").status, Approved)
        assert not isinstance(conversation.messages.tool("b").status, Approved)


def test_a_conflict_at_the_end_of_a_synchronous_block_is_raised(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    with enter(FileConversation.create(path, paused("a"))):
        pass
    with enter(FileConversation.open(path)) as first, pytest.raises(ConflictError):  # noqa: SIM117 - only the second one raises
        with enter(FileConversation.open(path)) as second:
            first.messages.tool("a").approve()
            call(first.save)
            second.messages.tool("a").reject()
