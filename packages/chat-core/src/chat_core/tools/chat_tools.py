"""The tools of a chat and the scopes that decide about their calls, for everything that reads them: `chat.tools`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Generic, final

from typing_extensions import TypeVar

from chat_core.clock import utc_clock
from chat_core.response import Paused
from chat_core.tools.action import Action
from chat_core.tools.definition import ToolDefinition, ToolScope

PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True, default=Paused)


@final
class ChatTools(Generic[PauseT_co]):
    """The tools of a chat and what decides about their calls. Immutable.

    Attributes:
        scopes: the scopes, in the order in which they were added to the builder.
        interrupted: the action for interrupted calls, `None` where a run raises `InterruptedToolsError`.
        now: the clock by which waits expire and schedules fall due, in UTC.
        owners: each tool's definition and scope by the tool's name, in the order of registration.
    """

    __slots__ = ("interrupted", "now", "owners", "scopes")

    def __init__(
        self,
        scopes: Sequence[ToolScope[PauseT_co]],
        interrupted: Action[PauseT_co] | None,
        now: Callable[[], datetime],
    ) -> None:
        """Gather the tools of `scopes`, whose names are unique: `require_unique_names()` checks that."""
        self.scopes: tuple[ToolScope[PauseT_co], ...] = tuple(scopes)
        self.interrupted: Action[PauseT_co] | None = interrupted
        self.now: Callable[[], datetime] = utc_clock(now)
        self.owners: dict[str, tuple[ToolDefinition, ToolScope[PauseT_co]]] = {
            definition.declaration.name: (definition, scope) for scope in scopes for definition in scope.definitions()
        }

    def __repr__(self) -> str:
        return f"ChatTools({', '.join(self.owners)})"

    def names(self) -> tuple[str, ...]:
        """Return the names of the tools, in the order of registration."""
        return tuple(self.owners)

    def definition(self, name: str, *path: str) -> ToolDefinition | None:
        """Return the definition of a tool, or None if the chat has no tool of this name.

        Further names lead into chats that are tools: `definition("ask_bank", "transfer")`.
        """
        definition, _ = self.owners.get(name, (None, None))
        if not path:
            return definition
        return definition.tools.definition(*path) if isinstance(definition, SubchatDefinition) else None


class SubchatDefinition(ABC):
    """A `ToolDefinition` that is a chat: it can resume a conversation in which it paused."""

    __slots__ = ()

    @property
    @abstractmethod
    def tools(self) -> ChatTools[Paused]:
        """The tools of the chat."""
