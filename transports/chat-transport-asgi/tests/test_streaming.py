"""An application and its reader running concurrently: waiting for each other, and ending."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from chat_core.errors import TransportError
from chat_core.transport import Event, Request, Timeouts
from chat_transport_asgi import AsgiTransport, Message, Receive, Scope, Send

ASKED = Request("POST", "http", "app.example:8000", "/v1/a%20b?key=k&x=%C3%A9", (("X-Kind", "a"),), b"{}")
SSE: Message = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"text/event-stream")],
}


def chunk(data: str = "", *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": data.encode(), "more_body": more}


@dataclass
class Application:
    """Application that follows the instructions of a test and records how it ended."""

    does: Callable[[Receive, Send], Awaitable[object]]
    notes: list[str] = field(default_factory=list[str])
    scopes: list[Scope] = field(default_factory=list[Scope])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        try:
            await self.does(receive, send)
        except Exception as error:
            self.notes.append(type(error).__name__)
            raise
        except BaseException:
            self.notes.append("cancelled")
            raise
        else:
            self.notes.append("returned")


async def streamed(app: Application, leave_behind: int | None = None, request: Request = ASKED, **options: Any) -> int:
    seen = 0
    async with AsgiTransport(app, **options).stream(request) as stream:
        async for _ in stream:
            seen += 1
            if seen == leave_behind:
                break
    return seen


async def left_when(app: Application, ready: anyio.Event, grace: float) -> None:
    """Exit a stream after its first event, as soon as the application has reached a given point."""
    async with AsgiTransport(app, grace=grace).stream(ASKED) as stream:
        async for _ in stream:
            await ready.wait()
            break


@pytest.mark.anyio
async def test_the_application_receives_the_scope_that_a_server_would_send() -> None:
    async def answers(receive: Receive, send: Send) -> None:
        heard.append(await receive())
        await send({"type": "http.response.start", "status": 204})
        await send({"type": "http.response.body"})
        heard.append(await receive())

    heard: list[Message] = []
    app = Application(answers)
    response = await AsgiTransport(app).send(ASKED)

    assert (response.status, dict(response.headers), response.body) == (204, {}, b"")
    assert heard == [
        {"type": "http.request", "body": b"{}", "more_body": False},
        {"type": "http.disconnect"},  # behind the answer
    ]
    assert app.scopes == [
        {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "method": "POST",
            "scheme": "http",
            "path": "/v1/a b",
            "raw_path": b"/v1/a%20b",
            "query_string": b"key=k&x=%C3%A9",
            "root_path": "",
            "headers": [
                (b"host", b"app.example:8000"),
                (b"x-kind", b"a"),
                (b"content-length", b"2"),
                (b"accept-encoding", b"identity"),
            ],
            "client": ("127.0.0.1", 0),
            "server": ("app.example", 8000),
            "state": {},
        }
    ]


@pytest.mark.anyio
async def test_given_connection_headers_are_not_replaced() -> None:
    async def answers(_: Receive, send: Send) -> None:
        await send(SSE)
        await send(chunk(more=False))

    app = Application(answers)
    fields = (("Host", "other"), ("Content-Length", "0"), ("Accept-Encoding", "gzip"))
    await AsgiTransport(app).send(Request("GET", "https", "app.example", "/", fields))

    assert app.scopes[0]["headers"] == [(b"host", b"other"), (b"content-length", b"0"), (b"accept-encoding", b"gzip")]
    assert app.scopes[0]["server"] == ("app.example", 443)


@pytest.mark.anyio
async def test_a_send_of_the_application_waits_for_the_reader() -> None:
    async def answers(_: Receive, send: Send) -> None:
        await send(SSE)
        for number in range(3):
            await send(chunk(f"data: {number}\n\n"))
            sent.append(number)
        await send(chunk(more=False))

    sent: list[int] = []
    async with AsgiTransport(Application(answers)).stream(ASKED) as stream:
        for number in range(3):
            await anyio.wait_all_tasks_blocked()
            assert sent == list(range(number))
            assert [event.data async for event in Some(stream.__aiter__(), 1)] == [b"%d" % number]
        assert [event async for event in stream] == []

    assert sent == [0, 1, 2]


class Some:
    """Iterator that yields a given number of events and then stops."""

    def __init__(self, events: Any, count: int) -> None:
        self.events = events
        self.count = count

    def __aiter__(self) -> Some:
        return self

    async def __anext__(self) -> Event:
        if not self.count:
            raise StopAsyncIteration
        self.count -= 1
        event: Event = await self.events.__anext__()
        return event


@pytest.mark.anyio
async def test_an_application_receives_http_disconnect_and_can_clean_up() -> None:
    async def listens(receive: Receive, send: Send) -> None:
        await receive()
        await send(SSE)
        await send(chunk("data: 1\n\n"))
        ready.set()
        heard.append(await receive())
        await anyio.lowlevel.checkpoint()
        heard.append(await receive())
        with pytest.raises(OSError, match="exited"):
            await send(chunk("data: 2\n\n"))
        heard.append({"type": "cleaned up"})

    heard: list[Message] = []
    ready = anyio.Event()
    app = Application(listens)
    await left_when(app, ready, grace=60.0)

    assert [message["type"] for message in heard] == ["http.disconnect", "http.disconnect", "cleaned up"]
    assert app.notes == ["returned"]


@pytest.mark.anyio
async def test_a_blocked_send_raises_oserror_when_the_stream_is_closed() -> None:
    async def sends(_: Receive, send: Send) -> None:
        # The reader leaves before the first of these calls has returned, or during a later one.
        await send(SSE)
        while True:
            await send(chunk("data: 1\n\n"))

    app = Application(sends)

    assert await streamed(app, leave_behind=2, grace=60.0) == 2
    assert app.notes == ["ClientDisconnectedError"]


@pytest.mark.anyio
async def test_an_application_that_does_not_receive_is_cancelled_immediately() -> None:
    async def thinks(_: Receive, send: Send) -> None:
        await send(SSE)
        await send(chunk("data: 1\n\n"))
        ready.set()
        await anyio.sleep_forever()

    ready = anyio.Event()
    app = Application(thinks)
    await left_when(app, ready, grace=3600.0)  # the time limit is one hour

    assert app.notes == ["cancelled"]


@pytest.mark.anyio
async def test_an_application_that_ignores_the_disconnect_is_cancelled_after_grace() -> None:
    async def stays(receive: Receive, send: Send) -> None:
        await receive()
        await send(SSE)
        await send(chunk("data: 1\n\n"))
        ready.set()
        await receive()
        await anyio.sleep_forever()

    ready = anyio.Event()
    app = Application(stays)
    await left_when(app, ready, grace=0.01)

    assert app.notes == ["cancelled"]


@pytest.mark.anyio
async def test_cancelling_the_reader_ends_the_application() -> None:
    async def listens(receive: Receive, send: Send) -> None:
        await receive()
        await send(SSE)
        await send(chunk("data: 1\n\n"))
        waits.set()
        await receive()
        await anyio.lowlevel.checkpoint()  # to clean up takes time
        cleaned.append(1)

    waits = anyio.Event()
    cleaned: list[int] = []
    app = Application(listens)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: streamed(app, grace=60.0))
        await waits.wait()
        tasks.cancel_scope.cancel()

    assert cleaned == [1]
    assert app.notes == ["returned"]


@pytest.mark.anyio
async def test_work_of_the_application_after_its_response_is_awaited() -> None:
    async def goes_on(_: Receive, send: Send) -> None:
        await send(SSE)
        await send(chunk("data: 1\n\n", more=False))
        for _step in range(10):
            await anyio.lowlevel.checkpoint()
        done.append(1)

    done: list[int] = []
    for _ in range(2):
        await AsgiTransport(Application(goes_on)).send(ASKED)
        await streamed(Application(goes_on))

    assert len(done) == 4


@pytest.mark.anyio
async def test_closing_after_the_last_event_lets_the_application_finish(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("chat_transport_asgi._transport.DRAIN_SECONDS", 3600.0)  # a busy machine may need a while

    async def answers(_: Receive, send: Send) -> None:
        await send(SSE)
        await send(chunk("data: 1\n\n"))
        await send(chunk("data: [DONE]\n\n"))
        await send(chunk(": the end\n"))
        await send(chunk(more=False))

    app = Application(answers)
    request = Request("POST", "http", "app.example", "/", is_last=lambda event: event.data == b"[DONE]")

    assert await streamed(app, leave_behind=2, request=request) == 2
    assert app.notes == ["returned"]


@pytest.mark.anyio
async def test_an_exception_after_the_last_event_is_not_raised() -> None:
    async def breaks(_: Receive, send: Send) -> None:
        await send(SSE)
        await send(chunk("data: [DONE]\n\n"))
        msg = "a bug"
        raise ValueError(msg)

    request = Request("POST", "http", "app.example", "/", is_last=lambda event: event.data == b"[DONE]")

    assert await streamed(Application(breaks), leave_behind=1, request=request) == 1


async def raises(_: Receive, send: Send) -> None:
    msg = "a bug"
    raise ValueError(msg)


async def raises_in_the_middle(_: Receive, send: Send) -> None:
    await send(SSE)
    await send(chunk("data: 1\n\n"))
    msg = "a bug"
    raise ValueError(msg)


@pytest.mark.anyio
async def test_an_exception_of_the_application_is_the_cause_of_the_transport_error() -> None:
    for does in (raises, raises_in_the_middle):
        for streams in (True, False):
            app = Application(does)
            with pytest.raises(TransportError) as caught:
                await (streamed(app) if streams else AsgiTransport(app).send(ASKED))

            assert caught.value.kind == "stream"
            assert str(caught.value) == "POST http://app.example:8000/v1/a%20b: the application raised ValueError"
            assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.anyio
async def test_an_exception_after_a_complete_response_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fails_late(_: Receive, send: Send) -> None:
        await send(SSE)
        await send(chunk("data: 1\n\n", more=False))
        msg = "in the background"
        raise ValueError(msg)

    with caplog.at_level(logging.ERROR, "chat_transport_asgi"):
        assert await streamed(Application(fails_late)) == 1

    assert [record.getMessage() for record in caplog.records] == [
        "the application raised after its response to POST http://app.example:8000/v1/a%20b"
    ]


@pytest.mark.anyio
async def test_invalid_asgi_messages_raise_in_the_client_and_the_application() -> None:
    wrongs: dict[str, list[Message]] = {
        "sent 'http.response.body', but http.response.start was expected": [chunk()],
        "sent 'http.response.start', but a body was expected": [SSE, SSE],
        "the body that the application sent does not match its content-length": [
            {**SSE, "headers": [(b"content-length", b"3")]},
            chunk("four", more=False),
        ],
    }
    for what, messages in wrongs.items():

        async def speaks(_: Receive, send: Send, messages: list[Message] = messages) -> None:
            for message in messages:
                await send(message)

        app = Application(speaks)
        with pytest.raises(TransportError, match=what) as caught:
            await AsgiTransport(app).send(ASKED)

        assert caught.value.kind == "protocol"
        assert app.notes == ["RuntimeError"]


@pytest.mark.anyio
async def test_a_body_shorter_than_its_content_length_raises_except_for_head() -> None:
    async def answers(_: Receive, send: Send) -> None:
        await send({**SSE, "headers": [(b"content-length", b"3")]})
        await send(chunk("12", more=False))

    async def answers_without(_: Receive, send: Send) -> None:
        await send({**SSE, "headers": [(b"content-length", b"3")]})
        await send(chunk(more=False))

    with pytest.raises(TransportError, match="does not match its content-length"):
        await AsgiTransport(Application(answers)).send(ASKED)
    response = await AsgiTransport(Application(answers_without)).send(Request("HEAD", "http", "app.example", "/"))
    assert response.headers["content-length"] == "3"


@pytest.mark.anyio
async def test_an_unsupported_or_wrong_content_encoding_is_refused() -> None:
    for encoding, what in (
        (b"br", "unsupported content-encoding 'br'"),
        (b"gzip", "does not match its content-encoding"),
    ):

        async def answers(_: Receive, send: Send, encoding: bytes = encoding) -> None:
            await send({**SSE, "headers": [(b"content-encoding", encoding)]})
            await send(chunk("not compressed", more=False))

        with pytest.raises(TransportError, match=what) as caught:
            await AsgiTransport(Application(answers)).send(ASKED)
        assert caught.value.kind == "protocol"


@pytest.mark.anyio
async def test_the_body_of_an_error_status_is_limited() -> None:
    async def refuses(_: Receive, send: Send) -> None:
        await send({**SSE, "status": 500})
        while True:
            await send(chunk("x" * 1000))

    with pytest.raises(TransportError) as caught:
        await streamed(Application(refuses), max_error_bytes=2500)

    assert (caught.value.status, caught.value.body) == (500, b"x" * 2500)


@pytest.mark.anyio
async def test_an_unreachable_host_raises_a_connect_error() -> None:
    app = Application(raises)
    with pytest.raises(TransportError, match=r"allowed hosts are: a\.example, b\.example") as caught:
        await AsgiTransport(app, hosts=["b.example", "a.example"]).send(ASKED)

    assert caught.value.kind == "connect"
    assert app.scopes == []


@pytest.mark.anyio
async def test_an_idle_timeout_ends_the_application() -> None:
    async def thinks(_: Receive, send: Send) -> None:
        await anyio.sleep_forever()

    app = Application(thinks)
    with pytest.raises(TransportError) as caught:
        await streamed(app, request=Request("GET", "http", "app.example", "/", timeouts=Timeouts(idle=0.01)))

    assert caught.value.kind == "timeout"
    assert app.notes == ["cancelled"]


@pytest.mark.anyio
async def test_an_exception_group_of_the_reader_is_raised_unchanged() -> None:
    async def answers(_: Receive, send: Send) -> None:
        await send(SSE)
        await send(chunk(more=False))

    own = ExceptionGroup("the reader's own", [ValueError(), KeyError()])
    with pytest.raises(ExceptionGroup) as caught:
        async with AsgiTransport(Application(answers)).stream(ASKED):
            raise own

    assert caught.value is own


@pytest.mark.anyio
async def test_no_cancel_scope_is_open_while_a_reader_yields() -> None:
    async def talks(receive: Receive, send: Send) -> None:
        await send(SSE)
        await send(chunk("data: 1\n\n"))
        await receive()
        await receive()

    async def events() -> AsyncGenerator[bytes]:
        async with AsgiTransport(app).stream(ASKED) as stream:
            async for event in stream:
                yield event.data

    app = Application(talks)
    reading = events()
    with anyio.CancelScope():
        assert await anext(reading) == b"1"
    with anyio.CancelScope():  # a scope of the reader, which ends while the stream continues
        await reading.aclose()

    assert len(app.notes) == 1  # it has ended, whether send() or receive() reported the disconnect


@pytest.mark.anyio
async def test_concurrent_streams_receive_their_own_events() -> None:
    async def counts(receive: Receive, send: Send) -> None:
        name = (await receive())["body"].decode()
        await send(SSE)
        for number in range(200):
            await send(chunk(f"data: {name}.{number}\n\n"))
        await send(chunk(more=False))

    async def one(name: str) -> None:
        request = Request("POST", "http", "app.example", "/", body=name.encode())
        async with transport.stream(request) as stream:
            seen[name] = [event.data.decode() async for event in stream]

    seen: dict[str, list[str]] = {}
    transport = AsgiTransport(Application(counts))
    async with anyio.create_task_group() as tasks:
        for number in range(200):
            tasks.start_soon(one, f"r{number}")

    assert len(seen) == 200
    assert all(events == [f"{name}.{number}" for number in range(200)] for name, events in seen.items())


def test_the_repr_names_the_application() -> None:
    async def shop(scope: Scope, receive: Receive, send: Send) -> None: ...

    assert repr(AsgiTransport(shop)).endswith("shop)")
    assert repr(AsgiTransport(Application(raises))) == "AsgiTransport(Application)"
