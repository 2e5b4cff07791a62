"""`AgentConfig`, the settings of an `AgentEngine`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast, final

from chat_core import ChatOptions, ContextPolicy, RecallSource, Retry, UsageError
from chat_core.observer import Observer
from chat_core.recall import ScopeFunction


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """Settings of an agent engine.

    Attributes:
        max_tool_rounds: maximum number of responses with tool calls after a user message, counted across pauses.
            The calls of further responses do not run; with 0, no call runs.
        closing_answer: whether the model is asked for an answer without tools after the last round. If not, the run
            ends without an answer.
        context: policy that keeps long conversations within a limit, such as `Summarize(model, at=…, keep=…)`, or
            `Window(messages=50)` to count messages.
        options: options of each model request.
        retry: how failed model requests are retried. A request is not retried after the first text of its response.
        tool_timeout: timeout in seconds of tools that declare none.
        observers: observers of all runs.
        memory: memory whose notes the model receives before each new user message, as
            `ChatBuilder.with_memory()` describes. Delegated agents receive none. It needs `memory_scope`.
        memory_scope: function that returns the scope to search, such as `lambda context: context.owner`.

    Raises:
        UsageError: `max_tool_rounds` is not a non-negative integer, or there is a memory without a scope.
    """

    max_tool_rounds: int = 5
    closing_answer: bool = True
    context: ContextPolicy | None = None
    options: ChatOptions = field(default_factory=ChatOptions)
    retry: Retry = field(default_factory=Retry)
    tool_timeout: float | None = None
    observers: tuple[Observer, ...] = ()
    memory: RecallSource | None = None
    memory_scope: ScopeFunction | None = None

    def __post_init__(self) -> None:
        rounds = cast("object", self.max_tool_rounds)
        if not isinstance(rounds, int) or isinstance(rounds, bool) or rounds < 0:
            msg = f"max_tool_rounds must be a whole number of at least 0, not {rounds!r}"
            raise UsageError(msg)
        if self.retry.after_delivery:
            msg = "retry=Retry(after_delivery=True) would repeat text that the front end already shows: leave it False"
            raise UsageError(msg)
        if (self.memory is None) != (self.memory_scope is None):
            msg = (
                "memory and memory_scope belong together: pass both, such as memory_scope=lambda context: context.owner"
            )
            raise UsageError(msg)
