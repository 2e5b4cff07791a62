"""`ToolContext`, the information about a call that a tool function receives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from chat_core.frozen import mutable_twin
from chat_core.messages import Content, Messages  # circular: see FunctionCall.context
from chat_core.messages.state import NO_STATE
from chat_core.run_context import NO_RUN, RunContext


def _ignore_progress(_value: object, /) -> None: ...


def _no_state() -> Mapping[str, object]:
    return NO_STATE


@final
@dataclass(frozen=True, slots=True)
class ToolContext:
    """Information about a tool call for the tool function.

    A tool receives the context in a parameter annotated `ToolContext`, which is hidden from the model.

    Attributes:
        tool_id: id of the tool call in the conversation, equal to `tool.id`. The provider's id is `tool.call_id`.
        attempt: number of the attempt, from 1.
        idempotency_key: key that is the same for every attempt of the call, for services that deduplicate requests.
        messages: contents of the conversation before the call, oldest first; read-only.
        run: information about the current run, such as its conversation, owner and values.
        report: function that receives the values passed to `progress()`.
        inner: for a chat used as a tool, its conversation when it paused.
        state: state of the conversation at the beginning of the turn that made the call; read-only. It does not depend
            on the other calls of the turn. `ToolOutput.state` changes it for later turns.
    """

    tool_id: str
    attempt: int = 1
    idempotency_key: str = ""
    messages: Sequence[Content] = ()
    run: RunContext = NO_RUN
    report: Callable[[object], None] = field(default=_ignore_progress, repr=False)
    inner: Messages | None = field(default=None, repr=False)
    state: Mapping[str, object] = field(default_factory=_no_state, repr=False)

    def progress(self, value: object, /) -> None:
        """Send a `ToolProgress` event to the consumer of the stream. Never blocks; may be called in any thread."""
        self.report(value)


_ContextTwin = mutable_twin(ToolContext)


def new_context(  # noqa: PLR0917 - as many as a context has
    tool_id: str,
    attempt: int,
    idempotency_key: str,
    messages: Sequence[Content],
    run: RunContext,
    report: Callable[[object], None],
    inner: Messages | None,
    state: Mapping[str, object],
) -> ToolContext:
    """Create a `ToolContext` faster than its constructor does.

    Args:
        tool_id: id of the tool call.
        attempt: number of the attempt, from 1.
        idempotency_key: key that is the same for every attempt.
        messages: contents of the conversation before the call.
        run: information about the current run.
        report: function that receives the values passed to `progress()`.
        inner: for a chat used as a tool, its conversation.
        state: state of the conversation before the turn that made the call.
    """
    instance: Any = _ContextTwin()
    instance.tool_id = tool_id
    instance.attempt = attempt
    instance.idempotency_key = idempotency_key
    instance.messages = messages
    instance.run = run
    instance.report = report
    instance.inner = inner
    instance.state = state
    instance.__class__ = ToolContext
    context: ToolContext = instance
    return context
