"""Tasks that wait for changes are notified instead of polling."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread
from chat_core.errors import InvalidDocumentError, UsageError
from chat_store import Changes, ConversationStore, MemoryStore, SqliteStore, _list_store
from chat_store.testing._fixtures import Clock, call, paused

pytestmark = pytest.mark.anyio

BOUND = 120


@pytest.fixture(autouse=True)
def nobody_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable periodic polls, so that only notifications wake a waiting task."""
    monkeypatch.setattr(_list_store, "_LONGEST_PAUSE", 1e6)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chats.db"


def watching() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "chat-store watches"]


async def woken_by(waiting: ConversationStore, writing: ConversationStore) -> Changes:
    """Return the changes that a waiting task receives while a conversation is stored."""
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


async def test_memory_stores_that_share_a_backend_wake_each_other() -> None:
    here = MemoryStore()
    assert len((await woken_by(here, MemoryStore(beside=here))).conversations) == 1


async def test_a_change_in_another_thread_and_event_loop_wakes_a_waiter() -> None:
    store = MemoryStore()
    cursor = (await store.changes()).cursor

    def write() -> None:
        anyio.run(store.create, paused("a"))

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            group.start_soon(store.changes, cursor)
            await anyio.wait_all_tasks_blocked()
            await to_thread.run_sync(write)


async def test_a_change_by_another_sqlite_store_wakes_a_waiter(path: Path) -> None:
    async with SqliteStore(path) as here, SqliteStore(path) as there:
        assert len((await woken_by(here, there)).conversations) == 1
    assert watching() == []


async def test_a_change_by_the_same_sqlite_store_wakes_a_waiter_without_polling(path: Path) -> None:
    async with SqliteStore(path, poll_seconds=0.001) as store:
        await store.changes((await store.changes()).cursor, wait_seconds=0)
    # No process reads the file for a day.
    async with SqliteStore(path, poll_seconds=86_400) as store:
        assert len((await woken_by(store, store)).conversations) == 1


async def test_waiting_for_changes_of_a_removed_file_raises(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_list_store, "_LONGEST_PAUSE", 0.01)
    async with SqliteStore(path) as store:
        cursor = (await store.changes()).cursor
        await anyio.Path(path).unlink()
        with pytest.raises(InvalidDocumentError, match="removed or replaced"):
            await store.changes(cursor)


async def test_closing_the_store_raises_in_a_task_waiting_for_changes(path: Path) -> None:
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


async def test_a_poll_during_the_close_of_the_store_raises_store_closed(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store: Any = SqliteStore(path)
    backend = store._backend
    poll, close, polled = backend.poll, backend._poller.close, threading.Event()

    def told(*words: Any) -> Any:
        try:
            return poll(*words)
        finally:
            polled.set()

    def close_slowly() -> None:
        polled.clear()
        close()
        polled.wait(BOUND)

    monkeypatch.setattr(backend, "poll", told)
    monkeypatch.setattr(backend._poller, "close", close_slowly)
    cursor = (await store.changes()).cursor

    async def wait() -> None:
        with pytest.raises(UsageError, match="is closed"):
            await store.changes(cursor)

    with anyio.fail_after(BOUND):
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await store.aclose()


async def test_waiting_for_changes_ends_when_a_scheduled_time_arrives() -> None:
    begun, ticking = datetime.now(UTC), [0.0]
    # The clock does not move before there is a cursor.
    store = MemoryStore(now=lambda: begun + timedelta(seconds=ticking[0] and time.monotonic() - ticking[0]))
    name = await store.create(paused(call("planned", at=begun + timedelta(seconds=0.5))))
    cursor = (await store.changes()).cursor
    ticking[0] = time.monotonic()
    with anyio.fail_after(BOUND):
        found = await store.changes(cursor)
    assert [item.conversation for item in found.conversations] == [name]
    assert [item.conversation for item in await store.due()] == [name]


async def test_a_cursor_from_a_clock_that_is_ahead_misses_no_change() -> None:
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
async def test_an_invalid_cursor_is_refused(cursor: str, path: Path) -> None:
    async with SqliteStore(path) as store:
        for refusing in (store, MemoryStore()):
            with pytest.raises(UsageError, match="is not a cursor of this database"):
                await refusing.changes(cursor, wait_seconds=0)


async def test_change_numbers_are_not_reused_after_a_conversation_is_deleted(path: Path) -> None:
    async with SqliteStore(path) as store:
        for one in (store, MemoryStore()):
            await one.create(paused("a"), id="old")
            cursor = (await one.changes()).cursor
            await one.delete("old")
            await one.create(paused("a"), id="new")
            found = await one.changes(cursor, wait_seconds=0)
            assert [item.conversation for item in found.conversations] == ["new"]
