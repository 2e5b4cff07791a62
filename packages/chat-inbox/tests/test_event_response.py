"""Event streams stay open while nothing happens, and end when no client reads them."""

# The tests choose the order of tasks, which only private members show.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager

import anyio
import pytest
import uvicorn
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint
from chat_inbox import event_response
from chat_inbox.__main__ import listen
from chat_inbox.event_response import BODY_SEND, EventResponse, OpenStreams, Write, encode_event
from starlette.types import Message, Receive, Scope, Send

pytestmark = pytest.mark.anyio
WAIT = 20
"""Timeout in seconds for events that must happen."""


class Connection:
    """A client of one response.

    Attributes:
        messages: messages that the server has received from the application.
        is_reading: set while the server accepts messages for the client.
        is_gone: set when the client has disconnected.
    """

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.is_reading = anyio.Event()
        self.is_reading.set()
        self.is_gone = anyio.Event()
        self._news = anyio.Event()

    async def receive(self) -> Message:
        await self.is_gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        await self.is_reading.wait()
        self.messages.append(message)
        self._news.set()
        self._news = anyio.Event()

    async def open(self, response: EventResponse, method: str = "GET") -> None:
        with anyio.fail_after(WAIT):
            await response({"type": "http", "method": method, "path": "/"}, self.receive, self.send)

    @property
    def bodies(self) -> list[bytes]:
        return [message.get("body", b"") for message in self.messages[1:]]

    async def until(self, count: int) -> None:
        while len(self.messages) < count:
            await self._news.wait()


@asynccontextmanager
async def running(streams: OpenStreams) -> AsyncGenerator[TaskGroup]:
    async with anyio.create_task_group() as group:
        group.start_soon(streams.run)
        yield group
        group.cancel_scope.cancel()


@pytest.fixture(autouse=True)
def frequent_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_response, "_CHECK_SECONDS", 0.001)


async def send_one(write: Write) -> None:
    await write(encode_event("text", "{}", "1-1"))


async def send_one_and_wait(write: Write) -> None:
    await send_one(write)
    await anyio.sleep_forever()


async def test_a_response_contains_all_events_and_ends() -> None:
    connection = Connection()
    await connection.open(EventResponse(send_one, OpenStreams(), {"X-Run-Id": "5"}))

    headers = dict(connection.messages[0]["headers"])
    assert headers[b"content-type"] == b"text/event-stream; charset=utf-8"
    assert (headers[b"cache-control"], headers[b"x-run-id"]) == (b"no-store", b"5")
    assert connection.bodies == [b"id: 1-1\nevent: text\ndata: {}\n\n", b""]
    assert not connection.messages[-1].get("more_body")


async def test_the_body_can_be_sent_behind_all_middleware() -> None:
    inner, outer = Connection(), Connection()
    scope: Scope = {"type": "http", "method": "GET", "path": "/", BODY_SEND: outer.send}
    with anyio.fail_after(WAIT):
        await EventResponse(send_one, OpenStreams())(scope, inner.receive, inner.send)

    assert [message["type"] for message in inner.messages] == ["http.response.start"]
    assert [message.get("body") for message in outer.messages] == [encode_event("text", "{}", "1-1"), None]


async def test_a_head_request_opens_no_stream() -> None:
    connection = Connection()
    await connection.open(EventResponse(send_one_and_wait, OpenStreams()), "HEAD")

    assert connection.bodies == [b""]
    assert not connection.messages[-1].get("more_body")


async def test_an_idle_stream_receives_comments() -> None:
    connection, streams = Connection(), OpenStreams(ping_seconds=0.001)
    async with running(streams) as group:
        group.start_soon(connection.open, EventResponse(send_one_and_wait, streams))
        with anyio.fail_after(WAIT):
            await connection.until(4)

    assert connection.bodies[1:3] == [b": ping\n\n"] * 2


async def test_a_comment_is_not_sent_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    connection, streams = Connection(), OpenStreams(ping_seconds=0.001)
    ping, may_ping = event_response._OpenStream.ping, anyio.Event()

    async def ping_late(stream: event_response._OpenStream) -> None:
        may_ping.set()
        with anyio.CancelScope(shield=True):  # a task that has not started yet is not cancelled either
            while connection.bodies[-1:] != [b""]:
                await checkpoint()
            await ping(stream)

    async def end_before_the_comment(write: Write) -> None:
        await send_one(write)
        await may_ping.wait()

    monkeypatch.setattr(event_response._OpenStream, "ping", ping_late)
    async with running(streams):
        await connection.open(EventResponse(end_before_the_comment, streams))

    assert connection.bodies == [b"id: 1-1\nevent: text\ndata: {}\n\n", b""]


async def test_a_stream_without_pings_receives_no_comments() -> None:
    connection, other, streams = Connection(), Connection(), OpenStreams(ping_seconds=0, send_seconds=0)

    async def send_to_full_buffer(write: Write) -> None:
        other.is_reading = anyio.Event()
        await send_one(write)

    async with running(streams) as group:
        group.start_soon(connection.open, EventResponse(send_one_and_wait, streams))
        with anyio.fail_after(WAIT):
            await connection.until(2)
        await other.open(EventResponse(send_to_full_buffer, streams))  # ends at the next check

    assert len(connection.bodies) == 1


async def test_a_client_that_does_not_read_is_disconnected(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "chat_inbox")
    connection, streams = Connection(), OpenStreams(send_seconds=0.001)

    async def send_to_full_buffer(write: Write) -> None:
        await send_one(write)
        connection.is_reading = anyio.Event()
        await send_one(write)

    async with running(streams):
        await connection.open(EventResponse(send_to_full_buffer, streams))

    assert len(connection.bodies) == 1
    assert "did not read" in caplog.text


async def test_a_client_that_does_not_read_a_comment_is_disconnected() -> None:
    connection, streams = Connection(), OpenStreams(ping_seconds=0.001, send_seconds=0.001)

    async def fill_buffer(write: Write) -> None:
        await send_one(write)
        connection.is_reading = anyio.Event()
        await anyio.sleep_forever()

    async with running(streams):
        await connection.open(EventResponse(fill_buffer, streams))

    assert len(connection.bodies) == 1


async def test_the_events_are_cancelled_when_the_client_disconnects() -> None:
    connection = Connection()
    async with anyio.create_task_group() as group:
        group.start_soon(connection.open, EventResponse(send_one_and_wait, OpenStreams()))
        with anyio.fail_after(WAIT):
            await connection.until(2)
        connection.is_gone.set()

    assert len(connection.bodies) == 1


async def test_an_error_of_the_events_is_raised() -> None:
    async def fail(write: Write) -> None:
        await send_one(write)
        msg = "no more events"
        raise ValueError(msg)

    with pytest.raises(ValueError, match="no more events"):  # and not a group
        await Connection().open(EventResponse(fail, OpenStreams()))


class StoppingServer:
    """A server of uvicorn that has received a signal, and whose signal handler is one of its methods."""

    should_exit = False
    servers = ()

    def handle_exit(self, _number: int, _frame: object) -> None:
        raise AssertionError


@pytest.fixture
def server() -> Iterator[StoppingServer]:
    found = StoppingServer()
    before = signal.signal(signal.SIGTERM, found.handle_exit)
    yield found
    signal.signal(signal.SIGTERM, before)


async def test_open_streams_end_when_the_server_stops(server: StoppingServer) -> None:
    connection, streams = Connection(), OpenStreams()
    async with anyio.create_task_group() as group:
        group.start_soon(streams.run)
        async with anyio.create_task_group() as responses:
            responses.start_soon(connection.open, EventResponse(send_one_and_wait, streams))
            with anyio.fail_after(WAIT):
                await connection.until(2)
            server.should_exit = True
        group.cancel_scope.cancel()

    assert len(connection.bodies) == 1


async def read_response(port: int) -> bytes:
    stream = await anyio.connect_tcp("127.0.0.1", port)
    async with stream:
        await stream.send(b"GET / HTTP/1.1\r\nhost: here\r\n\r\n")
        return b"".join([data async for data in stream])


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # uvicorn needs it
async def test_open_streams_end_when_the_server_has_served_the_maximum_number_of_requests() -> None:
    streams, requests = OpenStreams(), list[str]()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        requests.append(scope["path"])
        send_events = send_one_and_wait if len(requests) == 1 else send_one
        await EventResponse(send_events, streams)(scope, receive, send)

    async def open_next_when_open(port: int) -> None:
        while not requests:
            await checkpoint()
        await read_response(port)

    with listen(0) as listener, anyio.fail_after(WAIT):
        port = listener.getsockname()[1]
        config = uvicorn.Config(app, log_level="warning", lifespan="off", ws="none", limit_max_requests=1)
        async with running(streams), anyio.create_task_group() as group:
            group.start_soon(read_response, port)
            group.start_soon(open_next_when_open, port)
            await uvicorn.Server(config).serve(sockets=[listener])

    assert len(requests) == 2


async def test_a_stream_that_only_this_process_has_continues_to_its_end_when_the_server_stops(
    server: StoppingServer,
) -> None:
    last, other, streams = Connection(), Connection(), OpenStreams()

    async def end_after_other_streams(write: Write) -> None:
        await other.open(EventResponse(send_one_and_wait, streams))
        await send_one(write)

    server.should_exit = True
    async with running(streams):
        await last.open(EventResponse(end_after_other_streams, streams, ends_at_stop=False))

    assert last.bodies == [b"id: 1-1\nevent: text\ndata: {}\n\n", b""]
