"""Protocols that a provider implements, and the values that it receives and returns.

Providers are immutable, keep no state of a conversation, and may be used by several tasks at once. A provider consists
of three pure parts (an encoder, a decoder of complete bodies and an incremental decoder of events) and a thin class
that connects them to a transport.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, final, overload, runtime_checkable

from chat_core.arguments import require_items, require_type
from chat_core.deltas import FilePart, ReasoningDelta, StructuredPart, TextDelta, ToolCallDelta
from chat_core.errors import ChatError, UsageError
from chat_core.messages import Messages, Turn
from chat_core.options import ChatOptions, NamedTool, ToolChoice
from chat_core.usage import NO_USAGE, Usage

Delta: TypeAlias = TextDelta | ReasoningDelta | ToolCallDelta | FilePart | StructuredPart
"""One increment of a streamed response."""

MAX_CALLS = 1000
"""Default maximum number of tool calls in one response. `with_max_calls()` sets another limit for a chat."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """The abilities of a model. A value of `None` means unknown.

    The engine does not check abilities. Routers use them to choose models, and user interfaces to choose which features
    to offer.

    Attributes:
        tools: whether the model calls tools.
        images: whether the model accepts images.
        audio: whether the model accepts audio.
        documents: whether the model accepts documents, such as PDF files.
        structured: whether the server enforces the schema of structured output.
        streaming: whether responses can be streamed.
        context_window: maximum number of tokens of a request and its response.
    """

    tools: bool | None = None
    images: bool | None = None
    audio: bool | None = None
    documents: bool | None = None
    structured: bool | None = None
    streaming: bool | None = None
    context_window: int | None = None


UNKNOWN_ABILITIES = Abilities()


@final
@dataclass(frozen=True, slots=True)
class ProviderMeta:
    """The metadata of a provider and its model.

    Attributes:
        name: name of the provider, as in `Opaque.provider`.
        model: name of the model.
        description: description written by the application, for routers and logs.
        max_embedding_batch: maximum number of texts in one embeddings request.
        abilities: abilities of the model.
        data: application data, such as a price or a region. Never sent and never stored.
        dimensions: requested length of embedding vectors, or None for the default length of the model.
        max_embedding_characters: maximum number of characters in one embeddings request, or None for no limit. A longer
            text is sent in a request of its own.
        embedding_concurrency: maximum number of embeddings requests that one `embed()` call sends at the same time.
        extras: classes of the options in `ChatOptions.extras` that the provider accepts.
    """

    name: str
    model: str = ""
    description: str = ""
    max_embedding_batch: int = 2048
    abilities: Abilities = UNKNOWN_ABILITIES
    data: Mapping[str, object] = field(default_factory=dict[str, object], hash=False)
    dimensions: int | None = None
    max_embedding_characters: int | None = None
    embedding_concurrency: int = 1
    extras: tuple[type, ...] = ()


@final
@dataclass(frozen=True, slots=True)
class ToolDeclaration:
    """The declaration of a tool for the model.

    Attributes:
        name: name of the tool.
        description: description for the model.
        parameters: JSON Schema of the arguments, whose root is an object.
        declared: whether the declaration is sent to the model. If not, the provider's decoder creates calls of the tool
            from other requests of the server.
    """

    name: str
    description: str
    parameters: Mapping[str, object] = field(hash=False)
    declared: bool = True


@final
class ToolDeclarations(Sequence[ToolDeclaration]):
    """The declarations of a chat's tools in the order of registration, with a cache of their encodings."""

    __slots__ = ("_encodings", "_items")

    def __init__(self, items: Sequence[ToolDeclaration] = ()) -> None:
        require_items("items", items, ToolDeclaration, "a sequence of ToolDeclaration objects")
        self._items = tuple(items)
        self._encodings: dict[Hashable, bytes] = {}

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int, /) -> ToolDeclaration: ...
    @overload
    def __getitem__(self, index: slice, /) -> tuple[ToolDeclaration, ...]: ...
    def __getitem__(self, index: int | slice, /) -> ToolDeclaration | tuple[ToolDeclaration, ...]:
        return self._items[index]

    def __iter__(self) -> Iterator[ToolDeclaration]:
        return iter(self._items)

    @property
    def declared(self) -> ToolDeclarations:
        """The declarations to send to the model, without those that have `declared=False`."""
        if all(item.declared for item in self._items):
            return self  # with its cache
        return ToolDeclarations([item for item in self._items if item.declared])

    def require_choice(self, choice: ToolChoice | None, /) -> None:
        """Check that a `NamedTool` choice names one of these tools. For providers without built-in tools.

        Raises:
            UsageError: the choice is a `NamedTool` with an unknown name.
        """
        if isinstance(choice, NamedTool) and choice.name not in (names := [item.name for item in self._items]):
            msg = f"tool_choice={choice!r} names an unknown tool; the tools are: {', '.join(names) or 'none'}"
            raise UsageError(msg)

    def encoded(self, key: Hashable, encode: Callable[[Sequence[ToolDeclaration]], bytes]) -> bytes:
        """Return the declarations encoded by `encode`. The result is cached under `key`. The arguments are not checked.

        Args:
            key: cache key that identifies the codec and its configuration.
            encode: function that encodes the declarations, called on a cache miss.
        """
        data = self._encodings.get(key)
        if data is None:
            data = self._encodings[key] = encode(self._items)
        return data


NO_TOOLS = ToolDeclarations()


@final
@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of a model call.

    The engine retries model calls, under one budget per run. A provider does not retry.

    Attributes:
        number: number of the attempt, from 1.
        failed: errors of the earlier attempts, oldest first. A provider with several models names the failed model in
            `error.metadata`, and chooses another model for the next attempt.
    """

    number: int = 1
    failed: tuple[ChatError, ...] = ()


FIRST_ATTEMPT = Attempt()


@runtime_checkable
class AttemptAware(Protocol):
    """Protocol for a provider that takes earlier failures into account, such as a router."""

    def with_attempt(self, attempt: Attempt, /) -> CompletionProvider:
        """Return the provider to use for a retry. The first attempt uses this provider unchanged.

        The result has the same methods as this provider. For an immediate retry by another model, the provider sets
        `fallback` of the error to True.

        Args:
            attempt: number of the attempt, and the errors of earlier attempts.
        """
        ...


@final
@dataclass(frozen=True, slots=True)
class TokenCount:
    """The number of input tokens of a request.

    Attributes:
        tokens: number of input tokens.
        exact: whether the provider counted the tokens. If False, the number is an estimate, which is usually too high.
    """

    tokens: int
    exact: bool


@runtime_checkable
class TokenCounter(Protocol):
    """Protocol for a provider that can count the tokens of a request before the request is sent."""

    async def count_tokens(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> int:
        """Return the number of input tokens that `complete()` would use with the same arguments.

        Args:
            messages: conversation to count; not changed.
            tools: tools that the model may call.
            options: settings of the request, such as `temperature`.
            structured_output: schema of the structured output, or `None` for text.

        Raises:
            ChatError: the request failed.
        """
        ...


@final
@dataclass(frozen=True, slots=True)
class OutputSchema:
    """The name and the JSON Schema of a structured output."""

    name: str
    schema: Mapping[str, object] = field(hash=False)


class ProviderStream(Protocol):
    """Protocol for a streamed response: an async iterator over batches of deltas, one batch per read."""

    def __aiter__(self) -> AsyncIterator[Sequence[Delta]]:
        """Iterate over the batches of deltas.

        Raises:
            ChatError: the connection broke, or the server reported an error.
        """
        ...

    def close(self) -> Turn:
        """Return the complete turn. Call this after the iteration has ended.

        Raises:
            StreamTruncatedError: the stream ended without its terminal event.
            InvalidResponseError: the received data is not a valid response.
        """
        ...

    def partial(self) -> Turn:
        """Return the turn received so far, with the usage reported so far, for use in errors."""
        ...


@runtime_checkable
class CompletionProvider(Protocol):
    """Protocol for a provider that returns complete responses."""

    @property
    def metadata(self) -> ProviderMeta:
        """The name, the model and the limits of this provider."""
        ...

    async def complete(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> Turn:
        """Send one request and return the model's turn. The tool calls in the turn are `Pending`.

        Args:
            messages: conversation to send; not changed.
            tools: tools that the model may call.
            options: settings of the request, such as `temperature`.
            structured_output: schema of the structured output, or `None` for text.

        Raises:
            ChatError: the request failed; `usage` has the reported usage.
        """
        ...


@runtime_checkable
class StreamProvider(Protocol):
    """Protocol for a provider that streams responses."""

    @property
    def metadata(self) -> ProviderMeta:
        """The name, the model and the limits of this provider."""
        ...

    def stream(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> AbstractAsyncContextManager[ProviderStream]:
        """Return a context manager that sends one request and streams its response.

        Exiting the block closes the connection immediately.

        Args:
            messages: conversation to send; not changed.
            tools: tools that the model may call.
            options: settings of the request, such as `temperature`.
            structured_output: schema of the structured output, or `None` for text.

        Raises:
            ChatError: the provider refused the request; raised when the block is entered.
        """
        ...


@runtime_checkable
class ChatProvider(CompletionProvider, StreamProvider, Protocol):
    """Protocol for a provider that supports both complete and streamed responses."""


@final
@dataclass(frozen=True, slots=True)
class EmbeddingsResponse:
    """The response to an embeddings request, with one vector per text in the order of the texts.

    Attributes:
        vectors: the vectors. The vector of a failed text is empty.
        usage: tokens of the request.
        model: name of the model that the provider reports.
        failures: errors of failed texts by their index, from `embed(…, allow_failures=True)`.
        token_counts: numbers of tokens of the texts by their index, as far as the provider reports them.
        truncated: indexes of texts that were too long, of which the provider embedded only the beginning.
    """

    vectors: tuple[tuple[float, ...], ...]
    usage: Usage = NO_USAGE
    model: str | None = None
    failures: Mapping[int, ChatError] = field(default_factory=dict[int, ChatError], hash=False)
    token_counts: Mapping[int, int] = field(default_factory=dict[int, int], hash=False)
    truncated: frozenset[int] = frozenset()

    @property
    def is_complete(self) -> bool:
        """Whether every text has a vector."""
        return not self.failures


@runtime_checkable
class EmbeddingsProvider(Protocol):
    """Protocol for a provider that computes embeddings."""

    @property
    def metadata(self) -> ProviderMeta:
        """The name, the model and the limits of this provider, such as `max_embedding_batch`."""
        ...

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        """Send one request and return one vector per text, in the order of the texts.

        Args:
            texts: texts to embed, at most `max_embedding_batch`.
            options: settings of the request, such as `temperature`.

        Raises:
            ChatError: the request failed; `usage` has the reported usage.
        """
        ...


def require_request(messages: object, tools: object, options: object, structured_output: object) -> None:
    """Raise `UsageError` unless the arguments of `CompletionProvider.complete()` have the right types.

    Encoders call this function once per request, for applications that call a provider without a chat.

    Args:
        messages: the conversation to send.
        tools: tools that the model may call.
        options: settings of the request.
        structured_output: schema of the structured output, or `None` for text.
    """
    require_type("messages", messages, Messages, "Messages, such as Messages.from_user('Hello')")
    require_type("tools", tools, ToolDeclarations, "ToolDeclarations, such as ToolDeclarations()")
    require_type("options", options, ChatOptions, "ChatOptions, such as ChatOptions()")
    require_type("structured_output", structured_output, (OutputSchema, type(None)), "an OutputSchema or None")


def require_embeddings_request(texts: object, options: object) -> None:
    """Raise `UsageError` unless the arguments of `EmbeddingsProvider.embed()` have the right types.

    Args:
        texts: the texts to embed.
        options: settings of the request.
    """
    require_items("texts", texts, str, "a sequence of strings")
    require_type("options", options, ChatOptions, "ChatOptions, such as ChatOptions()")
