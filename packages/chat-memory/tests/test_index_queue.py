"""Jobs of the indexer: idle conversations are queued once, and several processes share the jobs."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest
from chat_core.messages import Messages
from chat_memory import SqliteMemory
from chat_memory.extraction import ExtractedFact, Extraction
from chat_memory.indexing import Indexer, index_job, queue_idle
from chat_memory.transcript import TranscriptTurn
from chat_store import SqliteStore
from chat_store.meta import ConversationMeta

HOUR = timedelta(hours=1)
SESSIONS = 30
WORKERS = 2


@pytest.mark.anyio
async def test_a_conversation_is_queued_once_after_each_change(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "chats.db") as store:
        for name in ("chat-1", "chat-2"):
            await store.create(Messages.from_user("I live in Berlin."), id=name, owner="ana")
        await store.close("chat-2")
        assert await queue_idle(store, HOUR) == 0
        assert await store.jobs(kind="index") == []

        later = datetime.now(UTC) + HOUR
        for _ in range(2):
            assert await queue_idle(store, HOUR, now=lambda: later) == 1
        assert [job.conversation for job in await store.jobs(kind="index")] == ["chat-1"]

        async with store.open("chat-1") as conversation:
            conversation.messages.user("Now I live in Paris.")
        assert await queue_idle(store, HOUR, now=lambda: later + HOUR) == 1
        assert [job.conversation for job in await store.jobs(kind="index")] == ["chat-1", "chat-1"]


@pytest.mark.anyio
async def test_a_deleted_conversation_does_not_stop_the_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with SqliteStore(tmp_path / "chats.db") as store:
        for name in ("chat-1", "chat-2"):
            await store.create(Messages.from_user("I live in Berlin."), id=name)
        listed = await store.conversations(state="open")
        await store.delete(listed[0].id)

        async def stale(*_: object, **__: object) -> Sequence[ConversationMeta]:
            return listed

        monkeypatch.setattr(SqliteStore, "conversations", stale)
        later = datetime.now(UTC) + HOUR
        assert await queue_idle(store, HOUR, now=lambda: later) == 1
        assert [job.conversation for job in await store.jobs(kind="index")] == [listed[1].id]


class Counted:
    """An extractor that appends a line with its process to a file at each request."""

    version = "counted"

    def __init__(self, asked: Path) -> None:
        self._asked = asked

    async def extract(self, turns: Sequence[TranscriptTurn], _known: Sequence[str], /) -> Extraction:
        with self._asked.open("a") as file:
            file.write(f"{os.getpid()}\n")
        return Extraction(facts=[ExtractedFact("user", "likes", turns[0].text, "stated", turns[0].index)])

    async def summarize(self, turns: Sequence[TranscriptTurn], _summary: str, /) -> str:
        return turns[0].text


async def fill(folder: Path) -> None:
    async with SqliteStore(folder / "chats.db") as store, SqliteMemory(folder / "memory.db") as memory:
        await memory.scopes()
        for number in range(SESSIONS):
            await store.create(Messages.from_user(f"thing {number}"), id=f"chat-{number}", owner=f"owner {number % 3}")
            await store.close(f"chat-{number}", jobs=[index_job(f"chat-{number}")])


async def work(folder: Path) -> None:
    async with SqliteStore(folder / "chats.db") as store, SqliteMemory(folder / "memory.db") as memory:
        indexer = Indexer(memory, Counted(folder / f"asked-{os.getpid()}"), scope=lambda meta: meta.owner)
        while await indexer.run_next(store) is not None:
            pass


async def check(folder: Path) -> None:
    async with SqliteStore(folder / "chats.db") as store, SqliteMemory(folder / "memory.db") as memory:
        assert {job.state for job in await store.jobs(kind="index")} == {"done"}
        for name in await memory.scopes():
            facts = await memory.scope(name).facts()
            assert len(facts) == SESSIONS // 3
            assert {fact.reinforcements for fact in facts} == {0}


def fork(worker: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            worker()
            status = 0
        finally:
            os._exit(status)
    return child


def test_worker_processes_share_jobs_and_index_each_session_once(tmp_path: Path) -> None:
    anyio.run(fill, tmp_path)
    children = [fork(lambda: anyio.run(work, tmp_path)) for _ in range(WORKERS)]
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * WORKERS
    anyio.run(check, tmp_path)
    asked = [len(file.read_text().splitlines()) for file in tmp_path.glob("asked-*")]
    assert sum(asked) == SESSIONS
    assert len(asked) == WORKERS, "each process has indexed something"
