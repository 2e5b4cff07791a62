"""`kill -9` at the writes of jobs, posts and closing: each is stored whole or not at all, and each job ends once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import anyio
import pytest
from chat_core.messages import Messages, Text
from chat_store import FileConversation, Job, SqliteStore
from chat_store.testing.postgres_server import PostgresServer

from .jobs_worker import open_target, read_effects
from .processes import Event, Sample, Server
from .worker import Order

MOST = 10


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server("-m", "tests.crash.jobs_worker") as server:
        yield server


def order_of(kind: str, folder: Path, postgres: PostgresServer | None) -> Order:
    folder.mkdir(exist_ok=True)
    where: dict[str, Order] = {
        "file": {"file": str(folder / "chat.jsonl")},
        "sqlite": {"store": str(folder / "chats.db")},
        "postgres": {"store": postgres.dsn if postgres else "", "schema": uuid4().hex},
    }
    return {**where[kind], "effects": str(folder / "effects")}


async def state_of(order: Order) -> tuple[dict[str, str], str | None, str, int]:
    """The states of jobs, the title, the state of the conversation, and how often the posted turn is stored."""
    async with open_target(order) as target:
        store = target.store
        jobs: dict[str, str] = {job.key: job.state for job in await store.jobs()}
        if isinstance(store, FileConversation):
            messages, posted, meta = store.messages, 0, await store.meta()
        elif not await store.conversations():
            return {}, None, "open", 0
        else:
            snapshot = await store.load("chat")
            messages, posted, meta = snapshot.messages, len(snapshot.posted), await store.meta("chat")
        return jobs, meta.title, meta.state, posted + count_posted(messages)


def count_posted(messages: Messages) -> int:
    return sum(part.text == "Posted." for content in messages for part in content.parts if isinstance(part, Text))


def kill_at(server: Server, order: Order, step: int, phase: str) -> None:
    server.order(**order, step=step, phase=phase)
    server.end(server.until("reached"))


@pytest.mark.parametrize("kind", ["file", "sqlite", "postgres"])
def test_a_kill_at_any_write_of_jobs_and_posts_loses_and_repeats_nothing(
    kind: str,
    server: Server,
    tmp_path: Path,
    sample: Sample,
    request: pytest.FixtureRequest,
) -> None:
    postgres = request.getfixturevalue("postgres") if kind == "postgres" else None
    first = order_of(kind, tmp_path / "first", postgres)
    server.order(**first)
    steps: Event = server.until("steps")
    assert server.until("gone")["status"] == 0
    require_finished(first)
    assert isinstance(steps["steps"], int)
    assert steps["steps"] > MOST
    phases = ("half", "written") if kind == "file" else ("written", "committed")
    kills = [(step, phase) for step in range(1, steps["steps"] + 1) for phase in phases]
    for step, phase in (sampled := sample(kills, MOST)):
        order = order_of(kind, tmp_path / f"{step}-{phase}", postgres)
        kill_at(server, order, step, phase)
        jobs, title, state, posted = anyio.run(state_of, order)
        assert (title is not None) == ("2" in jobs), "the title is stored with its job"
        assert (state == "closed") == ("index" in jobs), "the conversation is closed with its job"
        assert posted <= 1
        server.order(**{**order, "ahead": "60"})
        server.until("outcome")
        assert server.until("gone")["status"] == 0
        require_finished(order)
    request.node.user_properties.append((f"kills at writes of jobs, {kind}", len(sampled)))


def require_finished(order: Order) -> None:
    jobs, title, state, posted = anyio.run(state_of, order)
    assert jobs == {"1": "done", "2": "done", "index": "done"}
    assert (title, state) == ("Parcel", "closed")
    assert posted == 1
    assert sorted(read_effects(Path(str(order["effects"])))) == ["1", "2", "index"]


STOPPED = """
import anyio, os, signal, sys
from chat_core.errors import LeaseLostError
from chat_store import SqliteStore

async def work():
    async with SqliteStore(sys.argv[1], lease_seconds=1) as store:
        try:
            async with store.take_job("run") as job:
                os.kill(os.getpid(), signal.SIGSTOP)
        except LeaseLostError:
            print("LeaseLostError", end="")

anyio.run(work)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGSTOP")
@pytest.mark.parametrize("taken_over", [True, False], ids=["taken over", "left alone"])
def test_a_worker_stopped_longer_than_its_lease_does_not_complete_its_job(tmp_path: Path, *, taken_over: bool) -> None:
    database = tmp_path / "chats.db"

    async def prepare() -> None:
        async with SqliteStore(database) as store:
            await store.create(Messages(), jobs=[Job("run", "1", backoff_seconds=0)])

    anyio.run(prepare)
    process = subprocess.Popen([sys.executable, "-c", STOPPED, str(database)], stdout=subprocess.PIPE, text=True)
    try:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)

        async def overtake() -> None:
            later = datetime.now(UTC) + timedelta(minutes=1)
            async with SqliteStore(database, now=lambda: later) as store, store.take_job("run") as job:
                assert job is not None
                assert job.attempts == 2

        async def wait() -> None:
            async with SqliteStore(database) as store:
                cursor = (await store.changes()).cursor
                while (await store.jobs())[0].state == "running":
                    cursor = (await store.changes(cursor, wait_seconds=60)).cursor

        anyio.run(overtake if taken_over else wait)
        process.send_signal(signal.SIGCONT)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert output == "LeaseLostError"

    async def states() -> list[tuple[str, int]]:
        async with SqliteStore(database) as store:
            return [(job.state, job.attempts) for job in await store.jobs()]

    assert anyio.run(states) == [("done", 2) if taken_over else ("queued", 1)]
