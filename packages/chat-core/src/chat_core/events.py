"""The events of a stream: small, slotted, positional, made for `match`. `Paused` or `Done` is always the last one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Never, TypeAlias, final

from typing_extensions import TypeVar

from chat_core.response import ChatResponse, Paused
from chat_core.usage import Usage

if TYPE_CHECKING:
    from chat_core.messages import File, Tool

ValueT_co = TypeVar("ValueT_co", covariant=True)
OutT_co = TypeVar("OutT_co", covariant=True, default=ChatResponse)
PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True, default=Never)


@final
@dataclass(slots=True)
class TextDelta:
    """More text of the answer."""

    text: str


@final
@dataclass(slots=True)
class ReasoningDelta:
    """More of what the model thinks."""

    text: str


@final
@dataclass(slots=True)
class ToolCallDelta:
    """More text of a call's arguments.

    `index` tells the calls of one answer apart; `name` may come with the first only.
    """

    arguments: str
    index: int = 0
    name: str | None = None
    call_id: str | None = None


@final
@dataclass(slots=True)
class ToolCall:
    """A call, whole: once for each, when the answer that holds it has ended well."""

    tool: Tool


@final
@dataclass(slots=True)
class ToolStarted:
    """The body of a tool is about to start."""

    tool: Tool


@final
@dataclass(slots=True)
class ToolProgress:
    """What a tool said about itself while it ran, through `ToolContext.progress()`."""

    tool: Tool
    value: object


@final
@dataclass(slots=True)
class ToolResult:
    """A tool that this run resolved: completed, failed or rejected. Once for each."""

    tool: Tool


@final
@dataclass(slots=True)
class StructuredDelta:
    """More text of a structured answer. `snapshot()` parses what has come so far."""

    text: str
    so_far: list[str]
    count: int

    def snapshot(self) -> object:
        """The partial JSON at this moment, not validated; `None` before there is any. Costs a parse of the text.

        Text that can be no JSON gives `None`, too.
        """
        from pydantic_core import from_json  # noqa: PLC0415 - on demand

        text = "".join(self.so_far[: self.count])
        if not text.strip():
            return None
        try:
            value: object = from_json(text, allow_partial="trailing-strings")
        except ValueError:
            return None
        return value


@final
@dataclass(slots=True)
class FilePart:
    """A file in the answer."""

    file: File


@final
@dataclass(slots=True)
class StepFinished:
    """A provider call of the run has ended well. `usage` is that step's; `step` counts from 1."""

    step: int
    usage: Usage


@final
@dataclass(slots=True)
class AttemptReset:
    """What this step has delivered so far is void: the call begins again as attempt `attempt`."""

    attempt: int
    reason: str


@final
@dataclass(slots=True)
class NestedEvent:
    """An event of a chat that is a tool of this one. `path` leads to the tool."""

    path: tuple[str, ...]
    event: object


@final
@dataclass(slots=True)
class Done(Generic[ValueT_co]):
    """The run has its answer."""

    response: ValueT_co


ProgressEvent: TypeAlias = (
    TextDelta
    | ReasoningDelta
    | ToolCallDelta
    | ToolCall
    | ToolStarted
    | ToolProgress
    | ToolResult
    | StructuredDelta
    | FilePart
    | StepFinished
    | AttemptReset
    | NestedEvent
)
"""Every event but the last."""

StreamEvent: TypeAlias = ProgressEvent | Done[OutT_co] | PauseT_co
"""An event of a stream. `StreamEvent[ChatResponse, Never]` has no `Paused` in it."""
