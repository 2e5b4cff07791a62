"""Observer protocols and the records of runs, model calls, tool executions and waits.

The engine passes a record to the observer when an operation starts, and fills in the remaining attributes until the
operation ends. An observer cannot change the run: exceptions that it raises are logged, and the run continues. Without
observers, no records are created.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol, TypeAlias, final, runtime_checkable

from chat_core.errors import ChatError
from chat_core.messages import Messages, Tool, Turn
from chat_core.options import ChatOptions
from chat_core.provider import ProviderMeta, ToolDeclaration, ToolDeclarations
from chat_core.response import Paused, WaitKind
from chat_core.usage import NO_USAGE, Usage

RunOutcome: TypeAlias = Literal["open", "answered", "paused", "left", "cancelled", "failed"]
"""The outcome of a run: still open, answered, paused, stream closed early (`left`), cancelled, or failed."""

WaitOutcome: TypeAlias = Literal[
    "approved", "rejected", "expired", "cancelled", "due", "retried", "completed", "failed"
]
"""The reason that a wait ended: an approver's decision, an expiry, a cancellation, or the scheduled time. An
interrupted call can also be retried, or recorded as completed or failed.
"""


@final
@dataclass(slots=True, eq=False)
class RunRecord:
    """Record of one run of a chat.

    Attributes:
        messages: the conversation. Read only.
        provider: metadata of the model.
        streamed: whether `stream()` started the run.
        conversation_id: ID of the stored conversation, or `None` if it is not stored.
        name: tool name of the chat, if the chat runs as a tool of another chat.
        goes_on: whether the run continues an earlier run, such as after a pause or a crash.
        outcome: outcome of the run.
        pause: the pause, if the run paused.
        finish_reason: the model's finish reason, if the run was answered.
        error: the exception that the run raised.
        steps: number of model calls. Retries are not counted.
        usage: token usage, set when the run ends.
    """

    messages: Messages
    provider: ProviderMeta
    streamed: bool
    conversation_id: str | None = None
    name: str | None = None
    goes_on: bool = False
    outcome: RunOutcome = "open"
    pause: Paused | None = None
    finish_reason: str | None = None
    error: BaseException | None = None
    steps: int = 0
    usage: Usage = NO_USAGE


@final
@dataclass(slots=True, eq=False)
class CallRecord:
    """Record of one model call, including all attempts: a step of a run, or an embeddings request.

    Attributes:
        operation: `chat` or `embeddings`.
        provider: metadata of the model.
        streamed: whether the response is streamed.
        options: settings of the request, such as `temperature`.
        run: the run that sent the request, or `None` for embeddings.
        tools: tools declared to the model.
        structured: whether the request includes an output schema.
        failures: the errors of failed attempts, including the last attempt if it failed.
        first_after: seconds from the start of the first attempt to the first batch of a stream.
        turn: the response, or `None` if the call failed or is for embeddings.
        model: the model name reported by the provider.
        error: the exception that the call raised after all attempts.
        usage: token usage of all attempts, set when the call ends.
    """

    operation: Literal["chat", "embeddings"]
    provider: ProviderMeta
    streamed: bool
    options: ChatOptions
    run: RunRecord | None = None
    tools: ToolDeclarations | None = None
    structured: bool = False
    failures: list[ChatError] = field(default_factory=list["ChatError"])
    first_after: float | None = None
    turn: Turn | None = None
    model: str | None = None
    error: BaseException | None = None
    usage: Usage = NO_USAGE


@final
@dataclass(slots=True, eq=False)
class ToolRecord:
    """Record of one execution of a tool function. Calls that never run have no record.

    Attributes:
        tool: the tool call. Its status contains the result when the execution ends. If the execution was cancelled, the
            status is still `Running`.
        run: the run that executes the tool.
        declaration: the tool as declared to the model.
        attempt: number of the execution, starting at 1.
        error: the exception that the function raised, or a `TimeoutError`. The model receives its message.
    """

    tool: Tool
    run: RunRecord
    declaration: ToolDeclaration
    attempt: int = 1
    error: BaseException | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class WaitRecord:
    """Record of a finished wait, created by the first run that resumes after the wait.

    Attributes:
        tool: the tool call.
        run: the run that resumed.
        kind: kind of the wait, such as an approval.
        outcome: reason for the end of the wait.
        asked_at: start of the wait, which is the time of the turn in which the model made the call.
        ended_at: time of the decision, the expiry or the scheduled time.
        edited: whether an approver replaced the model's arguments.
    """

    tool: Tool
    run: RunRecord
    kind: WaitKind
    outcome: WaitOutcome
    asked_at: datetime
    ended_at: datetime
    edited: bool = False


class Observation(Protocol):
    """Protocol for an object that holds the state of an observer for one operation, from its start to its end."""

    def inside(self) -> AbstractContextManager[object]:
        """Return a context manager that surrounds each step of the operation.

        Code inside sees the context variables that the context manager sets. For runs and model calls, the context
        is entered and exited many times, in the task of each step, and is never open while a consumer reads. For a
        tool, the context is entered once around the tool function, even if the function runs in a thread.
        """
        ...

    def end(self) -> None:
        """Finish the observation. Called exactly once, after the record is complete."""
        ...


@runtime_checkable
class WarningObserver(Protocol):
    """Observer that also receives warnings of a run, such as a failed summary."""

    def warning(self, record: RunRecord, message: str, /) -> None:
        """Handle a warning. The run continues.

        Args:
            record: the run.
            message: the text of the warning, written for developers.
        """
        ...


@runtime_checkable
class Observer(Protocol):
    """Object that observes the operations of a chat, see `ChatBuilder.with_observer()`.

    `run()`, `model_call()` and `tool()` are called when an operation starts, and `decided()` when a wait has ended.
    """

    def run(self, record: RunRecord, /) -> Observation:
        """Return the `Observation` of a run that is starting."""
        ...

    def model_call(self, record: CallRecord, /) -> Observation:
        """Return the `Observation` of a model call that is starting."""
        ...

    def tool(self, record: ToolRecord, /) -> Observation:
        """Return the `Observation` of a tool execution that is starting. Its start is already stored."""
        ...

    def decided(self, record: WaitRecord, /) -> None:
        """Handle the end of a wait. Called once per wait, before the tool runs or the model receives the outcome."""
        ...
