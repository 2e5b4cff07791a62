"""The conversation log of a store, with operations on the whole conversation, such as closing it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import uuid4

from chat_core.errors import ConflictError, InvalidDocumentError
from chat_core.json import dump_bytes
from chat_core.messages import Messages, Turn

from chat_store._backend import Head, ReadTransaction, WriteTransaction
from chat_store._entries import Batch, Document, NewTurn
from chat_store._job_rules import queue
from chat_store._redaction import Redaction
from chat_store._store_log import NO_CHANGES, VERSION, StoreLog
from chat_store.errors import ConversationExistsError
from chat_store.history import HistoryEntry, needs_earlier_entries, parse_history
from chat_store.jobs import Job, StoredJob
from chat_store.meta import ConversationMeta, HistoryPosition, MetaChanges


class ManagedLog(StoreLog):
    """A conversation log of a store that can also describe, close and delete its conversation, and queue jobs."""

    def create(self, messages: Messages, meta: MetaChanges | None = None, jobs: Sequence[Job] = ()) -> None:
        """Store a new conversation.

        Args:
            messages: the initial messages.
            meta: the description of the conversation.
            jobs: the jobs to queue.

        Raises:
            ConversationExistsError: a conversation with this id is stored already.
        """
        with self._open_write_transaction() as transaction:
            if self._head.entries:
                msg = f"a conversation with the id {self._id!r} is stored already: use open() to open it"
                raise ConversationExistsError(msg)
            self._write_first_entry(transaction, messages)
            self._write_description(transaction, meta, jobs)

    def read_meta(self) -> ConversationMeta:
        """Return the description of the conversation."""
        with self._backend.read_transaction(self._id) as transaction:
            head = self._require_head(transaction)
        return replace(head.describe(), position=HistoryPosition(head.incarnation, head.entries, head.fence))

    def read_history(self, after: HistoryPosition | None) -> list[HistoryEntry]:
        """Return the events after a position, or all events if it is None or the log was replaced since.

        Raises:
            UnknownConversationError: the conversation is not stored.
            InvalidDocumentError: the conversation is damaged.
        """
        with self._backend.read_transaction(self._id) as transaction:
            head = self._require_head(transaction)
            start = first = HistoryPosition(head.incarnation)
            if after is not None and after.log == head.incarnation and after.number <= head.entries:
                start = after
            documents = self._parse_entries(transaction, start.number)
            if start.number and needs_earlier_entries(documents):
                documents = self._parse_entries(transaction, 0)
            else:
                first = start
        return [item for item in parse_history(documents, self._id, first) if item.number > start.number]

    def _parse_entries(self, transaction: ReadTransaction, after: int) -> list[Document]:
        entries = transaction.read_entries(after)
        return [self._parse_document(number, entry) for number, entry in enumerate(entries, after + 1)]

    def apply(
        self,
        batch: Batch,
        meta: MetaChanges | None = None,
        jobs: Sequence[Job] = (),
        known_jobs: Sequence[StoredJob] | None = None,
    ) -> None:
        """Append a batch of changes, change the description and queue jobs, in one transaction.

        Raises:
            ConflictError: an active run executes one of the tools, or another writer added turns or jobs. Nothing was
                written.
            ConversationClosedError: the conversation is closed, and the batch is not empty.
            StaleToolError: another writer changed a tool call of the batch. Nothing was written.
        """
        with self._open_write_transaction() as transaction:
            if known_jobs is not None:
                self._require_known(transaction, jobs, known_jobs)
            if batch:
                self._save_batch(transaction, batch)
            self._write_description(transaction, meta, jobs)

    def _require_known(
        self, transaction: WriteTransaction, jobs: Sequence[Job], known_jobs: Sequence[StoredJob]
    ) -> None:
        kinds, known = {job.kind for job in jobs}, {(job.kind, job.key) for job in known_jobs}
        for kind, key in transaction.list_job_names():
            if kind in kinds and (kind, key) not in known:
                msg = (
                    f"another process queued the job {kind!r} ({key!r}) of the conversation {self._id!r}; nothing was "
                    "written: call jobs() again"
                )
                raise ConflictError(msg)

    def close(self, jobs: Sequence[Job]) -> None:
        """Close the conversation and queue jobs, unless it is closed already.

        Raises:
            ConflictError: the conversation has an active run.
        """
        with self._open_write_transaction() as transaction:
            self._require_stored()
            if self._head.meta.closed_at is None:
                self._require_no_live_run()
                meta = replace(self._head.meta, closed_at=self._now())
                # The new fence prevents the writes of a dead run.
                fence = self._head.fence + (self._head.lease_until is not None)
                self._write_head(transaction, replace(self._head, fence=fence, lease_until=None, due=None, meta=meta))
                self._write_description(transaction, None, jobs)

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
        with self._open_write_transaction() as transaction:
            self._require_stored()
            self._require_open()
            if self.state.was_posted(key):
                return False
            now, head = self._now(), self._head
            if not self._wait_index.unresolved and turn.by != "engine":
                head = replace(head, due=now)
            self._append_entry(
                transaction, {"posts": [NewTurn.from_turn("user", turn, key).to_dict()]}, NO_CHANGES, head
            )
        return True

    def redact(self, target: int | str, by: str, reason: str) -> None:
        """Remove the content of a turn, a call or a post, and replace the log with its current state.

        Raises:
            ConflictError: the conversation has an active run, or a call to redact has not ended.
            UsageError: the turn, the call or the post does not exist.
        """
        with self._open_write_transaction() as transaction:
            self._require_stored()
            self._require_no_live_run()
            documents = [
                self._parse_document(number, entry) for number, entry in enumerate(transaction.read_entries(0), 1)
            ]
            redaction = Redaction(documents, self.state, target)
            entries = redaction.entries(self._now(), target, by, reason)
            head = replace(
                self._head,
                # Objects of other processes that have the conversation open contain the removed content, and must not
                # write it again.
                incarnation=uuid4().hex,
                entries=len(entries),
                snapshot=0,
                fence=self._head.fence + (self._head.lease_until is not None),
                lease_until=None,
                meta=redaction.clean_meta(self._head.meta),
            )
            first = {"version": VERSION, **entries[0]}
            transaction.rewrite(head, [dump_bytes(first), dump_bytes(entries[1])], redaction.clean_job)
            self._unconfirmed = True

    def delete(self) -> None:
        """Delete the conversation, even if its row is damaged.

        Raises:
            ConflictError: the conversation has an active run.
        """
        with self._backend.write_transaction(self._id) as transaction:
            try:
                self._head = self._require_head(transaction)
            except InvalidDocumentError:
                # No run can write to a damaged conversation, so none is disturbed.
                transaction.delete()
                return
            self._require_no_live_run()
            transaction.delete()

    def reopen(self) -> None:
        """Reopen the conversation if it is closed."""
        with self._open_write_transaction() as transaction:
            self._require_stored()
            if self._head.meta.closed_at is not None:
                due = self._wait_index.next_due(self.state, self._now())
                meta = replace(self._head.meta, closed_at=None)
                self._write_head(transaction, replace(self._head, due=due, meta=meta))

    def _write_description(self, transaction: WriteTransaction, meta: MetaChanges | None, jobs: Sequence[Job]) -> None:
        """Change the description and queue jobs.

        If the conversation is not stored yet, store an empty conversation first.
        """
        if not self._head.entries:
            self._write_first_entry(transaction, Messages())
        if meta or jobs:
            self._write_head(transaction, replace(self._head, meta=self._head.meta.changed(meta or {})))
        now = self._now()
        transaction.add_jobs([queue(self._id, job, now) for job in jobs])

    def _write_head(self, transaction: WriteTransaction, head: Head) -> None:
        self._unconfirmed = True
        self._head = head
        self.state.fence = head.fence
        transaction.write_head(head, is_change=True)

    def _require_stored(self) -> None:
        if not self._head.entries:
            raise self._unknown_conversation_error()
