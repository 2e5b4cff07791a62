"""Interface between a tool pass and an inner chat, which is a chat used as a tool.

The tool pass runs the chat through this interface and receives its pauses, events and token usage.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, final

from typing_extensions import TypeVar

from chat_core.engine.checkpoint import Checkpoint
from chat_core.errors import InterruptedToolsError, PendingToolsError, PolicyError, ToolMissingError
from chat_core.messages import File, Messages
from chat_core.response import Paused
from chat_core.tools.chat_tools import SubchatDefinition
from chat_core.tools.context import ToolContext
from chat_core.tools.result import to_result
from chat_core.usage import Usage

if TYPE_CHECKING:
    from chat_core.observer import Observer

PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True)

OBSERVERS: Final[ContextVar[tuple[Observer, ...]]] = ContextVar("chat_core_observers", default=())
"""Observers of the run whose tool is executing. An inner chat uses them too."""


class InnerChat(SubchatDefinition):
    """Tool definition of an inner chat, with the methods that a tool pass calls."""

    __slots__ = ()

    @property
    def timeout(self) -> float | None:
        """Always `None`: the calls of the inner chat have the timeouts of their own tools."""
        return None

    @property
    def idempotent(self) -> bool:
        """Always `False`: an interrupted chat is resumed, not repeated."""
        return False

    @property
    def sequential(self) -> bool:
        """Always `False`: other calls may run at the same time."""
        return False

    @property
    def blocking(self) -> bool:
        """Always `False`: the chat runs in the event loop."""
        return False

    def result(self, value: object, /) -> tuple[object, tuple[File, ...]]:
        """Convert the output of the chat to JSON and a list of files. By default, the output is the response text.

        Raises:
            TypeError: the output cannot be converted.
        """
        return to_result(value)

    @abstractmethod
    def begin(self, arguments: Mapping[str, object], /) -> Messages:
        """Return the messages with which the chat starts. They contain the arguments of the tool call."""

    @abstractmethod
    async def run_inside(self, context: ToolContext, checkpoint: Checkpoint, /) -> object:
        """Run the chat, or resume it from its stored conversation, and return its output, pause, halt or failure.

        Args:
            context: context of the tool call.
            checkpoint: checkpoint of the inner conversation, which stores each step.
        """


@final
@dataclass(frozen=True, slots=True)
class InnerPause(Generic[PauseT_co]):
    """The result of an inner chat that paused. `messages` is the conversation of the inner chat."""

    pause: PauseT_co
    messages: Messages


@final
@dataclass(frozen=True, slots=True)
class InnerHalt:
    """The result of an inner chat that stopped because a call needs a decision or a missing tool.

    `messages` is the conversation of the inner chat.
    """

    error: PendingToolsError | InterruptedToolsError | PolicyError | ToolMissingError
    messages: Messages


@final
@dataclass(frozen=True, slots=True)
class InnerFailure:
    """The result of an inner chat that failed, with the text that the outer model receives.

    Attributes:
        text: description of the failure for the model.
        error: the exception, for observers.
    """

    text: str
    error: Exception


def prefix_error(
    error: PendingToolsError | InterruptedToolsError, tool_id: str
) -> PendingToolsError | InterruptedToolsError:
    """Convert an error of an inner chat to an error of the outer chat by prefixing the IDs of its calls.

    Args:
        error: the error of the inner chat.
        tool_id: ID of the tool call that runs the inner chat. It becomes the prefix of the IDs in the error.
    """
    ids = [f"{tool_id}/{inner}" for inner in error.tool_ids]
    return type(error)(f"in the chat of tool {tool_id!r}: {error}", ids)


@final
@dataclass(frozen=True, slots=True)
class InnerEvent:
    """An event of an inner chat that the outer chat delivers."""

    event: object


@final
@dataclass(frozen=True, slots=True)
class InnerUsage:
    """The token usage of an inner chat, reported when the inner chat ends for any reason."""

    usage: Usage
