"""Forgetting a fact removes the notes that quote it from stored conversations."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from chat_core import Chat, ChatBuilder, FunctionCall, ToolCollection
from chat_core.messages import Messages, Recalled, RecalledNote, Turn
from chat_core.testing import ScriptedProvider
from chat_memory import Fact, MemoryScope, SqliteMemory, Statement
from chat_memory.forgetting import Forgotten, forget_with_notes
from chat_memory.recall import Recall
from chat_store import SqliteStore
from chat_store.meta import ConversationMeta

pytestmark = pytest.mark.anyio


def chat_with(memory: SqliteMemory) -> Chat:
    model = ScriptedProvider(*["Noted."] * 9)
    return ChatBuilder().with_model(model).with_memory(Recall(memory), scope=lambda context: context.owner).build()


async def ask(chat: Chat, store: SqliteStore, conversation: str, question: str, owner: str = "ana") -> None:
    async with store.open(conversation, owner=owner) as stored:
        stored.messages.user(question)
        await chat.complete(stored)


async def secret_of(scope: MemoryScope) -> Fact:
    await scope.add(Statement("user", "likes", "tea"))
    return (await scope.add(Statement("user", "password", "swordfish"))).fact


def files_of(database: Path) -> bytes:
    return b"".join(file.read_bytes() for file in database.parent.glob(f"{database.name}*"))


async def notes_of(store: SqliteStore, conversation: str) -> Sequence[str]:
    messages = (await store.load(conversation)).messages
    return [note.text for part in messages.recalled for note in part.notes]


async def test_forgetting_a_fact_redacts_its_notes_in_every_conversation(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    async with SqliteStore(path) as store, SqliteMemory(tmp_path / "memory.db") as memory:
        secret = await secret_of(memory.scope("ana"))
        chat = chat_with(memory)
        for name in ("chat-1", "chat-2"):
            await ask(chat, store, name, "What is my password?")
            assert await notes_of(store, name) == [secret.text]
        await ask(chat, store, "chat-3", "Which drink do I like, tea?")

        result = await forget_with_notes(memory.scope("ana"), secret.id, store, owner="ana", by="ana")

        assert (result.existed, sorted(result.redacted), result.busy) == (True, ["chat-1", "chat-2"], ())
        assert [await notes_of(store, name) for name in ("chat-1", "chat-2")] == [[], []]
        assert await notes_of(store, "chat-3") == ["user likes tea"]
        again = await forget_with_notes(memory.scope("ana"), secret.id, store, owner="ana", by="ana")
        assert again == Forgotten(existed=False)
        await ask(chat, store, "chat-1", "And now?")
    assert b"swordfish" not in files_of(path)


async def test_forgetting_a_fact_keeps_notes_of_another_owner(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "chats.db") as store, SqliteMemory(tmp_path / "memory.db") as memory:
        secret = await secret_of(memory.scope("ana"))
        await secret_of(memory.scope("ben"))
        await ask(chat_with(memory), store, "chat-1", "What is my password?", "ben")
        result = await forget_with_notes(memory.scope("ana"), secret.id, store, owner="ana", by="ana")
        assert result == Forgotten(existed=True)
        assert len(await notes_of(store, "chat-1")) == 1


async def test_forgetting_reports_a_busy_conversation_and_redacts_it_later(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "chats.db") as store, SqliteMemory(tmp_path / "memory.db") as memory:
        ana = memory.scope("ana")
        secret = await secret_of(ana)
        await ask(chat_with(memory), store, "chat-1", "What is my password?")
        results: list[Forgotten] = []
        tools = ToolCollection()

        @tools.tool
        async def forget() -> str:
            """Forget the password."""
            results.append(await forget_with_notes(ana, secret.id, store, owner="ana", by="ana"))
            return "done"

        model = ScriptedProvider([FunctionCall("forget", {})], "It is forgotten.")
        await ask(ChatBuilder().with_model(model).with_tools(tools).build(), store, "chat-1", "Forget it.")
        assert results == [Forgotten(existed=True, busy=("chat-1",))]
        result = await forget_with_notes(ana, secret.id, store, owner="ana", by="ana")
        assert result == Forgotten(existed=False, redacted=("chat-1",))
        assert await notes_of(store, "chat-1") == []


async def test_a_run_that_has_recalled_the_fact_is_reported_as_busy(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "chats.db") as store, SqliteMemory(tmp_path / "memory.db") as memory:
        ana = memory.scope("ana")
        secret = await secret_of(ana)
        results: list[Forgotten] = []

        class Slow:
            async def recall(self, scope: str, question: str, /) -> Sequence[RecalledNote]:
                notes = await Recall(memory).recall(scope, question)
                results.append(await forget_with_notes(ana, secret.id, store, owner="ana", by="ana"))
                return notes

        chat = ChatBuilder().with_model(ScriptedProvider("Noted."))
        await ask(
            chat.with_memory(Slow(), scope=lambda context: context.owner).build(),
            store,
            "chat-1",
            "What is my password?",
        )
        assert results == [Forgotten(existed=True, busy=("chat-1",))]
        assert await notes_of(store, "chat-1") == [secret.text]
        result = await forget_with_notes(ana, secret.id, store, owner="ana", by="ana")
        assert (result.redacted, await notes_of(store, "chat-1")) == (("chat-1",), [])


async def test_forgetting_skips_a_deleted_conversation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with SqliteStore(tmp_path / "chats.db") as store, SqliteMemory(tmp_path / "memory.db") as memory:
        for name in ("chat-1", "chat-2"):
            turn = Turn([Recalled((RecalledNote("a secret", id="fact"),))], by="engine")
            messages = Messages()
            messages.append("user", turn)
            await store.create(messages, id=name, owner="ana")
        listed = await store.conversations(owner="ana")
        await store.delete(listed[0].id)

        async def stale(*_: object, **__: object) -> Sequence[ConversationMeta]:
            return listed

        monkeypatch.setattr(SqliteStore, "conversations", stale)
        result = await forget_with_notes(memory.scope("ana"), "fact", store, owner="ana", by="ana")
        assert result.redacted == (listed[1].id,)


async def test_forgetting_reports_a_damaged_conversation_and_redacts_the_others(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    async with SqliteStore(path) as store, SqliteMemory(tmp_path / "memory.db") as memory:
        secret = await secret_of(memory.scope("ana"))
        chat = chat_with(memory)
        names = ("chat-1", "chat-2", "chat-3")
        for name in names:
            await ask(chat, store, name, "What is my password?")
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(
                "UPDATE chat_entries SET crc = crc + 1 WHERE conversation = "
                "(SELECT key FROM chat_conversations WHERE id = 'chat-2')"
            )

        result = await forget_with_notes(memory.scope("ana"), secret.id, store, owner="ana", by="ana")

        assert (sorted(result.redacted), result.busy, result.damaged) == (["chat-1", "chat-3"], (), ("chat-2",))
        assert [await notes_of(store, name) for name in ("chat-1", "chat-3")] == [[], []]
