"""Interface between a tool pass and a chat used as a tool: how the pass runs the chat, and the values it reports."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, final

from typing_extensions import TypeVar

from chat_core.engine.checkpoint import Checkpoint
from chat_core.errors import InterruptedToolsError, PendingToolsError, PolicyError, ToolMissingError
from chat_core.messages import Messages
from chat_core.response import Paused
from chat_core.tools.chat_tools import SubchatDefinition
from chat_core.tools.context import ToolContext
from chat_core.usage import Usage

if TYPE_CHECKING:
    from chat_core.observer import Observer

PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True)

OBSERVERS: Final[ContextVar[tuple[Observer, ...]]] = ContextVar("chat_core_observers", default=())
"""Observers of the run whose tool is executing. A chat that runs as a tool uses them too."""


class InnerChat(SubchatDefinition):
    """Definition of a tool that is a chat, as a tool pass runs it."""

    __slots__ = ()

    @abstractmethod
    def begin(self, arguments: Mapping[str, object], /) -> Messages:
        """Return the conversation with which the chat begins."""

    @abstractmethod
    async def run_inside(self, context: ToolContext, checkpoint: Checkpoint, /) -> object:
        """Run the chat, or resume it where it stopped.

        Args:
            context: the call of the tool.
            checkpoint: the conversation of the chat, to which each step is written.
        """


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

    error: PendingToolsError | InterruptedToolsError | PolicyError | ToolMissingError
    messages: Messages


def prefix_error(
    error: PendingToolsError | InterruptedToolsError, tool_id: str
) -> PendingToolsError | InterruptedToolsError:
    """Return the error of an inner chat as one of the outer chat.

    Args:
        error: the error of the inner chat.
        tool_id: ID of the tool call, the prefix of the IDs in the error.
    """
    ids = [f"{tool_id}/{inner}" for inner in error.tool_ids]
    return type(error)(f"in the chat of tool {tool_id!r}: {error}", ids)


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
