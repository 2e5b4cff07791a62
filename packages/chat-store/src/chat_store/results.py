"""The values that the methods of a conversation store return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import final

from chat_core.messages import Messages, Turn
from chat_core.response import Wait


@final
@dataclass(frozen=True, slots=True)
class Snapshot:
    """A copy of a stored conversation at one revision.

    Attributes:
        id: the id of the conversation.
        messages: the messages. Pass them to `ConversationStore.save()` to store changes.
        revision: the number of durable changes so far. Pass it to `save()` with the messages.
        person: the user in charge of the conversation, if any.
        owner: the user who owns the conversation, if any.
        posted: the posted turns that no run has appended to the messages yet, by key, oldest first.
        running: whether the conversation had an active run.
    """

    id: str
    messages: Messages
    revision: int
    person: str | None = None
    owner: str | None = None
    posted: Mapping[str, Turn] = field(default_factory=dict[str, Turn])
    running: bool = False


@final
@dataclass(frozen=True, slots=True)
class Waiting:
    """A tool call that waits in a stored conversation.

    Attributes:
        conversation: the id of the conversation.
        person: the user in charge of the conversation, if any.
        wait: the reason and the deadline. `messages.tool(*wait.path)` is the call.
        cursor: the position in the list, for `waiting(after=...)`.
    """

    conversation: str
    person: str | None
    wait: Wait
    cursor: str = field(default="", compare=False, repr=False)


@final
@dataclass(frozen=True, slots=True)
class Due:
    """A conversation that a run can continue now.

    A conversation becomes due when a scheduled time is reached, an approval expires, a call is decided, a turn without
    a response is appended, a hook that runs after its answer raises, or the process of its run dies.

    Attributes:
        conversation: the id of the conversation.
        person: the user in charge of the conversation, if any.
        since: time at which the conversation became due.
        cursor: the position in the list, for `due(after=...)`.
    """

    conversation: str
    person: str | None
    since: datetime
    cursor: str = field(default="", compare=False, repr=False)


@final
@dataclass(frozen=True, slots=True)
class Changed:
    """A conversation that was changed or became due.

    Attributes:
        conversation: the id of the conversation.
        person: the user who is in charge of the conversation now, if any.
    """

    conversation: str
    person: str | None


@final
@dataclass(frozen=True, slots=True)
class Changes:
    """The conversations that have changed since a cursor, as returned by `ConversationStore.changes()`.

    Attributes:
        cursor: the cursor for the next call: a short text of letters, digits and `-:,`. It is valid in every process
            that uses the same database, and may be sent to a browser and back.
        conversations: each changed conversation once, in no particular order.
    """

    cursor: str
    conversations: tuple[Changed, ...] = ()
