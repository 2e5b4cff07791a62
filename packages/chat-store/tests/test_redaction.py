"""Redacted content is removed from messages, logs, files and database rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypedDict
from uuid import uuid4

import psycopg
import pytest
from chat_core.errors import ConflictError, InvalidDocumentError, UsageError
from chat_core.messages import (
    Approved,
    File,
    FunctionCall,
    Messages,
    Part,
    Reasoning,
    Recalled,
    RecalledNote,
    Text,
    Tool,
    Turn,
)
from chat_core.usage import Metadata, Usage
from chat_store import FileConversation, Job, MemoryStore, SqliteStore
from chat_store._redaction import REDACTED, SMALLEST_TEXT
from chat_store.postgres import PostgresStore
from chat_store.testing.postgres_server import PostgresServer
from hypothesis import given
from hypothesis import strategies as st
from psycopg import sql

pytestmark = pytest.mark.anyio

CARD = "4711 0815 1234"


class Who(TypedDict):
    by: str
    reason: str


WHO: Who = {"by": "dpo", "reason": "request of the customer"}


def conversation() -> Messages:
    """Return a conversation in which every kind of content repeats the card number."""
    tool = Tool(FunctionCall("pay", {"card": CARD}), id="pay")
    tool.await_approval()
    tool.approve(by="bo", note=CARD, arguments={"card": CARD, "cents": 5})
    tool.fail(f"{CARD} was refused")
    messages = Messages.from_user(f"My card is {CARD}.")
    parts: list[Part] = [
        Reasoning(CARD, signature=CARD),
        Text(CARD),
        File("text/plain", CARD.encode(), name=CARD),
        tool,
    ]
    messages.append("model", Turn(parts, finish_reason="tool_calls"))
    messages.append("user", Turn([Text("Thanks.")], state={"card": CARD}))
    return messages


def remains(folder: Path) -> list[str]:
    """Return the names of the files in a folder that contain the card number."""
    return sorted([path.name for path in folder.iterdir() if CARD.encode() in path.read_bytes()])


async def test_redaction_removes_content_from_a_file_that_remains_usable(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    async with FileConversation.create(path, conversation(), owner="ana") as stored:
        await stored.apply(meta={"title": CARD}, jobs=[Job("index", "1", {"card": CARD})])
        await stored.post(Turn([Text("Later.")]), key="1")
        with pytest.raises(ConflictError, match="active run"):
            await stored.claim()
            try:
                await FileConversation.redact(path, 0, **WHO)
            finally:
                await stored.release()
    assert remains(tmp_path) == ["chat.jsonl"]

    for target in (0, 1, 2):
        await FileConversation.redact(path, target, **WHO)

    assert remains(tmp_path) == []
    async with FileConversation.open(path) as stored:
        assert stored.owner == "ana"
        assert [content.text for content in stored.messages] == [REDACTED, REDACTED, REDACTED]
        assert stored.messages.tool("pay").decisions[0].by == "bo"
        assert stored.messages.state == {}
        meta, (job,), events = await stored.meta(), await stored.jobs(), await stored.history()
        assert (meta.title, job.payload) == (REDACTED, {"card": REDACTED})
        assert [(item.target, item.by) for item in events if item.event == "redacted"] == [(n, "dpo") for n in range(3)]
        assert not await stored.post(Turn([Text("Later.")]), key="1")
        stored.messages.user("More.")
    async with FileConversation.open(path) as stored:
        assert stored.messages[-1].text == f"{REDACTED}More."


async def test_an_open_file_cannot_be_written_after_a_redaction(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    async with FileConversation.create(path, conversation()):
        pass
    with pytest.raises(InvalidDocumentError, match="open it again"):
        async with FileConversation.open(path) as stored:
            await FileConversation.redact(path, 0, **WHO)
            stored.messages.user("More.")
    with pytest.raises(FileNotFoundError, match="no conversation in"):
        await FileConversation.redact(tmp_path / "none", 0, **WHO)
    assert not (tmp_path / "none").exists()


async def test_redaction_removes_content_from_the_sqlite_files(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "chats.db") as store:
        name = await store.create(
            conversation(), meta={"title": CARD}, jobs=[Job("index", "1", {"card": CARD}), Job("run", "1")]
        )
        with pytest.raises(OSError, match="no card"):
            async with store.take_job("run"):
                msg = f"no card {CARD}"
                raise OSError(msg)
        with closing(sqlite3.connect(tmp_path / "chats.db", isolation_level=None)) as connection:
            # Many builds of SQLite erase deleted data, others do not.
            connection.execute("PRAGMA secure_delete = OFF")
            connection.execute("CREATE TABLE notes (note TEXT)")
            connection.execute("INSERT INTO notes VALUES (?)", (CARD,))
            connection.execute("DELETE FROM notes")
        assert remains(tmp_path) != []

        for target in (0, 1, 2):
            await store.redact(name, target, **WHO)

        assert remains(tmp_path) == []
        assert [job.error for job in await store.jobs(kind="run")] == [REDACTED]
        assert [content.text for content in (await store.load(name)).messages] == [REDACTED] * 3
    with closing(sqlite3.connect(tmp_path / "chats.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


async def test_redaction_raises_while_a_reader_keeps_old_sqlite_pages(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "chats.db", busy_seconds=0.2) as store:
        name = await store.create(conversation())
        reader = sqlite3.connect(tmp_path / "chats.db", isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM chat_entries").fetchall()
        for target in (0, 1, 2):
            with pytest.raises(TimeoutError):
                await store.redact(name, target, **WHO)
        reader.close()
        assert CARD not in (await store.load(name)).messages.to_json()

        await store.redact(name, 0, **WHO)

        assert remains(tmp_path) == []


async def test_redaction_removes_content_from_postgresql_rows(postgres: PostgresServer) -> None:
    schema = uuid4().hex
    async with PostgresStore(postgres.dsn, schema=schema) as store:
        name = await store.create(conversation(), meta={"title": CARD}, jobs=[Job("index", "1", {"card": CARD})])
        for target in (0, 1, 2):
            await store.redact(name, target, **WHO)
        with psycopg.connect(postgres.dsn) as connection:
            for table in ("chat_conversations", "chat_entries", "chat_waits", "chat_jobs"):
                rows = connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(schema, table))).fetchall()
                assert CARD not in repr(rows), table


@pytest.mark.parametrize("length", [SMALLEST_TEXT - 1, SMALLEST_TEXT])
async def test_redacted_text_is_removed_from_longer_texts_above_a_minimum_length(length: int) -> None:
    text = "x" * length
    async with MemoryStore() as store:
        jobs = [Job("index", "1", {"same": text, "longer": f"<{text}>"})]
        name = await store.create(Messages.from_user(text), jobs=jobs)
        await store.redact(name, 0, **WHO)
        (job,) = await store.jobs()
        longer = REDACTED if length == SMALLEST_TEXT else f"<{text}>"
        assert job.payload == {"same": REDACTED, "longer": longer}


async def test_redacting_a_turn_after_the_last_is_refused() -> None:
    async with MemoryStore() as store:
        name = await store.create(conversation())
        with pytest.raises(UsageError, match="index of a turn, which is less than 3"):
            await store.redact(name, 3, **WHO)
        await store.redact(name, 2, **WHO)


@given(
    texts=st.lists(st.text(min_size=SMALLEST_TEXT, max_size=12), min_size=1, max_size=5, unique=True),
    place=st.integers(0, 4),
)
async def test_redaction_removes_one_turn_and_keeps_the_others(texts: list[str], place: int) -> None:
    target = place % len(texts)
    messages = Messages()
    for number, text in enumerate(texts):
        messages.append("user" if number % 2 == 0 else "model", Turn([Text(text)]))
    async with MemoryStore() as store:
        name = await store.create(messages)
        before = await store.load(name)
        await store.redact(name, target, **WHO)
        after = await store.load(name)
        turns = [turn.text for content in after.messages for turn in content.turns]
        assert turns == [REDACTED if number == target else text for number, text in enumerate(texts)]
        assert after.revision == before.revision


async def test_redacted_memory_notes_are_no_longer_sent() -> None:
    store = MemoryStore()
    messages = Messages.from_user("How do I pay?")
    messages.append("user", Turn([Recalled((RecalledNote(f"The card is {CARD}."),))], by="engine"))
    name = await store.create(messages)

    await store.redact(name, 1, **WHO)

    redacted = (await store.load(name)).messages
    assert CARD not in redacted.to_json()
    assert [turn.text for _, turn in redacted.view().turns] == ["How do I pay?"]
    assert redacted[0].turns[1].parts == (Recalled(()),)


@pytest.mark.parametrize("new_log", [False, True], ids=["log", "snapshot"])
async def test_the_key_of_a_post_names_its_turn_after_a_run_appended_it(tmp_path: Path, *, new_log: bool) -> None:
    path = tmp_path / "chat.jsonl"
    async with FileConversation.create(path, Messages.from_user("Hi.")) as stored:
        await stored.post(Turn([Text(f"My card is {CARD}.")]), key="message-7")
        await stored.claim()
        await stored.apply_posts()
        await stored.release()
    if new_log:
        # A redaction replaces the log by a snapshot.
        await FileConversation.redact(path, 0, **WHO)

    await FileConversation.redact(path, "message-7", **WHO)

    assert remains(tmp_path) == []
    async with FileConversation.open(path) as stored:
        texts = [turn.text for content in stored.messages for turn in content.turns]
        assert texts == [REDACTED if new_log else "Hi.", REDACTED]
        assert not await stored.post(Turn([Text("Again.")]), key="message-7")


@pytest.mark.parametrize("applied", [False, True])
async def test_a_text_that_is_a_call_id_and_a_post_key_is_not_redacted(tmp_path: Path, *, applied: bool) -> None:
    path = tmp_path / "chat.jsonl"
    async with FileConversation.create(path, conversation()) as stored:
        await stored.post(Turn([Text("Later.")]), key="pay")
        if applied:
            await stored.claim()
            await stored.apply_posts()
            await stored.release()
    before = path.read_bytes()

    with pytest.raises(UsageError, match="'pay' is the id of a call and the key of a posted turn: pass the index"):
        await FileConversation.redact(path, "pay", **WHO)

    assert path.read_bytes() == before


def started_chat(attempts: int) -> Tool:
    """Return the call of a chat that was cancelled while it waited, after some of its own calls had run."""
    inner = Messages.from_user(f"Pay with {CARD}.")
    paid = [Tool(FunctionCall("pay", {"card": CARD}), id=f"pay_{number}") for number in range(attempts)]
    for tool in paid:
        tool.start()
        tool.complete(CARD)
    waiting = Tool(FunctionCall("ship", {}), id="ship")
    waiting.await_approval()
    inner.append("model", Turn([*paid, waiting], metadata=Metadata("p", usage=Usage(7, 5))))
    chat = Tool(FunctionCall("ask", {"request": CARD}), id="ask")
    chat.start(inner=inner)
    chat.suspend(inner)
    return chat


def interrupted_call() -> Tool:
    tool = Tool(FunctionCall("pay", {"card": CARD}), id="ask")
    tool.start()
    tool.lost(f"the process that paid with {CARD} ended")
    return tool


@pytest.mark.parametrize(
    ("make", "may_have_acted"),
    [(interrupted_call, True), (partial(started_chat, 1), True), (partial(started_chat, 0), False)],
    ids=["interrupted", "chat-that-acted", "chat-that-waited"],
)
async def test_a_redacted_call_still_shows_the_model_whether_it_may_have_acted(
    make: Callable[[], Tool], tmp_path: Path, *, may_have_acted: bool
) -> None:
    tool = make()
    messages = Messages.from_user("Pay.")
    messages.append("model", Turn([tool], finish_reason="tool_calls", metadata=Metadata("p", usage=Usage(10, 2))))
    tool.cancel(f"not with {CARD}")
    path, usage = tmp_path / "chat.jsonl", messages.usage
    async with FileConversation.create(path, messages):
        pass

    await FileConversation.redact(path, "ask", **WHO)

    assert remains(tmp_path) == []
    async with FileConversation.open(path) as stored:
        assert ("may have taken effect" in stored.messages.tool("ask").result_text()) is may_have_acted
        assert stored.messages.usage == usage


@pytest.mark.parametrize("target", [0, 2, "pay"])
async def test_a_decision_made_before_a_redaction_is_saved_after_it(target: int | str) -> None:
    messages = conversation()
    open_call = Tool(FunctionCall("refund", {}), id="refund")
    open_call.await_approval()
    messages.append("model", Turn([open_call]))
    async with MemoryStore() as store:
        id = await store.create(messages)
        snapshot = await store.load(id)
        await store.redact(id, target, **WHO)
        snapshot.messages.tool("refund").approve(by="bo")
        saved = await store.save(id, snapshot.messages, revision=snapshot.revision)
        redacted = await store.load(id)
    assert isinstance(saved.messages.tool("refund").status, Approved)
    assert isinstance(redacted.messages.tool("refund").status, Approved)
    assert REDACTED in redacted.messages.to_json()
