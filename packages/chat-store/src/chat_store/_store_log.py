"""The conversation log of a store, with the rules for claims, leases and merges that hold for every `Backend`.

A conversation is a list of entries, as in the journal of a `FileConversation`. Each entry contains only changes, and is
written atomically. The lease is in the row of the conversation, so that renewing it adds no entry. Write transactions
on one conversation are serialized, and each of them first reads the new entries of other writers.

The fence is the number of runs so far, plus the number of dead runs whose lease was revoked.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import cast
from uuid import uuid4

from chat_core.errors import ConflictError, InvalidDocumentError, LeaseLostError, NewerVersionError, UsageError
from chat_core.json import dump_bytes, loads
from chat_core.messages import Messages
from chat_core.response import Wait, iter_waits

from chat_store._backend import Backend, Head, ReadTransaction, WriteTransaction
from chat_store._compaction import LogTail, make_snapshot
from chat_store._entries import Batch, Document, Entry, Lease, TurnAdded, parsing
from chat_store._log import ConversationLog, LogUpdate
from chat_store._log_state import LogState
from chat_store._waits import WaitIndex, has_user_posts
from chat_store.errors import ConversationClosedError, UnknownConversationError
from chat_store.sql.values import call_id_to_column

NO_CHANGES = Batch(0)
"""A batch without changes."""
VERSION = 1
"""The version of the entry format. The tables have a version of their own."""


class StoreLog(ConversationLog):
    """A conversation log in the rows of a database.

    Args:
        backend: the database, owned by the store.
        head: the row to store if the conversation is new.
        lease_length: duration of a lease after each write.
        now: the clock. It returns times with a time zone.
    """

    def __init__(self, backend: Backend, head: Head, lease_length: timedelta, now: Callable[[], datetime]) -> None:
        super().__init__(repr(head.id), lease_length, now)
        self._backend = backend
        self._id = head.id
        self._new_head = head
        self._fence: int | None = None
        self._claimed_at: datetime | None = None
        self._reported_entries = 0
        self._incarnation: str = ""
        self._opened = False
        self._discard_state()

    def _discard_state(self) -> None:
        """Discard the state, so that the next transaction reads all entries again."""
        self.state = LogState(self._id)
        self._wait_index = WaitIndex()
        self._head = self._new_head
        self._tail = LogTail()
        self._own_updates: deque[LogUpdate] = deque()
        self._first_messages = Messages()
        self._unconfirmed = False

    def open(self) -> Messages:
        """Read the log, and return the messages of its newest snapshot or, without a snapshot, of its first entry.

        The changes of later entries are in `updates`. If nothing is stored, the messages are empty.
        """
        with self._open_read_transaction():
            self._opened = True
        return self._first_messages

    def open_stored(self, revision: int | None = None) -> Messages:
        """Return the messages as `open()` does. The changes up to `revision` (default: all) are in `updates`.

        Raises:
            UnknownConversationError: the conversation is not stored.
            UsageError: the revision does not exist.
        """
        with self._open_read_transaction(revision) as transaction:
            self._require_head(transaction)
            self._opened = True
        if revision is not None and self.state.revision != revision:
            msg = (
                f"the conversation {self._id!r} has no revision {revision}: pass the revision of a snapshot from load()"
            )
            raise UsageError(msg)
        return self._first_messages

    # --- A run ---------------------------------------------------------------------------------------------------

    def claim(self, batch: Batch) -> None:
        """Take the lease for a new run, and append a batch of changes.

        Raises:
            ConflictError: an active run holds the lease, or another writer added turns. Nothing was written.
            StaleToolError: another writer changed a tool call of the batch. Nothing was written.
        """
        with self._open_write_transaction() as transaction:
            self._require_open()
            self._require_no_live_run()
            self._require_current(batch)
            # If the run dies, the conversation is due when the lease expires.
            fence = self._head.fence + 1
            head = self._head_with_lease(fence, batch)
            lease = Lease(fence, head.holder, head.lease_until)
            self._append_entry(transaction, {"lease": lease.to_dict()}, batch, head)
            self._claimed_at = self._now()
        self._fence = fence

    def renew(self) -> None:
        """Implement `ConversationLog.renew()`."""
        with self._backend.write_transaction(self._id) as transaction:
            self.write_lease(transaction)
        self.require_lease()

    def write_lease(self, transaction: WriteTransaction) -> None:
        """Extend the lease in a transaction of the caller, unless another run took over."""
        self._require_this_process()
        self._read_log(transaction)
        if not self._is_overtaken():
            transaction.write_head(self._head_with_lease(self._head.fence))

    def require_lease(self) -> None:
        """Raise `LeaseLostError` if another run had taken over when the log was last read."""
        if self._is_overtaken():
            msg = (
                f"the lease {self._fence} of the conversation {self._id!r} ended before it was renewed, and another "
                "run took over: load the conversation again; later changes of this run are recorded, but have no effect"
            )
            raise LeaseLostError(msg)

    def write(self, batch: Batch) -> None:
        """Append a batch of changes made by the run, and extend its lease.

        Raises:
            LeaseLostError: another run took over. The batch was stored in a `late` entry, which has no effect.
            StaleToolError: another writer changed a tool call of the batch. Nothing was written.
        """
        with self._open_write_transaction() as transaction:
            if self._is_overtaken():
                self._append_late_entry(transaction, batch)
            else:
                self._require_current(batch)
                if batch:
                    self._append_entry(transaction, {}, batch, self._head_with_lease(self._head.fence, batch))
        self.require_lease()

    def apply_posts(self) -> int:
        """Append the posted turns on behalf of the run, add them to `updates`, and return their number.

        Raises:
            LeaseLostError: another run took over.
        """
        with self._open_read_transaction():
            if not self.state.posts or self._is_overtaken():
                self.require_lease()
                return 0
        with self._open_write_transaction() as transaction:
            count = len(self.state.posts)
            if not self._is_overtaken():
                head = self._head_with_lease(self._head.fence, self.state.post_batch())
                entry = self._append_entry(transaction, self.state.post_batch().to_dict(), NO_CHANGES, head)
                self._own_updates.extend(entry.updates())
        self.require_lease()
        return count

    def release(self, *, looked_at: datetime | None = None) -> None:
        """Implement `ConversationLog.release()`."""
        if self._fence is None:
            return
        seen, now = self._reported_entries, self._now()
        try:
            with suppress(UnknownConversationError), self._open_write_transaction() as transaction:
                if not self._is_overtaken():
                    # Entries that the run has not read may be decisions: the conversation is due for another run.
                    unseen = self._head.entries > seen and not self.state.delivered
                    due = now if unseen else self._wait_index.next_due(self.state, now, looked_at, self._claimed_at)
                    head = replace(self._head, lease_until=None, due=due)
                    fields = {**self._make_snapshot(transaction), "lease": Lease(head.fence).to_dict()}
                    self._append_entry(transaction, fields, Batch(0), head)
        finally:
            self._fence = None

    @property
    def person(self) -> str | None:
        """The user in charge of the conversation, if any."""
        return self._head.person

    @property
    def owner(self) -> str | None:
        """The user who owns the conversation, if any."""
        return self._head.meta.owner

    @property
    def holds_lease(self) -> bool:
        """Whether a run that this object began with `claim()` has not ended yet."""
        return self._fence is not None and self._pid == os.getpid()

    # --- Outside of a run ----------------------------------------------------------------------------------------

    def save(self, batch: Batch) -> None:
        """Append changes made outside of a run. Decisions are accepted even while another object has an active run.

        An empty batch only reads the new entries of other writers.

        Raises:
            ConflictError: an active run executes one of the tools, or another writer added turns. Nothing was written.
            StaleToolError: another writer changed a tool call of the batch. Nothing was written.
        """
        if not batch:
            with self._open_read_transaction():
                return
        with self._open_write_transaction() as transaction:
            self._save_batch(transaction, batch)

    def _save_batch(self, transaction: WriteTransaction, batch: Batch) -> None:
        self._require_open()
        self._require_current(batch)
        if self._fence is not None and self._fence == self._head.fence:
            self._append_entry(transaction, {}, batch, self._head_with_lease(self._fence, batch))
            return
        now = self._now()
        # A grant may cover calls that wait.
        gives_work = batch.gives_work or (bool(batch.grants) and bool(self._wait_index.unresolved))
        head = replace(self._head, due=now) if gives_work else self._head
        if not self._may_save_during_run(batch, now):
            self._require_no_live_run()
            if head.lease_until is not None:
                # Revoke the lease of the dead run. If it continues, the new fence prevents its writes.
                head = replace(head, fence=head.fence + 1, lease_until=None)
        self._append_entry(transaction, {}, batch, head)

    def assign(self, person: str | None) -> None:
        """Put a user in charge of the conversation. None leaves no one in charge."""
        with self._backend.write_transaction(self._id) as transaction:
            transaction.write_head(replace(self._require_head(transaction), person=person), is_change=True)

    def read_entries(self) -> list[Document]:
        """Return all entries of the log, oldest first."""
        with self._backend.read_transaction(self._id) as transaction:
            return [self._parse_document(number, entry) for number, entry in enumerate(transaction.read_entries(0), 1)]

    def find_wait(self, tool: object, place: object) -> Wait | None:
        """Return the wait that a row of the waits table refers to, or None if there is no such wait.

        Args:
            tool: the column with the id of the outermost call.
            place: the column with the number of the wait within that call.
        """
        for id, waits in self._list_waits(self._wait_index.unresolved).items():
            if call_id_to_column(id) == tool and isinstance(place, int) and 0 <= place < len(waits):
                return waits[place]
        return None

    # --- Transactions --------------------------------------------------------------------------------------------

    @contextmanager
    def _open_read_transaction(self, revision: int | None = None) -> Generator[ReadTransaction]:
        self._require_this_process()
        with self._backend.read_transaction(self._id) as transaction:
            self._read_log(transaction, revision)
            yield transaction

    @contextmanager
    def _open_write_transaction(self) -> Generator[WriteTransaction]:
        """Return a context manager for a write transaction that updates the state. A failure discards the state."""
        self._require_this_process()
        try:
            with self._backend.write_transaction(self._id) as transaction:
                self._read_log(transaction)
                yield transaction
        except BaseException:
            if self._unconfirmed:
                self._discard_state()
            raise
        self._unconfirmed = False
        self._reported_entries = max(self._reported_entries, self._head.entries)
        self.updates.extend(self._own_updates)
        self._own_updates.clear()

    def _read_log(self, transaction: ReadTransaction, revision: int | None = None) -> None:
        """Read the row of the conversation and its new log entries, up to `revision` if it is given."""
        head = transaction.read_head()
        if self._reported_entries and (head is None or head.incarnation != self._incarnation):
            raise self._unknown_conversation_error()
        if head is None:
            return
        self._incarnation = head.incarnation
        before, entries = self._read_new_entries(transaction, head, revision)
        for number, entry in enumerate(entries, before + 1):
            if revision is not None and self._head.entries and self.state.revision >= revision:
                return
            self._tail.add(len(entry), begins=number in (1, head.snapshot))
            self._apply_entry(number, self._parse_document(number, entry))
        if self._head.entries != head.entries:
            msg = (
                f"the conversation {self._id!r} is damaged: it has only {self._head.entries} of {head.entries} entries"
            )
            raise InvalidDocumentError(msg)
        self._head = head
        self.state.fence = head.fence

    def _read_new_entries(
        self, transaction: ReadTransaction, head: Head, revision: int | None
    ) -> tuple[int, list[bytes]]:
        """Return the number of entries read before, and the unread entries.

        A first read, or a read after a failed write, begins at the newest snapshot. It begins at the first entry if
        there is no snapshot, if it is later than `revision`, or if `updates` would lack changes made before it.
        """
        before = self._head.entries
        if before or not head.snapshot or 0 < self._reported_entries < head.snapshot - 1:
            return before, transaction.read_entries(before)
        entries = transaction.read_entries(head.snapshot - 1)
        if revision is not None:
            with parsing({"n": head.snapshot}, self._id):
                snapshot = cast("Document", self._parse_document(head.snapshot, entries[0])["snapshot"])
                if cast("int", snapshot.get("revision", 0)) > revision:
                    return 0, transaction.read_entries(0)
        return head.snapshot - 1, entries

    def _make_snapshot(self, transaction: ReadTransaction) -> Document:
        """Return the `snapshot` field for the next entry, or no field if no snapshot is needed yet."""
        if not self._tail.needs_snapshot:
            return {}
        first = max(self._head.snapshot, 1)
        entries = transaction.read_entries(first - 1)
        documents = [self._parse_document(number, entry) for number, entry in enumerate(entries, first)]
        return {"snapshot": {"version": VERSION, **make_snapshot(documents, self.state)}}

    def _apply_entry(self, number: int, document: Document) -> None:
        if document.get("n") != number:
            msg = f"entry {number} of the conversation {self._id!r} is numbered {document.get('n')!r}: restore a backup"
            raise InvalidDocumentError(msg)
        if not self._head.entries:
            self._apply_first_entry(document)
        else:
            entry = self.state.parse(document)
            self.state.apply(entry)
            self._wait_index.apply(entry, self.state)
            if number > self._reported_entries:
                self.updates.extend(entry.updates())
        self._head = replace(self._head, entries=number)
        self._reported_entries = max(self._reported_entries, number)

    def _apply_first_entry(self, document: Document) -> None:
        with parsing(document, self._id):
            source = cast("Document", document.get("snapshot", document))
            newer = cast("int", source["version"]) > VERSION
        if newer:
            msg = f"the conversation {self._id!r} was written by a later version of this library: upgrade chat-store"
            raise NewerVersionError(msg)
        self._first_messages = self.state.begin(document)
        self._wait_index.add_messages(self._first_messages)
        if self._opened and not self._reported_entries:
            # This object opened the conversation before it was stored, and another process stored it first.
            self.updates.extend([TurnAdded(role, turn) for role, turn in self._first_messages.turns])

    def _write_first_entry(self, transaction: WriteTransaction, messages: Messages) -> None:
        now = self._now()
        document: Document = {
            "n": 1,
            "version": VERSION,
            "id": self._id,
            "at": now.isoformat(),
            "messages": loads(messages.to_json()),
        }
        entry = dump_bytes(document)
        self._unconfirmed = True
        self._tail.add(len(entry), begins=True)
        self._first_messages = self.state.begin(self._parse_document(1, entry))
        self._wait_index.add_messages(self._first_messages)
        self._incarnation = self._incarnation or uuid4().hex
        due = self._wait_index.next_due(self.state, now)
        meta = replace(self._head.meta, created_at=now, last_active=now)
        self._head = replace(self._head, incarnation=self._incarnation, entries=1, due=due, meta=meta)
        transaction.append_entry(self._head, entry, self._list_waits(self._wait_index.unresolved))

    def _append_entry(self, transaction: WriteTransaction, fields: Document, batch: Batch, head: Head) -> Entry:
        """Append an entry to the log, update the row of the conversation, and return the entry.

        Args:
            transaction: the write transaction.
            fields: the fields of the entry other than those of the batch.
            batch: the turns and tools of the entry.
            head: the new row, without the counts that the entry changes.
        """
        if not self._head.entries:
            self._write_first_entry(transaction, Messages())
        number = self._head.entries + 1
        now = self._now()
        entry = dump_bytes({"n": number, "at": now.isoformat(), **fields, **batch.to_dict()})
        parsed = self.state.parse(self._parse_document(number, entry))
        self._unconfirmed = True
        self._tail.add(len(entry), begins="snapshot" in fields)
        self.state.apply(parsed)
        touched = self._wait_index.apply(parsed, self.state)
        if batch:
            self._own_updates.append(batch)
        meta = replace(self._head.meta, last_active=now) if batch or parsed.turns or parsed.posts else self._head.meta
        self._head = replace(
            head,
            incarnation=self._incarnation,
            entries=number,
            revision=self.state.revision,
            meta=meta,
            snapshot=number if "snapshot" in fields else self._head.snapshot,
        )
        self.state.fence = head.fence
        transaction.append_entry(self._head, entry, self._list_waits(touched), adds_turns=bool(parsed.turns))
        return parsed

    def _append_late_entry(self, transaction: WriteTransaction, batch: Batch) -> None:
        if batch:
            self._append_entry(transaction, {"late": {"fence": self._fence, **batch.to_dict()}}, Batch(0), self._head)

    def _list_waits(self, tool_ids: set[str]) -> dict[str, list[Wait]]:
        found = {tool_id: self.state.find((tool_id,)) for tool_id in sorted(tool_ids)}
        return {
            tool_id: list(iter_waits(tool, conversation=self._id, owner=self.owner))
            for tool_id, tool in found.items()
            if tool is not None
        }

    # --- The lease -----------------------------------------------------------------------------------------------

    def _head_with_lease(self, fence: int, batch: Batch = NO_CHANGES) -> Head:
        """Return the row with a new lease. When the lease expires, the conversation becomes due.

        A conversation whose last turn is delivered is due only after a turn is posted, even if the process of its run
        dies.

        Args:
            fence: the number of the run.
            batch: the changes that are written with the row.
        """
        now = self._now()
        lease = self._next_lease(fence, now)
        delivered = bool(batch.marks and batch.marks.get("delivered")) or (self.state.delivered and not batch.turns)
        due = None if delivered and not has_user_posts(self.state) else now
        return replace(self._head, fence=fence, holder=lease.holder, lease_until=lease.until, due=due)

    def _is_overtaken(self) -> bool:
        if self._fence is None:
            msg = "the run has no lease: call claim() before writing"
            raise UsageError(msg)
        return self._fence != self._head.fence

    def live_until(self) -> datetime | None:
        """Return when the lease of the active run expires, or None if no run is active."""
        until = self._head.lease_until
        return until if until is not None and self._now() < until else None

    def _require_no_live_run(self) -> None:
        if (until := self.live_until()) is not None:
            if self._head.fence == self._fence:
                msg = f"this object has an active run on the conversation {self._id!r}: wait until it ends"
                raise ConflictError(msg)
            msg = (
                f"{self._head.holder} has an active run on the conversation {self._id!r}: wait until it ends, "
                f"or, if that process is gone, until its lease ends at {until.isoformat()}"
            )
            raise ConflictError(msg)

    def _require_open(self) -> None:
        if self._head.meta.closed_at is not None:
            msg = f"the conversation {self._id!r} is closed: reopen() it first"
            raise ConversationClosedError(msg)

    def _require_head(self, transaction: ReadTransaction) -> Head:
        head = transaction.read_head()
        if head is None:
            raise self._unknown_conversation_error()
        return head

    def _unknown_conversation_error(self) -> UnknownConversationError:
        if self._reported_entries:
            msg = f"the conversation {self._id!r} was deleted or redacted after it was opened: open it again"
            return UnknownConversationError(msg)
        return UnknownConversationError(f"no conversation with the id {self._id!r} is stored")

    def _parse_document(self, number: int, entry: bytes) -> Document:
        with parsing({"n": number}, self._id):
            document = loads(entry)
            if not isinstance(document, dict):
                msg = "it is not an object"
                raise TypeError(msg)
        return cast("Document", document)
