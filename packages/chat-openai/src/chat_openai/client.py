"""Providers that add the options configured in their builder to every request of a wrapped provider."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import fields, replace
from types import TracebackType
from typing import Any, Self, TypeAlias, final

from chat_completions import CompletionsOptions, CompletionsProvider
from chat_core.messages import Messages, Turn
from chat_core.options import ChatOptions, ProviderOptions
from chat_core.provider import (
    NO_TOOLS,
    EmbeddingsResponse,
    OutputSchema,
    ProviderMeta,
    ProviderStream,
    ToolDeclarations,
)
from chat_core.wire.shapes import is_mapping
from chat_responses import ResponsesOptions, ResponsesProvider

Extras: TypeAlias = ResponsesOptions | CompletionsOptions


class _WrappedProvider:
    """Base class of this package's providers, which forward requests to a wrapped provider."""

    __slots__ = ("_wire",)

    def __init__(self, wire: ResponsesProvider | CompletionsProvider) -> None:
        self._wire = wire

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._wire!r})"

    @property
    def metadata(self) -> ProviderMeta:
        """The provider's name, model, description and limits."""
        return self._wire.metadata

    async def aclose(self) -> None:
        """Close the transport if this provider created it. Repeated calls have no effect."""
        await self._wire.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class _ChatProvider(_WrappedProvider):
    """Base class of the chat providers."""

    __slots__ = ("_extras",)

    def __init__(self, wire: ResponsesProvider | CompletionsProvider, extras: Extras | None = None) -> None:
        """Wrap `wire` and merge `extras` into the options of every request, whose own values take precedence."""
        super().__init__(wire)
        self._extras = extras

    async def complete(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> Turn:
        """Implement `CompletionProvider.complete`: send one request and return the model's turn with pending tools.

        Raises:
            ChatError: The request failed. The error contains the usage that the server reported, if any.
        """
        return await self._wire.complete(messages, tools, self._with_extras(options), structured_output)

    def stream(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> AbstractAsyncContextManager[ProviderStream]:
        """Implement `StreamProvider.stream`: send one request and stream its response.

        Exiting the context manager closes the connection, even before the end of the stream.

        Raises:
            ChatError: On entry, if the request is rejected.
        """
        return self._wire.stream(messages, tools, self._with_extras(options), structured_output)

    def _with_extras(self, options: ChatOptions) -> ChatOptions:
        extras = self._extras
        return options if extras is None else replace(options, extras=merge_extras(options.extras, extras))


@final
class OpenAIProvider(_ChatProvider):
    """Provider for a model on OpenAI or Azure OpenAI, using the Responses API.

    Instances are created by `OpenAIBuilder`, `AzureBuilder`, `openai()` or `azure()`. They are immutable and safe to
    share between tasks. Leaving `async with` closes the default transport. A transport that was passed to the builder
    stays open.
    """

    __slots__ = ("_responses",)

    def __init__(self, wire: ResponsesProvider, extras: ResponsesOptions | None = None) -> None:
        super().__init__(wire, extras)
        self._responses = wire

    async def count_tokens(
        self,
        messages: Messages,
        tools: ToolDeclarations = NO_TOOLS,
        options: ChatOptions = ChatOptions(),  # noqa: B008 - immutable
        structured_output: OutputSchema | None = None,
    ) -> int:
        """Return the number of input tokens that a request would use, without running the model.

        Args:
            messages: The conversation.
            tools: The tools of the request. The native tools of the builder are also counted.
            options: The options of the request.
            structured_output: The schema of the output, if the response is structured.

        Raises:
            ChatError: The server rejected the request or returned no count.
        """
        return await self._responses.count_tokens(messages, tools, self._with_extras(options), structured_output)


@final
class OpenAICompletionsProvider(_ChatProvider):
    """Provider for a model on OpenAI or Azure OpenAI, using the Chat Completions API.

    Instances are created by `OpenAIBuilder` or `AzureBuilder`. They are immutable and safe to share between tasks.
    Leaving `async with` closes the default transport. A transport that was passed to the builder stays open.
    """

    __slots__ = ()


@final
class OpenRouterProvider(_ChatProvider):
    """Provider for a model on OpenRouter, using the Responses API or the Chat Completions API.

    Instances are created by `OpenRouterBuilder` or `openrouter()`. They are immutable and safe to share between tasks.
    Leaving `async with` closes the default transport. A transport that was passed to the builder stays open.
    """

    __slots__ = ()


@final
class OpenAIEmbeddings(_WrappedProvider):
    """Embeddings provider for OpenAI, Azure OpenAI or OpenRouter.

    Instances are built by the builder that `with_embeddings()` returns.
    """

    __slots__ = ("_completions",)

    def __init__(self, wire: CompletionsProvider) -> None:
        super().__init__(wire)
        self._completions = wire

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        """Implement `EmbeddingsProvider.embed`: send one request and return one vector per text, in order.

        Raises:
            ChatError: The request failed. The error contains the usage that the server reported, if any.
        """
        return await self._completions.embed(texts, options)


def merge_extras(run_extras: Sequence[ProviderOptions], defaults: Extras) -> tuple[ProviderOptions, ...]:
    """Return the provider options of a run, with default values added from the builder.

    Args:
        run_extras: The options of the run. At most one of them has the class of `defaults`.
        defaults: The options configured in the builder. Values of the run take precedence. Tuples and mappings are
            merged.
    """
    options_class = type(defaults)
    own_extras: ProviderOptions | None = None
    others: list[ProviderOptions] = []
    for extra in run_extras:
        if isinstance(extra, options_class):
            own_extras = extra
        else:
            others.append(extra)
    return (*others, defaults if own_extras is None else _merge_fields(own_extras, defaults))


def _merge_fields(own_extras: Any, defaults: Extras) -> Any:  # noqa: ANN401 - the class of the defaults
    changes: dict[str, object] = {}
    for item in fields(defaults):
        default: Any = getattr(defaults, item.name)
        own: Any = getattr(own_extras, item.name)
        if default in (None, ()) or item.name == "provider":
            continue
        if own is None:
            changes[item.name] = default
        elif isinstance(default, tuple):
            changes[item.name] = default + tuple([entry for entry in own if entry not in default])
        elif is_mapping(default):
            changes[item.name] = {**default, **own}
    return replace(own_extras, **changes)
