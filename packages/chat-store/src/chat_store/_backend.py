"""What a database must offer to be a store: blocking methods that know rows, and nothing of conversations.

The rules of conversations are above it, in `_store_log.py`. Below it are rows: one `Head` per conversation, changed in
place; entries, which are only ever added; and waits, an index of the calls that wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeAlias, final

from chat_core.response import Wait, WaitKind

from chat_store.sql.notify import Notifier
from chat_store.store import Changed, Due, Waiting

Waits: TypeAlias = Mapping[str, Sequence[Wait]]
"""The waits of some outermost calls, by the ids of these calls."""


@final
@dataclass(frozen=True, slots=True)
class Head:
    """The row of a conversation.

    Attributes:
        person: who is in charge.
        incarnation: a random text, which differs if a conversation was deleted and another one given its id.
        entries: the number of entries.
        revision: the number of durable changes.
        fence: counts the runs, and the times that a dead run was given up.
        holder: host and process of the run that has, or had, the lease.
        lease_until: when the lease runs out, None if it was released.
        due: from when on a run can continue the conversation, None if it needs a decision or a turn first.
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


@final
@dataclass(frozen=True, slots=True)
class ListFilter:
    """The arguments of `ConversationStore.waiting()` and `due()`."""

    person: str | None = None
    kind: WaitKind | None = None
    before: datetime | None = None
    limit: int | None = None


@final
@dataclass(frozen=True, slots=True)
class PollResult:
    """The changes since a position.

    Attributes:
        position: the position to poll from the next time, in a format of the database.
        changed: the conversations that were changed or became due.
        next_due: when a further conversation becomes due, if it is not changed before.
    """

    position: str
    changed: Sequence[Changed] = ()
    next_due: datetime | None = None


class ReadTransaction(Protocol):
    """A transaction on one conversation, which sees a consistent state of it."""

    def read_head(self) -> Head | None:
        """Return the row of the conversation, or None if there is none."""
        ...

    def read_entries(self, after: int) -> list[bytes]:
        """Return the entries in order, without the first `after` ones."""
        ...


class WriteTransaction(ReadTransaction, Protocol):
    """A transaction that excludes other writers of the conversation until it is committed or rolled back."""

    def write_head(self, head: Head, *, is_change: bool = False) -> None:
        """Write the row. Only a change is reported by `Backend.poll()`."""
        ...

    def append_entry(self, head: Head, entry: bytes, waits: Waits) -> None:
        """Write the row, add entry number `head.entries`, and replace the waits of some calls. This is a change."""
        ...

    def delete(self) -> None:
        """Delete the conversation."""
        ...


class Backend(Protocol):
    """A database. Every method blocks its thread, and may be called from any thread.

    The methods that access the database raise `TimeoutError` if another process keeps a lock, `InvalidDocumentError` if
    the database is damaged or has other tables, and `OSError` if it cannot be read or written.
    """

    def read_transaction(self, id: str) -> AbstractContextManager[ReadTransaction]:  # noqa: A002 - the field's own name
        """Read a conversation. Neither waits for writers nor keeps them waiting."""
        ...

    def write_transaction(self, id: str) -> AbstractContextManager[WriteTransaction]:  # noqa: A002 - the field's own name
        """Change a conversation. Commits when the block is left, or rolls back if it is left with an error."""
        ...

    def list_waiting(self, which: ListFilter) -> list[Waiting]:
        """List the calls that wait, earliest deadline first, then those without one."""
        ...

    def list_due(self, now: datetime, which: ListFilter) -> list[Due]:
        """List the conversations that are due and not leased at `now`, longest overdue first."""
        ...

    def poll(self, since: str | None, due_after: datetime, now: datetime) -> PollResult:
        """List the conversations changed since a position, or due between two times. None without a position.

        Raises:
            UsageError: the position is not one of this database.
        """
        ...

    def subscribe(self, notifier: Notifier) -> None:
        """Notify whenever something may have changed, from now on. Does not access the database."""
        ...

    def unsubscribe(self, notifier: Notifier) -> None:
        """Notify no longer."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...
