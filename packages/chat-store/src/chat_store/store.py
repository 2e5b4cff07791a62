"""What a store of conversations is: the protocol, and the values that it speaks in."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, final, runtime_checkable

from chat_core.conversation import Conversation
from chat_core.messages import Messages
from chat_core.response import Wait, WaitKind

from chat_store.history import HistoryEntry


@final
@dataclass(frozen=True, slots=True)
class Snapshot:
    """A stored conversation as it stood when it was read.

    Attributes:
        messages: a copy: what is done to them is stored by `ConversationStore.save()`.
        revision: counts the durable changes; `save()` is told which one it follows.
        person: who is in charge of it, `None` where nobody in particular is.
    """

    id: str
    messages: Messages
    revision: int
    person: str | None = None


@final
@dataclass(frozen=True, slots=True)
class Waiting:
    """A call that waits, in a stored conversation. `wait.path` leads to it: `messages.tool(*wait.path)`."""

    conversation: str
    person: str | None
    wait: Wait


@final
@dataclass(frozen=True, slots=True)
class Due:
    """A conversation that a run could go on with now.

    A time has come, an approval has expired, somebody decided, a turn was pushed that nobody answered, or the run that
    was at it is gone.

    Attributes:
        since: when that was.
    """

    conversation: str
    person: str | None
    since: datetime


@final
@dataclass(frozen=True, slots=True)
class Changed:
    """A conversation that was changed, or became due. `person` is who is in charge of it now."""

    conversation: str
    person: str | None


@final
@dataclass(frozen=True, slots=True)
class Changes:
    """What happened since a cursor.

    Attributes:
        cursor: for the next call. A short text of letters, digits and `-:,`, which every process with the same database
            understands: it can be given to a browser, and come back from there.
        conversations: each once, in no order. A page reads those that it shows again; a worker asks `due()`.
    """

    cursor: str
    conversations: tuple[Changed, ...] = ()


@runtime_checkable
class OpenConversation(Conversation, Protocol):
    """A stored conversation in use: what `chat.complete()` and `chat.stream()` take in the place of messages.

    Leaving the block of `ConversationStore.open()` without an error saves the decisions that were made on `messages`;
    leaving it with one saves nothing that was not saved before. A run saves them when it begins, too.
    """

    async def save(self) -> None:
        """Write what was decided, or pushed, on `messages` here, and merge what others wrote.

        While a run of somebody else is live, what waits may be decided; the run sees it with its next write.

        Raises:
            ConflictError: a call decided here was decided or run elsewhere, or a run is at it; or turns were added
                both here and there, or during a live run. Nothing was written; a call that was decided elsewhere is in
                `messages` as it stands there.
            LeaseLostError: what is not written came from a run that was overtaken. Open the conversation again.
            ConversationBusyError: a run on these messages is live here, and writes for itself.
        """
        ...

    async def history(self) -> list[HistoryEntry]:
        """Everything that ever happened to the conversation, oldest first, for an audit."""
        ...


@runtime_checkable
class ConversationStore(Protocol):
    """Where conversations rest, for any number of processes at the same time.

    Every write is durable when its method returns. Of two that contradict each other the first one holds, and the
    second one raises `ConflictError` and changes nothing; what does not contradict is merged, call by call.
    """

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
        """
        ...

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
        ...

    async def load(self, id: str) -> Snapshot:  # noqa: A002 - the field's own name
        """A conversation as it stands now. It is not claimed, and may change at once.

        Raises:
            UnknownConversationError: there is none.
        """
        ...

    async def save(self, id: str, messages: Messages, *, revision: int) -> Snapshot:  # noqa: A002
        """Write what was done to the messages of a snapshot, and return the conversation as it stands then.

        What others did since that revision is merged, call by call.

        Raises:
            ConflictError: a call decided here was decided or run elsewhere, or a run is at it; or turns were added
                both here and there, or during a live run. Nothing was written.
            UnknownConversationError: there is none.
            UsageError: the messages do not follow from this revision, or there is no such revision.
        """
        ...

    async def assign(self, id: str, person: str | None) -> None:  # noqa: A002 - the field's own name
        """Put a person in charge of a conversation.

        Raises:
            UnknownConversationError: there is none.
        """
        ...

    async def delete(self, id: str) -> None:  # noqa: A002 - the field's own name
        """Forget a conversation, with its history.

        Raises:
            ConflictError: a run on it is live.
            UnknownConversationError: there is none.
        """
        ...

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
        ...

    async def due(self, *, person: str | None = None, limit: int | None = None) -> list[Due]:
        """Every conversation that a run could go on with now, and that no live run is at; the oldest first.

        A run takes a conversation from this list, whatever it ends in, but for an error: then it is due again.
        """
        ...

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
        ...

    async def history(self, id: str) -> list[HistoryEntry]:  # noqa: A002 - the field's own name
        """Everything that ever happened to a conversation, oldest first: turns, calls, and who decided what.

        Raises:
            UnknownConversationError: there is none.
        """
        ...

    async def aclose(self) -> None:
        """Let go of the database. Open conversations are of no use any more; a live run counts as dead."""
        ...
