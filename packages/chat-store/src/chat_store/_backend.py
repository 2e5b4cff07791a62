"""The interface between stores and databases: blocking methods that read and write rows.

A backend stores three kinds of rows. Each conversation has one `Head`, which is updated in place. Its log consists of
entries, which are only appended. Waits are an index of the tool calls that wait for a decision or a scheduled time.
The rules for claims, leases and merges are in `_store_log.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, TypeAlias, final

from chat_core.response import Wait, WaitKind

from chat_store._arguments import require_choice, require_optional_text, require_page, require_whole
from chat_store._job_rules import JobFilter, JobStorage
from chat_store.deltas import ResponseDelta
from chat_store.jobs import StoredJob
from chat_store.meta import ConversationMeta, ConversationState, StoredMeta
from chat_store.results import Changed, Due, Waiting
from chat_store.sql.notify import Notifier

Waits: TypeAlias = Mapping[str, Sequence[Wait]]
"""A mapping from the id of an outermost tool call to its waits, including those of calls inside it."""


@final
@dataclass(frozen=True, slots=True)
class Head:
    """The database row of a conversation: its counts, its lease and its description.

    Attributes:
        id: the id of the conversation.
        person: the user in charge, if any.
        incarnation: a random text, which distinguishes a new conversation from a deleted one with the same id.
        entries: the number of entries in the log of the conversation.
        revision: the number of durable changes.
        fence: the number of runs so far, plus the number of dead runs whose lease was revoked.
        holder: host name and process id of the run that has, or had, the lease.
        lease_until: time at which the lease expires, None if it was released.
        due: time from which a run can continue the conversation, None if it needs a decision or a turn first.
        snapshot: the number of the newest entry that contains a snapshot of the messages, 0 if there is none.
        meta: the columns that describe the conversation.
    """

    id: str
    person: str | None = None
    incarnation: str = ""
    entries: int = 0
    revision: int = 0
    fence: int = 0
    holder: str = ""
    lease_until: datetime | None = None
    due: datetime | None = None
    meta: StoredMeta = field(default_factory=StoredMeta)
    snapshot: int = 0

    def describe(self, cursor: str = "") -> ConversationMeta:
        """Return the public description of the conversation.

        Args:
            cursor: the position in the list of conversations.
        """
        return self.meta.describe(self.id, self.person, cursor)


@final
@dataclass(frozen=True, slots=True)
class ListFilter:
    """Filters and page limits for the lists of waiting calls and due conversations.

    The fields are the arguments of `ConversationStore.waiting()` and `due()`.
    """

    person: str | None = None
    kind: WaitKind | None = None
    before: datetime | None = None
    limit: int | None = None
    after: str | None = None

    def __post_init__(self) -> None:
        require_optional_text(person=self.person)
        require_choice("kind", self.kind, WaitKind)
        require_page(self.limit, self.after)


@final
@dataclass(frozen=True, slots=True)
class MetaFilter:
    """Filters and page limits for the list of conversations.

    The fields are the arguments of `ConversationStore.conversations()`.
    """

    owner: str | None = None
    state: ConversationState | None = None
    limit: int | None = None
    after: str | None = None
    offset: int = 0
    uuid_only: bool = False

    def __post_init__(self) -> None:
        require_optional_text(owner=self.owner)
        require_whole("offset", self.offset)
        require_choice("state", self.state, ConversationState)
        require_page(self.limit, self.after)


@final
@dataclass(frozen=True, slots=True)
class DamagedWait:
    """A database row of a waiting tool call that cannot be read.

    The call can be recovered from the log of its conversation.

    Attributes:
        conversation: the id of the conversation.
        person: the user in charge of the conversation, if any.
        tool: the content of the column with the id of the outermost call, which may be damaged.
        place: the content of the column with the number of the wait within that call, which may be damaged.
        cursor: the position of the row in the list of waiting calls.
    """

    conversation: str
    person: str | None
    tool: object
    place: object
    cursor: str


@final
@dataclass(frozen=True, slots=True)
class PollResult:
    """The result of `Backend.poll()`: the conversations that have changed since a position.

    Attributes:
        position: the position for the next poll, in the format of the backend.
        changed: the conversations that were changed or became due.
        next_due: the earliest future time at which a conversation becomes due, if any.
    """

    position: str
    changed: Sequence[Changed] = ()
    next_due: datetime | None = None


class ReadTransaction(Protocol):
    """A transaction that reads a consistent state of one conversation."""

    def read_head(self) -> Head | None:
        """Return the row of the conversation, or None if the conversation is not stored."""
        ...

    def read_entries(self, after: int) -> list[bytes]:
        """Return the log entries of the conversation in order, as JSON, without the first `after` entries."""
        ...


class WriteTransaction(ReadTransaction, Protocol):
    """A transaction that excludes other writers of the conversation until it is committed or rolled back."""

    def write_head(self, head: Head, *, is_change: bool = False) -> None:
        """Insert the row of the conversation, or replace the existing row.

        Args:
            head: the new row.
            is_change: whether `Backend.poll()` reports the write.
        """
        ...

    def append_entry(self, head: Head, entry: bytes, waits: Waits, *, adds_turns: bool = False) -> None:
        """Write the row of the conversation and append an entry to its log. `Backend.poll()` reports the write.

        Args:
            head: the new row. `head.entries` is the number of the new entry. If `head.snapshot` is the same number, the
                entry contains a snapshot.
            entry: the entry, as JSON.
            waits: the new waits of the calls that the entry changes. They replace the stored waits of these calls.
            adds_turns: whether the entry adds turns. If so, the text deltas of the conversation are deleted.
        """
        ...

    def add_jobs(self, jobs: Sequence[StoredJob]) -> None:
        """Queue jobs for the conversation, except jobs whose kind and key are stored already."""
        ...

    def list_job_names(self) -> list[tuple[str, str]]:
        """Return the kinds and keys of the stored jobs of the conversation, in any order."""
        ...

    def rewrite(self, head: Head, entries: Sequence[bytes], clean_job: Callable[[StoredJob], StoredJob]) -> None:
        """Replace the row, all entries and the jobs of the conversation, but not its waits. Delete its text deltas.

        `Backend.poll()` reports the write.

        Args:
            head: the new row.
            entries: the new entries, as JSON, none with a snapshot.
            clean_job: returns the new form of a stored job.
        """
        ...

    def delete(self) -> None:
        """Delete the conversation, its jobs and its text deltas."""
        ...


class Backend(JobStorage, Protocol):
    """A database that stores conversations and jobs. Every method blocks, and may be called from any thread.

    The methods that access the database raise `TimeoutError` if another process holds a lock, `InvalidDocumentError` if
    the database is damaged or lacks the expected tables, and `OSError` if it cannot be read or written.
    """

    def read_transaction(self, id: str) -> AbstractContextManager[ReadTransaction]:
        """Return a context manager for a read transaction, which neither blocks writers nor waits for them."""
        ...

    def write_transaction(self, id: str) -> AbstractContextManager[WriteTransaction]:
        """Return a context manager for a write transaction. It commits on exit, or rolls back if the block raises."""
        ...

    def lease_transaction(self, *, is_shared: bool) -> AbstractContextManager[Callable[[str], WriteTransaction]]:
        """Return a context manager for a transaction that writes the leases of several conversations.

        The function that it provides returns the part of the transaction for a conversation. Its writes are not
        reported to subscribers.

        Args:
            is_shared: whether the transaction writes more than one lease. It then waits only briefly for a locked row,
                and raises `TimeoutError`, so that the rows that it has locked do not stay locked.
        """
        ...

    def list_waiting(self, filters: ListFilter) -> Sequence[Waiting | DamagedWait]:
        """List the waiting tool calls, earliest deadline first. Calls without a deadline come last."""
        ...

    def list_due(self, now: datetime, filters: ListFilter) -> list[Due]:
        """List the conversations that are due and not leased at `now`, longest overdue first.

        Args:
            now: the current time.
            filters: the person, the limit and the cursor. The other fields are ignored.
        """
        ...

    def list_conversations(self, filters: MetaFilter) -> list[ConversationMeta]:
        """List the conversations, most recently active first."""
        ...

    def count_conversations(self, filters: MetaFilter) -> int:
        """Return the number of conversations that match the owner, the state and the kind of ids in the filters."""
        ...

    def list_jobs(self, now: datetime, filters: JobFilter) -> list[StoredJob]:
        """List the jobs with their states at `now`, earliest start time first."""
        ...

    def write_deltas(self, deltas: Sequence[ResponseDelta], writer: str, now: datetime) -> Collection[str]:
        """Store text deltas. Deltas from workers that have lost their job are ignored.

        Deltas of a new response replace the stored deltas of the conversation. Without deltas, nothing is written.

        Args:
            deltas: the deltas to store.
            writer: id of the store that writes.
            now: the current time.

        Returns:
            The ids of the conversations that other stores have marked as read until a time after `now`.
        """
        ...

    def read_deltas(self, after: Mapping[str, int], reader: str, now: datetime) -> list[ResponseDelta]:
        """Return the text deltas after the given position of each conversation, in the order of positions.

        The conversations are marked as read until `READER_SECONDS` after `now`. A mark that is valid for more than half
        of this time may be kept, because writing a mark takes longer than reading it.

        Args:
            after: the positions, by id of the conversation.
            reader: id of the store that reads.
            now: the current time.
        """
        ...

    def poll(self, since: str | None, due_after: datetime, now: datetime) -> PollResult:
        """Return the conversations that have changed since a position or become due since a time.

        A conversation also becomes due when one of its jobs can be taken.

        Args:
            since: the position of an earlier result. None returns the current position and no conversations.
            due_after: the start of the period up to `now` in which a conversation must have become due to be included.
            now: the current time.

        Raises:
            UsageError: the position does not belong to this database.
        """
        ...

    def erase_traces(self) -> None:
        """Remove replaced and deleted data from the database files, if this process has access to them."""
        ...

    def subscribe(self, notifier: Notifier) -> None:
        """Register a notifier to be notified whenever the database may have changed. Does not access the database."""
        ...

    def unsubscribe(self, notifier: Notifier) -> None:
        """Remove a notifier that `subscribe()` registered."""
        ...

    def close(self) -> None:
        """Close all connections to the database."""
        ...
