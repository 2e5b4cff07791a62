"""Readers of runs, which all followers of a run share."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import anyio
import pytest
from chat_core.approvals import Principal
from chat_core.messages import Text, Turn
from chat_service import ServiceSettings, run_reader
from chat_service.run_reader import RunReaders
from chat_service.run_records import RunEnd
from chat_service.runs import MessageRequest, Runs
from chat_store import HistoryEntry, MemoryStore, UnknownConversationError
from service_helpers import WAIT, build_context

pytestmark = pytest.mark.anyio


async def test_followers_of_a_run_share_one_reader_that_reads_each_entry_once(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = build_context(store, ServiceSettings())
    runs = Runs(context)
    run = await runs.start(MessageRequest(Principal("ana"), None, "Hello.", ""))
    history, found = store.history, list[list[HistoryEntry]]()

    async def reading(id: str, **options: Any) -> list[HistoryEntry]:
        found.append(await history(id, **options))
        return found[-1]

    monkeypatch.setattr(store, "history", reading)
    readers = RunReaders(context, runs)
    first, second = readers.reader(run), readers.reader(run)
    async with anyio.create_task_group() as group:
        group.start_soon(first.read)
        group.start_soon(second.read)
    context.signals.session(run.session_id).notify_change()
    await runs.end(run, RunEnd("answered", 1))
    status = await second.read()

    assert first is second
    assert [[entry.event for entry in entries] for entries in found] == [["created"], []]
    assert (status.run.state, status.end is None) == ("answered", False)


async def test_a_refresh_reads_the_history_only_if_the_state_of_the_run_has_changed(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = build_context(store, ServiceSettings())
    runs = Runs(context)
    run = await runs.start(MessageRequest(Principal("ana"), None, "Hello.", ""))
    reader = RunReaders(context, runs).reader(run)
    await reader.read()
    history, found = store.history, list[str]()

    async def reading(id: str, **options: Any) -> list[HistoryEntry]:
        found.append(id)
        return await history(id, **options)

    monkeypatch.setattr(store, "history", reading)
    signal = context.signals.session(run.session_id)
    signal.refresh()
    unchanged, without_history = await reader.read(), list(found)
    await store.cancel_job(run.parts[-1].job.kind, run.parts[-1].job.key)
    signal.refresh()
    cancelled = await reader.read()

    assert (unchanged.run.state, without_history) == ("queued", [])
    assert (cancelled.run.state, found) == ("cancelled", [run.session_id])
    assert cancelled.end is not None


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_failed_or_cancelled_read_of_the_history_is_repeated(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, *, is_cancelled: bool
) -> None:
    context = build_context(store, ServiceSettings())
    runs = Runs(context)
    run = await runs.start(MessageRequest(Principal("ana"), None, "Hello.", ""))
    reader = RunReaders(context, runs).reader(run)
    await reader.read()
    snapshot = await store.load(run.session_id)
    await store.apply(run.session_id, snapshot.revision, turns=[("model", Turn([Text("Good morning.")]))])
    number, log = await runs.last_entry(run.session_id)
    await runs.end(run, RunEnd("answered", number, log=log))
    context.signals.session(run.session_id).refresh()

    async def interrupted(*_: object, **__: object) -> list[HistoryEntry]:
        if is_cancelled:
            scope.cancel()
            await anyio.sleep_forever()
        msg = "the database is locked"
        raise OSError(msg)

    with monkeypatch.context() as patch, anyio.CancelScope() as scope, suppress(OSError):
        patch.setattr(store, "history", interrupted)
        await reader.read()
    status = await reader.read()

    assert scope.cancelled_caught == is_cancelled
    assert (status.run.state, status.end is None) == ("answered", False)
    assert {"content": "Good morning."} in [event.data for event in status.events]


async def test_a_refresh_finds_that_the_session_was_deleted(store: MemoryStore) -> None:
    context = build_context(store, ServiceSettings())
    runs = Runs(context)
    run = await runs.start(MessageRequest(Principal("ana"), None, "Hello.", ""))
    reader = RunReaders(context, runs).reader(run)
    await reader.read()
    await store.delete(run.session_id)
    context.signals.session(run.session_id).refresh()

    with pytest.raises(UnknownConversationError):
        await reader.read()


async def test_a_status_is_read_again_after_some_time_without_a_signal(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_reader, "REFRESH_SECONDS", 0.0)
    context = build_context(store, ServiceSettings(ping_seconds=0))
    runs = Runs(context)
    run = await runs.start(MessageRequest(Principal("ana"), None, "Hello.", ""))
    reader = RunReaders(context, runs).reader(run)
    before = await reader.read()
    async with store.take_job("chat_service.run"):
        with anyio.fail_after(WAIT):
            after = await reader.read()

    assert (before.run.state, after.run.state) == ("queued", "running")
