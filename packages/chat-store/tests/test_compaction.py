"""Opening a conversation begins at the newest snapshot of its log, and a snapshot changes nothing else."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from chat_core.errors import ConflictError, InvalidDocumentError, LeaseLostError, UsageError
from chat_core.messages import Approved, Messages, Text, Turn
from chat_store import (
    ConversationStore,
    FileConversation,
    MemoryStore,
    OpenConversation,
    SqliteStore,
    _compaction,
    _file_lock,
)
from chat_store._backend import Head, ReadTransaction, WriteTransaction
from chat_store._base_store import BaseStore
from chat_store._compaction import SMALLEST_TAIL, LogTail
from chat_store._entries import Batch, Document, Entry, ToolRevision
from chat_store._journal import Disk, Journal
from chat_store._managed_log import ManagedLog
from chat_store.jobs import Job
from chat_store.postgres import PostgresStore
from chat_store.testing import StoreConformance, StoreFactory
from chat_store.testing._fixtures import Clock, answer, paused
from chat_store.testing.postgres_server import PostgresServer

pytestmark = pytest.mark.anyio

LOOKS = 2_000
"""Number of times that a run examines a paused conversation."""
ENOUGH = 3 * SMALLEST_TAIL
"""Number of bytes that a snapshot, its tail and the entries of one run never exceed."""


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every run that ends write a snapshot."""
    monkeypatch.setattr(_compaction, "SMALLEST_TAIL", 0)
    monkeypatch.setattr(_compaction, "LARGEST_RATIO", 0)


@pytest.fixture(params=["memory", "SQLite", "PostgreSQL"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[ConversationStore]:
    if request.param == "memory":
        yield MemoryStore()
    elif request.param == "SQLite":
        async with SqliteStore(tmp_path / "chats.db") as found:
            yield found
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        async with PostgresStore(server.dsn, schema=uuid4().hex) as found:
            yield found


@pytest.mark.usefixtures("eager")
class TestEagerMemoryStore(StoreConformance):
    @contextmanager
    def stores(self) -> Generator[StoreFactory]:
        first = MemoryStore()
        yield lambda now: MemoryStore(now=now, beside=first)


@pytest.mark.usefixtures("eager")
class TestEagerSqliteStore(StoreConformance):
    folder: Path

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    @contextmanager
    def stores(self) -> Generator[StoreFactory]:
        yield lambda now: SqliteStore(self.folder / "chats.db", now=now)


# --- When a snapshot is written ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "limit"), [(0, 64 * 1024), (32 * 1024, 64 * 1024), (100_000, 200_000)])
def test_a_tail_needs_a_snapshot_when_it_is_larger_than_the_limit(first: int, limit: int) -> None:
    tail = LogTail()
    tail.add(first, begins=True)
    tail.add(limit, begins=False)
    assert not tail.needs_snapshot
    tail.add(1, begins=False)
    assert tail.needs_snapshot
    tail.add(first, begins=True)
    assert not tail.needs_snapshot


# --- Number of bytes read ---------------------------------------------------------------------------------------------


async def look(conversation: OpenConversation | FileConversation) -> None:
    await conversation.claim()
    await conversation.release()


class NoDisk(Disk):
    def sync(self, fd: int) -> None: ...


def count_bytes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which the number of bytes of each read is added."""
    sizes: list[int] = []
    read = _file_lock.read_from

    def counting(fd: int, offset: int, length: int | None = None) -> bytes:
        data = read(fd, offset, length)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(_file_lock, "read_from", counting)
    return sizes


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_opening_a_file_after_2000_claims_reads_a_bounded_amount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Journal, "disk", NoDisk())
    path = tmp_path / "chat.jsonl"
    async with FileConversation.create(path, paused("a")) as conversation:
        for _ in range(LOOKS):
            await look(conversation)
        history = await conversation.history()
    assert path.stat().st_size > 2 * ENOUGH
    sizes = count_bytes(monkeypatch)
    async with FileConversation.open(path) as conversation:
        assert [tool.id for tool in conversation.messages.pending()] == ["a"]
        assert sum(sizes) < ENOUGH
        assert await conversation.history() == history
    assert len(history) == 2 * LOOKS + 1


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_opening_a_conversation_after_many_claims_reads_a_bounded_amount(
    store: ConversationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A commit to a disk takes long, so databases have a tenth of the entries and of the limit.
    parts = 1 if isinstance(store, MemoryStore) else 10
    monkeypatch.setattr(_compaction, "SMALLEST_TAIL", SMALLEST_TAIL // parts)
    name = await store.create(paused("a"))
    async with store.open(name) as conversation:
        for _ in range(LOOKS // parts):
            await look(conversation)
    sizes: list[int] = []

    class CountingLog(ManagedLog):
        def _read_new_entries(
            self, transaction: ReadTransaction, head: Head, revision: int | None
        ) -> tuple[int, list[bytes]]:
            before, entries = super()._read_new_entries(transaction, head, revision)
            sizes.extend([len(entry) for entry in entries])
            return before, entries

    monkeypatch.setattr(BaseStore, "_log_type", CountingLog)
    async with store.open(name) as conversation:
        assert [tool.id for tool in conversation.messages.pending()] == ["a"]
    assert 0 < sum(sizes) < ENOUGH // parts
    assert len(await store.history(name)) == 2 * LOOKS // parts + 1


# --- Contents of a snapshot -------------------------------------------------------------------------------------------


async def live(conversation: OpenConversation | FileConversation) -> None:
    """Decide, execute and answer in several runs."""
    conversation.messages.tool("a").approve(by="ana")
    await conversation.claim()
    tool = conversation.messages.tool("a")
    tool.start()
    await conversation.write_tool(("a",), tool)
    tool.complete("paid")
    await conversation.write_tool(("a",), tool)
    await conversation.release()
    conversation.messages.tool("b").reject("no", by="ben")
    await conversation.claim()
    turn = answer()
    turn.delivered = False
    conversation.messages.append("model", turn)
    await conversation.write_turn((), "model", turn)
    turn.delivered = True
    await conversation.write_marks()
    await conversation.release()


@pytest.mark.usefixtures("eager")
async def test_a_snapshot_keeps_the_delivery_marks_of_a_replaced_answer(store: ConversationStore) -> None:
    messages = Messages.from_user("hi")
    messages.append("model", answer())
    name = await store.create(messages.user("bye"))
    async with store.open(name) as conversation:
        await conversation.claim()
        turn = answer()
        turn.delivered = False
        conversation.messages.append("model", turn)
        await conversation.write_turn((), "model", turn)
    async with store.open(name) as conversation:
        conversation.messages.summarize("A greeting.", 2)
        await conversation.claim()
        conversation.messages[-2].turns[-1].delivered = True
        await conversation.write_marks()
    stored = (await store.load(name)).messages
    assert [item.delivered for content in stored for item in content.turns] == [None, None, None, True, None]


@pytest.mark.usefixtures("eager")
async def test_a_file_reads_the_same_with_and_without_its_snapshots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "chat.jsonl"
    async with FileConversation.create(path, paused("a", "b"), id="x", owner="ana") as conversation:
        await conversation.apply(meta={"title": "Payments"}, jobs=[Job("index", "x", {"depth": 2})])
        await live(conversation)
    assert path.read_bytes().count(b'"snapshot":') == 2

    found: list[object] = []
    for pattern in (re.compile(rb"(?!)"), None):
        with monkeypatch.context() as patch:
            if pattern is not None:
                patch.setattr("chat_store._journal._SNAPSHOT_LINE", pattern)
            async with FileConversation.open(path) as conversation:
                messages = conversation.messages
                revisions = [ToolRevision.from_tool(tool) for content in messages for tool in content.tools]
                state = (await conversation.meta(), await conversation.jobs(), await conversation.history())
                found.append((conversation.id, conversation.revision, messages, messages.to_json(), revisions, state))
    assert found[0] == found[1]


@pytest.mark.usefixtures("eager")
async def test_a_store_loads_the_same_messages_after_snapshots(store: ConversationStore) -> None:
    before = await store.create(paused("a", "b"), id="before")
    async with store.open(before) as conversation:
        await live(conversation)
        messages, revision = conversation.messages.to_json(), conversation.revision
    snapshot = await store.load(before)
    assert (snapshot.messages.to_json(), snapshot.revision) == (messages, revision)
    events = [entry.event for entry in await store.history(before)]
    assert events.count("released") == 2
    assert events.count("tool") == 4


@pytest.mark.usefixtures("eager")
async def test_posted_turns_and_their_keys_survive_a_snapshot(store: ConversationStore) -> None:
    name = await store.create(paused("a"))
    assert await store.post(name, Turn([Text("And now?")]), key="1")
    async with store.open(name) as conversation:
        await look(conversation)
    assert not await store.post(name, Turn([Text("And now?")]), key="1")
    assert await store.post(name, Turn([Text("And then?")]), key="2")
    async with store.open(name) as conversation:
        await look(conversation)
    async with store.open(name) as conversation:
        await conversation.claim()
        assert await conversation.apply_posts() == 2
        await conversation.release()
    assert [turn.text for turn in (await store.load(name)).messages[-1].turns] == ["And now?", "And then?"]
    assert not await store.post(name, Turn([Text("And now?")]), key="1")
    assert not await store.post(name, Turn([Text("And then?")]), key="2")


@pytest.mark.usefixtures("eager")
async def test_changes_based_on_a_revision_before_the_snapshot_are_merged(store: ConversationStore) -> None:
    name = await store.create(paused("a", "b"))
    early = await store.load(name)
    async with store.open(name) as conversation:
        conversation.messages.tool("a").approve()
        await look(conversation)
    early.messages.tool("b").approve()
    merged = await store.save(name, early.messages, revision=early.revision)
    assert [type(tool.status) for tool in merged.messages.pending()] == [Approved, Approved]
    with pytest.raises(UsageError, match="no revision 9"):
        await store.save(name, early.messages, revision=9)


@pytest.mark.usefixtures("eager")
async def test_an_open_conversation_receives_entries_written_before_a_snapshot(
    store: ConversationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    full: list[bool] = []

    class LogOnFullDisk(ManagedLog):
        def _append_entry(self, transaction: WriteTransaction, fields: Document, batch: Batch, head: Head) -> Entry:
            entry = super()._append_entry(transaction, fields, batch, head)
            if full:
                msg = "the disk is full"
                raise OSError(msg)
            return entry

    monkeypatch.setattr(BaseStore, "_log_type", LogOnFullDisk)
    name = await store.create(paused("a", "b"))
    async with store.open(name) as slow:
        slow.messages.tool("b").approve()
        full.append(True)
        with pytest.raises(OSError, match="full"):
            await slow.save()
        full.clear()
        async with store.open(name) as quick:
            quick.messages.tool("a").approve()
            await quick.save()
            await look(quick)
        await slow.save()
        assert [type(tool.status) for tool in slow.messages.pending()] == [Approved, Approved]


@pytest.mark.usefixtures("eager")
async def test_a_conversation_opened_before_its_creation_reads_the_snapshot(store: ConversationStore) -> None:
    async with store.open("x") as early:
        await store.create(paused("a"), id="x")
        async with store.open("x") as conversation:
            await look(conversation)
        await early.save()
        assert [tool.id for tool in early.messages.pending()] == ["a"]


@pytest.mark.usefixtures("eager")
async def test_a_run_that_lost_its_lease_cannot_write_after_a_snapshot(tmp_path: Path) -> None:
    clock = Clock()
    path = tmp_path / "chat.jsonl"
    async with FileConversation.create(path, paused("a"), now=clock) as slow:
        await slow.claim()
        clock.advance(days=1)
        (tmp_path / "chat.jsonl.run-1").unlink()
        async with FileConversation.open(path, now=clock) as other:
            await look(other)
        with pytest.raises(LeaseLostError):
            await slow.write_tool(("a",), slow.messages.tool("a"))
        async with FileConversation.open(path, now=clock) as other:
            await other.claim()
            with pytest.raises(ConflictError):
                async with FileConversation.open(path, now=clock) as third:
                    await third.claim()


# --- Snapshots after a crash ------------------------------------------------------------------------------------------


async def compacted(path: Path) -> tuple[bytes, bytes]:
    """Write a file, and return the lines before its last snapshot, and the line of that snapshot."""
    async with FileConversation.create(path, paused("a", "b"), id="x") as conversation:
        await live(conversation)
    return split_last_line(path)


def split_last_line(path: Path) -> tuple[bytes, bytes]:
    *before, last = path.read_bytes().splitlines(keepends=True)
    assert b'"snapshot":' in last
    return b"".join(before), last


@pytest.mark.usefixtures("eager")
async def test_a_snapshot_truncated_by_a_crash_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    before, last = await compacted(path)
    async with FileConversation.open(path) as conversation:
        expected = conversation.messages.to_json()
    for size in range(0, len(last), 7):
        path.write_bytes(before + last[:size])
        async with FileConversation.open(path) as conversation:
            assert conversation.messages.to_json() == expected
            assert [entry.event for entry in await conversation.history()].count("released") == 1


@pytest.mark.usefixtures("eager")
async def test_a_damaged_snapshot_raises_invalid_document(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    before, last = await compacted(path)
    for place in range(60, len(last) - 1, 31):
        damaged = bytearray(last)
        damaged[place] ^= 1
        path.write_bytes(before + damaged)
        with pytest.raises(InvalidDocumentError, match="is damaged"):
            async with FileConversation.open(path):
                pass


async def test_a_file_without_snapshots_is_read_completely(tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    async with FileConversation.create(path, Messages.from_user("x" * 3 * SMALLEST_TAIL)) as conversation:
        await look(conversation)
    async with FileConversation.open(path) as conversation:
        assert len(conversation.messages[-1].text) == 3 * SMALLEST_TAIL
