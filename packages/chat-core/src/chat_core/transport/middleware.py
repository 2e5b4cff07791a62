"""A transport around another one: what every middleware needs, so that each is a few lines.

A middleware is a transport, so they compose: `LoggingTransport(RecordingTransport(HttpxTransport(), path))`. Each sees
a request on its way down, the answer on its way up, and how the exchange ended. The outer one begins first and ends
last.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeAlias, final

from anyio import get_cancelled_exc_class

from chat_core.errors import TransportError
from chat_core.transport.values import Event, EventStream, Headers, Request, Response, never_last

if TYPE_CHECKING:
    from chat_core.transport.protocol import Transport

Outcome: TypeAlias = Literal["open", "complete", "left", "cancelled", "failed"]
"""How an exchange ended: it goes on; all of the answer came; a stream was left before its end; whoever asked was
cancelled; the transport raised."""


@final
@dataclass(slots=True, eq=False)
class TransportExchange:
    """One request and what becomes of it, as a middleware sees it.

    Attributes:
        request: what goes down. A middleware may replace it before its `yield`, to add a header for example.
        streamed: whether the answer was asked for by `stream()`.
        status, headers: the head of the answer, once there is one; of a refused stream, too.
        response: the whole answer, of `send()`.
        events: how many events of a stream have come.
        bytes: how long a whole answer's body is, or the data of the events that have come. What a framing adds to it,
            and what a compression saves, no middleware sees.
        first_after: seconds until the first events or the whole answer were there.
        seconds: how long all of it took, once it is over.
        outcome: how it ended. A stream is `complete` when its events have ended, or its last event (`Request.is_last`)
            has been handed on.
        error: what the transport raised, where the outcome is `failed`.
    """

    request: Request
    streamed: bool
    status: int | None = None
    headers: Headers = field(default_factory=Headers)
    response: Response | None = None
    events: int = 0
    bytes: int = 0
    first_after: float | None = None
    seconds: float | None = None
    outcome: Outcome = "open"
    error: Exception | None = None


class TransportMiddleware:
    """A transport around another one, which does what that does. Override `around`, and `received` where it is needed.

    Errors pass as they are, and leaving a stream leaves the inner one. Closing it closes the inner transport.

    Args:
        inner: the transport that does the work.
        clock: tells seconds.

    Attributes:
        inner: the transport that does the work.
    """

    def __init__(self, inner: Transport, *, clock: Callable[[], float] = perf_counter) -> None:
        self.inner = inner
        self._clock = clock

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r})"

    def around(self, exchange: TransportExchange, /) -> AbstractContextManager[object]:
        """A context around one exchange. Authors write it with `@contextmanager`.

        What stands before its `yield` happens before anything is sent, and may replace `exchange.request`. What stands
        behind it, in a `finally`, happens when the exchange is over and `exchange` says how it ended; a stream is over
        when its block has been left. What comes out of the `yield` is to be raised again.
        """
        del exchange
        return nullcontext()

    def received(self, exchange: TransportExchange, batch: Sequence[Event], /) -> None:
        """Called with the events of a stream, as they come together, before the reader gets them."""

    async def send(self, request: Request, /) -> Response:
        """Do what the inner transport does.

        Raises:
            TransportError: as the inner transport raises it.
        """
        exchange = TransportExchange(request, streamed=False)
        with self.around(exchange), _Measured(exchange, self._clock) as measured:
            response = exchange.response = await self.inner.send(exchange.request)
            exchange.status, exchange.headers, exchange.bytes = response.status, response.headers, len(response.body)
            measured.first()
            measured.is_whole = True
        return response

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncGenerator[EventStream]:
        """Do what the inner transport does. Leaving the block leaves the inner one at once.

        Raises:
            TransportError: as the inner transport raises it.
        """
        exchange = TransportExchange(request, streamed=True)
        with self.around(exchange), _Measured(exchange, self._clock) as measured:
            async with self.inner.stream(exchange.request) as stream:
                exchange.status, exchange.headers = stream.status, stream.headers
                batches = _Batches(stream.batches(), exchange, measured, self.received)
                try:
                    yield EventStream(stream.status, stream.headers, batches)
                except BaseException as error:
                    measured.thrown = error
                    raise

    async def aclose(self) -> None:
        """Close the inner transport."""
        await self.inner.aclose()


@final
class _Measured:
    """Writes into an exchange how long it took, and how it ended."""

    __slots__ = ("_begun", "_clock", "_exchange", "is_whole", "last", "thrown")

    def __init__(self, exchange: TransportExchange, clock: Callable[[], float]) -> None:
        self._exchange = exchange
        self._clock = clock
        self._begun = 0.0
        # Whether the end of the answer has been seen; the batch that was handed on last; what came out of the block.
        self.is_whole = False
        self.last: Sequence[Event] = ()
        self.thrown: BaseException | None = None

    def __enter__(self) -> Self:
        self._begun = self._clock()
        return self

    def first(self) -> None:
        """The first of the answer has come."""
        self._exchange.first_after = self._clock() - self._begun

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        exchange = self._exchange
        if isinstance(error, Exception) and error is not self.thrown:
            exchange.error = error  # it did not come out of the reader's block, so the transport raised it
        if isinstance(exchange.error, TransportError) and exchange.error.status is not None:
            exchange.status, exchange.headers = exchange.error.status, Headers(exchange.error.headers)
        exchange.outcome = self._outcome(error)
        exchange.seconds = self._clock() - self._begun

    def _outcome(self, error: BaseException | None) -> Outcome:
        if self._exchange.error is not None:
            return "failed"
        is_last = self._exchange.request.is_last
        if self.is_whole or (is_last is not never_last and any(is_last(event) for event in self.last)):
            return "complete"
        return "cancelled" if error is not None and isinstance(error, get_cancelled_exc_class()) else "left"


@final
class _Batches:
    """The batches of a stream, counted. An object, not a generator: left early, it leaves nothing to be closed."""

    __slots__ = ("_batches", "_exchange", "_measured", "_received")

    def __init__(
        self,
        batches: AsyncIterator[Sequence[Event]],
        exchange: TransportExchange,
        measured: _Measured,
        received: Callable[[TransportExchange, Sequence[Event]], None],
    ) -> None:
        self._batches = batches
        self._exchange = exchange
        self._measured = measured
        self._received = received

    def __aiter__(self) -> AsyncIterator[Sequence[Event]]:
        return self

    async def __anext__(self) -> Sequence[Event]:
        exchange = self._exchange
        try:
            batch = await self._batches.__anext__()
        except StopAsyncIteration:
            self._measured.is_whole = True
            raise
        except Exception as error:
            exchange.error = error
            raise
        if exchange.first_after is None:
            self._measured.first()
        self._measured.last = batch
        exchange.events += len(batch)
        for event in batch:
            exchange.bytes += len(event.data)
        self._received(exchange, batch)
        return batch
