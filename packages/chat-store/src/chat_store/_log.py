"""The conversation log: an append-only list of entries and a lease, in a file or in the rows of a database.

Several processes may append to one log. The rules that keep their writes consistent are those of `ConversationLog`:
a write first reads the entries of others, and a batch that contradicts one of them is refused as a whole. One run at a
time holds the lease. The fence counts the runs: a run that finds a higher fence has been overtaken, and its changes
become a `late` entry, which changes nothing.
"""

from __future__ import annotations

import os
import socket
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeAlias, final

from chat_core.errors import ConflictError, UsageError
from chat_core.messages import Tool

from chat_store._entries import Batch, Document, Lease, ToolPath, ToolUpdated, TurnAdded, copy_tool
from chat_store._log_state import LogState

LogUpdate: TypeAlias = TurnAdded | ToolUpdated | Batch
"""A durable change: of others, or a batch that this log wrote."""


@final
class StaleToolError(Exception):
    """Tools of a batch have changed in the log meanwhile. Nothing was written.

    Attributes:
        tools: these tools in their durable state. A tool that is not in the log is replaced by its outermost one.
    """

    def __init__(self, tools: list[tuple[ToolPath, Tool]]) -> None:
        super().__init__()
        self.tools = tools


class ConversationLog(ABC):
    """The log of one conversation, and the state that its entries add up to. Every method blocks its thread.

    Args:
        name: names the conversation in the texts of errors.
        lease_length: how long a lease lasts from each write on.
        now: the clock, with a zone.

    Attributes:
        state: the durable state, as far as the log has been read.
        updates: durable changes that the messages of this process do not have yet, oldest first.
    """

    def __init__(self, name: str, lease_length: timedelta, now: Callable[[], datetime]) -> None:
        self._name = name
        self._lease_length = lease_length
        self._now = now
        self._pid = os.getpid()
        self.state = LogState()
        self.updates: deque[LogUpdate] = deque()

    @abstractmethod
    def claim(self, batch: Batch) -> None:
        """Take the lease for a run, and append a batch.

        Raises:
            ConflictError: a live run holds the lease, or turns were added elsewhere. Nothing was written.
            StaleToolError: nothing was written.
        """

    @abstractmethod
    def renew(self) -> None:
        """Prolong the lease.

        Raises:
            LeaseLostError: another run took over.
        """

    @abstractmethod
    def write(self, batch: Batch) -> None:
        """Append a batch of the run, and prolong the lease.

        Raises:
            LeaseLostError: another run took over; the batch is stored as late.
            StaleToolError: nothing was written.
        """

    @abstractmethod
    def release(self) -> None:
        """End the run, even if the release cannot be written. A lost lease is no error."""

    @property
    @abstractmethod
    def holds_lease(self) -> bool:
        """Whether a run of this object has not ended."""

    @abstractmethod
    def save(self, batch: Batch) -> None:
        """Append decisions, also while another object's run is live. An empty batch only reads what others wrote.

        Raises:
            ConflictError: a live run is executing one of the tools, or turns were added elsewhere. Nothing was written.
            StaleToolError: nothing was written.
        """

    @abstractmethod
    def read_entries(self) -> list[Document]:
        """Return all entries, oldest first."""

    # --- Rules that every log shares -----------------------------------------------------------------------------

    def _require_this_process(self) -> None:
        if self._pid != os.getpid():
            msg = "the conversation was opened before this process was forked; open it again here"
            raise UsageError(msg)

    def _require_current(self, batch: Batch) -> None:
        """Raise unless a batch follows from the durable state."""
        if stale := self.state.stale_paths(batch):
            found = [(path, self.state.find(path)) for path in stale]
            tops = [(path[:1], self.state.find(path[:1])) for path, tool in found if tool is None]
            raise StaleToolError([(path, copy_tool(tool)) for path, tool in [*found, *tops] if tool is not None])
        if batch.turns and batch.known_turns != self.state.turns:
            msg = f"somebody else has added to the conversation {self._name} meanwhile; open it again and look"
            raise ConflictError(msg)

    def _may_save_during_run(self, batch: Batch, now: datetime) -> bool:
        """Whether a batch only decides tools that wait, so that a live run may go on beside it."""
        return not batch.turns and all(self.state.is_waiting(change.path, now) for change in batch.tools)

    def _next_lease(self, fence: int, now: datetime) -> Lease:
        return Lease(fence, f"{socket.gethostname()}/{os.getpid()}", now + self._lease_length)
