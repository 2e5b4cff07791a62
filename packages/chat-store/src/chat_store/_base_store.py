"""A store over a backend: everything but the database."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import ClassVar, Self
from uuid import uuid4

from anyio import CancelScope, current_time, move_on_after
from chat_core.concurrency import finish_in_thread
from chat_core.errors import UsageError
from chat_core.messages import Messages
from chat_core.response import WaitKind

from chat_store._backend import Backend, ListFilter, PollResult
from chat_store._cursor import Cursor
from chat_store._replica import Replica, saved_on_exit
from chat_store._snapshots import load_messages, save_messages
from chat_store._store_log import StoreLog
from chat_store.errors import UnknownConversationError
from chat_store.history import HistoryEntry, parse_history
from chat_store.sql.notify import Notifier
from chat_store.store import Changes, Due, OpenConversation, Snapshot, Waiting

_LONGEST_PAUSE = 10.0
"""Seconds after which a database is polled without a notification: one can get lost with its connection."""
_SHORTEST_PAUSE = 0.001


def utc_now() -> datetime:
    """Return the time of this machine."""
    return datetime.now(UTC)


class BaseStore:
    """A `ConversationStore` over a `Backend`."""

    _log_type: ClassVar[type[StoreLog]] = StoreLog
    """The class of logs. Tests of the conformance suite replace it."""

    def __init__(self, backend: Backend, lease_seconds: float, now: Callable[[], datetime]) -> None:
        if lease_seconds <= 0:
            msg = f"a lease needs a length in seconds, not {lease_seconds!r}"
            raise UsageError(msg)
        self._backend = backend
        self._lease_seconds = lease_seconds
        self._now = now

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def open(
        self,
        id: str | None = None,  # noqa: A002 - the field's own name
        *,
        person: str | None = None,
    ) -> AbstractAsyncContextManager[OpenConversation]:
        """Open a conversation, to decide about what waits in it or to run a chat on it.

        One that is not stored is empty, and is stored with its first write.

        Args:
            id: a random one unless given.
            person: who is in charge of a new conversation; of a stored one, this changes nothing.

        Raises:
            ConflictError: from leaving the block, as from `save()`.
        """
        return _open_replica(self._log(uuid4().hex if id is None else id, person), self._lease_seconds)

    async def create(
        self,
        messages: Messages,
        *,
        id: str | None = None,  # noqa: A002 - the field's own name
        person: str | None = None,
    ) -> str:
        """Store messages as a new conversation, and return its id: a random one unless given.

        Raises:
            ConversationExistsError: there is one with this id.
        """
        name = uuid4().hex if id is None else id
        await finish_in_thread(partial(self._log(name, person).create, messages))
        return name

    async def load(self, id: str) -> Snapshot:  # noqa: A002 - the field's own name
        """A conversation as it stands now.

        Raises:
            UnknownConversationError: there is none.
        """
        log = self._log(id)
        messages = await finish_in_thread(partial(load_messages, log))
        return Snapshot(id, messages, log.state.revision, log.person)

    async def save(self, id: str, messages: Messages, *, revision: int) -> Snapshot:  # noqa: A002
        """Write what was done to the messages of a snapshot, and return the conversation as it stands then.

        What others did since that revision is merged, call by call.

        Raises:
            ConflictError: a call decided here was decided or run elsewhere, or a run is at it; or turns were added
                both here and there, or during a live run. Nothing was written.
            UnknownConversationError: there is none.
            UsageError: the messages do not follow from this revision, or there is no such revision.
        """
        await finish_in_thread(partial(save_messages, self._log(id), messages, revision))
        return await self.load(id)

    async def assign(self, id: str, person: str | None) -> None:  # noqa: A002 - the field's own name
        """Put a person in charge of a conversation.

        Raises:
            UnknownConversationError: there is none.
        """
        await finish_in_thread(partial(self._log(id).assign, person))

    async def delete(self, id: str) -> None:  # noqa: A002 - the field's own name
        """Forget a conversation, with its history.

        Raises:
            ConflictError: a run on it is live.
            UnknownConversationError: there is none.
        """
        await finish_in_thread(self._log(id).delete)

    async def waiting(
        self,
        *,
        person: str | None = None,
        kind: WaitKind | None = None,
        before: datetime | None = None,
        limit: int | None = None,
    ) -> list[Waiting]:
        """Every call that waits, anywhere; first those whose time comes first, then those without one.

        Args:
            person: only in conversations that this person is in charge of.
            kind: only what waits for an `approval`, for a `schedule`, or to be told what became of it: `interrupted`.
            before: only what expires, or is due, before this time.
            limit: so many at most.
        """
        if before is not None and before.utcoffset() is None:
            msg = f"a time needs its zone: {before!r} has none"
            raise UsageError(msg)
        return await finish_in_thread(partial(self._backend.list_waiting, ListFilter(person, kind, before, limit)))

    async def due(self, *, person: str | None = None, limit: int | None = None) -> list[Due]:
        """Every conversation that a run could go on with now, and that no live run is at; the oldest first."""
        return await finish_in_thread(lambda: self._backend.list_due(self._now(), ListFilter(person, limit=limit)))

    async def changes(self, since: str | None = None, *, wait_seconds: float | None = None) -> Changes:
        """Wait until something was changed, or became due, since a cursor; then tell what, and the next cursor.

        Nothing is missed between two calls, however long the second one is in coming: what happened meanwhile, it tells
        at once. Every turn, state of a call, run that begins or ends, and `assign()` is a change; a lease that is
        prolonged is none. A time that came, and a lease that ran out, make due. What was deleted is not named.

        Args:
            since: the cursor that an earlier call gave, here or in another process. Without one the call returns at
                once, with a cursor to begin with and no conversations.
            wait_seconds: how long to wait, for ever unless given. Then, `conversations` is empty; with 0 it is a look.

        Raises:
            UsageError: the cursor is none of this database.
        """
        if since is None:
            cursor, _ = await finish_in_thread(self._poll)
            return Changes(str(cursor))
        cursor = Cursor.parse(since)
        end = None if wait_seconds is None else current_time() + wait_seconds
        notifier = Notifier()
        # Before the first poll: every later change notifies.
        self._backend.subscribe(notifier)
        try:
            while True:
                notifier.reset()
                cursor, result = await finish_in_thread(partial(self._poll, cursor))
                if result.changed or (end is not None and current_time() >= end):
                    return Changes(str(cursor), tuple(result.changed))
                with move_on_after(_pause(cursor, result, end)):
                    await notifier.wait()
        finally:
            self._backend.unsubscribe(notifier)

    def _poll(self, cursor: Cursor | None = None) -> tuple[Cursor, PollResult]:
        now = self._now()
        since = Cursor(now) if cursor is None else cursor
        # If another machine's clock was ahead, `now` is before `since.at`: a change is reported twice, and not never.
        result = self._backend.poll(since.position, since.at, now)
        return Cursor(now, result.position), result

    async def history(self, id: str) -> list[HistoryEntry]:  # noqa: A002 - the field's own name
        """Everything that ever happened to a conversation, oldest first.

        Raises:
            UnknownConversationError: there is none.
        """
        entries = await finish_in_thread(self._log(id).read_entries)
        if not entries:
            msg = f"there is no conversation {id!r} under this id"
            raise UnknownConversationError(msg)
        return parse_history(entries)

    async def aclose(self) -> None:
        """Let go of the database."""
        with CancelScope(shield=True):
            await finish_in_thread(self._backend.close)

    def _log(self, id: str, person: str | None = None) -> StoreLog:  # noqa: A002 - the field's own name
        for name in (id, person):
            if name is not None and not _is_storable(name):
                msg = f"no database can keep the name {name!r}"
                raise UsageError(msg)
        return self._log_type(self._backend, id, person, timedelta(seconds=self._lease_seconds), self._now)


@asynccontextmanager
async def _open_replica(log: StoreLog, lease_seconds: float) -> AsyncGenerator[Replica]:
    replica = Replica(log, await finish_in_thread(log.open), lease_seconds)
    async with saved_on_exit(replica, log):
        yield replica


def _pause(cursor: Cursor, result: PollResult, end: float | None) -> float:
    """Return how long to wait for a notification before the next poll, in seconds."""
    pause = _LONGEST_PAUSE if end is None else min(_LONGEST_PAUSE, end - current_time())
    if result.next_due is not None:
        pause = min(pause, (result.next_due - cursor.at).total_seconds())
    return max(pause, _SHORTEST_PAUSE)


def _is_storable(name: str) -> bool:
    """Whether every database can keep a name."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in name
