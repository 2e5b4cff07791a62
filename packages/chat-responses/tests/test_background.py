"""Background responses: polled, continued after a disconnect, resumed by another process, and cancelled."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs

import anyio
import pytest
from chat_core import ChatBuilder, ChatOptions, Messages, TextDelta
from chat_core.errors import ChatError, OverloadedError, RateLimitedError, StreamTruncatedError, TransportError
from chat_core.testing import MockTransport
from chat_responses import BackgroundResponse, ResponsesBuilder, ResponsesOptions, ResponsesProvider
from chat_testing import Exchange, LoopbackServer

pytestmark = pytest.mark.anyio

TEXT = "One two three."
SSE = {"content-type": "text/event-stream"}
MAX_REQUESTS = 20
"""Number of requests after which the server refuses further ones, to stop an endless loop."""
MESSAGE = {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": TEXT}]}
DONE = {"id": "resp_1", "status": "completed", "background": True, "output": [MESSAGE]}
PLACE = {"output_index": 0, "content_index": 0, "item_id": "msg_1"}
EVENTS: list[dict[str, Any]] = [
    {"type": "response.queued", "response": {"id": "resp_1", "status": "queued"}},
    {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}},
    {"type": "response.output_item.added", "output_index": 0, "item": {**MESSAGE, "content": []}},
    {"type": "response.output_text.delta", **PLACE, "delta": "One "},
    {"type": "response.output_text.delta", **PLACE, "delta": "two "},
    {"type": "response.output_text.delta", **PLACE, "delta": "three."},
    {"type": "response.output_item.done", "output_index": 0, "item": MESSAGE},
    {"type": "response.completed", "response": DONE},
]


class Server:
    """A server of background responses, which closes each stream after a few events.

    Attributes:
        polls: number of polls before the response is finished.
        events: number of events that a connection sends.
        requests: method and path of each request.
        failures: number of the next polls and streams that fail with status 503.
    """

    def __init__(self) -> None:
        self.polls = 2
        self.events = len(EVENTS)
        self.requests: list[str] = []
        self.failures = 0
        self.cancelled = False

    def __call__(self, exchange: Exchange) -> None:
        self.requests.append(f"{exchange.method} {exchange.path}")
        path, _, query = exchange.path.partition("?")
        fields: dict[str, Any] = json.loads(exchange.body) if exchange.body else {}
        if len(self.requests) > MAX_REQUESTS:
            exchange.answer(400, {}, b'{"error": {"message": "There are too many requests."}}')
        elif exchange.method == "GET" and self.failures:
            self.failures -= 1
            exchange.answer(503, {}, b'{"error": {"message": "Busy."}}')
        elif path.endswith("/cancel"):
            self.cancelled = True
            exchange.answer(200, {}, b'{"id": "resp_1", "status": "cancelled"}')
        elif fields.get("stream") or "stream=true" in query:
            after = int(parse_qs(query).get("starting_after", ["-1"])[0])
            exchange.head(200, {"content-type": "text/event-stream"})
            for number in range(after + 1, min(after + 1 + self.events, len(EVENTS))):
                event = {**EVENTS[number], "sequence_number": number}
                exchange.chunk(f"data: {json.dumps(event)}\n\n".encode())
            exchange.end()
        else:
            self.polls -= 1
            status = "cancelled" if self.cancelled else "in_progress"
            waiting: dict[str, Any] = {"id": "resp_1", "status": status, "output": []}
            exchange.answer(200, {}, json.dumps(waiting if self.polls >= 0 or self.cancelled else DONE).encode())


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def model(server: Server) -> Iterator[ResponsesProvider]:
    with LoopbackServer(server) as running:
        yield ResponsesBuilder().with_base_url(f"http://{running.host}/v1").with_model("m").build()


@pytest.fixture(autouse=True)
def delays(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    sleep = anyio.sleep

    async def note(delay: float) -> None:
        found.append(delay)
        await sleep(0)

    monkeypatch.setattr("chat_responses.background.anyio.sleep", note)
    return found


def background(**fields: Any) -> ChatOptions:
    return ChatOptions(extras=(ResponsesOptions(background=True, **fields),))


async def heard(model: ResponsesProvider, options: ChatOptions) -> tuple[str, str]:
    """Stream a response, and return the text of its deltas and the text in the history."""
    messages = Messages.from_user("Count.")
    async with ChatBuilder().with_model(model).with_retry(0).build().stream(messages, options=options) as stream:
        deltas = [event.text async for event in stream if isinstance(event, TextDelta)]
    return "".join(deltas), messages[-1].text


async def test_complete_polls_with_doubling_delays(
    server: Server, model: ResponsesProvider, delays: list[float]
) -> None:
    server.polls = 7
    accepted: list[BackgroundResponse] = []
    async with model:
        chat = ChatBuilder().with_model(model).build()
        answer = await chat.complete(Messages.from_user("Count."), options=background(on_background=accepted.append))
    assert answer.text == TEXT
    assert accepted == [BackgroundResponse("resp_1")]
    assert delays == [1, 2, 4, 8, 16, 30, 30]
    assert server.requests == ["POST /v1/responses", *["GET /v1/responses/resp_1"] * 7]


async def test_another_process_waits_for_a_response(server: Server, model: ResponsesProvider) -> None:
    stored = json.loads(json.dumps({"id": "resp_1"}))
    async with model:
        chat = ChatBuilder().with_model(model).build()
        messages = Messages.from_user("Count.")
        await chat.complete(messages, options=background(resume=BackgroundResponse(stored["id"])))
        assert server.requests == ["GET /v1/responses/resp_1"] * 3

        # The next response of the conversation is a new one.
        messages.user("Again.")
        await chat.complete(messages, options=background(resume=BackgroundResponse(stored["id"])))
    assert server.requests[3:] == ["POST /v1/responses"]


@pytest.mark.parametrize("events", range(1, len(EVENTS) + 1))
async def test_a_stream_continues_after_the_last_event(server: Server, model: ResponsesProvider, events: int) -> None:
    server.events = events
    async with model:
        assert await heard(model, background()) == (TEXT, TEXT)
    after = range(events - 1, len(EVENTS) - 1, events)
    paths = [f"GET /v1/responses/resp_1?stream=true&starting_after={number}" for number in after]
    assert server.requests == ["POST /v1/responses", *paths]


@pytest.mark.parametrize(("last", "text"), [(None, TEXT), (1, TEXT), (3, "two three."), (5, "")])
async def test_another_process_streams_the_rest_of_a_response(
    server: Server, model: ResponsesProvider, last: int | None, text: str
) -> None:
    server.events = 2
    async with model:
        found = await heard(model, background(resume=BackgroundResponse("resp_1", last)))
    assert found == (text, TEXT)
    assert all(request.startswith("GET ") for request in server.requests)


async def test_the_number_of_the_last_event_is_reported(server: Server, model: ResponsesProvider) -> None:
    reported: list[BackgroundResponse] = []
    server.events = 3
    async with model:
        await heard(model, background(on_background=reported.append))
    assert reported[-1] == BackgroundResponse("resp_1", len(EVENTS) - 1)
    numbers = [response.sequence_number or 0 for response in reported]
    assert numbers == sorted(numbers)


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_server_that_is_briefly_unavailable_is_asked_again(
    server: Server, model: ResponsesProvider, *, streamed: bool
) -> None:
    # A stream that ends too early is the first failure.
    server.failures, server.events = 4 if streamed else 5, 2
    async with model:
        if streamed:
            assert await heard(model, background()) == (TEXT, TEXT)
        else:
            answer = (
                await ChatBuilder().with_model(model).build().complete(Messages.from_user("C"), options=background())
            )
            assert answer.text == TEXT


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_server_that_stays_unavailable_ends_the_run(
    server: Server, model: ResponsesProvider, *, streamed: bool
) -> None:
    server.failures, server.events = 6, 2
    async with model:
        with pytest.raises(OverloadedError):
            if streamed:
                await heard(model, background())
            else:
                chat = ChatBuilder().with_model(model).with_retry(0).build()
                await chat.complete(Messages.from_user("Count."), options=background())
    assert len(server.requests) == (6 if streamed else 7)


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_retry_waits_for_the_response_that_was_started(
    server: Server, model: ResponsesProvider, *, streamed: bool
) -> None:
    # A stream that ends after two events has delivered no text.
    server.failures, server.events = 6 if streamed else 7, 2
    chat = ChatBuilder().with_model(model).with_retry(2).build()
    messages = Messages.from_user("Count.")
    async with model:
        if streamed:
            async with chat.stream(messages, options=background()) as stream:
                assert "".join([event.text async for event in stream if isinstance(event, TextDelta)]) == TEXT
        else:
            await chat.complete(messages, options=background())
    assert messages[-1].text == TEXT
    assert [request for request in server.requests if request.startswith("POST")] == ["POST /v1/responses"]


@pytest.mark.parametrize("streamed", [False, True])
async def test_the_delay_that_the_server_asks_for_is_respected(delays: list[float], *, streamed: bool) -> None:
    transport = MockTransport()
    if streamed:
        transport.events(json.dumps({**EVENTS[0], "sequence_number": 0}))
    else:
        transport.answer(200, {}, {"id": "resp_1", "status": "queued"})
    for seconds in ("20", "0"):
        transport.answer(429, {"retry-after": seconds}, {"error": {"message": "Slow down."}})
    if streamed:
        transport.events(*map(json.dumps, EVENTS))
    else:
        transport.answer(200, {}, DONE)
    model = ResponsesBuilder().with_base_url("http://host").with_model("m").with_transport(transport).build()
    chat = ChatBuilder().with_model(model).with_retry(0).build()
    if streamed:
        assert await heard(model, background()) == (TEXT, TEXT)
    else:
        assert (await chat.complete(Messages.from_user("Count."), options=background())).text == TEXT
    assert delays == [1, 20, 4]


async def test_a_delay_of_more_than_a_minute_raises_the_error(delays: list[float]) -> None:
    transport = MockTransport()
    transport.answer(200, {}, {"id": "resp_1", "status": "queued"})
    transport.answer(429, {"retry-after": "61"}, {"error": {"message": "Slow down."}})
    model = ResponsesBuilder().with_base_url("http://host").with_model("m").with_transport(transport).build()
    chat = ChatBuilder().with_model(model).with_retry(0).build()
    with pytest.raises(RateLimitedError):
        await chat.complete(Messages.from_user("Count."), options=background())
    assert delays == [1]


@pytest.mark.parametrize("borders", [True, False])
async def test_a_stream_continues_after_the_last_event_with_a_number(*, borders: bool) -> None:
    events = [{**event, "sequence_number": number} for number, event in enumerate(EVENTS)]
    chunks = [f"data: {json.dumps(event)}\n\n" for event in [*events[:5], {"type": "keepalive"}]]
    transport = MockTransport()
    transport.answer(200, SSE, [*(chunks if borders else ["".join(chunks)]), TransportError("stream", "reset")])
    transport.events(*map(json.dumps, events[5:]))
    model = ResponsesBuilder().with_base_url("http://host").with_model("m").with_transport(transport).build()
    assert await heard(model, background()) == (TEXT, TEXT)
    assert transport.last.path == "/responses/resp_1?stream=true&starting_after=4"


async def test_a_retry_after_a_failed_response_starts_a_new_one() -> None:
    transport = MockTransport()
    transport.answer(200, {}, {"id": "resp_0", "status": "queued"})
    transport.answer(200, {}, {"id": "resp_0", "status": "failed", "error": {"code": "server_error", "message": "x"}})
    transport.answer(200, {}, {"id": "resp_1", "status": "queued"})
    transport.answer(200, {}, DONE)
    model = ResponsesBuilder().with_base_url("http://host").with_model("m").with_transport(transport).build()
    chat = ChatBuilder().with_model(model).with_retry(1).build()
    assert (await chat.complete(Messages.from_user("Count."), options=background())).text == TEXT
    assert [request.path for request in transport.requests] == [
        "/responses",
        "/responses/resp_0",
        "/responses",
        "/responses/resp_1",
    ]


async def test_a_stream_without_any_event_is_not_continued() -> None:
    transport = MockTransport()
    transport.events()
    model = ResponsesBuilder().with_base_url("http://host").with_model("m").with_transport(transport).build()
    with pytest.raises(StreamTruncatedError):
        await heard(model, background())
    assert len(transport.requests) == 1


async def test_streams_without_new_events_end_the_run(server: Server, model: ResponsesProvider) -> None:
    server.events = 0
    async with model:
        with pytest.raises(StreamTruncatedError):
            await heard(model, background(resume=BackgroundResponse("resp_1", 3)))
    assert len(server.requests) == 6


async def test_a_cancelled_response_is_an_error_for_the_process_that_waits(
    server: Server, model: ResponsesProvider
) -> None:
    async with model:
        await model.cancel_response(BackgroundResponse("resp_1"))
        chat = ChatBuilder().with_model(model).with_retry(0).build()
        with pytest.raises(ChatError, match="the response was cancelled"):
            await chat.complete(Messages.from_user("Count."), options=background())
    assert server.requests[0] == "POST /v1/responses/resp_1/cancel"


@pytest.mark.parametrize("streamed", [False, True])
async def test_the_whole_history_is_sent_if_the_previous_response_is_missing(*, streamed: bool) -> None:
    transport = MockTransport()
    transport.answer(200, {}, {**DONE, "id": "resp_0"})
    transport.answer(400, {}, {"error": {"code": "previous_response_not_found", "message": "Gone."}})
    if streamed:
        transport.events(*map(json.dumps, EVENTS))
    else:
        transport.answer(200, {}, {"id": "resp_1", "status": "queued"})
        transport.answer(200, {}, DONE)
    builder = ResponsesBuilder().with_base_url("http://host").with_model("m").with_transport(transport)
    chat = ChatBuilder().with_model(builder.with_previous_response().build()).with_retry(0).build()
    messages = Messages.from_user("Count.")
    await chat.complete(messages)
    messages.user("Again.")
    if streamed:
        async with chat.stream(messages, options=background()) as stream:
            async for _ in stream:
                pass
    else:
        await chat.complete(messages, options=background())
    refused, repeated = (recorded.json() for recorded in transport.requests[1:3])
    assert (refused["previous_response_id"], len(refused["input"])) == ("resp_0", 1)
    assert ("previous_response_id" in repeated, len(repeated["input"])) == (False, 3)
    assert messages[-1].text == TEXT
