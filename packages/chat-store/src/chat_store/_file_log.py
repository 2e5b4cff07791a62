"""Who may change a stored conversation, and what has become durable: the part of `FileConversation` that blocks.

Two locks, because a run outlasts its writes:

- the lock of the journal, held for the milliseconds of one write, under which whatever others wrote is read first;
- the lock of a run's own file beside it, `<name>.run-<fence>`, held as long as the run lives and dropped by the
  system when its process is gone. It is a file of its own because a lock is on a whole file (locks on ranges of bytes
  belong to processes, and would not keep apart two runs in one), and of its own for every run, so that who overtakes
  a run that stands still has one of its own to hold. It is empty, is there only while a run is live or after one
  died, and may be deleted: then the time in the journal alone says whether the run lives.

The fence counts the runs. A run that finds a higher one in the journal has been overtaken, and whatever it would
write becomes a `late` entry, which changes nothing.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections import deque
from collections.abc import Callable, Generator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol, TypeAlias, final

from chat_core.errors import ConflictError, LeaseLostError, UsageError
from chat_core.json import loads
from chat_core.messages import Messages, Tool, codec

from chat_store import _file_lock
from chat_store._entries import Batch, Document, Lease, Stored, ToolMoved, TurnAdded
from chat_store._entries import Path as ToolPath
from chat_store._journal import Journal

LogUpdate: TypeAlias = TurnAdded | ToolMoved | Batch
"""What has become durable: by others, or by this object."""


@final
class StaleToolError(Exception):
    """Calls of a batch were moved on elsewhere; `tools` are they, or the ones they are in, as the journal has them."""

    def __init__(self, tools: list[tuple[ToolPath, Tool]]) -> None:
        super().__init__()
        self.tools = tools


class LogStorage(Protocol):
    """What an open conversation writes into, wherever that rests; `ConversationLog` promises what each method does."""

    stored: Stored
    news: deque[LogUpdate]

    def claim(self, batch: Batch) -> None: ...
    def renew(self) -> None: ...
    def write(self, batch: Batch) -> None: ...
    def release(self) -> None: ...
    def save(self, batch: Batch) -> None: ...
    def everything(self) -> list[Document]: ...


@final
class ConversationLog:
    """A journal and what it comes to. All methods but `drop` block their thread and hold the journal's lock.

    Attributes:
        news: what the messages have not been told yet, oldest first.
        stored: what is durable.
    """

    def __init__(self, path: Path, lease: timedelta, now: Callable[[], datetime]) -> None:
        self._path = path
        self._pid = os.getpid()
        self._length = lease
        self._now = now
        self._journal = Journal(path)
        self._begun: Messages | None = None
        self._lease: Lease | None = None
        self._lease_fd = -1
        self.stored = Stored()
        self.news: deque[LogUpdate] = deque()

    # --- Opening -----------------------------------------------------------------------------------------------

    def open(self, id: str) -> Messages:  # noqa: A002 - the field's own name
        """The stored conversation; an empty one with this id is stored where there is none."""
        with self._locked():
            if self._journal.empty:
                self._begin(id, Messages())
        return self._messages()

    def create(self, id: str, messages: Messages) -> None:  # noqa: A002 - the field's own name
        """Store a conversation.

        Raises:
            FileExistsError: there is one.
        """
        with self._locked():
            if not self._journal.empty:
                msg = f"{self._path} has a conversation already; FileConversation.open() opens it"
                raise FileExistsError(msg)
            self._begin(id, messages)
        self._messages()

    def _begin(self, id: str, messages: Messages) -> None:  # noqa: A002 - the field's own name
        entry = {"id": id, "at": self._at(), "messages": loads(messages.to_json())}
        self._begun = self._journal.append(entry, self.stored.begin)

    def _messages(self) -> Messages:
        messages, self._begun = self._begun, None
        assert messages is not None  # noqa: S101 - the first entry has it
        return messages

    # --- A run ---------------------------------------------------------------------------------------------------

    def claim(self, batch: Batch) -> None:
        """Begin a run, and make a batch durable.

        Raises:
            ConflictError, Moved: nothing was written.
        """
        with self._locked():
            self._require_no_live_run(self.stored.lease)
            self._require_unmoved(batch)
            before = self.stored.fence
            lease = self._next_lease(before + 1)
            fd = _file_lock.open_file(self._run_file(lease.fence), create=True)
            try:
                # Nobody else can have it: whoever has begun this run has the lock of the journal, as we do, or is dead.
                _file_lock.try_lock(fd)
                self._append(batch, lease)
            except BaseException:
                os.close(fd)
                raise
            self._end()
            self._lease, self._lease_fd = lease, fd
            self._remove_run_file(before)

    def renew(self) -> None:
        """Prolong the lease.

        Raises:
            LeaseLostError: another run took over.
        """
        with self._locked():
            lease = self._require_lease()
            self._append(None, self._next_lease(lease.fence))

    def write(self, batch: Batch) -> None:
        """Make a batch of the run durable, and prolong the lease.

        Raises:
            LeaseLostError: another run took over; the batch is in the journal as late.
            StaleToolError: somebody decided one of the calls; nothing was written.
        """
        with self._locked():
            lease = self._require_lease(batch)
            self._require_unmoved(batch)
            if batch:
                self._append(batch, self._next_lease(lease.fence))

    def release(self) -> None:
        """End the run, even where that cannot be written. A lease that was lost is no error."""
        try:
            with self._locked():
                if self._lease is not None and self._lease.fence == self.stored.fence:
                    self._append(None, Lease(self._lease.fence))
        except BaseException:
            self.drop()
            raise
        self._end()

    def drop(self) -> None:
        """Let the lease go without a word, as a process does that dies: its file stays, and nobody holds it."""
        lease, self._lease = self._lease, None
        if lease is not None:
            os.close(self._lease_fd)

    def _end(self) -> None:
        lease = self._lease
        self.drop()
        if lease is not None:
            self._remove_run_file(lease.fence)

    @property
    def holds_lease(self) -> bool:
        """Whether a run of this object has not ended."""
        return self._lease is not None and self._pid == os.getpid()

    # --- Besides a run -----------------------------------------------------------------------------------------

    def save(self, batch: Batch) -> None:
        """Make decisions durable, also while a run of somebody else is live; read what others wrote.

        Raises:
            ConflictError: a live run is at one of the calls, or somebody added turns. Nothing was written.
            StaleToolError: somebody decided one of the calls; nothing was written.
        """
        with self._locked():
            if not batch:
                return
            self._require_unmoved(batch)
            if self._lease is not None and self._lease.fence == self.stored.fence:
                self._append(batch, self._next_lease(self._lease.fence))
                return
            now = self._now()
            if batch.turns or not all(self.stored.waits(change, now) for change in batch.tools):
                self._require_no_live_run(self.stored.lease)
            self._append(batch, None)

    def everything(self) -> list[Document]:
        """All entries of the journal."""
        with self._locked():
            return self._journal.everything()

    def close(self) -> None:
        """Close the files; a run that has not ended counts as dead."""
        self.drop()
        self._journal.close()

    # --- Below: reading and writing --------------------------------------------------------------------------

    @contextlib.contextmanager
    def _locked(self) -> Generator[None]:
        if self._pid != os.getpid():
            msg = "the conversation was opened before this process was forked; open it again here"
            raise UsageError(msg)
        with self._journal.locked():
            self._journal.refresh(self._take)
            yield

    def _take(self, document: Document) -> None:
        if document["n"] == 1:
            self._begun = self.stored.begin(document)
            return
        entry = self.stored.read(document)
        self.stored.take(entry)
        self.news.extend(entry.added)
        self.news.extend(entry.moved)

    def _append(self, batch: Batch | None, lease: Lease | None) -> None:
        entry: Document = {"at": self._at()}
        if lease is not None:
            entry["lease"] = lease.entry
        if batch is not None:
            entry |= batch.entry
        self.stored.take(self._journal.append(entry, self.stored.read))
        if batch is not None:
            self.news.append(batch)

    def _at(self) -> str:
        return self._now().isoformat()

    # --- Below: who may ----------------------------------------------------------------------------------------

    def _require_lease(self, batch: Batch | None = None) -> Lease:
        if self._lease is None:
            msg = "a run claims the conversation before it writes: claim() comes first"
            raise UsageError(msg)
        if self._lease.fence != self.stored.fence:
            if batch:
                late = {"fence": self._lease.fence, **batch.entry}
                self._journal.append({"at": self._at(), "late": late}, self.stored.read)
            msg = (
                f"run {self._lease.fence} of {self._path} stood still for longer than its lease, "
                f"and run {self.stored.fence} took over; what it did since is in the journal as late"
            )
            raise LeaseLostError(msg)
        return self._lease

    def _require_unmoved(self, batch: Batch) -> None:
        if moved := self.stored.moved_since(batch):
            found = [(path, self.stored.find(path)) for path in moved]
            tops = [(path[:1], self.stored.find(path[:1])) for path, tool in found if tool is None]
            raise StaleToolError(
                [(path, codec.copy_tool(tool, Messages)) for path, tool in [*found, *tops] if tool is not None]
            )
        if batch.turns and batch.known != self.stored.turns:
            msg = f"somebody else has added to the conversation in {self._path} meanwhile; open it again and look"
            raise ConflictError(msg)

    def _require_no_live_run(self, lease: Lease | None) -> None:
        if lease is None or lease.until is None:
            return
        if self._lease is not None and lease.fence == self._lease.fence:
            msg = f"this object has a live run on {self._path} already"
            raise ConflictError(msg)
        alive = self._is_held(lease.fence)
        if alive is not False and self._now() < lease.until:
            sure = "holds" if alive else "may hold"
            msg = f"a live run ({lease.holder}) {sure} {self._path} until {lease.until.isoformat()}"
            raise ConflictError(msg)

    def _next_lease(self, fence: int) -> Lease:
        return Lease(fence, f"{socket.gethostname()}/{os.getpid()}", self._now() + self._length)

    # --- Below: the file that a live run holds ------------------------------------------------------------------

    def _run_file(self, fence: int) -> Path:
        return self._path.with_name(f"{self._path.name}.run-{fence}")

    def _is_held(self, fence: int) -> bool | None:
        """Whether a live process holds a run's file; `None` where somebody deleted it, so that nobody can tell."""
        try:
            fd = _file_lock.open_file(self._run_file(fence), create=False)
        except FileNotFoundError:
            return None
        try:
            return not _file_lock.try_lock(fd)
        finally:
            os.close(fd)

    def _remove_run_file(self, fence: int) -> None:
        # Windows keeps a file that is open elsewhere; it is empty, and in nobody's way.
        with contextlib.suppress(OSError):
            self._run_file(fence).unlink()
