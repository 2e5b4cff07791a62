"""A store that ends with its process: for tests, and for what may be forgotten."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import final

from chat_core.response import Wait

from chat_store._backed import BackedStore, utc_now
from chat_store._backend import Changing, Filter, Head, PollResult, Reading, Waits
from chat_store._bells import Notifier, Notifiers
from chat_store._cursor import not_a_cursor
from chat_store._standing import moment_of
from chat_store.store import Changed, Due, Waiting


class MemoryStore(BackedStore):
    """A `ConversationStore` in memory, for any number of tasks, event loops and threads of one process.

    Args:
        lease_seconds: how long a run may stand still before it can be overtaken.
        now: the clock, with a zone.
        beside: another one, whose conversations this one shares: what another process would be to a database.

    Attributes:
        memory: the conversations, shared by the stores that were made beside each other.
    """

    def __init__(
        self,
        *,
        lease_seconds: float = 30.0,
        now: Callable[[], datetime] = utc_now,
        beside: MemoryStore | None = None,
    ) -> None:
        self.memory: MemoryBackend = MemoryBackend() if beside is None else beside.memory
        super().__init__(self.memory, lease_seconds, now)


@final
@dataclass(slots=True)
class _Rows:
    """What is stored of one conversation. Entries behind `head.entries` are not durable yet.

    Attributes:
        change: the number of its last change, among those of all conversations.
    """

    head: Head
    entries: list[bytes] = field(default_factory=list[bytes])
    waits: Waits = field(default_factory=dict[str, Sequence[Wait]])
    change: int = 0


@final
class _Transaction:
    """Reads the rows as they were, and gathers what is to take their place."""

    def __init__(self, rows: _Rows | None) -> None:
        self.before = rows
        self.after = rows and rows.head
        self.added: list[bytes] = []
        self.waits: dict[str, Sequence[Wait]] = {}
        self.changed = False

    def head(self) -> Head | None:
        return self.before and self.before.head

    def entries(self, after: int) -> list[bytes]:
        return self.before.entries[after : self.before.head.entries] if self.before else []

    def put(self, head: Head, *, changed: bool = False) -> None:
        self.after = head
        self.changed |= changed

    def append(self, head: Head, entry: bytes, waits: Waits) -> None:
        self.put(head, changed=True)
        self.added.append(entry)
        self.waits |= waits

    def remove(self) -> None:
        self.after = None


class MemoryBackend:
    """Rows in a dictionary."""

    def __init__(self) -> None:
        self._all: dict[str, _Rows] = {}
        self._writing = threading.Lock()
        self._changes = 0
        self._bells = Notifiers()

    @contextmanager
    def reading(self, id: str) -> Generator[Reading]:  # noqa: A002 - the field's own name
        """Look at a conversation."""
        yield _Transaction(self._all.get(id))

    @contextmanager
    def changing(self, id: str) -> Generator[Changing]:  # noqa: A002 - the field's own name
        """Change a conversation."""
        with self._writing:
            transaction = _Transaction(self._all.get(id))
            yield transaction
            if transaction.after is None:
                self._all.pop(id, None)
                return
            rows = self._all.get(id) or _Rows(transaction.after)
            rows.entries += transaction.added
            change = self._changes + 1 if transaction.changed else rows.change
            self._all[id] = _Rows(transaction.after, rows.entries, {**rows.waits, **transaction.waits}, change)
            self._changes = max(self._changes, change)
        self._bells.ring()

    def waiting(self, which: Filter) -> list[Waiting]:
        """The calls that wait."""
        found = [item for item in self._waits(which.person) if _is_asked_for(item.wait, which)]
        found.sort(key=lambda item: ((moment := moment_of(item.wait)) is None, moment and moment.timestamp()))
        return list(islice(found, which.limit))

    def _waits(self, person: str | None) -> Iterator[Waiting]:
        for rows in list(self._all.values()):
            if person in (None, rows.head.person):
                for waits in rows.waits.values():
                    yield from [Waiting(rows.head.id, rows.head.person, wait) for wait in waits]

    def due(self, now: datetime, which: Filter) -> list[Due]:
        """The conversations that are due."""
        heads = [rows.head for rows in list(self._all.values()) if which.person in (None, rows.head.person)]
        free = [head for head in heads if head.until is None or head.until <= now]
        found = [Due(head.id, head.person, head.due) for head in free if head.due is not None and head.due <= now]
        return sorted(found, key=lambda item: item.since)[: which.limit]

    def look(self, since: str | None, after: datetime, now: datetime) -> PollResult:
        """What was changed, or became due."""
        with self._writing:
            last, found = self._changes, list(self._all.values())
        moments = [moment for rows in found if (moment := _moment(rows.head)) is not None and moment > now]
        moment = min(moments, default=None)
        if since is None:
            return PollResult(str(last), moment=moment)
        if not (since.isdecimal() and int(since) <= last):
            raise not_a_cursor(since)
        news = [rows.head for rows in found if rows.change > int(since) or _came(rows.head, after, now)]
        return PollResult(str(last), [Changed(head.id, head.person) for head in news], moment)

    def watch(self, bell: Notifier) -> None:
        """Ring a bell with every change."""
        self._bells.add(bell)

    def unwatch(self, bell: Notifier) -> None:
        """Ring it no more."""
        self._bells.remove(bell)

    def close(self) -> None:
        """Keep everything: another store may share it."""


def _moment(head: Head) -> datetime | None:
    """When a conversation becomes due: not before a lease has run out that somebody has."""
    return head.due if head.due is None or head.until is None else max(head.due, head.until)


def _came(head: Head, after: datetime, now: datetime) -> bool:
    moment = _moment(head)
    return moment is not None and after < moment <= now


def _is_asked_for(wait: Wait, which: Filter) -> bool:
    if which.kind not in (None, wait.kind):
        return False
    moment = moment_of(wait)
    return which.before is None or (moment is not None and moment < which.before)
