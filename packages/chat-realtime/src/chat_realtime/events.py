"""Events of a talk, in addition to the events of a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Never, TypeAlias, final

from chat_core import ChatResponse, Done, Paused, ProgressEvent
from typing_extensions import TypeVar

OutT_co = TypeVar("OutT_co", covariant=True, default=ChatResponse)
PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True, default=Never)


@final
@dataclass(frozen=True, slots=True)
class ResponseInterrupted:
    """The response of the model was interrupted by new input or by `cancel()`. New input is sent in the next request.

    Attributes:
        text: text of the response that was delivered before the interruption. The history contains this text as a turn
            with the finish reason `"interrupted"`. If the text is empty, the history contains no such turn.
    """

    text: str


@final
@dataclass(frozen=True, slots=True)
class TalkCancelled:
    """The talk was cancelled. This is its last event."""


TalkEvent: TypeAlias = ProgressEvent | ResponseInterrupted | TalkCancelled | Done[OutT_co] | PauseT_co
"""Any event of a talk. `TalkEvent[ChatResponse, Never]` excludes `Paused`."""
