"""The configuration of a chat, collected by the builder and read by every run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeAlias, final

from typing_extensions import TypeVar

from chat_core.clock import utc_now
from chat_core.context import ContextPolicy
from chat_core.engine.retry import Retry
from chat_core.engine.subchat_report import InnerChat
from chat_core.messages import Messages
from chat_core.middleware import Middleware
from chat_core.observer import Observer
from chat_core.options import ChatOptions
from chat_core.output import OutputSpec
from chat_core.provider import MAX_CALLS, CompletionProvider, ToolDeclarations
from chat_core.recall import RecallSettings
from chat_core.response import ChatResponse, Delivery, Paused
from chat_core.run_context import RunContext, ValueFactory
from chat_core.tools.action import Action
from chat_core.tools.chat_tools import ChatTools, GrantRule
from chat_core.tools.definition import ToolScope
from chat_core.tools.result import MAX_KEPT_DATA

OutT_co = TypeVar("OutT_co", covariant=True, default=ChatResponse)
PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True, default=Paused)

Hook: TypeAlias = Callable[[Messages], Awaitable[None] | None]
"""A function called with the conversation before a run. If it raises, the run fails with that exception."""
AfterHook: TypeAlias = Callable[[Messages, Delivery], Awaitable[None] | None]
"""A function called with the conversation and its final response. If it raises, the run fails with that exception."""

InstructionFunction: TypeAlias = Callable[[RunContext], str | Awaitable[str]]
"""A function that returns instructions for a run. If it raises, the run fails with that exception."""


@final
@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a chat, apart from its model, its output type and its tools.

    Attributes:
        options: default options of each model request.
        max_steps: maximum number of model calls of a run, including corrections.
        max_calls: maximum number of tool calls in one response.
        corrections: maximum number of invalid structured responses sent back to the model.
        concurrency: maximum number of tools that run at the same time.
        max_kept_data: maximum size of the kept data of one tool call, in bytes of JSON.
        max_result_bytes: maximum size of the result of a tool as text in UTF-8; `None` for no limit.
        tool_timeout: timeout in seconds of tools that declare none; `None` for no timeout.
        retry: retry policy of provider calls.
        context: policy that chooses which part of a long conversation a request contains.
        recall: memory that adds notes before the model answers a user message; `None` for no memory.
        before: hooks called before the first model call of a run.
        after: hooks called after the final response of a run.
        instructions: texts, and functions called at the start of each run.
        factories: factories of values, by the type of the value.
        middleware: middleware for provider calls, outermost first.
        observers: observers of the runs.
        grant_rule: rule that each grant must satisfy for each call.
        now: function that returns the current time, to check expiry times and schedules.
    """

    options: ChatOptions = field(default_factory=ChatOptions)
    max_steps: int = 16
    max_calls: int = MAX_CALLS
    corrections: int = 1
    concurrency: int = 8
    max_kept_data: int = MAX_KEPT_DATA
    max_result_bytes: int | None = None
    tool_timeout: float | None = None
    retry: Retry = field(default_factory=Retry)
    context: ContextPolicy | None = None
    recall: RecallSettings | None = None
    before: tuple[Hook, ...] = ()
    after: tuple[AfterHook, ...] = ()
    instructions: tuple[str | InstructionFunction, ...] = ()
    factories: Mapping[Any, ValueFactory[Any]] = field(default_factory=dict[Any, ValueFactory[Any]])
    middleware: tuple[Middleware, ...] = ()
    observers: tuple[Observer, ...] = ()
    grant_rule: GrantRule | None = None
    now: Callable[[], datetime] = utc_now


@final
class ChatPlan(Generic[OutT_co, PauseT_co]):
    """The immutable configuration of a chat, shared by all its runs."""

    __slots__ = ("_own_tools", "declarations", "inner_chats", "model", "output", "settings", "tools", "wrapped_model")

    def __init__(
        self,
        model: CompletionProvider,
        output: OutputSpec[OutT_co],
        scopes: tuple[ToolScope[PauseT_co], ...],
        interrupted: Action[PauseT_co] | None,
        settings: Settings,
    ) -> None:
        """Create the plan. The caller must have checked that tool names are unique across all scopes."""
        self.model: CompletionProvider = model
        self.wrapped_model: CompletionProvider = model
        if settings.middleware:
            from chat_core.engine.wrapped_model import WrappedModel  # noqa: PLC0415 - most chats have no middleware

            self.wrapped_model = WrappedModel(model, settings.middleware)
        self.output: OutputSpec[OutT_co] = output
        self.settings: Settings = settings
        self.tools: ChatTools[PauseT_co] = ChatTools(
            scopes, interrupted, settings.now, settings.factories, settings.grant_rule
        )
        definitions = {name: definition for name, (definition, _) in self.tools.owners.items()}
        # The check is slow for a class with abstract methods, and each call needs its result.
        self.inner_chats: Mapping[str, InnerChat] = {
            name: definition for name, definition in definitions.items() if isinstance(definition, InnerChat)
        }
        declarations = [definition.declaration for definition in definitions.values()]
        self._own_tools: ChatTools[PauseT_co] = self.tools
        self.declarations: ToolDeclarations = ToolDeclarations(declarations).declared

    def for_messages(self, messages: Messages) -> ChatPlan[OutT_co, PauseT_co]:
        """Return a plan with the chat's own tools and the client tools that the last user turn declares.

        Return this plan itself if it has no client tools and none are declared.

        Args:
            messages: the conversation.

        Raises:
            UsageError: the client tools conflict with the chat.
        """
        tools = self._own_tools.for_messages(messages)
        if tools is self.tools:
            return self
        plan = ChatPlan(self.model, self.output, tools.scopes, tools.interrupted, self.settings)
        plan._own_tools = self._own_tools
        return plan

    def require_values(self, injected: Mapping[Any, object], tool: str | None = None) -> None:
        """Check that the values passed to a run match the injected parameters of the tools.

        Args:
            injected: values passed to the run, by type.
            tool: name of the only tool that the run calls, or `None` for a run that may call any tool.

        Raises:
            UsageError: a tool needs a value that is missing and has no factory, or a value has another type.
        """
        from chat_core.engine.values import require_values  # noqa: PLC0415 - most chats have no values

        required = self.tools.required
        if tool is not None:
            required = tuple([item for item in required if item[0] == tool or item[0].startswith(f"{tool}/")])
        require_values(required, injected)


def describe(chat: object, model: object = None, output: OutputSpec[object] | None = None, *tools: str) -> str:
    """Return the `repr` of the chat or builder `chat`, with its `model`, `output` type and `tools`."""
    meta = getattr(model, "metadata", None)
    schema = None if output is None else output.schema
    parts = [
        "" if meta is None else f" model={meta.name}/{meta.model}",
        "" if schema is None else f" output={schema.name}",
        f" tools={', '.join(tools)}" if tools else "",
    ]
    return f"<{type(chat).__name__}{''.join(parts)}>"
