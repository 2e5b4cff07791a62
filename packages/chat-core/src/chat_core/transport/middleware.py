"""The base class for middlewares: transports that wrap another transport.

A middleware is itself a transport, so middlewares compose: `LoggingTransport(RecordingTransport(HttpxTransport(),
path))`. Each of them sees the request, the response and the outcome of an exchange. The outermost middleware starts
first and finishes last.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from time import perf_counter
from types import TracebackType
from typing import Literal, Self, TypeAlias, final

from anyio import get_cancelled_exc_class

from chat_core.errors import TransportError
from chat_core.transport.protocol import Transport
from chat_core.transport.values import Event, EventStream, Headers, Request, Response, never_last

Outcome: TypeAlias = Literal["open", "complete", "left", "cancelled", "failed"]
"""The outcome of an exchange.

- `open`: the exchange is in progress.
- `complete`: the complete response arrived.
- `left`: the reader exited a stream before its end.
- `cancelled`: the task of the caller was cancelled.
- `failed`: the transport raised an error.
"""


@final
@dataclass(slots=True, eq=False)
class TransportExchange:
    """One request and its response, as a middleware sees them.

    Attributes:
        request: the request to send. A middleware may replace it before its `yield`, for example to add a header.
        streamed: whether the caller used `stream()`.
        status: the status of the response or error response, as soon as it arrives.
        headers: the headers of the response or error response, as soon as they arrive.
        response: the complete response of `send()`.
        events: the number of events received from a stream.
        bytes: the number of bytes in the body of a complete response, or in the data of all received events. Framing
            and compression are not included.
        first_after: seconds until the first events or the complete response arrived.
        seconds: the duration of the exchange, after it has ended.
        outcome: the outcome. A stream is `complete` if its events have ended, or if its last event
            (`Request.is_last`) was delivered to the reader.
        error: the error that the transport raised, if the outcome is `failed`.
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
    """Base class for middlewares. It forwards every call; subclasses override `around` and, if needed, `received`.

    Errors propagate unchanged. Exiting a stream exits the inner stream, and closing the middleware closes the inner
    transport.

    Args:
        inner: the transport that sends the requests. The middleware owns it.
        clock: function that returns the current time in seconds.

    Attributes:
        inner: the wrapped transport.
    """

    def __init__(self, inner: Transport, *, clock: Callable[[], float] = perf_counter) -> None:
        self.inner = inner
        self._clock = clock

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r})"

    def around(self, exchange: TransportExchange, /) -> AbstractContextManager[object]:
        """Return a context manager that wraps one exchange. Overrides usually have the `@contextmanager` decorator.

        Code before the `yield` runs before the request is sent and may replace `exchange.request`. Code in a `finally`
        after the `yield` runs when the exchange has ended and `exchange` has its outcome; a stream ends when its
        context exits. An override must not suppress exceptions from the `yield`.
        """
        del exchange
        return nullcontext()

    def received(self, exchange: TransportExchange, batch: Sequence[Event], /) -> None:
        """Handle a batch of events of a stream before the reader receives it. The default does nothing.

        Args:
            exchange: the exchange of the stream; its counters include the batch.
            batch: the events of one read.
        """

    async def send(self, request: Request, /) -> Response:
        """Implement `Transport.send`: forward the request to the inner transport.

        Raises:
            TransportError: the inner transport failed.
        """
        exchange = TransportExchange(request, streamed=False)
        with self.around(exchange), _ExchangeRecorder(exchange, self._clock) as recorder:
            response = exchange.response = await self.inner.send(exchange.request)
            exchange.status, exchange.headers, exchange.bytes = response.status, response.headers, len(response.body)
            recorder.record_first_data()
            recorder.is_complete = True
        return response

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncGenerator[EventStream]:
        """Implement `Transport.stream`: forward the request. Exiting the context exits the inner stream at once.

        Raises:
            TransportError: the inner transport failed.
        """
        exchange = TransportExchange(request, streamed=True)
        with self.around(exchange), _ExchangeRecorder(exchange, self._clock) as recorder:
            async with self.inner.stream(exchange.request) as stream:
                exchange.status, exchange.headers = stream.status, stream.headers
                batches = _CountedBatches(stream.batches(), exchange, recorder, self.received)
                try:
                    yield EventStream(stream.status, stream.headers, batches)
                except BaseException as error:
                    recorder.reader_error = error
                    raise

    async def aclose(self) -> None:
        """Close the inner transport."""
        await self.inner.aclose()


@final
class _ExchangeRecorder:
    """Context manager that records the duration and the outcome of an exchange."""

    __slots__ = ("_clock", "_exchange", "_started_at", "is_complete", "last_batch", "reader_error")

    def __init__(self, exchange: TransportExchange, clock: Callable[[], float]) -> None:
        self._exchange = exchange
        self._clock = clock
        self._started_at = 0.0
        self.is_complete = False
        self.last_batch: Sequence[Event] = ()
        self.reader_error: BaseException | None = None

    def __enter__(self) -> Self:
        self._started_at = self._clock()
        return self

    def record_first_data(self) -> None:
        """Record the time of the first received data."""
        self._exchange.first_after = self._clock() - self._started_at

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        exchange = self._exchange
        if isinstance(error, Exception) and error is not self.reader_error:
            exchange.error = error  # raised by the transport, not by the reader's code
        if isinstance(exchange.error, TransportError) and exchange.error.status is not None:
            exchange.status, exchange.headers = exchange.error.status, Headers(exchange.error.headers)
        exchange.outcome = self._exchange_outcome(error)
        exchange.seconds = self._clock() - self._started_at

    def _exchange_outcome(self, error: BaseException | None) -> Outcome:
        if self._exchange.error is not None:
            return "failed"
        is_last = self._exchange.request.is_last
        if self.is_complete or (is_last is not never_last and any(is_last(event) for event in self.last_batch)):
            return "complete"
        return "cancelled" if error is not None and isinstance(error, get_cancelled_exc_class()) else "left"


@final
class _CountedBatches:
    """Iterator over the batches of a stream that counts events and bytes. Unlike a generator, it needs no closing."""

    __slots__ = ("_batches", "_exchange", "_received", "_recorder")

    def __init__(
        self,
        batches: AsyncIterator[Sequence[Event]],
        exchange: TransportExchange,
        recorder: _ExchangeRecorder,
        received: Callable[[TransportExchange, Sequence[Event]], None],
    ) -> None:
        self._batches = batches
        self._exchange = exchange
        self._recorder = recorder
        self._received = received

    def __aiter__(self) -> AsyncIterator[Sequence[Event]]:
        return self

    async def __anext__(self) -> Sequence[Event]:
        exchange = self._exchange
        try:
            batch = await self._batches.__anext__()
        except StopAsyncIteration:
            self._recorder.is_complete = True
            raise
        except Exception as error:
            exchange.error = error
            raise
        if exchange.first_after is None:
            self._recorder.record_first_data()
        self._recorder.last_batch = batch
        exchange.events += len(batch)
        for event in batch:
            exchange.bytes += len(event.data)
        self._received(exchange, batch)
        return batch
