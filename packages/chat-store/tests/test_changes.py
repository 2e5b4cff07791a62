"""Whoever waits for a change is told of it, and need not look again and again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import from_thread, to_thread
from chat_core.errors import InvalidDocumentError, UsageError
from chat_store import Changes, ConversationStore, MemoryStore, SqliteStore, _backed, _watch
from chat_store._bells import Notifier, Notifiers
from chat_store._watch import Poller
from chat_store.testing._trial import Clock, call, paused

pytestmark = pytest.mark.anyio

BOUND = 120


@pytest.fixture(autouse=True)
def nobody_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is not woken sleeps on."""
    monkeypatch.setattr(_backed, "_LONGEST_REST", 1e6)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chats.db"


def watching() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "chat-store watches"]


async def woken_by(waiting: ConversationStore, writing: ConversationStore) -> Changes:
    """What somebody is told who waits while a conversation is stored."""
    cursor = (await waiting.changes()).cursor
    found: list[Changes] = []

    async def wait() -> None:
        found.append(await waiting.changes(cursor))

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await writing.create(paused("a"))
    return found[0]


async def test_a_store_in_memory_wakes_those_who_share_it() -> None:
    here = MemoryStore()
    assert len((await woken_by(here, MemoryStore(beside=here))).conversations) == 1


async def test_a_change_of_another_thread_and_its_loop_wakes() -> None:
    store = MemoryStore()
    cursor = (await store.changes()).cursor

    def write() -> None:
        anyio.run(store.create, paused("a"))

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            group.start_soon(store.changes, cursor)
            await anyio.wait_all_tasks_blocked()
            await to_thread.run_sync(write)


async def test_a_sqlite_file_is_watched_for_the_changes_of_others(path: Path) -> None:
    async with SqliteStore(path) as here, SqliteStore(path) as there:
        assert len((await woken_by(here, there)).conversations) == 1
    assert watching() == []


async def test_a_change_of_the_same_sqlite_store_is_told_at_once(path: Path) -> None:
    async with SqliteStore(path, poll_seconds=0.001) as store:
        await store.changes((await store.changes()).cursor, wait_seconds=0)
    # Nobody looks at the file for a day.
    async with SqliteStore(path, poll_seconds=86_400) as store:
        assert len((await woken_by(store, store)).conversations) == 1


async def test_whoever_waits_for_a_file_that_is_gone_is_told_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_backed, "_LONGEST_REST", 0.01)
    async with SqliteStore(path) as store:
        cursor = (await store.changes()).cursor
        await anyio.Path(path).unlink()
        with pytest.raises(InvalidDocumentError, match="removed or replaced"):
            await store.changes(cursor)


async def test_whoever_waits_when_the_store_is_closed_is_told_so(path: Path) -> None:
    store = SqliteStore(path)
    cursor = (await store.changes()).cursor

    async def wait() -> None:
        with pytest.raises(UsageError, match="is closed"):
            await store.changes(cursor)

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await store.aclose()


async def test_whoever_looks_again_while_the_store_is_being_closed_is_told_so(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store: Any = SqliteStore(path)
    backend = store._backend
    look, close, looked = backend.look, backend._watchman.close, threading.Event()

    def told(*words: Any) -> Any:
        try:
            return look(*words)
        finally:
            looked.set()

    def close_slowly() -> None:
        looked.clear()
        close()
        looked.wait(BOUND)

    monkeypatch.setattr(backend, "look", told)
    monkeypatch.setattr(backend._watchman, "close", close_slowly)
    cursor = (await store.changes()).cursor

    async def wait() -> None:
        with pytest.raises(UsageError, match="is closed"):
            await store.changes(cursor)

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await store.aclose()


async def test_a_wait_ends_when_a_time_has_come() -> None:
    begun, ticking = datetime.now(UTC), [0.0]
    # The clock stands until there is a cursor, however long that takes.
    store = MemoryStore(now=lambda: begun + timedelta(seconds=ticking[0] and time.monotonic() - ticking[0]))
    name = await store.create(paused(call("planned", at=begun + timedelta(seconds=0.5))))
    cursor = (await store.changes()).cursor
    ticking[0] = time.monotonic()
    with anyio.fail_after(BOUND):
        found = await store.changes(cursor)
    assert [item.conversation for item in found.conversations] == [name]
    assert [item.conversation for item in await store.due()] == [name]


async def test_a_cursor_from_a_machine_whose_clock_is_ahead_misses_nothing() -> None:
    clock = Clock()
    ahead = MemoryStore(now=lambda: clock() + timedelta(minutes=5))
    store = MemoryStore(now=clock, beside=ahead)
    name = await store.create(paused(call("planned", at=clock.after(minutes=10))))
    cursor = (await ahead.changes()).cursor
    cursor = (await store.changes(cursor, wait_seconds=0)).cursor
    clock.advance(minutes=10)
    found = await store.changes(cursor, wait_seconds=0)
    assert [item.conversation for item in found.conversations] == [name]


@pytest.mark.parametrize("cursor", ["7", "x-1", "1-", "1-x", "1--1", "0-99", "9" * 30 + "-0"])
async def test_what_is_no_cursor_is_refused(cursor: str, path: Path) -> None:
    async with SqliteStore(path) as store:
        for refusing in (store, MemoryStore()):
            with pytest.raises(UsageError, match="a cursor that it gave for this very database"):
                await refusing.changes(cursor, wait_seconds=0)


async def test_a_number_of_a_change_is_not_given_again_when_its_conversation_was_deleted(path: Path) -> None:
    async with SqliteStore(path) as store:
        for one in (store, MemoryStore()):
            await one.create(paused("a"), id="old")
            cursor = (await one.changes()).cursor
            await one.delete("old")
            await one.create(paused("a"), id="new")
            found = await one.changes(cursor, wait_seconds=0)
            assert [item.conversation for item in found.conversations] == ["new"]


# --- The thread that watches ------------------------------------------------------------------------------------------


class Watched:
    """A database that says when it was changed."""

    def __init__(self) -> None:
        self.changes = threading.Semaphore(0)
        self.failures = 0
        self.begun = threading.Semaphore(0)

    @contextmanager
    def watch(self, stop: threading.Event) -> Generator[Callable[[], bool]]:
        if self.failures and not stop.is_set():
            self.failures -= 1
            msg = "the database is gone"
            raise OSError(msg)
        self.begun.release()
        yield lambda: self.changes.acquire(timeout=0.01)


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture
def watchman(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> Iterator[Poller]:
    monkeypatch.setattr(_watch, "_PAUSE", 0.001)
    watchman = Poller(watched.watch)
    yield watchman
    watchman.close()
    assert watching() == []


async def test_a_bell_rings_when_watching_begins_and_with_each_change(watched: Watched, watchman: Poller) -> None:
    bell = Notifier()
    with anyio.fail_after(BOUND):
        watchman.add(bell)
        for _ in range(3):
            await bell.wait()
            bell.reset()
            watched.changes.release()
        await bell.wait()
        watchman.remove(bell)


async def test_a_database_that_cannot_be_watched_rings_and_is_watched_again(watched: Watched, watchman: Poller) -> None:
    watched.failures = 3
    bell = Notifier()
    watchman.add(bell)
    with anyio.fail_after(BOUND):
        await bell.wait()
        assert await to_thread.run_sync(watched.begun.acquire)
    watchman.remove(bell)


async def test_the_thread_ends_when_nobody_waits_any_more_and_comes_back_with_the_next_one(
    watched: Watched, watchman: Poller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_watch, "_LINGERS", 0.0)
    for _ in range(2):
        bell = Notifier()
        watchman.add(bell)
        assert len(watching()) == 1
        watchman.remove(bell)
        with anyio.fail_after(BOUND):
            while watching():  # noqa: ASYNC110 - a thread that ends says nothing
                await anyio.sleep(0.01)


async def test_a_thread_that_could_not_watch_ends_when_nobody_waits(
    watched: Watched, watchman: Poller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_watch, "_LINGERS", 0.0)
    watched.failures = 1_000_000_000
    bell = Notifier()
    watchman.add(bell)
    watchman.remove(bell)
    with anyio.fail_after(BOUND):
        while watching():  # noqa: ASYNC110 - a thread that ends says nothing
            await anyio.sleep(0.01)


async def test_nobody_is_watched_for_when_the_store_is_closed(watched: Watched, watchman: Poller) -> None:
    watchman.close()
    bell = Notifier()
    watchman.add(bell)
    assert watching() == []
    watchman.remove(bell)


def test_a_bell_of_a_loop_that_is_gone_is_rung_in_vain() -> None:
    bells = Notifiers()

    async def leave_one() -> None:
        bells.add(Notifier())

    anyio.run(leave_one)
    anyio.run(leave_one, backend="trio")
    bells.ring()
    assert len(bells) == 2


async def test_a_bell_is_rung_from_any_thread() -> None:
    bell = Notifier()
    with anyio.fail_after(BOUND):
        await to_thread.run_sync(bell.ring)
        await bell.wait()
        bell.reset()
        await to_thread.run_sync(lambda: from_thread.run_sync(bell.ring))
        await bell.wait()
