"""The conversation log of a `FileConversation`: a journal, a lease in its entries, and a lock for the active run.

There are two locks, because a run lasts longer than a write:

- The journal lock is held for the milliseconds of one write. Each write first reads the entries of other writers.
- The run lock is on a separate file, `<name>.run-<fence>`. The run holds it until it ends, and the system releases it
  when the process exits. Locking a range of bytes in the journal would not suffice: such locks belong to processes, and
  cannot exclude two runs of one process. Each run has its own file, so that a run that takes over from a stalled run
  can also hold a lock. The file is empty, and exists only while a run is active or after its process died.

If its run file was deleted, or if the file system ignores locks, the time in the journal alone decides whether a run is
active.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import final

from chat_core.errors import ConflictError, LeaseLostError, UsageError
from chat_core.json import loads
from chat_core.messages import Messages, Turn

from chat_store import _file_lock
from chat_store._compaction import make_snapshot
from chat_store._entries import Batch, Document, Entry, Lease, NewTurn
from chat_store._file_records import meta_from_state, meta_to_dict
from chat_store._job_rules import JobTransaction, job_from_dict, job_to_dict, queue
from chat_store._jobs_in_memory import JobChanges
from chat_store._journal import Journal
from chat_store._log import ConversationLog
from chat_store._redaction import Redaction
from chat_store.errors import ConversationClosedError
from chat_store.jobs import Job, StoredJob
from chat_store.meta import MetaChanges, StoredMeta
from chat_store.sql.values import to_microseconds


@final
class FileLog(ConversationLog):
    """A conversation log in a journal file. Methods that read or write the log take the journal lock.

    Args:
        path: the path of the journal.
        lease_length: duration of a lease after each write.
        now: the clock. It returns times with a time zone.
    """

    def __init__(self, path: Path, lease_length: timedelta, now: Callable[[], datetime]) -> None:
        super().__init__(f"in {path}", lease_length, now)
        self._path = path
        self._journal = Journal(path)
        self._first_messages: Messages | None = None
        self._begun = False
        self._lease: Lease | None = None
        self._lease_fd = -1

    # --- Opening -----------------------------------------------------------------------------------------------

    @property
    def owner(self) -> str | None:
        """The user who owns the conversation, if any."""
        return self.state.owner

    def open(self, id: str, owner: str | None = None) -> Messages:
        """Read the log, and return the messages of its newest snapshot or, without a snapshot, of its first entry.

        The changes of later entries are in `updates`. If the file is empty, an empty conversation is written.

        Args:
            id: the id of a new conversation.
            owner: the user who owns a new conversation.
        """
        with self._hold_lock():
            if self._journal.empty:
                self._write_first_entry(id, Messages(), owner)
            self._remove_leftover_run_files()
        return self._take_first_messages()

    def create(
        self,
        id: str,
        messages: Messages,
        owner: str | None = None,
        meta: MetaChanges | None = None,
    ) -> None:
        """Write a new conversation to the file.

        Args:
            id: the id of the conversation.
            messages: the initial messages.
            owner: the user who owns the conversation.
            meta: the description of the conversation.

        Raises:
            FileExistsError: the file contains a conversation already.
        """
        with self._hold_lock():
            if not self._journal.empty:
                msg = f"{self._path} contains a conversation already: use FileConversation.open()"
                raise FileExistsError(msg)
            self._write_first_entry(id, messages, owner, meta)
        self._take_first_messages()

    def _write_first_entry(
        self,
        id: str,
        messages: Messages,
        owner: str | None,
        meta: MetaChanges | None = None,
    ) -> None:
        owned: Document = {} if owner is None else {"owner": owner}
        if meta:
            owned["meta"] = meta_to_dict(StoredMeta().changed(meta))
        entry = {"id": id, **owned, "at": self._now().isoformat(), "messages": loads(messages.to_json())}
        self._first_messages = self._journal.append(entry, self.state.begin)
        self._begun = True

    def _take_first_messages(self) -> Messages:
        messages, self._first_messages = self._first_messages, None
        assert messages is not None  # noqa: S101 - the first entry has it
        return messages

    # --- A run ---------------------------------------------------------------------------------------------------

    def claim(self, batch: Batch) -> None:
        """Take the lease for a new run, and append a batch of changes.

        Raises:
            ConflictError: an active run holds the lease, or another writer added turns. Nothing was written.
            StaleToolError: another writer changed a tool call of the batch. Nothing was written.
        """
        with self._hold_lock():
            self._require_open()
            self._require_no_live_run()
            self._require_current(batch)
            before = self.state.fence
            lease = self._next_lease(before + 1, self._now())
            fd = _file_lock.open_file(self._run_file(lease.fence), create=True)
            try:
                # No live process can hold this lock: a process takes it only under the journal lock, which we hold.
                _file_lock.try_lock(fd)
                self._append_entry(batch, lease)
            except BaseException:
                os.close(fd)
                raise
            self._end_run()
            self._lease, self._lease_fd = lease, fd
            self._remove_run_file(before)

    def renew(self) -> None:
        """Extend the lease of the run.

        Raises:
            LeaseLostError: another run took over.
        """
        with self._hold_lock():
            lease = self._require_lease()
            self._append_entry(None, self._next_lease(lease.fence, self._now()))

    def write(self, batch: Batch) -> None:
        """Append a batch of changes made by the run, and extend its lease.

        Raises:
            LeaseLostError: another run took over. The batch was stored in a `late` entry, which has no effect.
            StaleToolError: another writer changed a tool call of the batch. Nothing was written.
        """
        with self._hold_lock():
            lease = self._require_lease(batch)
            self._require_current(batch)
            if batch:
                self._append_entry(batch, self._next_lease(lease.fence, self._now()))

    def apply_posts(self) -> int:
        """Append the posted turns on behalf of the run, add them to `updates`, and return their number.

        Raises:
            LeaseLostError: another run took over.
        """
        with self._hold_lock():
            lease, posts = self._require_lease(), self.state.post_batch()
            if posts:
                fields = {"lease": self._next_lease(lease.fence, self._now()).to_dict(), **posts.to_dict()}
                self.updates.extend(self._append_fields(fields).updates())
            return len(posts.turns)

    def post(self, key: str, turn: Turn) -> bool:
        """Store a turn that a run appends before its next model call.

        Args:
            key: the key of the post.
            turn: the turn to store.

        Returns:
            True if the turn was stored, False if a turn was posted with this key before.

        Raises:
            ConversationClosedError: the conversation is closed.
        """
        with self._hold_lock():
            self._require_open()
            if self.state.was_posted(key):
                return False
            self._append_fields({"posts": [NewTurn.from_turn("user", turn, key).to_dict()]})
            return True

    def release(self, *, looked_at: datetime | None = None) -> None:  # noqa: ARG002 - a file has no list of due conversations
        """Release the lease and end the run, even if the release cannot be written. Does nothing if the lease was lost.

        Args:
            looked_at: ignored, because a file is not in a list of due conversations.
        """
        try:
            with self._hold_lock():
                if self._lease is not None and self._lease.fence == self.state.fence:
                    self._append_fields({"lease": Lease(self._lease.fence).to_dict()}, self._make_snapshot())
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
        """Whether a run that this object began with `claim()` has not ended yet."""
        return self._lease is not None and self._pid == os.getpid()

    # --- Outside of a run --------------------------------------------------------------------------------------

    def save(self, batch: Batch) -> None:
        """Append changes made outside of a run. Decisions are accepted even while another object has an active run.

        An empty batch only reads the new entries of other writers.

        Raises:
            ConflictError: an active run executes one of the tools, or another writer added turns. Nothing was written.
            StaleToolError: another writer changed a tool call of the batch. Nothing was written.
        """
        with self._hold_lock():
            if batch:
                self._save_batch(batch, {})

    def _save_batch(self, batch: Batch, fields: Document) -> None:
        self._require_open()
        self._require_current(batch)
        now = self._now()
        if self._lease is not None and self._lease.fence == self.state.fence:
            self._append_entry(batch, self._next_lease(self._lease.fence, now), fields)
            return
        lease = None
        if not self._may_save_during_run(batch, now):
            self._require_no_live_run()
            if self.state.lease is not None:
                # Revoke the lease of the dead run. If it continues, the new fence prevents its writes.
                lease = Lease(self.state.fence + 1)
        self._append_entry(batch, lease, fields)

    def apply(self, batch: Batch, meta: MetaChanges | None, jobs: Sequence[Job]) -> None:
        """Append a batch of changes, changes to the description and new jobs, as one entry.

        Raises:
            ConflictError: an active run executes one of the tools, or another writer added turns. Nothing was written.
            ConversationClosedError: the conversation is closed, and the batch is not empty.
            StaleToolError: another writer changed a tool call of the batch. Nothing was written.
        """
        with self._hold_lock():
            fields = self._new_jobs(jobs)
            if meta:
                fields["meta"] = meta_to_dict(self._current_meta().changed(meta))
            if batch:
                self._save_batch(batch, fields)
            elif fields:
                self._append_fields(fields)

    def redact(self, target: int | str, by: str, reason: str) -> None:
        """Remove the content of a turn, a call or a post, and write a new file without earlier states.

        Raises:
            ConflictError: the conversation has an active run, or a call to redact has not ended.
            UsageError: the turn, the call or the post does not exist.
        """
        with self._hold_lock():
            self._require_no_live_run()
            redaction = Redaction(self._journal.read_entries(), self.state, target)
            first, second = redaction.entries(self._now(), target, by, reason)
            # The new fence prevents the writes of a dead run.
            fence = self.state.fence + (self.state.lease is not None)
            lease = {"lease": Lease(fence).to_dict()} if fence else {}
            self._journal.replace([{**first, **lease}, second])

    def close_conversation(self, jobs: Sequence[Job]) -> None:
        """Close the conversation and queue jobs, unless it is closed already.

        Raises:
            ConflictError: the conversation has an active run.
        """
        with self._hold_lock():
            if self._current_meta().closed_at is None:
                self._require_no_live_run()
                # The new fence prevents the writes of a dead run.
                lease = {} if self.state.lease is None else {"lease": Lease(self.state.fence + 1).to_dict()}
                closed = {"closed": to_microseconds(self._now())}
                self._append_fields({**lease, "meta": closed, **self._new_jobs(jobs)})

    def reopen(self) -> None:
        """Reopen the conversation if it is closed."""
        with self._hold_lock():
            if self._current_meta().closed_at is not None:
                self._append_fields({"meta": {"closed": None}})

    def read_meta(self) -> StoredMeta:
        """Return the description of the conversation."""
        with self._hold_lock():
            return self._current_meta()

    def read_jobs(self) -> list[StoredJob]:
        """Return all jobs in the file."""
        with self._hold_lock():
            return [job_from_dict(job) for job in self.state.jobs.values()]

    @contextlib.contextmanager
    def job_transaction(self) -> Generator[JobTransaction]:
        """Return a context manager for a transaction on the jobs. On exit, it appends the changed jobs as one entry."""
        with self._hold_lock():
            jobs = [job_from_dict(job) for job in self.state.jobs.values()]
            transaction = JobChanges({(job.kind, job.key): job for job in jobs})
            yield transaction
            if transaction.written:
                self._append_fields({"jobs": [job_to_dict(job) for job in transaction.written.values()]})

    def _new_jobs(self, jobs: Sequence[Job]) -> Document:
        now = self._now()
        new = {(job.kind, job.key): job for job in reversed(jobs) if (job.kind, job.key) not in self.state.jobs}
        found = [job_to_dict(queue(self.state.id, job, now)) for job in reversed(new.values())]
        return {"jobs": found} if found else {}

    def _current_meta(self) -> StoredMeta:
        return meta_from_state(self.state)

    def _require_open(self) -> None:
        if self._current_meta().closed_at is not None:
            msg = f"the conversation {self._name} is closed: reopen() it first"
            raise ConversationClosedError(msg)

    def read_entries(self) -> list[Document]:
        """Return all entries of the log, oldest first."""
        with self._hold_lock():
            return self._journal.read_entries()

    def close(self) -> None:
        """Close the journal and the run file. A run that has not ended counts as dead."""
        self.drop_lease()
        self._journal.close()

    # --- Reading and writing -----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _hold_lock(self) -> Generator[None]:
        """Return a context manager that holds the journal lock. On entry, it reads the new entries of other writers."""
        self._require_this_process()
        with self._journal.locked():
            self._journal.refresh(self._apply_entry)
            yield

    def _apply_entry(self, document: Document) -> None:
        if not self._begun:
            self._first_messages = self.state.begin(document)
            self._begun = True
            return
        entry = self.state.parse(document)
        self.state.apply(entry)
        self.updates.extend(entry.updates())

    def _make_snapshot(self) -> Document:
        """Return the `snapshot` field for the next entry, or no field if no snapshot is needed yet."""
        if not self._journal.needs_snapshot:
            return {}
        return {"snapshot": make_snapshot(self._journal.read_tail(), self.state)}

    def _append_entry(self, batch: Batch | None, lease: Lease | None, fields: Document | None = None) -> None:
        held: Document = {} if lease is None else {"lease": lease.to_dict()}
        self._append_fields({**(fields or {}), **held, **({} if batch is None else batch.to_dict())})
        if batch is not None:
            self.updates.append(batch)

    def _append_fields(self, fields: Document, snapshot: Document | None = None) -> Entry:
        document = {**(snapshot or {}), "at": self._now().isoformat(), **fields}
        entry = self._journal.append(document, self.state.parse)
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
            msg = f"this object already has an active run on {self._path}: wait until it ends"
            raise ConflictError(msg)
        alive = self._is_locked(lease.fence)
        if alive is not False and self._now() < lease.until:
            verb = "holds" if alive else "may hold"
            msg = f"an active run ({lease.holder}) {verb} {self._path} until {lease.until.isoformat()}: retry later"
            raise ConflictError(msg)

    def _run_file(self, fence: int) -> Path:
        return self._path.with_name(f"{self._path.name}.run-{fence}")

    def _is_locked(self, fence: int) -> bool | None:
        """Return whether a running process holds the lock of the run with this number.

        Returns:
            None if this cannot be determined, because the run file was deleted or the file system ignores locks.
        """
        path = self._run_file(fence)
        try:
            with _open_file(path) as fd:
                if not _file_lock.try_lock(fd):
                    return True
                # Where locks work, a second lock of the same file is refused, even in one process.
                with _open_file(path) as second:
                    return None if _file_lock.try_lock(second) else False
        except FileNotFoundError:
            return None

    def _remove_leftover_run_files(self) -> None:
        """Remove the run files that processes left behind when they died."""
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
def _open_file(path: Path) -> Generator[int]:
    fd = _file_lock.open_file(path, create=False)
    try:
        yield fd
    finally:
        os.close(fd)
