"""Values that a chat used as a tool reports to the tool pass that runs it."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, final

from typing_extensions import TypeVar

from chat_core.errors import InterruptedToolsError, PendingToolsError, PolicyError
from chat_core.messages import Messages
from chat_core.response import Paused
from chat_core.usage import Usage

if TYPE_CHECKING:
    from chat_core.observer import Observer

PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True)

OBSERVERS: Final[ContextVar[tuple[Observer, ...]]] = ContextVar("chat_core_observers", default=())
"""Observers of the run whose tool is executing. A chat that runs as a tool uses them too."""


@final
@dataclass(frozen=True, slots=True)
class InnerPause(Generic[PauseT_co]):
    """The inner chat paused. `messages` is its conversation."""

    pause: PauseT_co
    messages: Messages


@final
@dataclass(frozen=True, slots=True)
class InnerHalt:
    """The inner chat needs a decision that it cannot wait for. `messages` is its conversation."""

    error: PendingToolsError | InterruptedToolsError | PolicyError
    messages: Messages

    def prefixed(self, tool_id: str) -> PendingToolsError | InterruptedToolsError | PolicyError:
        """Return the error for the outer chat, with IDs prefixed by the ID of the tool."""
        ids = [f"{tool_id}/{inner}" for inner in self.error.tool_ids]
        return type(self.error)(f"in the chat of tool {tool_id!r}: {self.error}", ids)


@final
@dataclass(frozen=True, slots=True)
class InnerEvent:
    """An event of the inner chat, to be delivered by the outer chat."""

    event: object


@final
@dataclass(frozen=True, slots=True)
class InnerUsage:
    """Token usage of the inner chat, reported when it ends for any reason."""

    usage: Usage
