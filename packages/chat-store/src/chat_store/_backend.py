"""What a database must offer to be a store: methods that block, and know nothing of conversations.

Everything that a conversation is, who may change it, and what follows from a change is above this (`_ledger.py`); all
that is below is rows: one `Head` for each conversation, changed in place, entries that are only ever added, and the
waits, by which calls that wait are found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeAlias, final

from chat_core.response import Wait, WaitKind

from chat_store._bells import Notifier
from chat_store.store import Changed, Due, Waiting

Waits: TypeAlias = Mapping[str, Sequence[Wait]]
"""What waits, for each of some outermost calls."""


@final
@dataclass(frozen=True, slots=True)
class Head:
    """The row of a conversation.

    Attributes:
        born: random, so that another conversation that was given the id of a deleted one is not taken for it.
        entries: how many there are.
        fence: counts the runs, and the times that one was given up.
        holder: who has, or had, the lease.
        until: when the lease runs out, `None` where it was given back.
        due: from when on a run could go on, `None` where a person must speak first, or all is said.
    """

    id: str
    person: str | None = None
    born: str = ""
    entries: int = 0
    revision: int = 0
    fence: int = 0
    holder: str = ""
    until: datetime | None = None
    due: datetime | None = None


@final
@dataclass(frozen=True, slots=True)
class Filter:
    """Which of the calls that wait are asked for."""

    person: str | None = None
    kind: WaitKind | None = None
    before: datetime | None = None
    limit: int | None = None


@final
@dataclass(frozen=True, slots=True)
class PollResult:
    """What a look at the changes found.

    Attributes:
        position: how far the database had come, in its own words.
        found: what was changed since an earlier position, or became due since an earlier time.
        moment: when something will become due by itself.
    """

    position: str
    found: Sequence[Changed] = ()
    moment: datetime | None = None


class Reading(Protocol):
    """A transaction on one conversation, which sees one moment of it."""

    def head(self) -> Head | None:
        """Its row; `None` where there is none."""
        ...

    def entries(self, after: int) -> list[bytes]:
        """Its entries but for the first `after` ones, in order."""
        ...


class Changing(Reading, Protocol):
    """A transaction that keeps every other writer of this conversation out, until it is durable or never was."""

    def put(self, head: Head, *, changed: bool = False) -> None:
        """Write the row. Unless told so, nothing is changed that anybody waits for."""
        ...

    def append(self, head: Head, entry: bytes, waits: Waits) -> None:
        """Write the row, add entry number `head.entries`, and put the waits of some calls in place of what they had.

        That is a change.
        """
        ...

    def remove(self) -> None:
        """Forget the conversation."""
        ...


class Backend(Protocol):
    """A database. Every method blocks its thread, and may be called from any.

    Raises, all of them that look at it: `TimeoutError` where somebody else writes and does not come to an end,
    `InvalidDocumentError` where the database is damaged or something else, `OSError` where it cannot be read or
    written.
    """

    def reading(self, id: str) -> AbstractContextManager[Reading]:  # noqa: A002 - the field's own name
        """Look at a conversation. Keeps nobody out, and is kept out by nobody."""
        ...

    def changing(self, id: str) -> AbstractContextManager[Changing]:  # noqa: A002 - the field's own name
        """Change a conversation. Leaving the block makes it durable; leaving it with an error takes it back."""
        ...

    def waiting(self, which: Filter) -> list[Waiting]:
        """The calls that wait; first those whose time comes first, then those without one."""
        ...

    def due(self, now: datetime, which: Filter) -> list[Due]:
        """The conversations that are due, and that no lease is held of at `now`; the oldest first."""
        ...

    def look(self, since: str | None, after: datetime, now: datetime) -> PollResult:
        """What was changed since a position, or became due later than `after`; without a position, nothing.

        Raises:
            UsageError: the position is none of this database.
        """
        ...

    def watch(self, bell: Notifier) -> None:
        """Ring a bell whenever something may have been changed. Returns at once, and is no look at the database."""
        ...

    def unwatch(self, bell: Notifier) -> None:
        """Ring it no more."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...
