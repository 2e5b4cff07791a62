"""Signals of changes in a store."""

from __future__ import annotations

import anyio
import pytest
from chat_core import Messages
from chat_service.live_text import LiveText
from chat_service.signals import Signal, Signals
from chat_store import MemoryStore
from service_helpers import WAIT

pytestmark = pytest.mark.anyio


async def test_a_change_in_another_process_wakes_the_waiting_task(store: MemoryStore) -> None:
    signals = Signals(store)
    await signals.open()
    one, two = signals.session("one"), signals.session("two")
    async with anyio.create_task_group() as group:
        group.start_soon(signals.run)
        async with MemoryStore(beside=store).open("one") as conversation:
            conversation.messages.user("Hello.")
        with anyio.fail_after(WAIT):
            await one.wait(0)
            await signals.any_session.wait(0)
        group.cancel_scope.cancel()

    assert (one.changes > 0, two.changes) == (True, 0)


async def test_all_sessions_are_notified_after_the_database_was_replaced(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.create(Messages.from_user("Hello."))
    signals = Signals(store)
    await signals.open()
    one, two = signals.session("one"), signals.session("two")
    async with MemoryStore() as backup, anyio.create_task_group() as group:
        monkeypatch.setattr(store, "changes", backup.changes)
        group.start_soon(signals.run)
        with anyio.fail_after(WAIT):
            for signal in (one, two, signals.any_session):
                await signal.wait_for_report(0)
        group.cancel_scope.cancel()

    assert (one.reports, two.reports, signals.any_session.reports) == (1, 1, 1)


async def test_a_task_that_missed_a_notification_does_not_wait() -> None:
    signal = Signal()
    signal.notify()

    with anyio.fail_after(WAIT):
        await signal.wait(0)
    assert (signal.number, signal.changes) == (1, 0)


async def test_other_notifications_do_not_end_the_wait_for_a_report() -> None:
    signal, found = Signal(), list[int]()

    async def wait() -> None:
        await signal.wait_for_report(0)
        found.append(signal.changes)

    with anyio.fail_after(WAIT):
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            signal.notify()
            signal.refresh()
            await anyio.wait_all_tasks_blocked()
            assert found == []
            signal.notify_change()
        await signal.wait_for_report(0)

    assert found == [2]


async def test_each_session_is_notified_in_an_interval(store: MemoryStore) -> None:
    signals = Signals(store)
    one, two = signals.session("one"), signals.session("two")
    async with anyio.create_task_group() as group:
        group.start_soon(signals.refresh, LiveText(signals).executes, 0.001)
        with anyio.fail_after(WAIT):
            await one.wait(1)
            await two.wait(1)
            later = signals.session("three")
            await later.wait(0)
        group.cancel_scope.cancel()

    assert (signals.any_session.number, one.changes) == (0, one.number)


async def test_sessions_that_this_process_executes_are_not_notified_in_an_interval(store: MemoryStore) -> None:
    signals = Signals(store)
    live = LiveText(signals)
    one, two = signals.session("one"), signals.session("two")
    live.open("one.1")
    live.open("one.2")
    live.end("one.1")
    changes_during_the_run = -1
    async with anyio.create_task_group() as group:
        group.start_soon(signals.refresh, live.executes, 0.001)
        with anyio.fail_after(WAIT):
            await two.wait(0)
            await two.wait(two.number)  # a whole interval has passed
            changes_during_the_run = one.changes
            live.end("one.2")
            await one.wait(0)
        group.cancel_scope.cancel()

    assert changes_during_the_run == 0


async def test_signals_without_listeners_are_dropped(store: MemoryStore) -> None:
    signals = Signals(store)
    kept = signals.session("one")
    signals.session("two")

    assert signals.session("one") is kept
    assert signals.session("two") is not kept
