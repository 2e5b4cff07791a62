"""Indexing survives a killed process: the next worker writes the same, and asks the model at most once more."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from random import Random

import anyio
from chat_core.messages import Messages, Text, Turn
from chat_memory import SqliteMemory
from chat_memory._database import Session
from chat_memory.extraction import ExtractedEntity, ExtractedFact, ExtractedRelation, Extraction
from chat_memory.indexing import Indexer, IndexReport, index_job
from chat_memory.transcript import TranscriptTurn
from chat_store import SqliteStore

START = datetime(2026, 1, 1, tzinfo=UTC)
THOROUGH = bool(os.environ.get("CHAT_THOROUGH"))
CHUNKS = 2
MOMENTS = 36
REPORT = IndexReport(
    entities_stored=3,
    facts_inserted=3,
    facts_reinforced=1,
    relationships_stored=2,
    summary_stored=True,
    version="counted",
    turns=4,
)


class Counted:
    """An extractor that appends a byte to a file at each request, and names facts by the number of the request."""

    version = "counted"

    def __init__(self, asked: Path) -> None:
        self._asked = asked

    def _ask(self) -> int:
        with self._asked.open("ab") as file:
            file.write(b".")
        return self._asked.stat().st_size

    async def extract(self, turns: Sequence[TranscriptTurn], _known: Sequence[str], /) -> Extraction:
        number = self._ask()
        first = turns[0].index
        # A model seldom answers twice in the same words: the subject depends on the number of the request.
        return Extraction(
            [ExtractedEntity("Ana"), ExtractedEntity(f"request {number}")],
            [
                ExtractedFact("Ana", "home", "Berlin", "stated", first),
                ExtractedFact(f"request {number}", "of", f"turn {first}", "inferred", first),
            ],
            [ExtractedRelation("Ana", "uses", f"request {number}")],
        )

    async def summarize(self, _turns: Sequence[TranscriptTurn], summary: str, /) -> str:
        return f"{summary} Request {self._ask()}.".strip()


def kill_at(memory: SqliteMemory, fatal: int) -> None:
    """Kill the process before or after a write transaction of a memory. Each transaction has two such moments."""
    database = memory._database  # pyright: ignore[reportPrivateUsage] - where a crash is simulated
    write = database.write
    moments = count(1)

    def step() -> None:
        if next(moments) == fatal:
            os.kill(os.getpid(), 9)

    @contextmanager
    def counted() -> Generator[Session]:
        step()
        with write() as session:
            yield session
        step()

    database.write = counted  # type: ignore[method-assign]  # the test replaces it


async def run_worker(folder: Path, fatal: int = 0, hours: int = 0) -> IndexReport | None:
    """Run one job in a process that is killed at a given write."""

    def now() -> datetime:
        return datetime.now(UTC) + timedelta(hours=hours)

    async with SqliteStore(folder / "chats.db", now=now) as store, SqliteMemory(folder / "memory.db") as memory:
        await memory.scopes()
        kill_at(memory, fatal)
        indexer = Indexer(memory, Counted(folder / "asked"), scope=lambda meta: meta.owner, chunk_characters=23)
        return await indexer.run_next(store)


async def close_conversation(folder: Path) -> None:
    messages = Messages()
    for number, text in enumerate(("I live in Berlin.", "I see.", "Still in Berlin.", "Good.")):
        turn = Turn([Text(text)], created_at=START + timedelta(minutes=number))
        messages.append("model" if number % 2 else "user", turn)
    async with SqliteStore(folder / "chats.db") as store:
        await store.create(messages, id="chat-1", owner="ana")
        await store.close("chat-1", jobs=[index_job("chat-1")])


async def check_result(folder: Path) -> None:
    """Check that everything is stored once."""
    async with SqliteMemory(folder / "memory.db") as memory:
        ana = memory.scope("ana")
        (home,) = await ana.facts(predicate="home")
        assert home.reinforcements == CHUNKS - 1
        inferred = await ana.facts(predicate="of")
        assert sorted(fact.object for fact in inferred) == ["turn 0", "turn 2"]
        stats = await ana.stats()
        assert (stats.statements, stats.entities, stats.relations, stats.passages) == (4, 3, 2, 5)
    async with SqliteStore(folder / "chats.db") as store:
        assert [job.state for job in await store.jobs(kind="index")] == ["done"]


def run_child(folder: Path, fatal: int) -> bool:
    """Run a worker in a forked process, and return whether it was killed."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            anyio.run(run_worker, folder, fatal)
            status = 0
        finally:
            os._exit(status)
    _, ended = os.waitpid(child, 0)
    assert os.WIFSIGNALED(ended) or os.waitstatus_to_exitcode(ended) == 0
    return os.WIFSIGNALED(ended)


def kill_and_resume(folder: Path, fatal: int) -> bool:
    """Kill a worker at a moment, and return whether it reached the moment. The next worker ends the job."""
    folder.mkdir()
    anyio.run(close_conversation, folder)
    killed = run_child(folder, fatal)
    if killed:
        report = anyio.run(run_worker, folder, 0, 1)  # an hour later, when the lease has expired
        assert report is not None
        assert report == REPORT
    anyio.run(check_result, folder)
    requests = (folder / "asked").stat().st_size
    assert requests <= 2 * CHUNKS + killed
    return killed


def test_an_indexer_killed_at_any_write_is_resumed_without_duplicates(tmp_path: Path) -> None:
    if THOROUGH:
        fatal = 1
        while kill_and_resume(tmp_path / f"{fatal}", fatal):
            fatal += 1
        assert fatal > MOMENTS
        return
    for fatal in Random(14).sample(range(1, MOMENTS + 1), 8):
        assert kill_and_resume(tmp_path / f"{fatal}", fatal)


def test_a_killed_indexer_repeats_at_most_one_request(tmp_path: Path) -> None:
    """The worker is killed after the model has answered, and before the answer is stored."""
    after_passages = 2 * CHUNKS
    assert kill_and_resume(tmp_path / "a", after_passages + 1)
    assert (tmp_path / "a" / "asked").stat().st_size == 2 * CHUNKS + 1


def test_two_concurrent_indexers_store_everything_once(tmp_path: Path) -> None:
    """The first worker has lost its lease without noticing, and indexes at the same time as the second one."""
    anyio.run(close_conversation, tmp_path)

    async def index() -> None:
        async with (
            SqliteStore(tmp_path / "chats.db") as store,
            SqliteMemory(tmp_path / "memory.db") as memory,
            anyio.create_task_group() as group,
        ):
            messages = (await store.load("chat-1")).messages
            indexer = Indexer(memory, Counted(tmp_path / "asked"), scope=lambda meta: meta.owner, chunk_characters=23)
            for _ in range(2):
                group.start_soon(indexer.index, "ana", "chat-1", messages)
            group.start_soon(indexer.run_next, store)

    anyio.run(index)

    async def check() -> None:
        async with SqliteMemory(tmp_path / "memory.db") as memory:
            assert (await memory.scope("ana").stats()).statements == 2 * CHUNKS

    anyio.run(check)
