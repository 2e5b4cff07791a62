"""The description of a stored conversation: its owner, its title, and whether it is closed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, TypeAlias, TypedDict, cast, final

from chat_core.json import dump_bytes, loads

ConversationState: TypeAlias = Literal["open", "closed"]


@final
@dataclass(frozen=True, slots=True)
class HistoryPosition:
    """A position in the history of a conversation. `history(after=...)` returns the events after it.

    Attributes:
        log: the name of the log. A redaction replaces the log by a new one, which has another name.
        number: the number of the last log entry before the position.
        fence: the number of runs that had begun.
    """

    log: str
    number: int = 0
    fence: int = 0


@final
@dataclass(frozen=True, slots=True)
class ConversationMeta:
    """The description of a stored conversation, without its messages.

    Attributes:
        id: the id of the conversation.
        owner: the user who owns the conversation. The owner is set when it is created, and never changes.
        person: the user in charge of deciding its waiting calls, if any.
        title: the title, if any.
        flow: the name of the flow that runs the conversation, if any.
        data: data of the application: a JSON object.
        created_at: time at which the conversation was stored. None if an early version of this library stored it.
        last_active: time at which a turn or a call state was last stored. None if an early version of this library
            stored it.
        closed_at: time at which the conversation was closed. None if it is open.
        cursor: the position in the list, for `conversations(after=...)`.
        position: the position after the last entry of its history. None in a list, and for a `FileConversation`.
    """

    id: str
    owner: str | None = None
    person: str | None = None
    title: str | None = None
    flow: str | None = None
    data: Mapping[str, object] = field(default_factory=dict[str, object])
    created_at: datetime | None = None
    last_active: datetime | None = None
    closed_at: datetime | None = None
    cursor: str = field(default="", compare=False, repr=False)
    position: HistoryPosition | None = field(default=None, compare=False, repr=False)

    @property
    def state(self) -> ConversationState:
        """Whether the conversation is `open` or `closed`."""
        return "open" if self.closed_at is None else "closed"


@final
class MetaChanges(TypedDict, total=False):
    """Changes to the description of a conversation. A missing key changes nothing.

    Attributes:
        title: the new title, or None to remove the title.
        flow: the new name of the flow, or None to remove the name.
        data: keys to set in the data of the application. The value None removes a key. Other keys do not change.
    """

    title: str | None
    flow: str | None
    data: Mapping[str, object]


@final
@dataclass(frozen=True, slots=True)
class StoredMeta:
    """The description of a conversation as a store keeps it.

    Attributes:
        owner: the user who owns the conversation, if any. The owner never changes.
        title: the title, if any.
        flow: the name of the flow that runs the conversation, if any.
        data: data of the application, as a JSON object.
        created_at: time at which the conversation was stored. None if a version without this column stored it.
        last_active: time at which a turn or a call state was last stored. None if a version without this column stored
            it.
        closed_at: time at which the conversation was closed, None if it is open.
    """

    owner: str | None = None
    title: str | None = None
    flow: str | None = None
    data: bytes = b"{}"
    created_at: datetime | None = None
    last_active: datetime | None = None
    closed_at: datetime | None = None

    def describe(self, id: str, person: str | None, cursor: str = "") -> ConversationMeta:
        """Return the description as the public class `ConversationMeta`.

        Args:
            id: the id of the conversation.
            person: the user in charge of the conversation.
            cursor: the position in the list of conversations.
        """
        data = cast("dict[str, object]", loads(self.data))
        times = (self.created_at, self.last_active, self.closed_at)
        return ConversationMeta(id, self.owner, person, self.title, self.flow, data, *times, cursor)

    def changed(self, changes: MetaChanges) -> StoredMeta:
        """Return a copy of the description with the changes applied.

        Raises:
            UsageError: the data is not a JSON object.
        """
        data = cast("dict[str, object]", loads(self.data)) | dict(changes.get("data", {}))
        return replace(
            self,
            title=changes.get("title", self.title),
            flow=changes.get("flow", self.flow),
            data=dump_bytes({key: value for key, value in data.items() if value is not None}),
        )
