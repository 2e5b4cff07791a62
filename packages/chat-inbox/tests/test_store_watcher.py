"""Changes of other processes reach the channels."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest
from chat_inbox.background_runs import BackgroundRuns, Channel
from chat_inbox.store_watcher import StoreWatcher
from chat_store import Changes, MemoryStore
from inbox_helpers import WAIT, Bank

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def watching(store: MemoryStore) -> AsyncGenerator[tuple[StoreWatcher, BackgroundRuns]]:
    runs = BackgroundRuns(store, lambda _: None)
    watch = StoreWatcher(store, runs)
    async with anyio.create_task_group() as group:
        group.start_soon(watch.run)
        yield watch, runs
        group.cancel_scope.cancel()


async def wait_for_event(channel: Channel, number: int) -> None:
    with anyio.fail_after(WAIT):
        await channel.wait(number)


async def test_changes_of_another_process_are_published_to_list_and_conversation(store: MemoryStore) -> None:
    async with watching(store) as (watch, runs):
        one = runs.channel("chat-17")
        with runs.list_channel.count_follower(), one.count_follower():
            cursor = (await store.changes()).cursor
            await watch.catch_up(runs.list_channel, None, cursor)
            await watch.catch_up(one, "chat-17", cursor)
            assert (runs.list_channel.number, one.number) == (0, 0)
            async with MemoryStore(beside=store).open("chat-17") as elsewhere:
                elsewhere.messages.tool("call_1").approve()
            await wait_for_event(runs.list_channel, 0)
            await wait_for_event(one, 0)


async def test_open_pages_are_notified_after_the_database_was_replaced(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, replaced = store.changes, anyio.Event()

    async def changes(since: str | None = None, *, wait_seconds: float | None = None) -> Changes:
        if wait_seconds:
            replaced.set()
        read = backup.changes if replaced.is_set() else original
        return await read(since, wait_seconds=wait_seconds)

    monkeypatch.setattr(store, "changes", changes)
    async with MemoryStore() as backup, watching(store) as (watch, runs):
        one = runs.channel("chat-17")
        with runs.list_channel.count_follower(), one.count_follower():
            await watch.catch_up(one, "chat-17", (await store.changes()).cursor)
            await wait_for_event(runs.list_channel, 0)
            await wait_for_event(one, 0)


async def test_catch_up_reports_changes_since_the_cursor(store: MemoryStore) -> None:
    cursor = (await store.changes()).cursor
    await Bank().ask(MemoryStore(beside=store), "chat-18")
    async with watching(store) as (watch, runs):
        with runs.list_channel.count_follower():
            assert await watch.catch_up(runs.list_channel, None, cursor)
            assert not await watch.catch_up(runs.channel("chat-17"), "chat-17", cursor)


async def test_catch_up_reports_a_change_for_an_invalid_cursor(store: MemoryStore) -> None:
    async with watching(store) as (watch, runs):
        assert await watch.catch_up(runs.list_channel, None, "no cursor at all")
        assert runs.list_channel.number == 0  # other followers of the channel get no event


async def test_watcher_retries_after_store_errors(
    store: MemoryStore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes, failures = store.changes, [OSError("the disk is full")]

    async def failing(since: str | None = None, *, wait_seconds: float | None = None) -> Changes:
        if failures and wait_seconds:
            raise failures.pop()
        return await changes(since, wait_seconds=wait_seconds)

    monkeypatch.setattr(store, "changes", failing)
    async with watching(store) as (watch, runs):
        with runs.list_channel.count_follower():
            await watch.catch_up(runs.list_channel, None, (await changes()).cursor)
            await Bank().ask(MemoryStore(beside=store), "chat-18")
            await wait_for_event(runs.list_channel, 0)

    assert "could not read the changes" in caplog.text
