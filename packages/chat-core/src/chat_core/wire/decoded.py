"""One streamed answer of a wire: what its transport brings, through its decoder, with nothing in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol, Self, final

from chat_core.errors import ChatError, TransportError
from chat_core.messages import Turn
from chat_core.provider import Delta
from chat_core.transport.values import Event, EventStream


class Decoder(Protocol):
    """Reads one answer, event by event. What came before a failure is delivered before the failure is."""

    @property
    def failure(self) -> ChatError | None:
        """What `feed()` has found and could not raise yet, since there were deltas to be returned."""
        ...

    @property
    def done(self) -> bool:
        """Whether the answer has ended, whatever the body still says."""
        ...

    def feed(self, events: Sequence[Event], /) -> Sequence[Delta]:
        """What events that came together say to a listener.

        Raises:
            ChatError: the server says that it failed, or an event is not what its protocol promises.
        """
        ...

    def close(self) -> Turn:
        """The whole turn.

        Raises:
            StreamTruncatedError: the stream ended before its protocol says that it may.
            InvalidResponseError: what came makes no answer.
        """
        ...

    def partial(self) -> Turn:
        """The turn as far as it has come."""
        ...


@final
class DecodedStream:
    """A `ProviderStream`: the batches of a transport, decoded.

    Args:
        events: what the transport delivers.
        decoder: reads it.
        translate: the error of a run for what the transport met.
        seal: what is done to the whole turn at the end.
    """

    __slots__ = ("_batches", "_decoder", "_first_batch", "_seal", "_translate")

    def __init__(
        self,
        events: EventStream,
        decoder: Decoder,
        translate: Callable[[TransportError], ChatError],
        seal: Callable[[Turn], Turn] | None = None,
    ) -> None:
        self._batches = events.batches()
        self._decoder = decoder
        self._translate = translate
        self._seal = seal
        self._first_batch: Sequence[Delta] | None = None

    async def begin(self) -> None:
        """Read what comes first, ahead of the iteration, where that says whether the request was accepted.

        Raises:
            ChatError: as the iteration does.
        """
        with suppress(StopAsyncIteration):
            self._first_batch = await anext(self)

    def __aiter__(self) -> Self:
        """Iterate over the batches of deltas."""
        return self

    async def __anext__(self) -> Sequence[Delta]:
        """What the next read brought.

        Raises:
            ChatError: the connection broke, or the server said that it failed.
        """
        decoder = self._decoder
        if self._first_batch is not None:
            first, self._first_batch = self._first_batch, None
            return first
        if decoder.failure is not None:
            raise decoder.failure
        if decoder.done:
            raise StopAsyncIteration
        try:
            events = await anext(self._batches)
        except TransportError as error:
            raise self._translate_with_partial(error) from error
        return decoder.feed(events)

    def _translate_with_partial(self, error: TransportError) -> ChatError:
        failure = self._translate(error)
        failure.partial = partial = self._decoder.partial()
        failure.usage = partial.usage
        failure.metadata = failure.metadata or partial.metadata
        return failure

    def close(self) -> Turn:
        """The whole turn, once the iteration has ended.

        Raises:
            StreamTruncatedError: the stream ended before its protocol says that it may.
            InvalidResponseError: what came makes no answer.
        """
        turn = self._decoder.close()
        return turn if self._seal is None else self._seal(turn)

    def partial(self) -> Turn:
        """The turn as far as it has come."""
        return self._decoder.partial()
