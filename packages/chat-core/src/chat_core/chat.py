"""Chats, the public interface of the engine. Each set of provider abilities has its own chat class.

`Chat` without parameters means `Chat[ChatResponse, Never]`: it responds with text and never pauses. A chat stores no
state of a conversation. Any number of tasks can use one chat with different conversations at the same time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Generic, Never, Self, TypeAlias, cast, final

from typing_extensions import TypeVar

from chat_core import blocking
from chat_core.arguments import argument_error, require_text, require_type
from chat_core.blocking import BlockingChat, BlockingEmbeddingsChat, BlockingStreamingChat
from chat_core.conversation import Conversation
from chat_core.embed import Texts, embed
from chat_core.engine.complete import complete
from chat_core.engine.plan import ChatPlan, Settings, describe
from chat_core.engine.stream import ChatStream
from chat_core.engine.subchat import ChatTool
from chat_core.errors import UsageError
from chat_core.live_input import LiveInput
from chat_core.messages import FunctionCall, Messages, Tool
from chat_core.options import ChatOptions
from chat_core.provider import CompletionProvider, EmbeddingsProvider, EmbeddingsResponse, TokenCount
from chat_core.response import ChatResponse, Paused
from chat_core.tools.action import Action
from chat_core.tools.chat_tools import ChatTools
from chat_core.tools.declare import require_name
from chat_core.tools.result import ToolOutput

OutT_co = TypeVar("OutT_co", covariant=True, default=ChatResponse)
PauseT_co = TypeVar("PauseT_co", bound=Paused, covariant=True, default=Never)


class _Closing(ABC):
    """Base class for async context managers that call `aclose()` on exit."""

    __slots__ = ()

    @abstractmethod
    async def aclose(self) -> None:
        """Close the underlying resources."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        await self.aclose()


class Chat(_Closing, Generic[OutT_co, PauseT_co]):
    """A chat that completes conversations with a model, its tools and their policies."""

    __slots__ = ("_plan",)

    def __init__(self, plan: ChatPlan[OutT_co, PauseT_co], /) -> None:
        """Create the chat from its configuration. The arguments are internal: use `ChatBuilder` instead."""
        require_type("plan", plan, ChatPlan, "a configuration: use ChatBuilder().with_model(...).build()")
        self._plan = plan

    def __repr__(self) -> str:
        return describe(self, self._plan.model, self._plan.output, *self._plan.tools.owners)

    async def complete(
        self,
        messages: Messages | Conversation,
        *,
        options: ChatOptions | None = None,
        inject: Mapping[Any, object] | None = None,
        owner: str | None = None,
    ) -> OutT_co | PauseT_co:
        """Run the conversation until the model returns its final response or the run pauses.

        A run can pause only if the type of the chat includes `Paused`. When the run ends, `messages` contains the
        response and all turns and tool results before it.

        Args:
            messages: the conversation. The run appends to it.
            options: options of this run, merged over those of the chat.
            inject: values by type, for `Injected` parameters of tools. They replace factories of the same
                types, even in inner chats.
            owner: the user who owns the conversation. Only for plain messages: a stored conversation has an owner.

        Raises:
            UsageError: a tool needs a value that the run does not have, or another argument is wrong.
            ChatError: the run failed. `messages` stays valid and contains everything that was completed.
        """
        _require_run_arguments("complete()", messages, options)
        if inject is not None or owner is not None:
            _require_inputs("complete()", messages, inject, owner)
        return await complete(self._plan, messages, options, inject, owner)

    async def call(
        self,
        name: str,
        arguments: Mapping[str, object],
        messages: Messages | Conversation,
        *,
        id: str = "",
        inject: Mapping[Any, object] | None = None,
        owner: str | None = None,
    ) -> Tool | PauseT_co:
        """Run one tool call without a model, under the policy of the chat.

        The call is added to the history as a turn with `by="application"` and stored before it starts. Like a call from
        a model, it may pause. After a pause, a crash or a lost connection, call again with the same id: a finished call
        is returned, an unfinished call is resumed, and no call runs twice.

        If the conversation ends with a stored answer whose after-hooks have not run, the hooks run first. If a hook
        raises, the call is not added.

        Args:
            name: name of a tool of this chat.
            arguments: arguments of the call.
            messages: the conversation. The run appends to it.
            id: ID of the call, unique in the conversation. By default, each call has a new ID.
            inject: values by type, for `Injected` parameters of the tool.
            owner: the user who owns the conversation. Only for plain messages.

        Returns:
            The resolved call (completed, failed or rejected), or the pause.

        Raises:
            UsageError: the chat has no such tool, the arguments are invalid, or the id belongs to another call.
            PendingToolsError: other calls of the conversation are unresolved.
            ChatError: the run failed. `messages` stays valid and contains everything that was completed.
        """
        from chat_core.engine.direct_call import call_tool  # noqa: PLC0415 - most chats never need it

        _require_run_arguments("call()", messages, None)
        if inject is not None or owner is not None:
            _require_inputs("call()", messages, inject, owner)
        return await call_tool(self._plan, messages, FunctionCall(name, arguments, id), inject, owner)

    async def resolve_calls(
        self,
        messages: Messages | Conversation,
        *,
        inject: Mapping[Any, object] | None = None,
        owner: str | None = None,
    ) -> PauseT_co | None:
        """Run the unresolved tool calls of a conversation under the policy of the chat, and send no model request.

        A caller that receives turns from a model by other means, such as a realtime session, appends them to the
        conversation and calls this method for their tool calls. Decisions about waiting calls are applied as in a run.

        Args:
            messages: the conversation.
            inject: values by type, for `Injected` parameters of tools.
            owner: the user who owns the conversation. Only for plain messages.

        Returns:
            The pause if calls wait, or `None` if every call is resolved.

        Raises:
            UsageError: a tool needs a value that is missing, or an argument is wrong.
            ChatError: the run failed. `messages` stays valid and contains everything that was completed.
        """
        from chat_core.engine.direct_call import resolve_calls  # noqa: PLC0415 - most chats never need it

        _require_run_arguments("resolve_calls()", messages, None)
        if inject is not None or owner is not None:
            _require_inputs("resolve_calls()", messages, inject, owner)
        return await resolve_calls(self._plan, messages, inject, owner)

    async def decide(self, call: FunctionCall, /) -> Action[PauseT_co]:
        """Return the action that the policy of this chat chooses for a call, without running or storing it.

        To see the decisions about all calls of a conversation, use `chat_core.dry_run()`.

        Args:
            call: the call to decide, with its arguments.

        Raises:
            UsageError: the chat has no such tool, or the arguments are invalid.
        """
        from chat_core.engine.direct_call import decide  # noqa: PLC0415 - most chats never need it

        return await decide(self._plan.tools, call)

    async def count_tokens(
        self,
        messages: Messages,
        *,
        options: ChatOptions | None = None,
        inject: Mapping[Any, object] | None = None,
        owner: str | None = None,
    ) -> TokenCount:
        """Return the number of input tokens that the next request would use, including instructions, tools and schema.

        If the provider can count tokens, `exact` is True. Otherwise, the number is an estimate, which is usually too
        high. Middlewares are not applied.

        Args:
            messages: the conversation. Its tool calls must be resolved.
            options: options of the request, merged over those of the chat.
            inject: values by type, for the functions that return instructions.
            owner: the user who owns the conversation, for the functions that return instructions.

        Raises:
            UsageError: an instructions function needs a value that is missing, or an argument is wrong.
            ChatError: the provider's request to count the tokens failed. The request is not retried.
        """
        from chat_core.engine.count_tokens import count_tokens  # noqa: PLC0415 - most chats never need it

        _require_run_arguments("count_tokens()", messages, options)
        if inject is not None or owner is not None:
            _require_inputs("count_tokens()", messages, inject, owner)
        return await count_tokens(self._plan, messages, options, inject, owner)

    async def request_options(
        self,
        messages: Messages,
        *,
        options: ChatOptions | None = None,
        inject: Mapping[Any, object] | None = None,
        owner: str | None = None,
    ) -> ChatOptions:
        """Return the options of the next request, with the evaluated instructions of the chat.

        Args:
            messages: the conversation.
            options: options of the request, merged over those of the chat.
            inject: values by type, for the functions that return instructions.
            owner: the user who owns the conversation, for the functions that return instructions.

        Raises:
            UsageError: an instructions function needs a value that is missing, or an argument is wrong.
        """
        from chat_core.engine.count_tokens import evaluate_options  # noqa: PLC0415 - most chats never need it

        _require_run_arguments("request_options()", messages, options)
        if inject is not None or owner is not None:
            _require_inputs("request_options()", messages, inject, owner)
        return await evaluate_options(self._plan, messages, options, inject, owner)

    def as_tool(
        self,
        *,
        name: str,
        description: str,
        output: Callable[[OutT_co, Messages], ToolOutput] | None = None,
    ) -> ChatTool[PauseT_co]:
        """Return this chat as a tool for another chat's `with_scoped_tools()`.

        If this chat pauses, the outer chat pauses too. The outer chat sees neither the state nor the kept data of this
        chat, unless `output` returns them.

        Args:
            name: name of the tool that the outer model calls.
            description: description of the tool for the outer model.
            output: function of the final response and the inner conversation that returns the output of the call. It
                must always return the same value for the same conversation, because a run that resumes may call it
                again. If it raises, the call fails. By default, the output is the text of the response.

        Raises:
            UsageError: `name` is not the name of a tool, `description` is not a string, or `output` is not a function.
        """
        require_name(name)
        require_text(description=description)
        if output is not None and not callable(output):
            msg = f"output of as_tool() must be a function that returns a ToolOutput, not {output!r}"
            raise UsageError(msg)
        return ChatTool(self._plan, name, description, output)

    def with_model(self, model: CompletionProvider) -> Chat[OutT_co, PauseT_co]:
        """Return a copy of this chat that uses another model. The new chat does not stream.

        Args:
            model: provider of the new chat.

        Raises:
            UsageError: `model` is not a provider that can complete.
        """
        if not isinstance(model, CompletionProvider) or isinstance(model, type):
            raise argument_error("model", "a provider that can complete", model)
        plan = self._plan
        return Chat(ChatPlan(model, plan.output, plan.tools.scopes, plan.tools.interrupted, plan.settings))

    @property
    def model(self) -> CompletionProvider:
        """The provider of this chat, as passed to `with_model()`."""
        return self._plan.model

    @property
    def tools(self) -> ChatTools[PauseT_co]:
        """The tools of this chat, with the scopes that decide about their calls."""
        return self._plan.tools

    @property
    def max_calls(self) -> int:
        """The maximum number of tool calls in one response, as set with `with_max_calls()`."""
        return self._plan.settings.max_calls

    @property
    def blocking(self) -> BlockingChat[OutT_co, PauseT_co]:
        """A wrapper of this chat for callers without an event loop."""
        return BlockingChat(self)

    async def aclose(self) -> None:
        """Close the model, if it has an `aclose()` method."""
        await _close_model(self._plan.model)


@final
class StreamingChat(Chat[OutT_co, PauseT_co]):
    """A chat that can stream its responses in addition to completing conversations."""

    __slots__ = ()

    def stream(
        self,
        messages: Messages | Conversation,
        *,
        options: ChatOptions | None = None,
        inject: Mapping[Any, object] | None = None,
        owner: str | None = None,
        live: LiveInput | None = None,
    ) -> ChatStream[OutT_co, PauseT_co]:
        """Return a stream of the events of a run, for use as `async with chat.stream(messages) as stream`.

        Args:
            messages: the conversation. The run appends to it.
            options: options of this run, merged over those of the chat.
            inject: values by type, for `Injected` parameters of tools. They replace factories of the same
                types, even in inner chats.
            owner: the user who owns the conversation. Only for plain messages: a stored conversation has an owner.
            live: input that may arrive during the run, see `LiveInput`.

        Raises:
            UsageError: an argument is wrong.
        """
        _require_run_arguments("stream()", messages, options)
        if live is not None and not isinstance(live, LiveInput):
            raise argument_error("live", "an object with take_turns() and delivered_text()", live)
        if inject is not None or owner is not None:
            _require_inputs("stream()", messages, inject, owner)
        return ChatStream(self._plan, messages, options, inject, owner, live=live)

    @property
    def blocking(self) -> BlockingStreamingChat[OutT_co, PauseT_co]:
        """A wrapper of this chat for callers without an event loop."""
        return BlockingStreamingChat(self)


@final
class EmbeddingsChat(_Closing):
    """A chat that converts texts to embedding vectors."""

    __slots__ = ("_model", "_settings")

    def __init__(self, model: EmbeddingsProvider, settings: Settings, /) -> None:
        """Create the chat. The arguments are internal: use `ReadyChatBuilder.with_embeddings()` instead."""
        self._model = model
        self._settings = settings

    def __repr__(self) -> str:
        return describe(self, self._model)

    async def embed(
        self, texts: Texts, *, options: ChatOptions | None = None, allow_failures: bool = False
    ) -> EmbeddingsResponse:
        """Return one vector per text, in the order of `texts`.

        Args:
            texts: texts to embed, sent in batches within the provider's limits.
            options: options of this call, merged over those of the chat.
            allow_failures: whether to return the other vectors if a text fails. Its vector is then empty, and its error
                is in `failures` of the response. Errors that concern all texts, such as a rejected key, are raised.

        Raises:
            UsageError: `texts` is not a sequence of strings.
            ChatError: a request failed after all retries. The error's `usage` includes the earlier requests.
        """
        _require_options("embed()", options)
        defaults = self._settings.options
        merged = options.over(defaults) if options else defaults
        return await embed(self._model, texts, merged, self._settings, allow_failures=allow_failures)

    @property
    def blocking(self) -> BlockingEmbeddingsChat:
        """A wrapper of this chat for callers without an event loop."""
        return BlockingEmbeddingsChat(self)

    async def aclose(self) -> None:
        """Close the model, if it has an `aclose()` method."""
        await _close_model(self._model)


AnyChat: TypeAlias = Chat[object, Paused]
"""Type of any chat that completes conversations, with any output type and any pause type."""

# `typing.get_type_hints()` looks up the names of annotations there; `blocking` imports them for type checkers only.
blocking.__dict__.update(Chat=Chat, EmbeddingsChat=EmbeddingsChat, StreamingChat=StreamingChat)


async def _close_model(model: object) -> None:
    close = getattr(model, "aclose", None)
    if close is not None:
        await close()


def _require_run_arguments(method: str, messages: object, options: object) -> None:
    if not isinstance(messages, (Messages, Conversation)):
        hint = f": Messages.from_user({messages!r})" if isinstance(messages, str) else ""
        if isinstance(messages, AbstractAsyncContextManager):
            hint = ": open the conversation first, with `async with store.open(id) as conversation:`"
        msg = f"{method} needs Messages or a Conversation, not {messages!r}{hint}"
        raise UsageError(msg)
    _require_options(method, options)


def _require_inputs(method: str, messages: object, inject: object, owner: object) -> None:
    if inject is not None and not isinstance(inject, Mapping):
        msg = f"inject of {method} must map types to values, such as {{User: user}}, not {type(inject).__name__}"
        raise UsageError(msg)
    if names := [key for key in cast("Mapping[object, object]", inject or {}) if isinstance(key, str)]:
        msg = f"inject of {method} must map types to values, such as {{User: user}}, but it has the key {names[0]!r}"
        raise UsageError(msg)
    if owner is not None and not isinstance(owner, str):
        msg = f"owner of {method} must be a string, not {type(owner).__name__}"
        raise UsageError(msg)
    if owner is not None and not isinstance(messages, Messages):
        msg = f"owner of {method} is for plain messages: a stored conversation has the owner it was created with"
        raise UsageError(msg)


def _require_options(method: str, options: object) -> None:
    if options is not None and not isinstance(options, ChatOptions):
        msg = f"{method} needs ChatOptions, not {options!r}"
        raise UsageError(msg)
