"""Middleware for provider calls. It receives each model request and its response, and may change both.

Middleware runs once per attempt, inside the engine's retry loop: a retryable `ChatError` that it raises is retried.
The first middleware added to a builder is the outermost.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TypeAlias, final

from chat_core.deltas import FilePart, ReasoningDelta, StructuredPart, TextDelta
from chat_core.messages import File, Messages, Reasoning, Structured, Text, Turn
from chat_core.options import ChatOptions
from chat_core.provider import Attempt, Delta, OutputSchema, ProviderMeta, ProviderStream, ToolDeclarations


@final
@dataclass(frozen=True, slots=True)
class ProviderRequest:
    """A request to a provider. Create changed copies with `dataclasses.replace()`.

    Attributes:
        provider: metadata of the provider.
        messages: conversation to send. To change it, a middleware passes another `Messages`. The history of the run
            does not change.
        tools: tools that the model may call.
        options: settings of the request, such as `temperature`.
        structured_output: schema of the structured output, or `None` for text.
        attempt: number of the attempt, and the errors of earlier attempts.
    """

    provider: ProviderMeta
    messages: Messages
    tools: ToolDeclarations
    options: ChatOptions
    structured_output: OutputSchema | None = None
    attempt: Attempt = field(default_factory=Attempt)


Send: TypeAlias = Callable[[ProviderRequest], Awaitable[Turn]]
"""Async function that sends a request and returns the model's turn."""
OpenStream: TypeAlias = Callable[[ProviderRequest], AbstractAsyncContextManager[ProviderStream]]
"""Function that returns a context manager, which sends a request and opens the response stream."""


class Middleware:
    """Base class for provider-call middleware. It forwards all requests. Override one or both methods.

    A chat calls `complete()` for `chat.complete()` and `stream()` for `chat.stream()`. One instance serves all
    concurrent runs of a chat.
    """

    __slots__ = ()

    async def complete(self, request: ProviderRequest, send: Send, /) -> Turn:
        """Handle a request that is not streamed, and return the model's turn.

        Args:
            request: the request from the engine or an outer middleware.
            send: function that sends a request to the next middleware or to the provider. It may be called any number
                of times.

        Raises:
            ChatError: the request failed. Retryable errors are retried by the engine.
        """
        return await send(request)

    def stream(
        self, request: ProviderRequest, open_stream: OpenStream, /
    ) -> AbstractAsyncContextManager[ProviderStream]:
        """Handle a streamed request, and return a context manager for the response stream.

        Args:
            request: the request from the engine or an outer middleware.
            open_stream: function that opens the stream of the next middleware or of the provider.
        """
        return open_stream(request)


@final
class TurnStream:
    """A stream of a complete turn, for middlewares that respond without the provider, such as a cache."""

    __slots__ = ("_turn",)

    def __init__(self, turn: Turn) -> None:
        self._turn = turn

    @classmethod
    def opened(cls, turn: Turn) -> AbstractAsyncContextManager[ProviderStream]:
        """Return a context manager that `Middleware.stream()` can return to deliver `turn`."""
        return nullcontext(cls(turn))

    async def __aiter__(self) -> AsyncIterator[Sequence[Delta]]:
        """Iterate over the deltas of the turn in a single batch."""
        yield turn_deltas(self._turn)

    def close(self) -> Turn:
        """Return the complete turn."""
        return self._turn

    def partial(self) -> Turn:
        """Return the complete turn."""
        return self._turn


def turn_deltas(turn: Turn) -> Sequence[Delta]:
    """Convert the parts of a complete turn to deltas, one per part. Parts without a delta type are omitted."""
    deltas: list[Delta] = []
    for part in turn.parts:
        if isinstance(part, Text):
            deltas.append(TextDelta(part.text))
        elif isinstance(part, Reasoning):
            deltas.append(ReasoningDelta(part.text))
        elif isinstance(part, File):
            deltas.append(FilePart(part))
        elif isinstance(part, Structured):
            deltas.append(StructuredPart(part.value))
    return deltas
