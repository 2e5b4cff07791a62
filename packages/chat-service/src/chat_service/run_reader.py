"""`RunReader`, which reads the state and the events of a run once for all its followers in this process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final
from weakref import WeakValueDictionary

import anyio

from chat_service.context import ServiceContext
from chat_service.run_events import Position, RunEvent, RunHistory
from chat_service.run_records import Run
from chat_service.runs import Runs
from chat_service.signals import REFRESH_SECONDS


@final
@dataclass(frozen=True, slots=True)
class RunStatus:
    """The state and the durable events of a run at one time.

    Attributes:
        run: the run.
        log: short name of the history from which the events are derived.
        events: the events, oldest first. They are complete if the run has ended.
        end: position of the end, or `None` for an active run.
    """

    run: Run
    log: str
    events: Sequence[RunEvent]
    end: Position | None


@final
class RunReader:
    """A reader of one run. It reads the store only after the session has changed, and then only new history entries.

    Args:
        context: objects shared by the parts of the service.
        runs: starts, finds and cancels the runs of the service.
        run: the run.
    """

    def __init__(self, context: ServiceContext, runs: Runs, run: Run) -> None:
        self._store = context.store
        self._signal = context.signals.session(run.session_id)
        self._longest_age = context.settings.ping_seconds or REFRESH_SECONDS
        self._runs = runs
        self._run = run
        self._history = RunHistory(run.id, run.after)
        self._lock = anyio.Lock()
        self._seen: int = -1
        self._reports: int = -1
        self._read_at: float = 0.0
        self._status: RunStatus | None = None

    async def read(self) -> RunStatus:
        """Return the current status.

        The store is read if the session has changed since the last call, or if that call was too long ago. The history
        is only read if the session or the state of the run has changed.

        Raises:
            UnknownConversationError: the session was deleted.
        """
        async with self._lock:
            age = anyio.current_time() - self._read_at  # jobs can change without a signal
            if self._status is None or self._signal.changes != self._seen or age >= self._longest_age:
                seen, reports, self._read_at = self._signal.changes, self._signal.reports, anyio.current_time()
                found = await self._runs.find(self._run.id)
                # A deleted session has no run. The store reports no deletion, but its history raises the error.
                if self._status is None or reports != self._reports or found is None or found.state != self._run.state:
                    self._history.add(await self._store.history(self._run.session_id, after=self._history.position))
                # The state is kept only with its entries. If the history cannot be read, the next call reads both.
                self._run = found or self._run
                events, end = self._history.until_end(self._run)
                self._status = RunStatus(self._run, self._history.log, events, end)
                self._seen, self._reports = seen, reports
            return self._status


@final
class RunReaders:
    """The readers of all followed runs of this process.

    Args:
        context: objects shared by the parts of the service.
        runs: starts, finds and cancels the runs of the service.
    """

    def __init__(self, context: ServiceContext, runs: Runs) -> None:
        self._context = context
        self._runs = runs
        self._readers: WeakValueDictionary[str, RunReader] = WeakValueDictionary()

    def reader(self, run: Run) -> RunReader:
        """Return the reader of a run. Keep a reference to the reader while you follow the run.

        Args:
            run: the run.
        """
        reader = self._readers.get(run.id)
        if reader is None:
            reader = self._readers[run.id] = RunReader(self._context, self._runs, run)
        return reader
