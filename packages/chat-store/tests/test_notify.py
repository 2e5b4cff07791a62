"""The thread that watches a database, and the tasks that it wakes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

import anyio
import pytest
from anyio import from_thread, to_thread
from chat_store.sql import notify
from chat_store.sql.notify import Notifier, Notifiers, Poller

pytestmark = pytest.mark.anyio

BOUND = 120


def watching() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "chat-store watches"]


class Watched:
    """Fake database that reports changes."""

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
def poller(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> Iterator[Poller]:
    monkeypatch.setattr(notify, "_RETRY_SECONDS", 0.001)
    poller = Poller(watched.watch)
    yield poller
    poller.close()
    assert watching() == []


async def test_a_notifier_is_notified_when_polling_begins_and_on_each_change(watched: Watched, poller: Poller) -> None:
    notifier = Notifier()
    with anyio.fail_after(BOUND):
        poller.add(notifier)
        for _ in range(3):
            await notifier.wait()
            notifier.reset()
            watched.changes.release()
        await notifier.wait()
        poller.remove(notifier)


async def test_polling_restarts_after_the_database_could_not_be_opened(watched: Watched, poller: Poller) -> None:
    watched.failures = 3
    notifier = Notifier()
    poller.add(notifier)
    with anyio.fail_after(BOUND):
        await notifier.wait()
        assert await to_thread.run_sync(watched.begun.acquire)
    poller.remove(notifier)


async def test_the_polling_thread_ends_without_waiters_and_restarts_with_one(
    watched: Watched, poller: Poller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "_LINGER_SECONDS", 0.0)
    for _ in range(2):
        notifier = Notifier()
        poller.add(notifier)
        assert len(watching()) == 1
        poller.remove(notifier)
        with anyio.fail_after(BOUND):
            while watching():  # noqa: ASYNC110 - the end of a thread cannot be awaited
                await anyio.sleep(0.01)


async def test_a_polling_thread_that_failed_ends_without_waiters(
    watched: Watched, poller: Poller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notify, "_LINGER_SECONDS", 0.0)
    watched.failures = 1_000_000_000
    notifier = Notifier()
    poller.add(notifier)
    poller.remove(notifier)
    with anyio.fail_after(BOUND):
        while watching():  # noqa: ASYNC110 - the end of a thread cannot be awaited
            await anyio.sleep(0.01)


async def test_a_closed_poller_starts_no_thread(watched: Watched, poller: Poller) -> None:
    poller.close()
    notifier = Notifier()
    poller.add(notifier)
    assert watching() == []
    poller.remove(notifier)


def test_notifying_a_notifier_of_a_closed_loop_does_nothing() -> None:
    notifiers = Notifiers()

    async def leave_one() -> None:
        notifiers.add(Notifier())

    anyio.run(leave_one)
    anyio.run(leave_one, backend="trio")
    notifiers.notify()
    assert len(notifiers) == 2


async def test_a_notifier_can_be_notified_from_any_thread() -> None:
    notifier = Notifier()
    with anyio.fail_after(BOUND):
        await to_thread.run_sync(notifier.notify)
        await notifier.wait()
        notifier.reset()
        await to_thread.run_sync(lambda: from_thread.run_sync(notifier.notify))
        await notifier.wait()
