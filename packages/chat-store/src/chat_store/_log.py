"""The conversation log: an append-only list of entries and a lease, in a file or in the rows of a database.

Several processes may append to one log. A write first reads the entries of other writers, and rejects a batch as a
whole if it conflicts with one of them. One run at a time holds the lease. The fence is the number of the run: a run
that reads a higher fence has lost its lease, and its changes are recorded in a `late` entry, which has no effect.
"""

from __future__ import annotations

import os
import socket
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeAlias, final

from chat_core.clock import utc_clock
from chat_core.errors import ConflictError, UsageError
from chat_core.messages import Tool

from chat_store._arguments import require_seconds
from chat_store._entries import Batch, Document, Lease, ToolPath, ToolUpdated, TurnAdded, TurnMarked, copy_tool
from chat_store._log_state import LogState

LogUpdate: TypeAlias = TurnAdded | ToolUpdated | TurnMarked | Batch
"""A durable change: one written by another process, or a batch written by this log."""


@final
class StaleToolError(Exception):
    """An error for a batch whose tools have changed in the log since the batch was collected. Nothing was written.

    Attributes:
        tools: the path and the stored state of each of these tools. If a tool in an inner conversation is outdated
            because the outermost tool has ended, the outermost tool is listed, too.
    """

    def __init__(self, tools: list[tuple[ToolPath, Tool]]) -> None:
        super().__init__()
        self.tools = tools


class ConversationLog(ABC):
    """The log of one conversation and its durable state. Every method blocks.

    Args:
        name: the name of the conversation in error messages.
        lease_length: duration of a lease after each write.
        now: the clock. It returns times with a time zone.

    Attributes:
        state: the durable state after the last entry read.
        updates: durable changes that the messages of this process do not contain yet, oldest first.
    """

    def __init__(self, name: str, lease_length: timedelta, now: Callable[[], datetime]) -> None:
        self._name = name
        self._lease_length = lease_length
        self._now = utc_clock(now)
        self._pid = os.getpid()
        self.state: LogState = LogState()
        self.updates: deque[LogUpdate] = deque()

    @property
    @abstractmethod
    def owner(self) -> str | None:
        """The user who owns the conversation, if any."""

    @abstractmethod
    def claim(self, batch: Batch) -> None:
        """Take the lease for a new run, and append a batch of changes.

        Raises:
            ConflictError: an active run holds the lease, or another writer has added turns. Nothing was written.
            StaleToolError: another writer has changed a tool call of the batch. Nothing was written.
        """

    @abstractmethod
    def renew(self) -> None:
        """Extend the lease of the run.

        Raises:
            LeaseLostError: another run took over.
        """

    @abstractmethod
    def write(self, batch: Batch) -> None:
        """Append a batch of changes made by the run, and extend its lease.

        Raises:
            LeaseLostError: another run took over. The batch was stored in a `late` entry, which has no effect.
            StaleToolError: another writer changed a tool call of the batch. Nothing was written.
        """

    @abstractmethod
    def release(self, *, looked_at: datetime | None = None) -> None:
        """Release the lease and end the run, even if the release cannot be written. Does nothing if the lease was lost.

        Args:
            looked_at: time at which the run last examined the waiting calls. Pass it if the run has nothing left to do.
                The conversation is then due again after a stored change, or at a deadline after this time.
        """

    @abstractmethod
    def apply_posts(self) -> int:
        """Append the posted turns on behalf of the run, add them to `updates`, and return their number.

        Raises:
            LeaseLostError: another run took over.
        """

    @property
    @abstractmethod
    def holds_lease(self) -> bool:
        """Whether a run that this object began with `claim()` has not ended yet."""

    @abstractmethod
    def save(self, batch: Batch) -> None:
        """Append changes made outside of a run. Decisions are accepted even while another object has an active run.

        An empty batch only reads the new entries of other writers.

        Raises:
            ConflictError: an active run executes one of the tools, or another writer added turns. Nothing was written.
            StaleToolError: another writer changed a tool call of the batch. Nothing was written.
        """

    @abstractmethod
    def read_entries(self) -> list[Document]:
        """Return all entries of the log, oldest first."""

    # --- Rules shared by all logs --------------------------------------------------------------------------------

    def _require_this_process(self) -> None:
        if self._pid != os.getpid():
            msg = "the conversation was opened before os.fork(): open it again in the child process"
            raise UsageError(msg)

    def _require_current(self, batch: Batch) -> None:
        """Raise an error if a batch is based on an outdated state of the conversation."""
        if stale := self.state.stale_paths(batch):
            found = [(path, self.state.find(path)) for path in stale]
            tops = [(path[:1], self.state.find(path[:1])) for path in stale]
            ended = [
                (path, top)
                for (path, top), (_, tool) in zip(tops, found, strict=True)
                if path not in stale and _has_ended(top, tool)
            ]
            raise StaleToolError([(path, copy_tool(tool)) for path, tool in [*found, *ended] if tool is not None])
        if not self.state.follows(batch):
            msg = f"another process added turns to the conversation {self._name}; nothing was written: open it again"
            raise ConflictError(msg)

    def _may_save_during_run(self, batch: Batch, now: datetime) -> bool:
        """Return whether a batch only decides waiting tools, so that it may be written while another run is active."""
        return not batch.adds_turns and all(self.state.is_waiting(change.path, now) for change in batch.tools)

    def _next_lease(self, fence: int, now: datetime) -> Lease:
        return Lease(fence, f"{socket.gethostname()}/{os.getpid()}", now + self._lease_length)


def _has_ended(top: Tool | None, tool: Tool | None) -> bool:
    """Return whether a tool is missing, or its outermost tool `top` has ended."""
    return tool is None or (top is not None and top.resolved)


def lease_length(seconds: float) -> timedelta:
    """Convert the length of a lease from seconds to a `timedelta`.

    Raises:
        UsageError: `seconds` is not positive, or is more than 100 years.
    """
    require_seconds("lease_seconds", seconds, zero=False)
    return timedelta(seconds=seconds)
