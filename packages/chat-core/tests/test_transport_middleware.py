"""Transport middlewares: what they receive, in which order, without changing the exchange."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import replace

import anyio
import pytest
from chat_core.errors import TransportError
from chat_core.testing import MockTransport
from chat_core.transport import (
    Event,
    EventStream,
    Headers,
    Request,
    Response,
    Transport,
    TransportExchange,
    TransportMiddleware,
)

ASKED = Request("POST", "https", "llm.example", "/v1/chat?key=k", (("authorization", "Bearer sk-1"),), b"{}")


def is_done(event: Event) -> bool:
    return event.data == b"[DONE]"


class Noting(TransportMiddleware):
    """Middleware that records events and stores the exchanges."""

    def __init__(self, inner: Transport, name: str = "it", notes: list[str] | None = None) -> None:
        super().__init__(inner, clock=Clock())
        self.name = name
        self.notes = notes if notes is not None else []
        self.exchanges: list[TransportExchange] = []

    @contextmanager
    def around(self, exchange: TransportExchange, /) -> Generator[None]:
        self.exchanges.append(exchange)
        self.notes.append(f"{self.name} begins")
        exchange.request = replace(exchange.request, headers=(*exchange.request.headers, ("via", self.name)))
        try:
            yield
        finally:
            self.notes.append(f"{self.name} ends {exchange.outcome}")

    def received(self, exchange: TransportExchange, batch: Sequence[Event], /) -> None:
        self.notes.append(f"{self.name} has {len(batch)} of {exchange.events}")

    @property
    def only(self) -> TransportExchange:
        (exchange,) = self.exchanges
        return exchange


class Clock:
    """Clock that advances by one second with each reading."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


async def read(transport: Transport, request: Request = ASKED, leave_behind: int | None = None) -> list[bytes]:
    seen: list[bytes] = []
    async with transport.stream(request) as stream:
        async for event in stream:
            seen.append(event.data)
            if len(seen) == leave_behind:
                break
    return seen


@pytest.mark.anyio
async def test_middleware_without_overrides_passes_requests_and_responses_unchanged() -> None:
    mock = MockTransport()
    mock.answer(201, {"x-id": "7"}, b"whole")
    mock.answer(202, {"x-id": "8"}, b"data: 1\n\ndata: 2\n\n")
    transport = TransportMiddleware(mock)

    response = await transport.send(ASKED)
    async with transport.stream(ASKED) as stream:
        batches = [[event.data for event in batch] async for batch in stream.batches()]

    assert (response.status, response.headers["x-id"], response.body) == (201, "7", b"whole")
    assert (stream.status, stream.headers["x-id"], batches) == (202, "8", [[b"1", b"2"]])
    assert [recorded.request for recorded in mock.requests] == [ASKED, ASKED]


@pytest.mark.anyio
async def test_outer_middleware_begins_first_and_ends_last() -> None:
    mock, notes = MockTransport(), list[str]()
    mock.events("1", "2")
    transport = Noting(Noting(mock, "inner", notes), "outer", notes)

    assert await read(transport) == [b"1", b"2"]
    assert notes == [
        "outer begins",
        "inner begins",
        "inner has 1 of 1",
        "outer has 1 of 1",
        "inner has 1 of 2",
        "outer has 1 of 2",
        "inner ends complete",
        "outer ends complete",
    ]
    assert [value for name, value in mock.last.request.headers if name == "via"] == ["outer", "inner"]


@pytest.mark.anyio
async def test_early_close_of_a_stream_reaches_every_middleware_and_closes_the_transport() -> None:
    mock, notes = MockTransport(), list[str]()
    mock.answer(body=[b"data: 1\n\n", anyio.sleep_forever])
    transport = Noting(Noting(mock, "inner", notes), "outer", notes)

    assert await read(transport, leave_behind=1) == [b"1"]
    assert notes[-2:] == ["inner ends left", "outer ends left"]
    assert mock.open_streams == 0


@pytest.mark.anyio
async def test_cancellation_of_a_reader_reaches_every_middleware_and_closes_the_transport() -> None:
    mock, notes = MockTransport(), list[str]()
    waits = anyio.Event()

    async def wait() -> None:
        waits.set()
        await anyio.sleep_forever()

    mock.answer(body=[b"data: 1\n\n", wait])
    transport = Noting(Noting(mock, "inner", notes), "outer", notes)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read, transport)
        await waits.wait()
        tasks.cancel_scope.cancel()

    assert notes[-2:] == ["inner ends cancelled", "outer ends cancelled"]
    assert mock.open_streams == 0


@pytest.mark.anyio
async def test_request_cancelled_before_its_response_has_the_outcome_cancelled() -> None:
    mock = MockTransport()
    waits = anyio.Event()

    async def wait() -> None:
        waits.set()
        await anyio.sleep_forever()

    mock.answer(body=[wait])
    transport = Noting(mock)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(transport.send, ASKED)
        await waits.wait()
        tasks.cancel_scope.cancel()

    assert transport.only.outcome == "cancelled"
    assert transport.only.error is None


@pytest.mark.anyio
async def test_errors_propagate_unchanged_through_every_middleware() -> None:
    failures = (TransportError("connect", "no route"), RuntimeError("a bug"))
    for failure in failures:
        for streamed in (True, False):
            mock = MockTransport()
            mock.fail(failure)
            inner = Noting(mock)
            outer = Noting(inner)
            with pytest.raises(type(failure)) as caught:
                await (read(outer) if streamed else outer.send(ASKED))

            assert caught.value is failure
            assert failure.__cause__ is None
            assert [seen.only.error for seen in (inner, outer)] == [failure, failure]
            assert [seen.only.outcome for seen in (inner, outer)] == ["failed", "failed"]


@pytest.mark.anyio
async def test_broken_stream_has_the_outcome_failed_even_if_the_reader_catches_the_error() -> None:
    mock = MockTransport()
    broken = TransportError("stream", "reset")
    mock.answer(body=[b"data: 1\n\n", broken])
    transport = Noting(mock)
    async with transport.stream(ASKED) as stream:
        with pytest.raises(TransportError) as caught:
            [event async for event in stream]

    assert caught.value is broken
    assert (transport.only.outcome, transport.only.error, transport.only.events) == ("failed", broken, 1)


@pytest.mark.anyio
async def test_exchange_of_a_refused_stream_has_its_status_and_headers() -> None:
    mock = MockTransport()
    mock.answer(429, {"x-request-id": "r7"}, b"slow down")
    transport = Noting(mock)
    with pytest.raises(TransportError):
        await read(transport)

    assert (transport.only.status, transport.only.headers["x-request-id"]) == (429, "r7")
    assert transport.only.outcome == "failed"


@pytest.mark.anyio
async def test_error_of_the_reader_is_not_recorded_as_a_transport_error() -> None:
    mock = MockTransport()
    mock.events("1", "2")
    transport = Noting(mock)
    own = ValueError("the reader's own")
    with pytest.raises(ValueError, match="own") as caught:
        async with transport.stream(ASKED):
            raise own

    assert caught.value is own
    assert (transport.only.outcome, transport.only.error) == ("left", None)


@pytest.mark.anyio
async def test_error_while_closing_a_stream_has_the_outcome_failed() -> None:
    broken = TransportError("stream", "while closing")

    class BreaksLast(TransportMiddleware):
        @asynccontextmanager
        async def stream(self, request: Request, /) -> AsyncGenerator[EventStream]:
            async with super().stream(request) as stream:
                yield stream
            raise broken

    mock = MockTransport()
    mock.events("1")
    transport = Noting(BreaksLast(mock))
    with pytest.raises(TransportError) as caught:
        await read(transport)

    assert caught.value is broken
    assert (transport.only.outcome, transport.only.error) == ("failed", broken)


@pytest.mark.anyio
async def test_stream_closed_after_its_last_event_has_the_outcome_complete() -> None:
    for leave_behind, outcome in ((1, "left"), (2, "complete")):
        mock = MockTransport()
        mock.events("1", "[DONE]")
        transport = Noting(mock)
        await read(transport, replace(ASKED, is_last=is_done), leave_behind)

        assert transport.only.outcome == outcome


@pytest.mark.anyio
async def test_exchange_counts_events_bytes_and_seconds() -> None:
    mock = MockTransport()
    mock.answer(200, {}, b"data: 12\n\ndata: 345\n\n")
    mock.answer(200, {}, b"four")
    transport = Noting(mock)
    await read(transport)
    response = await transport.send(ASKED)
    streamed, whole = transport.exchanges

    assert (streamed.streamed, streamed.events, streamed.bytes) == (True, 2, 5)
    assert (streamed.first_after, streamed.seconds) == (1.0, 2.0)
    assert (whole.streamed, whole.events, whole.bytes) == (False, 0, 4)
    assert (whole.first_after, whole.seconds) == (1.0, 2.0)
    assert whole.response is response
    assert whole.outcome == "complete"


@pytest.mark.anyio
async def test_closing_a_middleware_closes_the_inner_transport() -> None:
    mock = MockTransport()
    await TransportMiddleware(TransportMiddleware(mock)).aclose()

    assert mock.closed


def test_repr_of_a_middleware_contains_its_inner_transport() -> None:
    class Named:
        def __repr__(self) -> str:
            return "Named()"

        async def send(self, request: Request, /) -> Response:
            return Response(200, Headers(), request.body)

        def stream(self, request: Request, /) -> AbstractContextManager[EventStream]:
            raise NotImplementedError

        async def aclose(self) -> None:
            pass

    inner: object = Named()

    assert repr(TransportMiddleware(inner)) == "TransportMiddleware(Named())"  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # it is never asked
