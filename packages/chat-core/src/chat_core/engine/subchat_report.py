"""Values that a chat used as a tool reports to the tool pass that runs it."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, final

from typing_extensions import TypeVar

from chat_core.errors import InterruptedToolsError, PendingToolsError
from chat_core.messages import Messages
from chat_core.response import Paused
from chat_core.usage import Usage

if TYPE_CHECKING:
    from chat_core.observer import Observer

PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True)

OBSERVERS: Final[ContextVar[tuple[Observer, ...]]] = ContextVar("chat_core_observers", default=())
"""In a tool's body, those of the run that the tool is of: a chat that it is has them, too."""


@final
@dataclass(frozen=True, slots=True)
class InnerPause(Generic[PauseT_co]):
    """The chat has paused: `messages` is its conversation."""

    pause: PauseT_co
    messages: Messages


@final
@dataclass(frozen=True, slots=True)
class InnerHalt:
    """The chat cannot go on until somebody decides, and cannot wait for it: `messages` is its conversation."""

    error: PendingToolsError | InterruptedToolsError
    messages: Messages

    def prefixed(self, tool_id: str) -> PendingToolsError | InterruptedToolsError:
        """The error as the chat outside raises it; its ids are paths."""
        ids = [f"{tool_id}/{inner}" for inner in self.error.tool_ids]
        return type(self.error)(f"in the chat that the tool {tool_id!r} is: {self.error}", ids)


@final
@dataclass(frozen=True, slots=True)
class InnerEvent:
    """An event of the chat, on its way to the consumer of the chat outside."""

    event: object


@final
@dataclass(frozen=True, slots=True)
class InnerUsage:
    """What the chat has cost when it is over, in whatever way."""

    usage: Usage
