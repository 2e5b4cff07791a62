"""Signals that wake the workers and followers of this process when a session changes in any process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, final
from weakref import WeakValueDictionary

import anyio
from chat_store import Changes, ConversationStore
from chat_store.watcher import ChangeWatcher

REFRESH_SECONDS: Final = 15.0
"""Interval in seconds in which followers read the state of their runs, even if the store reports no change.

Followers of a session are not refreshed while this process executes a run of the session.
"""


@final
class Signal:
    """A counter of notifications that tasks can wait on.

    Attributes:
        number: number of notifications so far.
        changes: number of these notifications after which followers must read the store: reports and refreshes.
        reports: number of these notifications that reported a change in the store.
    """

    def __init__(self) -> None:
        self.number: int = 0
        self.changes: int = 0
        self.reports: int = 0
        # An event would create a future for each waiting task, too, and needs twice the time.
        self._waiting: set[asyncio.Future[None]] = set()
        self._waiting_for_report: set[asyncio.Future[None]] = set()

    def notify_change(self) -> None:
        """Report that the store has changed."""
        self.changes += 1
        self.reports += 1
        _wake(self._waiting_for_report)
        self.notify()

    def refresh(self) -> None:
        """Make the followers read the store again, although no change was reported."""
        self.changes += 1
        self.notify()

    def notify(self) -> None:
        """Increase the number and wake all waiting tasks."""
        self.number += 1
        _wake(self._waiting)

    async def wait(self, seen: int) -> None:
        """Wait until the number differs from `seen`.

        Args:
            seen: the number that the caller has seen.
        """
        while self.number == seen:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.add(future)
            try:
                await future
            finally:
                self._waiting.discard(future)

    async def wait_for_report(self, seen: int) -> None:
        """Wait until the number of reports differs from `seen`. Other notifications do not wake the task.

        Args:
            seen: the number of reports that the caller has seen.
        """
        while self.reports == seen:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting_for_report.add(future)
            try:
                await future
            finally:
                self._waiting_for_report.discard(future)


def _wake(waiting: set[asyncio.Future[None]]) -> None:
    for future in waiting:
        if not future.done():  # the task may have been cancelled, or woken by another notification
            future.set_result(None)
    waiting.clear()


@final
class Signals:
    """The signals of a service.

    Args:
        store: the store of the sessions.

    Attributes:
        any_session: signal of a change to any session.
        resets: number of times that the database was replaced, for example by a backup.
    """

    def __init__(self, store: ConversationStore) -> None:
        self.any_session: Signal = Signal()
        self.resets: int = 0
        self._sessions: WeakValueDictionary[str, Signal] = WeakValueDictionary()
        self._watcher = ChangeWatcher(store, self._publish, self._publish_reset, lambda: True)

    def session(self, session_id: str) -> Signal:
        """Return the signal of a session. Keep a reference to the signal while you wait.

        Args:
            session_id: id of the session.
        """
        signal = self._sessions.get(session_id)
        if signal is None:
            signal = self._sessions[session_id] = Signal()
        return signal

    async def open(self) -> None:
        """Start listening for changes of the store. Call this method before `run()`."""
        await self._watcher.listen()

    async def run(self) -> None:
        """Forward changes of the store to the signals until the task is cancelled."""
        await self._watcher.run()

    async def refresh(self, executes: Callable[[str], bool], seconds: float = REFRESH_SECONDS) -> None:
        """Refresh each session's signal once in an interval, until the task is cancelled.

        Jobs can change without a change that the store reports, for example if their worker dies. One task for all
        sessions needs less CPU time than a timeout for each wait of a follower.

        Args:
            executes: function that returns whether this process executes a run of a session. Its signal is not
                refreshed, because a worker of this process reports the end of the run.
            seconds: the interval. The refreshes are spread evenly over it.
        """
        while True:
            known = list(self._sessions)
            for session_id in known:
                if not executes(session_id) and (signal := self._sessions.get(session_id)):
                    signal.refresh()
                    del signal
                await anyio.sleep(seconds / len(known))
            if not known:
                await anyio.sleep(seconds)

    def _publish(self, changes: Changes) -> None:
        for item in changes.conversations:
            if signal := self._sessions.get(item.conversation):
                signal.notify_change()
        if changes.conversations:
            self.any_session.notify_change()

    def _publish_reset(self) -> None:
        self.resets += 1
        for signal in list(self._sessions.values()):
            signal.notify_change()
        self.any_session.notify_change()
