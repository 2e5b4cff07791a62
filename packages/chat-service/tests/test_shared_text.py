"""The tasks that exchange text with other processes."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace

import anyio
import pytest
from anyio.lowlevel import checkpoint
from chat_core import Messages
from chat_service import shared_text
from chat_service.live_text import LiveText, OpenStep
from chat_service.run_events import Writer
from chat_service.shared_text import SharedText
from chat_service.signals import Signals
from chat_store import Job, MemoryStore, ResponseDelta
from service_helpers import WAIT

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def writing(store: MemoryStore, live: LiveText) -> AsyncGenerator[None]:
    """Execute the run `s.1` of a new session `s`, and write its text for other processes, until the block ends."""
    await store.create(Messages.from_user("Hello."), id="s", jobs=[Job("chat_service.run", "s.1@0")])
    async with store.take_job("chat_service.run") as job, anyio.create_task_group() as group:
        assert job is not None
        live.open("s.1")
        live.begin("s.1", OpenStep("s", 0, Writer(1, job.fence)))
        group.start_soon(SharedText(store, live).write)
        with anyio.fail_after(WAIT):
            yield
        group.cancel_scope.cancel()


async def test_text_reaches_followers_of_another_process(store: MemoryStore) -> None:
    await store.create(Messages.from_user("Hello."), id="s", jobs=[Job("chat_service.run", "s.1@0")])
    here, signals = LiveText(Signals(store)), Signals(store)
    there, signal = LiveText(signals), signals.session("s")
    step: OpenStep | None = None
    async with store.take_job("chat_service.run") as job, anyio.create_task_group() as group:
        assert job is not None
        group.start_soon(SharedText(store, here).write)
        group.start_soon(SharedText(MemoryStore(beside=store), there).read)
        with there.following("s.1"), anyio.fail_after(WAIT):
            here.open("s.1")
            here.begin("s.1", OpenStep("s", 0, Writer(1, job.fence)))
            here.append("s.1", "Good ")
            await signal.wait(0)
            here.append("s.1", "morning.")
            await signal.wait(1)
            step = there.step("s.1")
        group.cancel_scope.cancel()

    assert step is not None
    assert (step.pieces, step.writer) == (["Good ", "morning."], Writer(1, 1))


async def test_text_is_written_only_while_another_process_reads_it(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    live, write, asked = LiveText(Signals(store)), store.write_deltas, anyio.Event()
    unread: list[ResponseDelta] = []
    found: list[ResponseDelta] = []

    async def write_and_tell(deltas: Sequence[ResponseDelta]) -> frozenset[str]:
        followed = await write(deltas)
        asked.set()
        return followed

    monkeypatch.setattr(shared_text, "ASK_SECONDS", 0.0)
    monkeypatch.setattr(store, "write_deltas", write_and_tell)
    async with writing(store, live):
        live.append("s.1", "Good morning.")
        await asked.wait()
        other = MemoryStore(beside=store)
        unread = await other.deltas({"s": 0})
        while not found:
            asked = anyio.Event()
            await asked.wait()
            found = await other.deltas({"s": 0})

    assert unread == []
    assert [(delta.start, delta.pieces) for delta in found] == [(0, ["Good morning."])]


async def test_text_that_could_not_be_written_is_written_with_the_next_text(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    live, write, failed, written = LiveText(Signals(store)), store.write_deltas, anyio.Event(), anyio.Event()

    async def write_second(deltas: Sequence[ResponseDelta]) -> frozenset[str]:
        if deltas and not failed.is_set():
            failed.set()
            msg = "the store is away"
            raise OSError(msg)
        followed = await write(deltas)
        if deltas:
            written.set()
        return followed

    monkeypatch.setattr(shared_text, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(store, "write_deltas", write_second)
    async with writing(store, live):
        await MemoryStore(beside=store).deltas({"s": 0})
        live.append("s.1", "Good ")
        await failed.wait()
        live.append("s.1", "morning.")
        await written.wait()

    deltas = await MemoryStore(beside=store).deltas({"s": 0})
    assert [(delta.start, delta.pieces) for delta in deltas] == [(0, ["Good ", "morning."])]


async def test_text_that_could_not_be_written_is_written_after_a_pause_although_no_text_follows(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    live, write, written = LiveText(Signals(store)), store.write_deltas, anyio.Event()
    steps: list[float | str] = []

    async def write_second(deltas: Sequence[ResponseDelta]) -> frozenset[str]:
        if deltas:
            steps.append("write")
        if steps == ["write"]:
            msg = "the store is away"
            raise OSError(msg)
        followed = await write(deltas)
        if deltas:
            written.set()
        return followed

    async def sleep(seconds: float) -> None:
        steps.append(seconds)
        await checkpoint()

    monkeypatch.setattr(store, "write_deltas", write_second)
    monkeypatch.setattr(shared_text, "anyio", SimpleNamespace(sleep=sleep, move_on_after=anyio.move_on_after))
    async with writing(store, live):
        await MemoryStore(beside=store).deltas({"s": 0})
        live.append("s.1", "Good morning.")
        await written.wait()

    deltas = await MemoryStore(beside=store).deltas({"s": 0})
    assert [(delta.start, delta.pieces) for delta in deltas] == [(0, ["Good morning."])]
    assert steps == ["write", shared_text.RETRY_SECONDS, "write"]


async def test_a_store_that_fails_loses_only_text_that_is_not_stored(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    live, calls, failed = LiveText(Signals(store)), list[str](), anyio.Event()

    async def failing(*_: object) -> None:
        calls.append("failed")
        if len(calls) == 4:
            failed.set()
        msg = "the store is away"
        raise OSError(msg)

    monkeypatch.setattr(shared_text, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(store, "write_deltas", failing)
    monkeypatch.setattr(store, "deltas", failing)
    shared = SharedText(store, live)
    live.begin("s.1", OpenStep("s", 0, Writer(1, 1)))
    with caplog.at_level(logging.WARNING), live.following("s.2"), anyio.fail_after(WAIT):
        async with anyio.create_task_group() as group:
            group.start_soon(shared.write)
            group.start_soon(shared.read)
            while not failed.is_set():
                live.append("s.1", "Good ")
                with anyio.move_on_after(0.05):
                    await failed.wait()
            group.cancel_scope.cancel()

    assert "text of open responses" in caplog.text
