"""Middlewares of provider calls: they see each request to a model and its response, and may change both.

A middleware runs once per attempt, inside the retries of the engine: a retryable `ChatError` that it raises is retried.
The first middleware that was added to a builder is the outermost one.
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
    """Request to a provider. `dataclasses.replace()` makes a changed copy.

    Attributes:
        provider: description of the provider.
        messages: conversation to send. A middleware passes another `Messages` to send something else; the history of
            the run does not change.
        tools: tools that the model may call.
        options: options of the request.
        structured_output: schema of the answer, or `None` for text.
        attempt: number of the attempt, and the errors of earlier ones.
    """

    provider: ProviderMeta
    messages: Messages
    tools: ToolDeclarations
    options: ChatOptions
    structured_output: OutputSchema | None = None
    attempt: Attempt = field(default_factory=Attempt)


Send: TypeAlias = Callable[[ProviderRequest], Awaitable[Turn]]
"""Sends a request and returns the turn of the model."""
OpenStream: TypeAlias = Callable[[ProviderRequest], AbstractAsyncContextManager[ProviderStream]]
"""Sends a request and opens its stream."""


class Middleware:
    """Base class of middlewares of provider calls. It forwards everything; override one or both methods.

    A chat calls `complete()` for `chat.complete()` and `stream()` for `chat.stream()`. One instance serves all runs of
    a chat at the same time.
    """

    __slots__ = ()

    async def complete(self, request: ProviderRequest, send: Send, /) -> Turn:
        """Return the turn of the model.

        Args:
            request: the request.
            send: sends a request to the next middleware, or to the provider. May be called several times, or not at
                all.

        Raises:
            ChatError: the request failed. Retryable errors are retried by the engine.
        """
        return await send(request)

    def stream(
        self, request: ProviderRequest, open_stream: OpenStream, /
    ) -> AbstractAsyncContextManager[ProviderStream]:
        """Return a context manager whose value is the stream of the response.

        Args:
            request: the request.
            open_stream: sends a request to the next middleware, or to the provider, and opens its stream.
        """
        return open_stream(request)


@final
class TurnStream:
    """Stream of a turn that is already complete, for middlewares that answer without the provider, such as a cache."""

    __slots__ = ("_turn",)

    def __init__(self, turn: Turn) -> None:
        self._turn = turn

    @classmethod
    def opened(cls, turn: Turn) -> AbstractAsyncContextManager[ProviderStream]:
        """Return what `Middleware.stream()` returns to deliver `turn`."""
        return nullcontext(cls(turn))

    async def __aiter__(self) -> AsyncIterator[Sequence[Delta]]:
        """Iterate over the deltas of the turn, in one batch."""
        yield turn_deltas(self._turn)

    def close(self) -> Turn:
        """Return the turn."""
        return self._turn

    def partial(self) -> Turn:
        """Return the turn."""
        return self._turn


def turn_deltas(turn: Turn) -> Sequence[Delta]:
    """Return the parts of a complete turn as deltas, one per part."""
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
