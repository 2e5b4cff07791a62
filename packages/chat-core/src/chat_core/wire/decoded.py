"""Streamed responses, decoded from the events of a transport into deltas and a turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol, Self, TypeVar, final

from chat_core.errors import ChatError, TransportError
from chat_core.messages import Turn
from chat_core.provider import Delta
from chat_core.transport.values import Event, EventStream


class Decoder(Protocol):
    """Protocol for the decoder of one streamed response.

    If decoding fails, the deltas received before the failure are delivered before the failure is raised.
    """

    @property
    def failure(self) -> ChatError | None:
        """The error that `feed()` raises on its next call, because it returned deltas first, or None."""
        ...

    @property
    def done(self) -> bool:
        """Whether the response has ended. Data after the end is ignored."""
        ...

    def feed(self, events: Sequence[Event], /) -> Sequence[Delta]:
        """Decode a batch of events and return their deltas.

        Raises:
            ChatError: the server reports a failure, or an event violates the protocol.
        """
        ...

    def close(self) -> Turn:
        """Return the complete turn.

        Raises:
            StreamTruncatedError: the stream ended before the response was complete.
            InvalidResponseError: the events do not form a response.
        """
        ...

    def partial(self) -> Turn:
        """Return the turn received so far."""
        ...


ErrorT = TypeVar("ErrorT", bound=ChatError | TransportError)


class Redact(Protocol):
    """Protocol for a function that removes credentials from an error in place and returns the error.

    The function may add the address of the request to the message.
    """

    def __call__(self, error: ErrorT, /, *, received: bytes = b"") -> ErrorT:
        """Remove the credentials from `error`, and return the error. `received` is the data that caused the error."""
        ...


def _return_unchanged(error: ErrorT, /, *, received: bytes = b"") -> ErrorT:  # noqa: ARG001 - see `Redact`
    return error


@final
class DecodedStream:
    """A `ProviderStream` that decodes the events of a transport.

    Args:
        events: the event stream of the transport.
        decoder: a new decoder, used only for this response.
        translate: function that converts a transport error to a `ChatError`.
        seal: function applied to the complete turn at the end.
        redact: function that removes the request's credentials from an error in place and returns the error.
    """

    __slots__ = ("_batches", "_decoder", "_first_batch", "_redact", "_seal", "_translate")

    def __init__(
        self,
        events: EventStream,
        decoder: Decoder,
        translate: Callable[[TransportError], ChatError],
        seal: Callable[[Turn], Turn] | None = None,
        redact: Redact = _return_unchanged,
    ) -> None:
        self._batches = events.batches()
        self._decoder = decoder
        self._translate = translate
        self._seal = seal
        self._redact = redact
        self._first_batch: Sequence[Delta] | None = None

    async def begin(self) -> None:
        """Read the first batch in advance. Call this if the server's first event may report a rejected request.

        Raises:
            ChatError: the connection failed, or the server reports a failure.
        """
        with suppress(StopAsyncIteration):
            self._first_batch = await anext(self)

    def __aiter__(self) -> Self:
        """Iterate over the batches of deltas."""
        return self

    async def __anext__(self) -> Sequence[Delta]:
        """Return the deltas of the next batch of events.

        Raises:
            ChatError: the connection failed, or the server reports a failure.
        """
        decoder = self._decoder
        if self._first_batch is not None:
            first, self._first_batch = self._first_batch, None
            return first
        if decoder.failure is not None:
            raise self._redact(decoder.failure)
        if decoder.done:
            raise StopAsyncIteration
        try:
            events = await anext(self._batches)
        except TransportError as error:
            raise self._translate_with_partial(self._redact(error)) from error
        try:
            return decoder.feed(events)
        except ChatError as error:
            self._redact(error, received=b"".join([event.data for event in events]))
            events = ()  # error trackers record the variables of each frame
            raise

    def _translate_with_partial(self, error: TransportError) -> ChatError:
        failure = self._translate(error)
        failure.partial = partial = self._decoder.partial()
        failure.usage = partial.usage
        failure.metadata = failure.metadata or partial.metadata
        return failure

    def close(self) -> Turn:
        """Return the complete turn. Call this after the iteration has ended.

        Raises:
            StreamTruncatedError: the stream ended before the response was complete.
            InvalidResponseError: the events do not form a response.
        """
        try:
            turn = self._decoder.close()
        except ChatError as error:
            self._redact(error)
            raise
        return turn if self._seal is None else self._seal(turn)

    def partial(self) -> Turn:
        """Return the turn received so far."""
        return self._decoder.partial()
