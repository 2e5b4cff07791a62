"""The watcher reads changes while it has listeners."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest
from chat_store import Changes, MemoryStore
from chat_store import watcher as watcher_module
from chat_store.watcher import ChangeWatcher

pytestmark = pytest.mark.anyio
WAIT = 60


async def add_message(store: MemoryStore, name: str) -> None:
    async with MemoryStore(beside=store).open(name) as conversation:
        conversation.messages.user("Hello.")


async def test_changes_since_listening_began_are_published() -> None:
    published = anyio.Event()
    found: list[str] = []

    def publish(changes: Changes) -> None:
        found.extend([item.conversation for item in changes.conversations])
        published.set()

    async with MemoryStore() as store, anyio.create_task_group() as group:
        watcher = ChangeWatcher(store, publish, lambda: None, lambda: True)
        group.start_soon(watcher.run)
        await add_message(store, "before")
        await watcher.listen()
        await add_message(store, "after")
        with anyio.fail_after(WAIT):
            await published.wait()
        group.cancel_scope.cancel()

    assert found == ["after"]


async def test_the_store_is_not_read_without_listeners() -> None:
    asked = anyio.Event()

    def has_listeners() -> bool:
        asked.set()
        return False

    async with MemoryStore() as store, anyio.create_task_group() as group:
        watcher = ChangeWatcher(store, lambda _: pytest.fail("nobody listens"), lambda: None, has_listeners)
        await watcher.listen()
        await add_message(store, "chat")
        group.start_soon(watcher.run)
        with anyio.fail_after(WAIT):
            await asked.wait()
        await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()

    assert asked.is_set()


async def test_changes_are_published_after_the_database_was_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    reset, published = anyio.Event(), anyio.Event()
    found: list[str] = []

    def publish(changes: Changes) -> None:
        found.extend([item.conversation for item in changes.conversations])
        published.set()

    async with MemoryStore() as store, MemoryStore() as backup, anyio.create_task_group() as group:
        for _ in range(3):
            await add_message(store, "chat")
        watcher = ChangeWatcher(store, publish, reset.set, lambda: True)
        await watcher.listen()
        monkeypatch.setattr(store, "changes", backup.changes)
        monkeypatch.setattr(watcher_module, "_RETRY_SECONDS", 0.0)
        group.start_soon(watcher.run)
        with anyio.fail_after(WAIT):
            await reset.wait()
            await add_message(backup, "after")
            await published.wait()
        group.cancel_scope.cancel()

    assert found == ["after"]
