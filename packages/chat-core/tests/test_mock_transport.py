from __future__ import annotations

import anyio
import pytest
from chat_core.errors import TransportError, UsageError
from chat_core.testing import MockTransport
from chat_core.transport import Event, Framing, Request, Transport

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def ask(body: bytes = b"{}", *, framing: Framing = "sse") -> Request:
    return Request("POST", "https", "api.test", "/v1?x=1", (("Authorization", "Bearer k"),), body, framing=framing)


async def read(transport: MockTransport, request: Request) -> list[bytes]:
    async with transport.stream(request) as stream:
        return [event.data async for event in stream]


def test_mock_transport_is_a_transport() -> None:
    assert isinstance(MockTransport(), Transport)


async def test_answers_of_any_status_are_returned_in_order() -> None:
    transport = MockTransport()
    transport.answer(200, {"x": "1"}, b"one")
    transport.answer(500, [("x", "2")], "two")
    transport.answer(body={"three": "é"})
    first = await transport.send(ask())
    assert (first.status, first.headers["X"], first.body) == (200, "1", b"one")
    assert transport.unused == 2
    assert (await transport.send(ask())).status == 500
    assert (await transport.send(ask())).body == '{"three":"é"}'.encode()
    assert transport.unused == 0


async def test_requests_are_recorded_and_can_be_inspected() -> None:
    transport = MockTransport()
    with pytest.raises(UsageError, match="no request"):
        _ = transport.last
    transport.answer()
    transport.events("x")
    await transport.send(ask(b'{"n": 1}'))
    await read(transport, ask(b'{"n": 2}'))
    assert [request.json() for request in transport.requests] == [{"n": 1}, {"n": 2}]
    assert [request.streamed for request in transport.requests] == [False, True]
    last = transport.last
    assert last.headers["authorization"] == "Bearer k"
    assert (last.url, last.path, last.body) == ("https://api.test/v1?x=1", "/v1?x=1", b'{"n": 2}')
    assert last.request.method == "POST"
    assert "Bearer k" not in repr(last)


async def test_stream_is_split_by_the_framing_of_its_request() -> None:
    transport = MockTransport()
    transport.events("a", "b\nc", headers={"x": "y"})
    transport.answer(body=[b"1\n2", b"3\n"])
    transport.answer(body="[1, 23]")
    async with transport.stream(ask()) as stream:
        assert (stream.status, stream.headers["content-type"], stream.headers["x"]) == (200, "text/event-stream", "y")
        assert [batch async for batch in stream.batches()] == [[Event("message", b"a")], [Event("message", b"b\nc")]]
    assert await read(transport, ask(framing="json-lines")) == [b"1", b"23"]
    assert await read(transport, ask(framing="json-array")) == [b"1", b"23"]


async def test_events_of_one_chunk_form_one_batch() -> None:
    transport = MockTransport()
    transport.answer(body=[b"data: 1\n\ndata: 2\n\nda", b"ta: 3\n\n"])
    async with transport.stream(ask()) as stream:
        assert [len(batch) async for batch in stream.batches()] == [2, 1]


async def test_stream_with_an_error_status_raises_when_it_is_opened() -> None:
    transport = MockTransport()
    transport.answer(429, {"retry-after": "2"}, {"error": 1})
    with pytest.raises(TransportError) as caught:
        await read(transport, ask())
    error = caught.value
    assert (error.kind, error.status, error.headers["Retry-After"], error.body) == ("status", 429, "2", b'{"error":1}')


async def test_error_in_a_body_is_raised_after_the_events_before_it() -> None:
    transport = MockTransport()
    transport.answer(body=["data: 1\n\n", TransportError("stream", "reset"), "data: 2\n\n"])
    seen: list[bytes] = []
    async with transport.stream(ask()) as stream:
        events = aiter(stream)
        seen.append((await anext(events)).data)
        with pytest.raises(TransportError, match="reset"):
            await anext(events)
    assert seen == [b"1"]


async def test_fail_raises_its_error_instead_of_an_answer() -> None:
    transport = MockTransport()
    for _ in range(2):
        transport.fail(TransportError("connect", "no route"))
    with pytest.raises(TransportError, match="no route"):
        await transport.send(ask())
    with pytest.raises(TransportError, match="no route"):
        await read(transport, ask())
    assert len(transport.requests) == 2


async def test_request_without_a_prepared_answer_raises_usage_error() -> None:
    with pytest.raises(UsageError, match=r"no answer is left for POST api\.test, request 1"):
        await MockTransport().send(ask())


async def test_body_can_wait_for_an_event_of_the_test() -> None:
    transport, go_on = MockTransport(), anyio.Event()
    transport.answer(body=["data: 1\n\n", go_on.wait, "data: 2\n\n"])
    async with transport.stream(ask()) as stream:
        seen: list[bytes] = []
        async for event in stream:
            seen.append(event.data)
            go_on.set()
    assert seen == [b"1", b"2"]


async def test_open_streams_counts_streams_until_they_are_closed() -> None:
    transport = MockTransport()
    transport.events("1", "2")
    transport.answer(body=["data: 1\n\n", anyio.sleep_forever])
    async with transport.stream(ask()) as stream:
        assert transport.open_streams == 1
        async for _ in stream:
            break
    assert transport.open_streams == 0
    with anyio.CancelScope() as scope:
        async with transport.stream(ask()) as stream:
            async for _ in stream:
                scope.cancel()
    assert scope.cancelled_caught
    assert transport.open_streams == 0


async def test_stream_ends_at_the_last_event_even_if_the_body_continues() -> None:
    transport = MockTransport()
    transport.events("1", "end", "of another answer")
    request = Request("POST", "https", "api.test", "/", is_last=lambda event: event.data == b"end")
    assert await read(transport, request) == [b"1", b"end"]


async def test_event_longer_than_max_event_bytes_raises() -> None:
    transport = MockTransport(max_event_bytes=3)
    transport.events("1234")
    with pytest.raises(TransportError, match="longer than 3 bytes"):
        await read(transport, ask())


async def test_closed_is_true_after_aclose() -> None:
    transport = MockTransport()
    assert not transport.closed
    await transport.aclose()
    assert transport.closed
