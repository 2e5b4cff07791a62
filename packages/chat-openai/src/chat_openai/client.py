"""Providers that wrap a wire provider and add the options configured in their builder to every request."""

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
    """Base of the providers of this package: forwards to a wire provider and closes its transport."""

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
        """Close the transport if this provider created it. Closing twice is allowed."""
        await self._wire.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class _ChatProvider(_WrappedProvider):
    """Base of the providers that answer conversations."""

    __slots__ = ("_extras",)

    def __init__(self, wire: ResponsesProvider | CompletionsProvider, extras: Extras | None = None) -> None:
        """Wrap `wire` and merge `extras` into the options of every request. The options of a run take precedence."""
        super().__init__(wire)
        self._extras = extras

    async def complete(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> Turn:
        """Implement `CompletionProvider.complete`: send one request and return the model's turn, its tools `Pending`.

        Raises:
            ChatError: The request failed. The error carries the usage that the server reported.
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
    """A model of OpenAI or Azure OpenAI on the Responses API, with completion, streaming and token counting.

    Create it with `OpenAIBuilder`, `AzureBuilder`, `openai()` or `azure()`. It is immutable and safe to share between
    tasks. As an async context manager it closes its transport on exit if it created the transport. A transport that
    was passed to the builder stays open.
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
            tools: The tools of the request. The native tools of the builder are counted too.
            options: The options of the request.
            structured_output: The schema of the output, if the response is structured.

        Raises:
            ChatError: The server rejected the request or returned no count.
        """
        return await self._responses.count_tokens(messages, tools, self._with_extras(options), structured_output)


@final
class OpenAICompletionsProvider(_ChatProvider):
    """A model of OpenAI or Azure OpenAI on the Chat Completions API, with completion and streaming.

    Create it with `OpenAIBuilder` or `AzureBuilder`. Sharing and closing work as for `OpenAIProvider`.
    """

    __slots__ = ()


@final
class OpenRouterProvider(_ChatProvider):
    """A model of OpenRouter on either API, with completion and streaming.

    Create it with `OpenRouterBuilder` or `openrouter()`. Sharing and closing work as for `OpenAIProvider`.
    """

    __slots__ = ()


@final
class OpenAIEmbeddings(_WrappedProvider):
    """An embedding model of OpenAI, Azure OpenAI or OpenRouter. Create it with `with_embeddings()` of a builder."""

    __slots__ = ("_completions",)

    def __init__(self, wire: CompletionsProvider) -> None:
        super().__init__(wire)
        self._completions = wire

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        """Implement `EmbeddingsProvider.embed`: send one request and return one vector per text, in order.

        Raises:
            ChatError: The request failed. The error carries the usage that the server reported.
        """
        return await self._completions.embed(texts, options)


def merge_extras(run_extras: Sequence[ProviderOptions], defaults: Extras) -> tuple[ProviderOptions, ...]:
    """Merge the default extras into the extras of a run.

    Args:
        run_extras: The extras of the run. At most one of them has the class of `defaults`.
        defaults: The extras configured in the builder. A value of the run takes precedence; tuples and mappings are
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
