"""What a provider must do: three protocols, and what goes in and comes out of them.

A provider is immutable and safe to share between tasks; it keeps nothing of a conversation. It is three pure parts, an
encoder, a decoder of a whole body and an incremental decoder of events, and a thin class that joins them to a
transport.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias, final, overload, runtime_checkable

from chat_core.usage import NO_USAGE, Usage

if TYPE_CHECKING:
    from chat_core.events import FilePart, ReasoningDelta, TextDelta, ToolCallDelta
    from chat_core.messages import Messages, Turn
    from chat_core.options import ChatOptions

Delta: TypeAlias = "TextDelta | ReasoningDelta | ToolCallDelta | FilePart"
"""What a provider says in mid-stream."""


@final
@dataclass(frozen=True, slots=True)
class ProviderMeta:
    """A provider's description of itself.

    Attributes:
        name: of the provider, as in `Opaque.provider`: what it owns in a history.
        model: the model it asks.
        description: the caller's own words, for a router or a log.
        max_embedding_batch: how many texts one embeddings request may hold.
    """

    name: str
    model: str = ""
    description: str = ""
    max_embedding_batch: int = 2048


@final
@dataclass(frozen=True, slots=True)
class ToolDeclaration:
    """A tool as a model is told of it. `parameters` is a JSON Schema of an object.

    One that is not `told` is in no request: a provider's decoder makes the calls of it, out of something else that
    its server asks.
    """

    name: str
    description: str
    parameters: Mapping[str, object] = field(hash=False)
    told: bool = True


@final
class ToolDeclarations(Sequence[ToolDeclaration]):
    """The tools of a chat, in the order of registration, with each codec's encoding of them kept beside."""

    __slots__ = ("_encodings", "_items")

    def __init__(self, items: Sequence[ToolDeclaration] = ()) -> None:
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

    def encoded(self, key: Hashable, encode: Callable[[Sequence[ToolDeclaration]], bytes]) -> bytes:
        """`encode(self)`, remembered under `key`: always the same bytes."""
        data = self._encodings.get(key)
        if data is None:
            data = self._encodings[key] = encode(self._items)
        return data


NO_TOOLS = ToolDeclarations()


@final
@dataclass(frozen=True, slots=True)
class OutputSchema:
    """The JSON Schema that a structured answer must satisfy, and a name for it."""

    name: str
    schema: Mapping[str, object] = field(hash=False)


class ProviderStream(Protocol):
    """The deltas of one streamed answer, by batch: all that one read brought."""

    def __aiter__(self) -> AsyncIterator[Sequence[Delta]]:
        """Iterate over the batches.

        Raises:
            ChatError: the connection broke, or the server said that it failed.
        """
        ...

    def close(self) -> Turn:
        """The whole turn, once the iteration has ended.

        Raises:
            StreamTruncatedError: the stream ended before its protocol says it may.
            InvalidResponseError: what came makes no answer.
        """
        ...

    def partial(self) -> Turn:
        """The turn as far as it has come: what a failure carries. Its usage is what has been reported so far."""
        ...


@runtime_checkable
class CompletionProvider(Protocol):
    """A model that answers."""

    @property
    def metadata(self) -> ProviderMeta:
        """What this provider is."""
        ...

    async def complete(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> Turn:
        """Ask once. The turn's tools are `Pending`.

        Raises:
            ChatError: with whatever usage was reported.
        """
        ...


@runtime_checkable
class StreamProvider(Protocol):
    """A model that answers bit by bit."""

    @property
    def metadata(self) -> ProviderMeta:
        """What this provider is."""
        ...

    def stream(
        self,
        messages: Messages,
        tools: ToolDeclarations,
        options: ChatOptions,
        structured_output: OutputSchema | None,
    ) -> AbstractAsyncContextManager[ProviderStream]:
        """Ask once, and listen. Leaving the block closes the connection at once.

        Raises:
            ChatError: on entering, when the request is refused.
        """
        ...


@runtime_checkable
class ChatProvider(CompletionProvider, StreamProvider, Protocol):
    """A model that does both."""


@final
@dataclass(frozen=True, slots=True)
class EmbeddingsResponse:
    """One vector per text, in the order of the texts."""

    vectors: tuple[tuple[float, ...], ...]
    usage: Usage = NO_USAGE
    model: str | None = None


@runtime_checkable
class EmbeddingsProvider(Protocol):
    """A model that turns texts into vectors."""

    @property
    def metadata(self) -> ProviderMeta:
        """What this provider is; `max_embedding_batch` bounds one call of `embed()`."""
        ...

    async def embed(self, texts: Sequence[str], options: ChatOptions) -> EmbeddingsResponse:
        """One request: n texts in, n vectors out, in order.

        Raises:
            ChatError: with whatever usage was reported.
        """
        ...
