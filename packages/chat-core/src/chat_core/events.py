"""Events of a stream: small dataclasses with positional fields for `match`. The last event is `Paused` or `Done`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Generic, Literal, Never, TypeAlias, final

from typing_extensions import TypeVar

from chat_core.deltas import FilePart, ReasoningDelta, StructuredPart, TextDelta, ToolCallDelta
from chat_core.event_json import JsonEvent
from chat_core.messages import Data, Tool
from chat_core.response import ChatResponse, Paused
from chat_core.usage import Usage

__all__ = [
    "AttemptReset",
    "Compacted",
    "Compacting",
    "Done",
    "FilePart",
    "NestedEvent",
    "ProgressEvent",
    "ReasoningDelta",
    "StepFinished",
    "StreamEvent",
    "StructuredDelta",
    "StructuredPart",
    "TextDelta",
    "ToolCall",
    "ToolCallDelta",
    "ToolData",
    "ToolProgress",
    "ToolResult",
    "ToolStarted",
    "event_schema",
]

ValueT_co = TypeVar("ValueT_co", covariant=True)
OutT_co = TypeVar("OutT_co", covariant=True, default=ChatResponse)
PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True, default=Never)


@final
@dataclass(slots=True)
class ToolCall(JsonEvent):
    """Complete tool call. Sent once for each call, after the response that contains it has ended successfully."""

    tool: Tool


@final
@dataclass(slots=True)
class ToolStarted(JsonEvent):
    """A tool function is about to start."""

    tool: Tool


@final
@dataclass(slots=True)
class ToolProgress(JsonEvent):
    """Progress that a running tool reported by `ToolContext.progress()`."""

    tool: Tool
    value: object


@final
@dataclass(slots=True)
class ToolData(JsonEvent):
    """Data for the application that a tool returned in `ToolOutput.data`, sent after the result is stored.

    Attributes:
        tool: the completed tool call. Its `ToolResult` follows.
        data: the data, with a payload of JSON types or a `File`.
    """

    tool: Tool
    data: Data


@final
@dataclass(slots=True)
class ToolResult(JsonEvent):
    """Tool call that this run resolved: completed, failed or rejected. Sent once for each call."""

    tool: Tool


@final
@dataclass(slots=True)
class StructuredDelta(JsonEvent):
    """Next piece of the text of a structured answer.

    Attributes:
        text: the new piece.
        text_so_far: list of all pieces so far. All deltas of the response share this list, and new pieces are appended.
        count: number of pieces up to and including this delta.
    """

    text: str
    text_so_far: list[str]
    count: int

    def snapshot(self) -> object:
        """Parse the incomplete JSON up to this delta, without validation. Each call parses the whole text.

        Returns:
            The parsed value, or `None` if the text is empty or not JSON.
        """
        from pydantic_core import from_json  # noqa: PLC0415 - on demand

        text = "".join(self.text_so_far[: self.count])
        if not text.strip():
            return None
        try:
            value: object = from_json(text, allow_partial="trailing-strings")
        except ValueError:
            return None
        return value


@final
@dataclass(slots=True)
class StepFinished(JsonEvent):
    """A model call of the run has ended successfully.

    Attributes:
        step: number of the model call in the run, from 1.
        usage: tokens used by this model call.
    """

    step: int
    usage: Usage


@final
@dataclass(slots=True)
class AttemptReset(JsonEvent):
    """The request of this step is sent again, so discard the deltas of this step received so far.

    Attributes:
        attempt: number of the new attempt.
        reason: error message of the previous attempt.
    """

    attempt: int
    reason: str


@final
@dataclass(slots=True)
class Compacting(JsonEvent):
    """A context policy has started to choose the contents of the next request.

    Attributes:
        tokens: number of tokens in the request before any reduction.
        exact: whether the provider has counted most of these tokens. If False, the number is an estimate.
    """

    tokens: int
    exact: bool


@final
@dataclass(slots=True)
class Compacted(JsonEvent):
    """A context policy has reduced the next request. The history keeps every turn.

    Attributes:
        kind: `"summary"` if a summary was stored, `"window"` if the rest of the run sends a shorter view.
        offset: index in the history of the first turn that is sent.
        turns_before: number of turns in the request before the reduction.
        turns_after: number of turns in the request after the reduction.
        tokens: estimated number of tokens in the request after the reduction.
    """

    kind: Literal["summary", "window"]
    offset: int
    turns_before: int
    turns_after: int
    tokens: int


@final
@dataclass(slots=True)
class NestedEvent(JsonEvent):
    """Event of a chat that is used as a tool.

    Attributes:
        path: ids of the tool calls that lead to the inner chat, outermost first.
        event: the event of the inner chat.
    """

    path: tuple[str, ...]
    event: object


@final
@dataclass(slots=True)
class Done(JsonEvent, Generic[ValueT_co]):
    """The run has completed."""

    response: ValueT_co


ProgressEvent: TypeAlias = (
    TextDelta
    | ReasoningDelta
    | ToolCallDelta
    | ToolCall
    | ToolStarted
    | ToolProgress
    | ToolData
    | ToolResult
    | StructuredDelta
    | FilePart
    | StructuredPart
    | StepFinished
    | AttemptReset
    | Compacting
    | Compacted
    | NestedEvent
)
"""Any event of a stream except the last one, `Paused` or `Done`."""

StreamEvent: TypeAlias = ProgressEvent | Done[OutT_co] | PauseT_co
"""Any event of a stream. `StreamEvent[ChatResponse, Never]` excludes `Paused`."""


def event_schema() -> dict[str, object]:
    """Return the JSON Schema (draft 2020-12) of the objects that `to_dict()` returns for events."""
    from importlib.resources import files  # noqa: PLC0415 - only this function needs it

    text = files("chat_core").joinpath("events.schema.json").read_text(encoding="utf-8")
    value: dict[str, object] = json.loads(text)
    return value
