"""Builders of chats. The type of a builder records which methods are available and what its chat can return.

    ChatBuilder ── with_model() ──> ReadyChatBuilder ── build() ──> Chat or StreamingChat
                                    └── with_embeddings() ──> EmbeddingsBuilder ── build() ──> EmbeddingsChat

A chat has two type parameters. `OutT` is the type of the output and comes from the `OutputSpec` that decodes the
response. `PauseT` is `Paused` or `Never` and comes from the actions that can pause a run. Builders are immutable,
because a method that changed `self` would leave existing variables with a wrong static type.

Four choices work around limits of type checkers:

- `self` is annotated with concrete protocols. mypy does not check the bound of a type variable in that position.
- Methods that annotate `self` use separate type variables. pyrefly replaces those of the class by their defaults.
- A parameter that can add a pause type is a union with `Nothing`.
- Invalid methods are absent. They are not declared to return `Never`.

Calls that the types forbid also raise an error at run time.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Never, NoReturn, Self, final, overload

from typing_extensions import TypeForm, TypeVar

from chat_core._checks import (
    Nothing,
    require,
    require_action,
    require_clock,
    require_factory,
    require_hook,
    require_instructions,
    require_memory,
    require_middleware,
    require_model,
    require_number,
    require_observer,
    require_options,
    require_rule,
    require_scope,
)
from chat_core.chat import Chat, EmbeddingsChat, StreamingChat
from chat_core.context import ContextPolicy
from chat_core.engine.plan import AfterHook, ChatPlan, Hook, InstructionFunction, Settings, describe
from chat_core.engine.retry import Retry
from chat_core.errors import UsageError
from chat_core.middleware import Middleware
from chat_core.observer import Observer
from chat_core.options import ChatOptions
from chat_core.output import OutputSpec, StructuredOutput, TextOutput
from chat_core.provider import ChatProvider, CompletionProvider, EmbeddingsProvider
from chat_core.recall import RecallSettings, RecallSource, ScopeFunction
from chat_core.response import ChatResponse, Paused, StructuredResponse
from chat_core.run_context import ValueFactory
from chat_core.tools.action import Action, Withhold
from chat_core.tools.chat_tools import GrantRule
from chat_core.tools.collection import ToolCollection
from chat_core.tools.definition import ToolScope
from chat_core.tools.scope import ScopedCollection, execute_all, require_collection, require_unique_names

ValueT = TypeVar("ValueT")
OutT = TypeVar("OutT")
ModelT = TypeVar("ModelT")
PauseT = TypeVar("PauseT", bound=Paused)
AddedT = TypeVar("AddedT", bound=Paused)
ProviderT = TypeVar("ProviderT", bound=CompletionProvider | EmbeddingsProvider)
ModelT_co = TypeVar("ModelT_co", covariant=True)
OutT_co = TypeVar("OutT_co", covariant=True, default=ChatResponse)
PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True, default=Never)

_DEFAULTS = Settings()
_TEXT: Any = TextOutput()  # `__init__` uses it for every output type; its overloads allow only `ChatResponse`
_RUN_SETTINGS = {
    "instructions": "with_instructions",
    "factories": "with_values",
    "max_steps": "with_max_steps",
    "max_calls": "with_max_calls",
    "concurrency": "with_tool_concurrency",
    "max_kept_data": "with_max_kept_data",
    "max_result_bytes": "with_max_result_bytes",
    "tool_timeout": "with_tool_timeout",
    "now": "with_clock",
    "middleware": "with_middleware",
    "recall": "with_memory",
}
"""Settings that do not apply to an embeddings chat, with the builder methods that set them."""


class _Configurable:
    """Base class for all builders, with the settings that do not change the builder's type."""

    __slots__ = ("_settings",)

    def __init__(self, settings: Settings, /) -> None:
        self._settings = settings

    def with_options(self, options: ChatOptions) -> Self:
        """Set options of each model request, merged over earlier options. Options of a single run take precedence."""
        require_options(options)
        return self._with_settings(options=options.over(self._settings.options))

    def with_retry(self, times: int | Retry) -> Self:
        """Set how failed provider calls are retried.

        Args:
            times: maximum number of retries of each provider call, or a `Retry` with the whole policy. Default: 2.
        """
        retry = times
        if not isinstance(retry, Retry):
            require_number(retry, "with_retry()", least=0)
            retry = replace(self._settings.retry, times=retry)
        return self._with_settings(retry=retry)

    def with_context(self, policy: ContextPolicy) -> Self:
        """Set a policy that reduces requests for long conversations: `Window`, `Summarize`, or a function.

        Args:
            policy: function called before each request of a run. The history keeps every turn.

        Raises:
            UsageError: `policy` is not callable.
        """
        if not callable(policy):
            msg = f"with_context() takes a context policy, such as Window(at=…, keep=…), not {policy!r}"
            raise UsageError(msg)
        return self._with_settings(context=policy)

    def with_observer(self, observer: Observer) -> Self:
        """Report runs, model calls, tool executions and waits to `observer`. May be called for several observers."""
        require_observer(observer)
        return self._with_settings(observers=(*self._settings.observers, observer))

    def _with_settings(self, **changes: Any) -> Self:  # noqa: ANN401 - the fields of Settings
        return self._with_attributes(_settings=replace(self._settings, **changes))

    def _with_attributes(self, **attributes: Any) -> Self:  # noqa: ANN401 - the attributes of any builder
        """Return a copy of this builder with the given attributes replaced."""
        clone = copy(self)
        for name, value in attributes.items():
            setattr(clone, name, value)
        return clone


class _ChatConfigurable(_Configurable, Generic[PauseT_co]):
    """Base class for the builders of conversational chats, with the settings of tools, runs and hooks."""

    __slots__ = ("_interrupted", "_scopes")

    def __init__(
        self, scopes: tuple[ToolScope[PauseT_co], ...], interrupted: Action[PauseT_co] | None, settings: Settings, /
    ) -> None:
        super().__init__(settings)
        self._scopes = scopes
        self._interrupted = interrupted

    def _tool_names(self) -> list[str]:
        return [name for scope in self._scopes for name in scope.names()]

    def with_tools(self, tools: ToolCollection[Any]) -> Self:
        """Add tools that run as soon as the model calls them. They cannot pause the chat."""
        require_collection(tools, "with_tools()")
        return self._with_attributes(_scopes=(*self._scopes, ScopedCollection(tools, execute_all)))

    def with_instructions(self, instructions: str | InstructionFunction) -> Self:
        """Add system text that is sent with each request and never stored.

        Fixed texts precede the system turns of the conversation. Functions are called once at the start of each run,
        and their texts follow the system turns, so that providers can cache what precedes them. May be called several
        times; texts are joined in the order added.

        Args:
            instructions: a text, or a function of the `RunContext` that returns a text. It may be a coroutine function.
        """
        require_instructions(instructions)
        return self._with_settings(instructions=(*self._settings.instructions, instructions))

    def with_values(self, kind: TypeForm[ValueT], factory: ValueFactory[ValueT]) -> Self:
        """Register a factory of the values that tools receive in parameters annotated `Injected[kind]`.

        Each run calls every factory once, in the order of registration, before it sends a request. A second factory
        for the same type replaces the first.

        Args:
            kind: type of the value, as inside `Injected[...]`.
            factory: function or coroutine function that takes the `RunContext` and returns the value. If it returns
                an async context manager, the run enters it, injects the value that it yields, and exits it when the
                run ends. An async context manager that is itself an instance of `kind` is injected, not entered.
        """
        require_factory(kind, factory)
        return self._with_settings(factories={**self._settings.factories, kind: factory})

    def with_max_steps(self, steps: int) -> Self:
        """Set how many model requests a run may send, including corrections. The default is 16."""
        require_number(steps, "with_max_steps()", least=1)
        return self._with_settings(max_steps=steps)

    def with_max_calls(self, calls: int) -> Self:
        """Set how many tool calls one response may contain. The default is 1,000; a response with more is an error."""
        require_number(calls, "with_max_calls()", least=1)
        return self._with_settings(max_calls=calls)

    def with_tool_concurrency(self, limit: int) -> Self:
        """Set how many tools may run at the same time. The default is 8."""
        require_number(limit, "with_tool_concurrency()", least=1)
        return self._with_settings(concurrency=limit)

    def with_max_kept_data(self, size: int) -> Self:
        """Set the maximum size of the `Data` that one tool call stores, in bytes of JSON. The default is 65,536.

        Files, and data with `keep=False`, do not count. A call that exceeds the limit fails.
        """
        require_number(size, "with_max_kept_data()", least=0)
        return self._with_settings(max_kept_data=size)

    def with_max_result_bytes(self, size: int) -> Self:
        """Limit the result or error of each tool, as text in UTF-8. By default, results are stored as they are.

        A larger result is shortened to its beginning and its end, with the number of omitted characters between them.
        Control characters are removed, and a result nested more than 50 levels deep becomes the text of its JSON.
        """
        require_number(size, "with_max_result_bytes()", least=1_000)
        return self._with_settings(max_result_bytes=size)

    def with_tool_timeout(self, seconds: float) -> Self:
        """Set the timeout in seconds of tools that declare none. By default, tools have no timeout.

        This timeout does not limit chats that are used as tools. Set a timeout for their tools in the inner chat.
        """
        require_number(seconds, "with_tool_timeout()", above=0)
        return self._with_settings(tool_timeout=seconds)

    def with_middleware(self, middleware: Middleware) -> Self:
        """Pass each provider call through `middleware`, which may change the request and the response.

        A middleware runs once per attempt, inside the retries. The first middleware added is the outermost.
        """
        require_middleware(middleware)
        return self._with_settings(middleware=(*self._settings.middleware, middleware))

    def with_memory(
        self, memory: RecallSource, *, scope: ScopeFunction, max_notes: int = 10, max_tokens: int = 1_500
    ) -> Self:
        """Let the model receive notes from a memory before each new user message.

        The memory is searched once per message. The notes are stored in a turn with `by="engine"` and sent before the
        message, marked as data. Approval strategies can read them from `call.context.recalled`.

        Args:
            memory: the memory. If it raises, the run fails with that exception, and a later run searches again.
            scope: function that returns the scope to search, such as `lambda context: context.owner`. Nothing is
                searched if it returns `None`.
            max_notes: maximum number of notes before one message.
            max_tokens: maximum estimated number of tokens of the text before one message. Notes are not truncated: a
                note that does not fit is omitted.
        """
        require_memory(memory, scope)
        require_number(max_notes, "max_notes of with_memory()", least=1)
        require_number(max_tokens, "max_tokens of with_memory()", least=1)
        return self._with_settings(recall=RecallSettings(memory, scope, max_notes, max_tokens))

    def with_grant_rule(self, rule: GrantRule) -> Self:
        """Ask `rule` about each call before a grant approves it. If the rule returns `False`, the call waits.

        Use this if the rule about who may decide depends on the arguments of a call. The rule receives the grant, whose
        `by` is the person who gave it, and the call as a `Wait`. Grants for calls in a chat that is used as a tool must
        satisfy the rules of that chat and of all chats around it. If the rule raises, the call waits for an approver,
        the other decided calls run, and the run fails with `PolicyError`.

        Args:
            rule: function that returns whether the grant may replace the approval of the call. It is called without
                `await`.
        """
        require_rule(rule)
        return self._with_settings(grant_rule=rule)

    def with_before(self, hook: Hook) -> Self:
        """Call `hook` with the conversation before the first model request of a run. Hooks run in the order added."""
        require_hook(hook, "with_before()")
        return self._with_settings(before=(*self._settings.before, hook))

    def with_after(self, hook: AfterHook) -> Self:
        """Call `hook` with the conversation and a `Delivery` after a final response. Hooks run in the order added.

        Each response is delivered once. After a crash it may be delivered again, with the same `Delivery.key`.
        """
        require_hook(hook, "with_after()")
        return self._with_settings(after=(*self._settings.after, hook))

    def with_clock(self, now: Callable[[], datetime]) -> Self:
        """Use `now` to check expiry times and schedules. It must return timezone-aware datetimes."""
        require_clock(now)
        return self._with_settings(now=now)


@final
class ChatBuilder(_ChatConfigurable[PauseT_co], Generic[OutT_co, PauseT_co]):
    """Builder of a chat without a model. `with_model()` returns a builder that can build the chat."""

    __slots__ = ("_output",)

    @overload
    def __init__(self: ChatBuilder[ChatResponse, Never], /) -> None: ...
    @overload
    def __init__(
        self,
        output: OutputSpec[OutT_co],
        scopes: tuple[ToolScope[PauseT_co], ...],
        interrupted: Action[PauseT_co] | None,
        settings: Settings,
        /,
    ) -> None: ...
    def __init__(
        self, output: Any = None, scopes: Any = (), interrupted: Any = None, settings: Settings | None = None, /
    ) -> None:
        """Create an empty builder. The arguments are internal: call `ChatBuilder()` without any."""
        super().__init__(scopes, interrupted, settings or _DEFAULTS)
        self._output: OutputSpec[OutT_co] = output or _TEXT

    def __repr__(self) -> str:
        return describe(self, None, self._output, *self._tool_names())

    def with_model(self, model: ProviderT) -> ReadyChatBuilder[ProviderT, OutT_co, PauseT_co]:
        """Set the model. The provider protocols that the model implements decide which chats can be built."""
        require_model(model)
        return ReadyChatBuilder(model, self._output, self._scopes, self._interrupted, self._settings)

    def with_structured_output(
        self: ChatBuilder[ChatResponse, PauseT], output_type: TypeForm[ValueT], *, max_retries: int = 1
    ) -> ChatBuilder[StructuredResponse[ValueT], PauseT]:
        """Request structured output, validated as `output_type`.

        Args:
            output_type: any type for which pydantic can create a JSON schema.
            max_retries: maximum number of times that an invalid response is sent back to the model.

        Raises:
            UsageError: the output is structured already, or pydantic cannot describe the type.
        """
        output = _create_structured_output(self._output, output_type, max_retries)
        settings = replace(self._settings, corrections=max_retries)
        return ChatBuilder(output, self._scopes, self._interrupted, settings)

    def with_scoped_tools(
        self: ChatBuilder[OutT, PauseT], scope: ToolScope[AddedT] | Nothing
    ) -> ChatBuilder[OutT, PauseT | AddedT]:
        """Add a `ScopedCollection`, or another chat's `as_tool()`. The chat can pause if the scope can."""
        scopes: tuple[ToolScope[PauseT | AddedT], ...] = (*self._scopes, require_scope(scope))
        return ChatBuilder(self._output, scopes, self._interrupted, self._settings)

    def with_interrupted(
        self: ChatBuilder[OutT, PauseT], action: Withhold[AddedT] | Nothing
    ) -> ChatBuilder[OutT, PauseT | AddedT]:
        """Set the action for tool calls that a crash interrupted: wait for an approver, or reject the calls.

        Without this setting, a run that finds such calls raises `InterruptedToolsError`.
        """
        return ChatBuilder(self._output, self._scopes, require_action(action), self._settings)

    if not TYPE_CHECKING:  # pragma: no branch

        def __getattr__(self, name: str) -> NoReturn:
            if name in {"build", "with_embeddings"}:
                msg = f"{name}() needs a model: call .with_model(...) first"
            else:
                msg = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(msg)


@final
class ReadyChatBuilder(_ChatConfigurable[PauseT_co], Generic[ModelT_co, OutT_co, PauseT_co]):
    """Builder of a chat with a model. The protocols that the model implements decide which chats it can build."""

    __slots__ = ("_model", "_output")

    def __init__(
        self,
        model: ModelT_co,
        output: OutputSpec[OutT_co],
        scopes: tuple[ToolScope[PauseT_co], ...],
        interrupted: Action[PauseT_co] | None,
        settings: Settings,
        /,
    ) -> None:
        """Create the builder from its settings. The arguments are internal: use `ChatBuilder.with_model()` instead."""
        super().__init__(scopes, interrupted, settings)
        self._model = model
        self._output = output

    def __repr__(self) -> str:
        return describe(self, self._model, self._output, *self._tool_names())

    def with_structured_output(
        self: ReadyChatBuilder[ModelT, ChatResponse, PauseT], output_type: TypeForm[ValueT], *, max_retries: int = 1
    ) -> ReadyChatBuilder[ModelT, StructuredResponse[ValueT], PauseT]:
        """Request structured output, validated as `output_type`.

        Args:
            output_type: any type for which pydantic can create a JSON schema.
            max_retries: maximum number of times that an invalid response is sent back to the model.

        Raises:
            UsageError: the output is structured already, or pydantic cannot describe the type.
        """
        output = _create_structured_output(self._output, output_type, max_retries)
        settings = replace(self._settings, corrections=max_retries)
        return ReadyChatBuilder(self._model, output, self._scopes, self._interrupted, settings)

    def with_scoped_tools(
        self: ReadyChatBuilder[ModelT, OutT, PauseT], scope: ToolScope[AddedT] | Nothing
    ) -> ReadyChatBuilder[ModelT, OutT, PauseT | AddedT]:
        """Add a `ScopedCollection`, or another chat's `as_tool()`. The chat can pause if the scope can."""
        scopes: tuple[ToolScope[PauseT | AddedT], ...] = (*self._scopes, require_scope(scope))
        return ReadyChatBuilder(self._model, self._output, scopes, self._interrupted, self._settings)

    def with_interrupted(
        self: ReadyChatBuilder[ModelT, OutT, PauseT], action: Withhold[AddedT] | Nothing
    ) -> ReadyChatBuilder[ModelT, OutT, PauseT | AddedT]:
        """Set the action for tool calls that a crash interrupted: wait for an approver, or reject the calls.

        Without this setting, a run that finds such calls raises `InterruptedToolsError`.
        """
        return ReadyChatBuilder(self._model, self._output, self._scopes, require_action(action), self._settings)

    def with_embeddings(self: ReadyChatBuilder[EmbeddingsProvider, ChatResponse, Never]) -> EmbeddingsBuilder:
        """Return a builder of an embeddings chat.

        Raises:
            UsageError: the model cannot embed, or this builder has structured output, tools, hooks or limits of runs.
        """
        _require_text_output(self._output, "with_embeddings()")
        require(self._model, EmbeddingsProvider, "with_embeddings()")
        if self._scopes or self._interrupted is not None:
            msg = "an embeddings chat has no tools: call with_embeddings() on a builder without tools"
            raise UsageError(msg)
        if self._settings.before or self._settings.after:
            msg = "an embeddings chat has no hooks: call with_embeddings() on a builder without hooks"
            raise UsageError(msg)
        for setting, method in _RUN_SETTINGS.items():
            if getattr(self._settings, setting) != getattr(_DEFAULTS, setting):
                msg = f"an embeddings chat has no runs and no tools: remove {method}()"
                raise UsageError(msg)
        return EmbeddingsBuilder(self._model, self._settings)

    @overload
    def build(self: ReadyChatBuilder[ChatProvider, OutT, PauseT]) -> StreamingChat[OutT, PauseT]: ...
    @overload
    def build(self: ReadyChatBuilder[CompletionProvider, OutT, PauseT]) -> Chat[OutT, PauseT]: ...
    def build(self: ReadyChatBuilder[CompletionProvider, OutT, PauseT]) -> Chat[OutT, PauseT]:
        """Build the chat. The result is a `StreamingChat` if the model supports streaming.

        Raises:
            UsageError: two tools have the same name, or the model cannot complete conversations.
        """
        require(self._model, CompletionProvider, "build()")
        require_unique_names(self._scopes)
        plan = ChatPlan(self._model, self._output, self._scopes, self._interrupted, self._settings)
        return StreamingChat(plan) if isinstance(self._model, ChatProvider) else Chat(plan)


@final
class EmbeddingsBuilder(_Configurable):
    """Builder of an embeddings chat, which has no output type and no tools."""

    __slots__ = ("_model",)

    def __init__(self, model: EmbeddingsProvider, settings: Settings, /) -> None:
        """Create the builder. The arguments are internal: use `ReadyChatBuilder.with_embeddings()` instead."""
        super().__init__(settings)
        self._model = model

    def __repr__(self) -> str:
        return describe(self, self._model)

    def build(self) -> EmbeddingsChat:
        """Build the embeddings chat."""
        return EmbeddingsChat(self._model, self._settings)


def _create_structured_output(output: object, form: TypeForm[ValueT], max_retries: int) -> StructuredOutput[ValueT]:
    _require_text_output(output, "with_structured_output()")
    require_number(max_retries, "max_retries of with_structured_output()", least=0)
    return StructuredOutput(form)


def _require_text_output(output: object, method: str) -> None:
    if not isinstance(output, TextOutput):
        msg = f"{method} cannot follow with_structured_output(): remove one of the calls"
        raise UsageError(msg)
