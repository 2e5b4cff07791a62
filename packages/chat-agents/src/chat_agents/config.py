"""`AgentConfig`, the settings of an `AgentEngine`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import final

from chat_core import ChatOptions, ContextPolicy, RecallSource, Retry, UsageError
from chat_core.arguments import (
    argument_error,
    require_callable,
    require_items,
    require_type,
    require_whole,
)
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
        max_result_bytes: maximum size of the result or error of a tool, as text in UTF-8. A larger one is shortened to
            its beginning and its end, as `ChatBuilder.with_max_result_bytes()` describes. `None` stores results as
            they are.
        observers: observers of all runs.
        memory: memory whose notes the model receives before each new user message, as
            `ChatBuilder.with_memory()` describes. Delegated agents receive none. It needs `memory_scope`.
        memory_scope: function that returns the scope to search, such as `lambda context: context.owner`.

    Raises:
        UsageError: a value is not of the type of its attribute or out of its range, or there is a memory without a
            scope.
    """

    max_tool_rounds: int = 5
    closing_answer: bool = True
    context: ContextPolicy | None = None
    options: ChatOptions = field(default_factory=ChatOptions)
    retry: Retry = field(default_factory=Retry)
    tool_timeout: float | None = None
    max_result_bytes: int | None = 100 * 1024
    observers: tuple[Observer, ...] = ()
    memory: RecallSource | None = None
    memory_scope: ScopeFunction | None = None

    def __post_init__(self) -> None:
        require_whole("max_tool_rounds", self.max_tool_rounds, 0)
        require_type("closing_answer", self.closing_answer, bool, "True or False")
        if self.context is not None:
            require_callable("context", self.context, "a context policy, such as Window(messages=50), or None")
        require_type("options", self.options, ChatOptions, "ChatOptions, such as ChatOptions(temperature=0)")
        require_type("retry", self.retry, Retry, "a Retry, such as Retry(3)")
        _require_timeout(self.tool_timeout)
        if self.max_result_bytes is not None:
            require_whole("max_result_bytes", self.max_result_bytes, 1_000)
        require_items("observers", self.observers, Observer, "a tuple of observers, such as (LoggingObserver(),)")
        if self.retry.after_delivery:
            msg = "retry=Retry(after_delivery=True) would repeat text that the front end already shows: leave it False"
            raise UsageError(msg)
        self._require_memory()

    def _require_memory(self) -> None:
        if (self.memory is None) != (self.memory_scope is None):
            msg = (
                "memory and memory_scope belong together: pass both, such as memory_scope=lambda context: context.owner"
            )
            raise UsageError(msg)
        if self.memory is not None:
            require_type("memory", self.memory, RecallSource, "a memory with a method recall(), or None")
            scope = "a function of the run's context, such as lambda context: context.owner"
            require_callable("memory_scope", self.memory_scope, scope)


def _require_timeout(seconds: object) -> None:
    if seconds is not None and (
        not isinstance(seconds, (int, float)) or isinstance(seconds, bool) or not 0 < seconds < math.inf
    ):
        raise argument_error("tool_timeout", "a positive number of seconds, such as 30.0, or None", seconds)
