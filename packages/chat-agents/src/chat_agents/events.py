"""Events of an agent's run, for a front end. They contain no details of errors. Logs and observers contain the details.

A run yields any number of `Text`, `ToolStatus`, `Data` and `Error` events, at most one `Paused` (from chat-core), and
exactly one `Done`, which is last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, Never, TypeAlias, final

from chat_core import Paused, Usage
from typing_extensions import TypeVar

PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True, default=Never)

CallStatus: TypeAlias = Literal["calling", "waiting", "done", "error"]
ErrorCode: TypeAlias = Literal["llm_error", "stream_error", "tool_error", "max_tool_rounds", "internal"]
Outcome: TypeAlias = Literal["answered", "paused", "failed"]


@final
@dataclass(slots=True)
class Text:
    """The next piece of the model's text."""

    delta: str


@final
@dataclass(slots=True)
class ToolStatus:
    """Progress of a tool call. A run reports `calling` for each call, and then exactly one other status.

    Attributes:
        tool: name of the tool.
        call_id: id of the call in the conversation.
        status: `calling`, then `done`, `error` (failed, rejected, expired or cancelled), or `waiting` for a decision,
            a time or a result.
        label: what the model is doing, for display: the argument `doing` of the call if that is a string.
    """

    tool: str
    call_id: str
    status: CallStatus
    label: str | None = None


@final
@dataclass(slots=True)
class Data:
    """Data that a tool returned for the front end, and that models do not receive.

    Attributes:
        type: kind of the data, chosen by the application.
        payload: JSON value, or a `chat_core.File`.
    """

    type: str
    payload: object


@final
@dataclass(slots=True)
class Error:
    """Failure in a run, described by a fixed text that is safe to show.

    Attributes:
        code: kind of the failure. The run continues after `tool_error` and ends after any other code.
        message: text for the user.
    """

    code: ErrorCode
    message: str


@final
@dataclass(slots=True)
class Done:
    """Last event of every run.

    Attributes:
        session_id: id of the session.
        outcome: whether the model has answered, calls are waiting, or the run has failed.
        usage: tokens that this run used, including failed requests and summaries.
    """

    session_id: str
    outcome: Outcome
    usage: Usage


AgentEvent: TypeAlias = Text | ToolStatus | Data | Error | Done | PauseT_co
"""Any event of a run. `AgentEvent[Paused]` includes `chat_core.Paused`, and `AgentEvent[Never]` does not."""

TEXTS: Final[dict[ErrorCode, str]] = {
    "llm_error": "The assistant is temporarily unavailable. Please try again.",
    "stream_error": "The reply was interrupted. Please try again.",
    "tool_error": "The {tool} tool failed.",
    "max_tool_rounds": "Maximum tool calling rounds exceeded",
    "internal": "The assistant is temporarily unavailable. Please try again.",
}
"""Text of each error code."""


def error_event(code: ErrorCode, *, tool: str = "") -> Error:
    """Return the error event for an error code, with the fixed text of that code.

    Args:
        code: code of the error.
        tool: name of the tool, for `tool_error`.
    """
    return Error(code, TEXTS[code].format(tool=tool))
