"""What an observer is told: of runs, model calls, tools, and the waits between them.

An observer sees each of them begin, and gets it again when it is over, with everything that is known by then. It
changes nothing: what it raises is logged, and the run goes on. Without one, none of this is paid for.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, final, runtime_checkable

from chat_core.usage import NO_USAGE, Usage

if TYPE_CHECKING:
    from chat_core.errors import ChatError
    from chat_core.messages import Messages, Tool, Turn
    from chat_core.options import ChatOptions
    from chat_core.provider import ProviderMeta, ToolDeclaration, ToolDeclarations
    from chat_core.response import Paused, WaitKind

RunOutcome: TypeAlias = Literal["open", "answered", "paused", "left", "cancelled", "failed"]
"""How a run ended: it goes on; with an answer; at a pause; its stream was left before; it was cancelled; it raised."""

WaitOutcome: TypeAlias = Literal[
    "approved", "rejected", "expired", "cancelled", "due", "retried", "completed", "failed"
]
"""What ended a wait: a person's word, the end of its terms, a cancellation, its time; of an interrupted call also what
a person said of it."""


@final
@dataclass(slots=True, eq=False)
class RunRecord:
    """One run of a chat.

    Attributes:
        messages: the conversation. Read only.
        provider: the model that is asked.
        streamed: whether it was begun by `stream()`.
        conversation_id: where the conversation is stored, `None` where it is not.
        name: of the tool that the chat is, in a chat outside.
        goes_on: whether it began with calls that an earlier run had left.
        outcome: how it ended.
        pause: what must be waited for, where it paused.
        finish_reason: why the model stopped, where it answered.
        error: what it raised.
        steps: how many times the model was asked; a call that was tried again counts once.
        usage: what it cost, once it is over.
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
    """One question to a model, with all its attempts: of a run, or for vectors.

    Attributes:
        operation: `chat`, or `embeddings`.
        provider: the model that is asked.
        streamed: whether the answer comes bit by bit.
        options: what is asked of it beside the conversation.
        run: the run that it is of; `None` for vectors.
        tools: what the model is told of.
        structured: whether the answer must be of a schema.
        failures: what each attempt that failed was ended by, the last one included where none followed.
        first_after: seconds until the first batch of a stream, counted from the first attempt.
        turn: the answer; `None` where there was none, and for vectors.
        model: the model that answered, as it said.
        error: what the call raised, for good.
        usage: what all attempts cost, once it is over.
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
    """One execution of a tool's body. Calls that never run have none.

    Attributes:
        tool: the call. When the execution is over its status says what became of it; that of one that was cancelled is
            `Running` still.
        run: the run that it is of.
        declaration: the tool, as the model is told of it.
        attempt: counts from 1.
        error: what the body raised, or a `TimeoutError` where it did not end in time; the model is told.
    """

    tool: Tool
    run: RunRecord
    declaration: ToolDeclaration
    attempt: int = 1
    error: BaseException | None = None


@final
@dataclass(frozen=True, slots=True, eq=False)
class WaitRecord:
    """A wait that is over, as the first run that goes on behind it finds it.

    Attributes:
        tool: the call.
        run: the run that found it.
        kind: what was waited for.
        outcome: what ended it.
        asked_at: when the wait began: with the turn in which the model made the call.
        ended_at: when it was decided, expired or came due.
        edited: whether somebody put other arguments in place of the model's.
    """

    tool: Tool
    run: RunRecord
    kind: WaitKind
    outcome: WaitOutcome
    asked_at: datetime
    ended_at: datetime
    edited: bool = False


class Observation(Protocol):
    """What an observer keeps of something from its beginning to its end."""

    def inside(self) -> AbstractContextManager[object]:
        """A context around each step of it: what it sets in context variables, the code below finds.

        It is entered and left often, in whatever task does the step, and never open while a consumer reads. Around a
        tool it is entered once, and its body runs inside, in a thread, too.
        """
        ...

    def end(self) -> None:
        """It is over, and its record complete. Called once, whatever happened."""
        ...


@runtime_checkable
class Observer(Protocol):
    """What `with_observer()` takes. Each method is called when something begins, with what is known of it by then."""

    def run(self, record: RunRecord, /) -> Observation:
        """A run begins."""
        ...

    def model_call(self, record: CallRecord, /) -> Observation:
        """A model is asked."""
        ...

    def tool(self, record: ToolRecord, /) -> Observation:
        """A tool's body is about to run; that it starts is durable already."""
        ...

    def decided(self, record: WaitRecord, /) -> None:
        """A wait is over. Called once for each, before the tool runs or the model is told."""
        ...
