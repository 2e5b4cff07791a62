"""The store methods that concern all conversations: lists, jobs and changes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from functools import partial
from typing import ClassVar, Self
from uuid import uuid4

from anyio import CancelScope, current_time, move_on_after
from chat_core.clock import to_utc, utc_clock
from chat_core.concurrency import finish_in_thread
from chat_core.errors import ChatError
from chat_core.response import WaitKind

from chat_store._arguments import require_optional_text, require_seconds, require_text
from chat_store._backend import Backend, DamagedWait, Head, ListFilter, MetaFilter, PollResult
from chat_store._contents import require_deltas, require_positions
from chat_store._cursor import Cursor
from chat_store._job_queue import JobQueue
from chat_store._job_rules import JobFilter
from chat_store._log import lease_length
from chat_store._managed_log import ManagedLog
from chat_store._shared_renewals import SharedRenewals
from chat_store.deltas import ResponseDelta
from chat_store.jobs import JobState, StoredJob
from chat_store.meta import ConversationMeta, ConversationState, StoredMeta
from chat_store.results import Changes, Due, Waiting
from chat_store.sql.notify import Notifier

_LOG = logging.getLogger("chat_store")

_LONGEST_PAUSE = 10.0
"""Seconds after which the database is polled even without a notification, because notifications can get lost."""
_SHORTEST_PAUSE = 0.001


class ListStore:
    """The methods of a `ConversationStore` that concern all conversations.

    Args:
        backend: the database. The store owns it, and `aclose()` closes it.
        lease_seconds: seconds for which a run may stall before another run can take over.
        now: the clock. It returns times with a time zone.
    """

    _log_type: ClassVar[type[ManagedLog]] = ManagedLog
    """The class of the conversation logs. Tests of the conformance suite replace it."""

    def __init__(self, backend: Backend, lease_seconds: float, now: Callable[[], datetime]) -> None:
        self._lease_length = lease_length(lease_seconds)
        self._backend = backend
        self._id = uuid4().hex
        self._lease_seconds = lease_seconds
        self._now = utc_clock(now)
        self._queue = JobQueue(backend, self._lease_length, self._now)
        self._renewals = SharedRenewals(self._renew_leases)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def conversations(
        self,
        *,
        owner: str | None = None,
        state: ConversationState | None = None,
        limit: int | None = None,
        after: str | None = None,
        offset: int = 0,
        uuid_only: bool = False,
    ) -> list[ConversationMeta]:
        """List the conversations, most recently active first.

        To read the list in pages, pass the cursor of the last conversation of a page, until a page is empty. A
        conversation that becomes active between two pages moves to the front.

        Args:
            owner: only conversations of this user.
            state: only `open` or only `closed` conversations.
            limit: the maximum number of conversations.
            after: only conversations after the conversation with this cursor.
            offset: number of conversations to skip. A cursor is faster, and is not shifted by new conversations.
            uuid_only: only conversations whose id is a UUID in lower case.

        Raises:
            UsageError: the cursor does not belong to this list, or the offset is negative.
        """
        filters = MetaFilter(owner, state, limit, after, offset, uuid_only)
        return await finish_in_thread(partial(self._backend.list_conversations, filters))

    async def count_conversations(
        self, *, owner: str | None = None, state: ConversationState | None = None, uuid_only: bool = False
    ) -> int:
        """Return the number of conversations that `conversations()` lists with these filters.

        Args:
            owner: only conversations of this user.
            state: only `open` or only `closed` conversations.
            uuid_only: only conversations whose id is a UUID in lower case.
        """
        filters = MetaFilter(owner, state, uuid_only=uuid_only)
        return await finish_in_thread(partial(self._backend.count_conversations, filters))

    async def waiting(
        self,
        *,
        person: str | None = None,
        kind: WaitKind | None = None,
        before: datetime | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> list[Waiting]:
        """List the waiting calls of all conversations, earliest deadline first. Calls without a deadline come last.

        To read the list in pages, pass the cursor of the last call of a page, until a page is empty. Calls that are
        decided or added between two pages do not shift the other calls.

        Args:
            person: only conversations that this user is in charge of.
            kind: only calls with this kind of wait: `approval`, `schedule` (a time), `result` (an external result), or
                `interrupted` (the outcome of an interrupted call).
            before: only calls whose approval expires before this time, or that are scheduled before this time.
            limit: the maximum number of calls.
            after: only calls after the call with this cursor, which may have been decided since.

        Raises:
            UsageError: the cursor does not belong to this list, or `before` has no time zone.
        """
        if before is not None:
            before = to_utc(before, "before")
        return await finish_in_thread(partial(self._list_waiting, ListFilter(person, kind, before, limit, after)))

    def _list_waiting(self, filters: ListFilter) -> list[Waiting]:
        rows = self._backend.list_waiting(filters)
        found = [row if isinstance(row, Waiting) else self._recover_wait(row) for row in rows]
        return [item for item in found if item is not None]

    def _recover_wait(self, row: DamagedWait) -> Waiting | None:
        """Recover a waiting call from the log of its conversation. If this fails, log an error and return None."""
        log = self._create_log(row.conversation)
        try:
            log.open_stored()
            wait = log.find_wait(row.tool, row.place)
        except (ChatError, OSError) as error:
            _LOG.error("cannot list a waiting call of the conversation %r: %s", row.conversation, error)
            return None
        if wait is None:
            _LOG.error("a row of the waiting calls of the conversation %r is damaged", row.conversation)
            return None
        return Waiting(row.conversation, row.person, wait, row.cursor)

    async def due(self, *, person: str | None = None, limit: int | None = None, after: str | None = None) -> list[Due]:
        """List the conversations that a run can continue now, longest overdue first.

        Conversations with an active run are not listed. A conversation whose model call failed is not due again before
        it is changed. To retry such a run, use a job, which `take_job()` retries if it fails.

        Args:
            person: only conversations that this user is in charge of.
            limit: the maximum number of conversations.
            after: only conversations after the conversation with this cursor.

        Raises:
            UsageError: the cursor does not belong to this list.
        """
        filters = ListFilter(person, limit=limit, after=after)
        return await finish_in_thread(lambda: self._backend.list_due(self._now(), filters))

    async def jobs(
        self,
        *,
        kind: str | None = None,
        state: JobState | None = None,
        conversation: str | None = None,
        key_prefix: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> list[StoredJob]:
        """List jobs, earliest start time first.

        Args:
            kind: only jobs of this kind.
            state: only jobs in this state.
            conversation: only jobs of the conversation with this id.
            key_prefix: only jobs whose key begins with this text.
            limit: the maximum number of jobs.
            after: only jobs after the job with this cursor.

        Raises:
            UsageError: the cursor does not belong to this list.
        """
        filters = JobFilter(kind, state, conversation, limit, after, key_prefix)
        return await finish_in_thread(lambda: self._backend.list_jobs(self._now(), filters))

    def take_job(self, *kinds: str) -> AbstractAsyncContextManager[StoredJob | None]:
        """Return a context manager that takes the longest overdue job and provides it, or None if there is no such job.

        The lease is renewed while the block runs. If the block ends without an error, the job is done. If it raises,
        the error propagates, and the job is tried again later, up to its number of attempts. If the block is cancelled,
        another worker can take the job at once, and the attempt does not count.

        The block is cancelled at its next `await` if the job is cancelled, or if the lease cannot be renewed in time
        because this process stalls or the store is down. The job is then not marked as done.

        Args:
            *kinds: the kinds of jobs to take.

        Raises:
            LeaseLostError: the lease was lost, so another worker may have taken the job. Raised when the block exits.
            UsageError: no kind is given.
        """
        return self._queue.take(kinds)

    async def cancel_job(self, kind: str, key: str) -> bool:
        """Cancel a job that has not ended. A worker that runs it is cancelled at the next lease renewal.

        Args:
            kind: the kind of the job.
            key: the key of the job.

        Returns:
            True if the job was cancelled, False if it has ended or is not stored.
        """
        return await self._queue.cancel(kind, key)

    async def write_deltas(self, deltas: Sequence[ResponseDelta]) -> frozenset[str]:
        """Store text of responses that are not stored yet, so that other processes can show it.

        Deltas from a worker that has lost its job are ignored. The deltas of a conversation are deleted when a turn is
        stored, when deltas of another response are stored, and by a redaction. `changes()` does not report them. They
        may be lost if the database stops.

        Args:
            deltas: the deltas, of any number of conversations. Deltas of the same response must be in order.

        Returns:
            The ids of the conversations that other stores have read with `deltas()` in the last `READER_SECONDS`. The
            text of other conversations need not be written. Without deltas, nothing is written.
        """
        require_deltas(deltas)
        return frozenset(await finish_in_thread(lambda: self._backend.write_deltas(deltas, self._id, self._now())))

    async def deltas(self, after: Mapping[str, int]) -> list[ResponseDelta]:
        """Return the text of responses that are not stored yet. `write_deltas()` of other stores reports the readers.

        Args:
            after: for each conversation id, the position of the last delta already read, or 0.

        Returns:
            The deltas after these positions, in the order of their positions.
        """
        require_positions(after)
        if not after:
            return []
        return await finish_in_thread(lambda: self._backend.read_deltas(after, self._id, self._now()))

    async def changes(self, since: str | None = None, *, wait_seconds: float | None = None) -> Changes:
        """Wait until a conversation has changed or become due since a cursor, and return the changed conversations.

        Changes between two calls are not lost: the second call returns them at once. Turns, call states, the start and
        end of runs, and `assign()` are changes. Lease renewals are not. Deleted conversations are not listed.

        Args:
            since: the cursor that an earlier call returned, in this or another process. Without a cursor, the call
                returns at once, with the current cursor and no conversations.
            wait_seconds: maximum time to wait for a change. 0 returns at once. Default: no limit.

        Raises:
            UsageError: the cursor does not belong to this database.
        """
        require_optional_text(since=since)
        if wait_seconds is not None:
            require_seconds("wait_seconds", wait_seconds)
        if since is None:
            cursor, _ = await finish_in_thread(self._poll_changes)
            return Changes(str(cursor))
        cursor = Cursor.parse(since)
        end = None if wait_seconds is None else current_time() + wait_seconds
        notifier = Notifier()
        # Subscribe before the first poll, so that no change falls between the two.
        self._backend.subscribe(notifier)
        try:
            while True:
                notifier.reset()
                cursor, result = await finish_in_thread(partial(self._poll_changes, cursor))
                if result.changed or (end is not None and current_time() >= end):
                    return Changes(str(cursor), tuple(result.changed))
                with move_on_after(_seconds_until_poll(cursor, result, end)):
                    await notifier.wait()
        finally:
            self._backend.unsubscribe(notifier)

    def _poll_changes(self, cursor: Cursor | None = None) -> tuple[Cursor, PollResult]:
        now = self._now()
        since = Cursor(now) if cursor is None else cursor
        # If the clock of another machine was ahead, `now` is before `since.at`. A change is then reported twice.
        result = self._backend.poll(since.position, since.at, now)
        return Cursor(now, result.position), result

    async def aclose(self) -> None:
        """Close the connections to the database. Open conversations become unusable; an active run counts as dead."""
        with CancelScope(shield=True):
            await finish_in_thread(self._backend.close)

    def _create_log(self, id: str, person: str | None = None, owner: str | None = None) -> ManagedLog:
        require_text(id=id)
        require_optional_text(person=person, owner=owner)
        return self._log_type(self._backend, Head(id, person, meta=StoredMeta(owner)), self._lease_length, self._now)

    async def _renew_leases(self, logs: Sequence[ManagedLog]) -> list[ChatError | None]:
        """Renew the leases of conversations in one transaction, and return the error of each or `None`."""

        def renew() -> list[ChatError | None]:
            errors: dict[int, ChatError] = {}

            def note_error(log: ManagedLog, step: Callable[[ManagedLog], None]) -> None:
                try:
                    step(log)
                except ChatError as error:
                    errors.setdefault(id(log), error)

            with self._backend.lease_transaction(is_shared=len(logs) > 1) as transaction:
                # Transactions that lock several rows lock them in the same order.
                for log in sorted(logs, key=lambda log: log.state.id):
                    note_error(log, lambda log: log.write_lease(transaction(log.state.id)))
            for log in logs:
                note_error(log, ManagedLog.require_lease)
            return [errors.get(id(log)) for log in logs]

        return await finish_in_thread(renew)


def _seconds_until_poll(cursor: Cursor, result: PollResult, end: float | None) -> float:
    """Return the seconds to wait for a notification before the next poll.

    Args:
        cursor: the position and the time of the last poll.
        result: the result of that poll.
        end: time at which the caller stops waiting, in seconds of the event loop's clock.
    """
    pause = _LONGEST_PAUSE if end is None else min(_LONGEST_PAUSE, end - current_time())
    if result.next_due is not None:
        pause = min(pause, (result.next_due - cursor.at).total_seconds())
    return max(pause, _SHORTEST_PAUSE)
