"""Measure how fast two processes index many sessions with a scripted extractor. Nothing may be stored twice.

python benchmarks/indexing.py SESSIONS KILLS FOLDER

The folder must be new. Workers are killed at random times, and replaced.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter, sleep

import anyio
from chat_core import Messages, Text, Turn
from chat_memory import SqliteMemory
from chat_memory.extraction import ExtractedFact, ExtractedRelation, Extraction
from chat_memory.indexing import Indexer, index_job
from chat_memory.transcript import TranscriptTurn
from chat_store import SqliteStore

_TURNS = 6
_OWNERS = 50
_WORKERS = 2


class Script:
    """An extractor that returns two facts and a relation for each session."""

    version = "script"

    async def extract(self, turns: Sequence[TranscriptTurn], _known: Sequence[str], /) -> Extraction:
        """Return facts that no other session has."""
        name = turns[0].text.split()[-1]
        facts = [ExtractedFact(name, label, "tea", "stated", turns[0].index) for label in ("drinks", "buys")]
        return Extraction(facts=facts, relations=[ExtractedRelation(name, "uses", "tea")])

    async def summarize(self, turns: Sequence[TranscriptTurn], _summary: str, /) -> str:
        """Return the first message."""
        return turns[0].text


async def fill(folder: Path, sessions: int) -> None:
    """Store and close the sessions, each with a job."""
    async with SqliteStore(folder / "chats.db") as store, SqliteMemory(folder / "memory.db") as memory:
        await memory.scopes()
        for number in range(sessions):
            messages = Messages()
            for turn in range(_TURNS):
                messages.append("model" if turn % 2 else "user", Turn([Text(f"Message {turn} of person-{number}")]))
            await store.create(messages, id=f"chat-{number}", owner=f"owner {number % _OWNERS}")
            await store.close(f"chat-{number}", jobs=[index_job(f"chat-{number}")])


async def work(folder: Path, late: timedelta) -> None:
    """Index until no job is left. A late worker also takes the jobs of workers that were killed."""
    async with (
        SqliteStore(folder / "chats.db", now=lambda: datetime.now(UTC) + late) as store,
        SqliteMemory(folder / "memory.db") as memory,
    ):
        indexer = Indexer(memory, Script(), scope=lambda meta: meta.owner)
        while await indexer.run_next(store) is not None:
            pass


async def check(folder: Path, sessions: int) -> None:
    """Raise an error unless each session is indexed once."""
    async with SqliteStore(folder / "chats.db") as store, SqliteMemory(folder / "memory.db") as memory:
        states = [job.state for job in await store.jobs(kind="index")]
        stats = [await memory.scope(name).stats() for name in await memory.scopes(limit=_OWNERS)]
    found = [sum(getattr(item, name) for item in stats) for name in ("statements", "current", "relations", "passages")]
    expected = [2 * sessions, 2 * sessions, sessions, (_TURNS + 1) * sessions]
    if set(states) != {"done"} or found != expected:
        sys.exit(f"wrong: {found} is not {expected}, and jobs are {set(states)}")


def start(folder: Path, late: timedelta = timedelta()) -> int:
    """Start a worker process, and return its id."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            anyio.run(work, folder, late)
            status = 0
        finally:
            os._exit(status)
    return child


def main(sessions: int, kills: int, folder: Path) -> None:
    """Print the figures."""
    folder.mkdir(parents=True)
    anyio.run(fill, folder, sessions)
    chosen = random.Random(1)
    begun = perf_counter()
    workers = [start(folder) for _ in range(_WORKERS)]
    for _ in range(kills):
        sleep(chosen.uniform(0.5, 1.5))
        victim = workers.pop(0)
        os.kill(victim, signal.SIGKILL)
        os.waitpid(victim, 0)
        workers.append(start(folder))
    statuses = [os.waitpid(worker, 0)[1] for worker in workers]
    took = perf_counter() - begun
    os.waitpid(start(folder, timedelta(hours=1)), 0)
    anyio.run(check, folder, sessions)
    print(f"{sessions} sessions of {_TURNS} turns, {_WORKERS} processes, {kills} killed, exits {statuses}")
    print(f"{took:.0f} s, {sessions / took:.1f} sessions a second, nothing twice")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
