"""The conversation log of a `FileConversation`: a journal, a lease in its entries, and a lock for the live run.

There are two locks, because a run lasts longer than a write:

- The journal lock is held for the milliseconds of one write. Each write first reads the entries of others.
- The run lock is on a separate file, `<name>.run-<fence>`. The run holds it until it ends, and the system releases it
  when the process exits. Locking a range of bytes in the journal would not suffice: such locks belong to processes, and
  cannot exclude two runs of one process. Each run has its own file, so that a run that takes over from a stalled one
  can hold a lock, too. The file is empty, and exists only while a run is live or after its process died.

If its run file was deleted, or if the file system ignores locks, the time in the journal alone decides whether a run is
live.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator
from datetime import datetime, timedelta
from pathlib import Path
from typing import final

from chat_core.errors import ConflictError, LeaseLostError, UsageError
from chat_core.json import loads
from chat_core.messages import Messages, Turn

from chat_store import _file_lock
from chat_store._entries import Batch, Document, Entry, Lease, NewTurn
from chat_store._journal import Journal
from chat_store._log import ConversationLog


@final
class FileLog(ConversationLog):
    """A conversation log in a journal. All methods except `drop_lease` take the journal lock.

    Args:
        path: the path of the journal.
        lease_length: how long a lease lasts after each write.
        now: the clock. It returns times with a time zone.
    """

    def __init__(self, path: Path, lease_length: timedelta, now: Callable[[], datetime]) -> None:
        super().__init__(f"in {path}", lease_length, now)
        self._path = path
        self._journal = Journal(path)
        self._first_messages: Messages | None = None
        self._lease: Lease | None = None
        self._lease_fd = -1

    # --- Opening -----------------------------------------------------------------------------------------------

    @property
    def owner(self) -> str | None:
        """The user whose conversation it is, if any."""
        return self.state.owner

    def open(self, id: str, owner: str | None = None) -> Messages:  # noqa: A002 - the field's own name
        """Return the messages of the first entry. If the file is empty, write an empty conversation.

        Args:
            id: the id of a new conversation.
            owner: the user whose conversation a new one is.

        The changes of later entries are in `updates`.
        """
        with self._locked():
            if self._journal.empty:
                self._begin(id, Messages(), owner)
            self._remove_leftover_run_files()
        return self._take_first_messages()

    def create(self, id: str, messages: Messages, owner: str | None = None) -> None:  # noqa: A002
        """Write a new conversation.

        Args:
            id: the id of the conversation.
            messages: the messages to begin with.
            owner: the user whose conversation it is.

        Raises:
            FileExistsError: the file contains a conversation already.
        """
        with self._locked():
            if not self._journal.empty:
                msg = f"{self._path} contains a conversation already: use FileConversation.open()"
                raise FileExistsError(msg)
            self._begin(id, messages, owner)
        self._take_first_messages()

    def _begin(self, id: str, messages: Messages, owner: str | None) -> None:  # noqa: A002 - the field's own name
        owned = {} if owner is None else {"owner": owner}
        entry = {"id": id, **owned, "at": self._now().isoformat(), "messages": loads(messages.to_json())}
        self._first_messages = self._journal.append(entry, self.state.begin)

    def _take_first_messages(self) -> Messages:
        messages, self._first_messages = self._first_messages, None
        assert messages is not None  # noqa: S101 - the first entry has it
        return messages

    # --- A run ---------------------------------------------------------------------------------------------------

    def claim(self, batch: Batch) -> None:
        """Take the lease for a run, and append a batch.

        Raises:
            ConflictError: a live run holds the lease, or turns were added elsewhere. Nothing was written.
            StaleToolError: nothing was written.
        """
        with self._locked():
            self._require_no_live_run()
            self._require_current(batch)
            before = self.state.fence
            lease = self._next_lease(before + 1, self._now())
            fd = _file_lock.open_file(self._run_file(lease.fence), create=True)
            try:
                # No live process can hold this lock: a process takes it only under the journal lock, which we hold.
                _file_lock.try_lock(fd)
                self._append(batch, lease)
            except BaseException:
                os.close(fd)
                raise
            self._end_run()
            self._lease, self._lease_fd = lease, fd
            self._remove_run_file(before)

    def renew(self) -> None:
        """Extend the lease.

        Raises:
            LeaseLostError: another run took over.
        """
        with self._locked():
            lease = self._require_lease()
            self._append(None, self._next_lease(lease.fence, self._now()))

    def write(self, batch: Batch) -> None:
        """Append a batch of the run, and extend the lease.

        Raises:
            LeaseLostError: another run took over. The batch was stored as late.
            StaleToolError: nothing was written.
        """
        with self._locked():
            lease = self._require_lease(batch)
            self._require_current(batch)
            if batch:
                self._append(batch, self._next_lease(lease.fence, self._now()))

    def apply_posts(self) -> int:
        """Append the posted turns for the run, and return how many there were. They are added to `updates`.

        Raises:
            LeaseLostError: another run took over.
        """
        with self._locked():
            lease, posts = self._require_lease(), self.state.post_batch()
            if posts:
                fields = {"lease": self._next_lease(lease.fence, self._now()).to_dict(), **posts.to_dict()}
                self.updates.extend(self._append_fields(fields).updates())
            return len(posts.turns)

    def post(self, key: str, turn: Turn) -> bool:
        """Store a turn that a run appends before its next model call.

        Args:
            key: the key of the post.
            turn: the turn.

        Returns:
            False if a turn was posted with this key before. Then nothing is stored.
        """
        with self._locked():
            if self.state.was_posted(key):
                return False
            self._append_fields({"posts": [NewTurn.from_turn("user", turn, key).to_dict()]})
            return True

    def release(self, *, looked_at: datetime | None = None) -> None:  # noqa: ARG002 - a file has no list of due conversations
        """End the run, even if the release cannot be written. Does nothing if the lease was lost.

        Args:
            looked_at: ignored.
        """
        try:
            with self._locked():
                if self._lease is not None and self._lease.fence == self.state.fence:
                    self._append(None, Lease(self._lease.fence))
        except BaseException:
            self.drop_lease()
            raise
        self._end_run()

    def drop_lease(self) -> None:
        """Release the run lock without writing to the journal, as if the process had died. The run file remains."""
        lease, self._lease = self._lease, None
        if lease is not None:
            os.close(self._lease_fd)

    def _end_run(self) -> None:
        lease = self._lease
        self.drop_lease()
        if lease is not None:
            self._remove_run_file(lease.fence)

    @property
    def holds_lease(self) -> bool:
        """Whether this object has claimed a run that has not ended."""
        return self._lease is not None and self._pid == os.getpid()

    # --- Outside of a run --------------------------------------------------------------------------------------

    def save(self, batch: Batch) -> None:
        """Append decisions, which is also allowed while another object has a live run.

        An empty batch only reads the new entries of others.

        Raises:
            ConflictError: a live run is executing one of the tools, or turns were added elsewhere. Nothing was written.
            StaleToolError: nothing was written.
        """
        with self._locked():
            if not batch:
                return
            self._require_current(batch)
            now = self._now()
            if self._lease is not None and self._lease.fence == self.state.fence:
                self._append(batch, self._next_lease(self._lease.fence, now))
                return
            if not self._may_save_during_run(batch, now):
                self._require_no_live_run()
            self._append(batch, None)

    def read_entries(self) -> list[Document]:
        """Return all entries, oldest first."""
        with self._locked():
            return self._journal.read_entries()

    def close(self) -> None:
        """Close the files. A run that has not ended counts as dead."""
        self.drop_lease()
        self._journal.close()

    # --- Reading and writing -----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _locked(self) -> Generator[None]:
        """Hold the journal lock, after reading the new entries of others."""
        self._require_this_process()
        with self._journal.locked():
            self._journal.refresh(self._apply)
            yield

    def _apply(self, document: Document) -> None:
        if document["n"] == 1:
            self._first_messages = self.state.begin(document)
            return
        entry = self.state.parse(document)
        self.state.apply(entry)
        self.updates.extend(entry.updates())

    def _append(self, batch: Batch | None, lease: Lease | None) -> None:
        fields: Document = {} if lease is None else {"lease": lease.to_dict()}
        self._append_fields(fields if batch is None else fields | batch.to_dict())
        if batch is not None:
            self.updates.append(batch)

    def _append_fields(self, fields: Document) -> Entry:
        entry = self._journal.append({"at": self._now().isoformat(), **fields}, self.state.parse)
        self.state.apply(entry)
        return entry

    # --- The lease ---------------------------------------------------------------------------------------------

    def _require_lease(self, batch: Batch | None = None) -> Lease:
        """Return the lease of this object's run. If another run took over, append the batch as late and raise."""
        if self._lease is None:
            msg = "the run has no lease: call claim() before writing"
            raise UsageError(msg)
        if self._lease.fence != self.state.fence:
            if batch:
                late = {"fence": self._lease.fence, **batch.to_dict()}
                self._journal.append({"at": self._now().isoformat(), "late": late}, self.state.parse)
            msg = (
                f"run {self._lease.fence} of {self._path} stalled for longer than its lease, "
                f"and run {self.state.fence} took over; its later changes are in the journal as late"
            )
            raise LeaseLostError(msg)
        return self._lease

    def _require_no_live_run(self) -> None:
        lease = self.state.lease
        if lease is None or lease.until is None:
            return
        if self._lease is not None and lease.fence == self._lease.fence:
            msg = f"this object already has a live run on {self._path}"
            raise ConflictError(msg)
        alive = self._is_locked(lease.fence)
        if alive is not False and self._now() < lease.until:
            verb = "holds" if alive else "may hold"
            msg = f"a live run ({lease.holder}) {verb} {self._path} until {lease.until.isoformat()}"
            raise ConflictError(msg)

    def _run_file(self, fence: int) -> Path:
        return self._path.with_name(f"{self._path.name}.run-{fence}")

    def _is_locked(self, fence: int) -> bool | None:
        """Return whether a live process holds the run lock.

        Returns:
            None if this is unknown: the run file was deleted, or the file system ignores locks.
        """
        path = self._run_file(fence)
        try:
            with _opened(path) as fd:
                if not _file_lock.try_lock(fd):
                    return True
                # Where locks work, a second lock of the same file is refused, even in one process.
                with _opened(path) as second:
                    return None if _file_lock.try_lock(second) else False
        except FileNotFoundError:
            return None

    def _remove_leftover_run_files(self) -> None:
        """Remove the files of runs whose processes died: before or after the last run, or after its end."""
        fence, lease = self.state.fence, self.state.lease
        self._remove_run_file(fence - 1)
        self._remove_run_file(fence + 1)
        # Before the lease expires, the file shows that the process died.
        expired = lease is None or lease.until is None or self._now() >= lease.until
        if expired and self._is_locked(fence) is False:
            self._remove_run_file(fence)

    def _remove_run_file(self, fence: int) -> None:
        # Windows does not delete a file that is open elsewhere. A leftover run file is harmless.
        with contextlib.suppress(OSError):
            self._run_file(fence).unlink()


@contextlib.contextmanager
def _opened(path: Path) -> Generator[int]:
    fd = _file_lock.open_file(path, create=False)
    try:
        yield fd
    finally:
        os.close(fd)
