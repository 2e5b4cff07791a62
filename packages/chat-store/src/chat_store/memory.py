"""A store in memory, for tests and for conversations that need not survive the process."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, final

from chat_core.arguments import require_type
from chat_core.clock import utc_now
from chat_core.response import Wait

from chat_store._backend import Head, ListFilter, MetaFilter, PollResult, ReadTransaction, Waits, WriteTransaction
from chat_store._base_store import BaseStore
from chat_store._cursor import invalid_cursor_error, list_cursor, parse_list_cursor
from chat_store._job_rules import JobFilter, JobTransaction, can_be_taken, has_lease, takeable_at
from chat_store._jobs_in_memory import JobChanges, list_jobs
from chat_store._waits import wait_deadline
from chat_store.deltas import READER_SECONDS, ResponseDelta
from chat_store.jobs import StoredJob
from chat_store.meta import ConversationMeta
from chat_store.results import Changed, Due, Waiting
from chat_store.sql.notify import Notifier, Notifiers
from chat_store.sql.values import to_microseconds

_UUID: Final = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class MemoryStore(BaseStore):
    """A `ConversationStore` in memory, for any number of tasks, event loops and threads of one process.

    Args:
        lease_seconds: seconds for which a run may stall before another run can take over.
        now: the clock. It returns times with a time zone.
        beside: another store that shares its conversations with this store, as two processes share a database.

    Attributes:
        memory: the backend, shared with the stores that were created with `beside`.
    """

    def __init__(
        self,
        *,
        lease_seconds: float = 30.0,
        now: Callable[[], datetime] = utc_now,
        beside: MemoryStore | None = None,
    ) -> None:
        if beside is not None:
            require_type("beside", beside, MemoryStore, "a MemoryStore")
        self.memory: MemoryBackend = MemoryBackend() if beside is None else beside.memory
        super().__init__(self.memory, lease_seconds, now)


@final
@dataclass(slots=True)
class _Rows:
    """The stored data of one conversation. Entries beyond the number `head.entries` are not committed yet.

    Attributes:
        head: the row of the conversation.
        entries: the entries, in order.
        waits: the waits of the outermost calls, by call id.
        change: the number of the last change, counted over all conversations.
    """

    head: Head
    entries: list[bytes] = field(default_factory=list[bytes])
    waits: Waits = field(default_factory=dict[str, Sequence[Wait]])
    change: int = 0


@final
class _Transaction:
    """A transaction that reads the rows at its start and collects the writes, which `MemoryBackend` then applies."""

    def __init__(self, rows: _Rows | None, jobs: Mapping[tuple[str, str], StoredJob]) -> None:
        self.before = rows
        self.stored_jobs = jobs
        self.after = rows and rows.head
        self.added: list[bytes] = []
        self.waits: dict[str, Sequence[Wait]] = {}
        self.jobs: list[StoredJob] = []
        self.rewritten: list[bytes] | None = None
        self.clean_job: Callable[[StoredJob], StoredJob] | None = None
        self.changed = False
        self.adds_turns = False

    def read_head(self) -> Head | None:
        return self.before and self.before.head

    def read_entries(self, after: int) -> list[bytes]:
        return self.before.entries[after : self.before.head.entries] if self.before else []

    def write_head(self, head: Head, *, is_change: bool = False) -> None:
        self.after = head
        self.changed |= is_change

    def append_entry(self, head: Head, entry: bytes, waits: Waits, *, adds_turns: bool = False) -> None:
        self.write_head(head, is_change=True)
        self.adds_turns |= adds_turns
        self.added.append(entry)
        self.waits |= waits

    def add_jobs(self, jobs: Sequence[StoredJob]) -> None:
        self.jobs += jobs

    def list_job_names(self) -> list[tuple[str, str]]:
        id = None if self.before is None else self.before.head.id
        return [name for name, job in self.stored_jobs.items() if job.conversation == id]

    def rewrite(self, head: Head, entries: Sequence[bytes], clean_job: Callable[[StoredJob], StoredJob]) -> None:
        self.write_head(head, is_change=True)
        self.rewritten = list(entries)
        self.clean_job = clean_job

    def delete(self) -> None:
        self.after = None


class MemoryBackend:
    """A backend that keeps rows in a dictionary."""

    def __init__(self) -> None:
        self._all: dict[str, _Rows] = {}
        self._jobs: dict[tuple[str, str], StoredJob] = {}
        self._deltas: dict[str, list[ResponseDelta]] = {}
        self._delta_readers: dict[tuple[str, str], datetime] = {}
        self._last_delta = 0
        self._writing = threading.Lock()
        self._changes = 0
        self._notifiers = Notifiers()

    @contextmanager
    def read_transaction(self, id: str) -> Generator[ReadTransaction]:
        """Implement `Backend.read_transaction()`."""
        yield _Transaction(self._all.get(id), self._jobs)

    @contextmanager
    def write_transaction(self, id: str) -> Generator[WriteTransaction]:
        """Implement `Backend.write_transaction()`."""
        with self._writing:
            transaction = _Transaction(self._all.get(id), self._jobs)
            yield transaction
            self._commit(id, transaction)
        self._notifiers.notify()

    @contextmanager
    def lease_transaction(self, *, is_shared: bool) -> Generator[Callable[[str], WriteTransaction]]:
        """Implement `Backend.lease_transaction()`."""
        del is_shared  # the transaction locks all rows at once
        transactions: dict[str, _Transaction] = {}
        with self._writing:
            yield lambda id: transactions.setdefault(id, _Transaction(self._all.get(id), self._jobs))
            for id, transaction in transactions.items():
                self._commit(id, transaction)

    def _commit(self, id: str, transaction: _Transaction) -> None:
        if transaction.after is None or transaction.adds_turns or transaction.rewritten is not None:
            self._deltas.pop(id, None)
        if transaction.after is None:
            self._all.pop(id, None)
            self._delta_readers = {mark: until for mark, until in self._delta_readers.items() if mark[0] != id}
            self._jobs = {name: job for name, job in self._jobs.items() if job.conversation != id}
            return
        rows = self._all.get(id) or _Rows(transaction.after)
        rows.entries += transaction.added
        entries = rows.entries if transaction.rewritten is None else transaction.rewritten
        change = self._changes + 1 if transaction.changed else rows.change
        self._all[id] = _Rows(transaction.after, entries, {**rows.waits, **transaction.waits}, change)
        self._changes = max(self._changes, change)
        if transaction.jobs:
            self._jobs = {(job.kind, job.key): job for job in transaction.jobs} | self._jobs
        if (clean := transaction.clean_job) is not None:
            self._jobs = {name: clean(job) if job.conversation == id else job for name, job in self._jobs.items()}

    @contextmanager
    def job_transaction(self) -> Generator[JobTransaction]:
        """Implement `JobStorage.job_transaction()`."""
        with self._writing:
            transaction = JobChanges(self._jobs)
            yield transaction
            self._jobs = {**self._jobs, **transaction.written}
        self._notifiers.notify()

    def list_jobs(self, now: datetime, filters: JobFilter) -> list[StoredJob]:
        """Implement `Backend.list_jobs()`."""
        return list_jobs(self._jobs.values(), now, filters)

    def write_deltas(self, deltas: Sequence[ResponseDelta], writer: str, now: datetime) -> Collection[str]:
        """Implement `Backend.write_deltas()`."""
        with self._writing:
            for delta in deltas:
                if has_lease(self._jobs.get((delta.kind, delta.key)), delta, now):
                    self._last_delta += 1
                    known = self._deltas.get(delta.conversation, [])
                    kept = [item for item in known if item.response == delta.response]
                    self._deltas[delta.conversation] = [*kept, replace(delta, position=self._last_delta)]
            self._delta_readers = {mark: until for mark, until in self._delta_readers.items() if until > now}
            return {name for name, reader in self._delta_readers if reader != writer}

    def read_deltas(self, after: Mapping[str, int], reader: str, now: datetime) -> list[ResponseDelta]:
        """Implement `Backend.read_deltas()`."""
        with self._writing:
            until = now + timedelta(seconds=READER_SECONDS)
            self._delta_readers.update(((name, reader), until) for name in after if name in self._all)
        return [
            delta
            for name, position in after.items()
            for delta in self._deltas.get(name, [])
            if delta.position > position
        ]

    def list_waiting(self, filters: ListFilter) -> list[Waiting]:
        """Implement `Backend.list_waiting()`."""
        found = [item for item in self._iterate_waits(filters.person) if _matches_filters(item.wait, filters)]
        if filters.after is not None:
            behind = _waiting_position(*parse_list_cursor(filters.after, None, str, str, int))
            found = [item for item in found if _waiting_order(item) > behind]
        return sorted(found, key=_waiting_order)[: filters.limit]

    def _iterate_waits(self, person: str | None) -> Iterator[Waiting]:
        for rows in list(self._all.values()):
            id = rows.head.id
            if rows.head.meta.closed_at is not None or person not in (None, rows.head.person):
                continue
            for tool, waits in rows.waits.items():
                for place, wait in enumerate(waits):
                    cursor = list_cursor(to_microseconds(wait_deadline(wait)), id, tool, place)
                    yield Waiting(id, rows.head.person, wait, cursor)

    def list_due(self, now: datetime, filters: ListFilter) -> list[Due]:
        """Implement `Backend.list_due()`."""
        heads = [rows.head for rows in list(self._all.values()) if filters.person in (None, rows.head.person)]
        free = [head for head in heads if head.lease_until is None or head.lease_until <= now]
        found = [
            Due(head.id, head.person, head.due, list_cursor(to_microseconds(head.due), head.id))
            for head in free
            if head.due is not None and head.due <= now
        ]
        if filters.after is not None:
            behind = tuple(parse_list_cursor(filters.after, int, str))
            found = [item for item in found if (to_microseconds(item.since), item.conversation) > behind]
        return sorted(found, key=lambda item: (item.since, item.conversation))[: filters.limit]

    def list_conversations(self, filters: MetaFilter) -> list[ConversationMeta]:
        """Implement `Backend.list_conversations()`."""
        found = self._select_conversations(filters)
        if filters.after is not None:
            behind = tuple(parse_list_cursor(filters.after, int, str))
            found = [item for item in found if tuple(parse_list_cursor(item.cursor, int, str)) < behind]
        found.sort(key=lambda item: tuple(parse_list_cursor(item.cursor, int, str)), reverse=True)
        return found[filters.offset :][: filters.limit]

    def count_conversations(self, filters: MetaFilter) -> int:
        """Implement `Backend.count_conversations()`."""
        return len(self._select_conversations(filters))

    def _select_conversations(self, filters: MetaFilter) -> list[ConversationMeta]:
        """Return the conversations that match the owner, the state and the kind of ids in the filters."""
        found = [
            head.describe(list_cursor(_last_active(head), head.id))
            for head in [rows.head for rows in list(self._all.values())]
            if filters.owner in (None, head.meta.owner) and (not filters.uuid_only or _UUID.fullmatch(head.id))
        ]
        return [item for item in found if filters.state in (None, item.state)]

    def poll(self, since: str | None, due_after: datetime, now: datetime) -> PollResult:
        """Implement `Backend.poll()`."""
        with self._writing:
            last, found, jobs = self._changes, list(self._all.values()), self._jobs.values()
        moments = [(job.conversation, takeable_at(job)) for job in jobs if can_be_taken(job, takeable_at(job))]
        started = {name for name, moment in moments if due_after < moment <= now}
        times = [time for rows in found if (time := _due_time(rows.head)) is not None and time > now]
        times += [moment for _, moment in moments if moment > now]
        next_due = min(times, default=None)
        if since is None:
            return PollResult(str(last), next_due=next_due)
        if not (since.isdecimal() and int(since) <= last):
            raise invalid_cursor_error(since)
        heads = [
            rows.head
            for rows in found
            if rows.change > int(since) or rows.head.id in started or _has_become_due(rows.head, due_after, now)
        ]
        return PollResult(str(last), [Changed(head.id, head.person) for head in heads], next_due)

    def erase_traces(self) -> None:
        """Do nothing: replaced data is no longer in memory."""

    def subscribe(self, notifier: Notifier) -> None:
        """Implement `Backend.subscribe()`."""
        self._notifiers.add(notifier)

    def unsubscribe(self, notifier: Notifier) -> None:
        """Implement `Backend.unsubscribe()`."""
        self._notifiers.remove(notifier)

    def close(self) -> None:
        """Do nothing: another store may share the rows."""


def _last_active(head: Head) -> int:
    return to_microseconds(head.meta.last_active) or 0


def _due_time(head: Head) -> datetime | None:
    """Return the time at which a conversation becomes due, or None.

    A leased conversation is not due before its lease expires.
    """
    return head.due if head.due is None or head.lease_until is None else max(head.due, head.lease_until)


def _has_become_due(head: Head, due_after: datetime, now: datetime) -> bool:
    time = _due_time(head)
    return time is not None and due_after < time <= now


def _waiting_order(item: Waiting) -> tuple[object, ...]:
    return _waiting_position(*parse_list_cursor(item.cursor, None, str, str, int))


def _waiting_position(moment: object, *rest: object) -> tuple[object, ...]:
    """Return the sort key of a waiting call: earlier deadlines first, calls without a deadline last."""
    return (moment is None, moment or 0, *rest)


def _matches_filters(wait: Wait, filters: ListFilter) -> bool:
    if filters.kind not in (None, wait.kind):
        return False
    deadline = wait_deadline(wait)
    return filters.before is None or (deadline is not None and deadline < filters.before)
