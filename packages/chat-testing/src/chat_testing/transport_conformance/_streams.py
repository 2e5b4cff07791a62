"""Conformance scenarios for streams: how they open, deliver events, parse the body, and end."""

from __future__ import annotations

import json
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, TypeAlias

import anyio
from chat_core.errors import TransportError
from chat_core.transport import EventStream, Framing, Request, Transport

from chat_testing.errors import fail
from chat_testing.transport_conformance._peer import SSE, Delimited, Ending, Play
from chat_testing.transport_conformance._scenario import (
    TransportSubject,
    expect_error,
    make_request,
    open_stream,
    read_data,
    scenario,
)

JSON: Final = (("content-type", "application/json"),)
_ODD: Final = (
    "\ufeff: hello\r\ndata: é€😀\r\rdata:a\ndata: b\n\nid: 7\nevent: named\ndata: [1]\r\n\r\ndata: unfinished\n"
)
_ODD_EVENTS: Final = [("message", "é€😀", ""), ("message", "a\nb", ""), ("named", "[1]", "7")]


async def read_until_error(stream: EventStream, seen: list[bytes]) -> None:
    """Append the data of each event to `seen` until the stream ends or raises."""
    async for event in stream:
        seen.append(event.data)  # noqa: PERF401 - keeps the events before an error


@scenario("refused")
async def refused(subject: TransportSubject) -> None:
    """A status that is not 2xx raises a `TransportError` of kind `status` on entry, with status, headers and body."""
    for status in (400, 401, 404, 429, 500, 503):
        play = subject.play(b'{"error"', b": 1}\xff", status=status, headers=(*JSON, ("X-Id", "Ab7")))
        async with subject.with_peer(play) as (transport, peer):
            with expect_error("status", when=f"entering a stream with the status {status}") as met:
                await open_stream(transport, make_request(peer.host))
        for error in met:
            if error.status != status:
                fail(f"the error of a stream response with status {status} has the status {error.status}")
            if (found := error.headers.get("x-id")) != "Ab7":
                fail(f"the error of a stream response with an error status has the header x-id: {found}, not Ab7")
            if error.body != b'{"error": 1}\xff':
                fail(
                    "the error of a stream response with an error status has the "
                    f"body {error.body!r} instead of the response body"
                )


@scenario("refused", needs=("chunked",))
async def refused_and_cut(subject: TransportSubject) -> None:
    """An error status with an incomplete body raises a `TransportError` of kind `status` that has the received body."""
    endings: dict[str, Ending] = {"truncated": "cut"}
    if subject.capabilities.timeouts:
        endings["that stalls"] = "stall"
    for what, ends in endings.items():
        async with subject.with_peer(Play(status=503, headers=JSON, steps=(b"sor",), ends=ends)) as (transport, peer):
            with expect_error("status", when=f"an error response with a body {what}") as met:
                await open_stream(transport, make_request(peer.host, idle=0.2 if ends == "stall" else 20.0))
        for error in met:
            if (error.status, error.body) != (503, b"sor"):
                fail(
                    f"the error of a response with status 503 and a body {what} after 'sor' "
                    f"has the status {error.status} and the body {error.body!r}"
                )


@scenario("listens", "arrives")
async def events(subject: TransportSubject) -> None:
    """Events, even equal ones, arrive in order with their types and ids, in batches as well as one by one."""
    chunks = (b"data: 1\n\n", b"data: 1\n\nevent: Two\ndata: 2\n\nid: x\ndata: 3\n\n")
    headers = (*SSE, ("X-Id", "Ab7"), ("x-empty", ""))
    async with subject.with_peer(subject.play(*chunks, status=201, headers=headers)) as (transport, peer):
        async with transport.stream(make_request(peer.host)) as stream:
            if (stream.status, stream.headers.get("x-id"), stream.headers.get("x-empty")) != (201, "Ab7", ""):
                fail(
                    "a stream with the status 201 and the headers X-Id: Ab7 and x-empty was returned "
                    f"with {stream.status} and {dict(stream.headers)}"
                )
            one_by_one = [(event.type, event.data, event.id) async for event in stream]
        async with transport.stream(make_request(peer.host)) as stream:
            batches = [(e.type, e.data, e.id) async for batch in stream.batches() for e in batch]
    expected = [("message", b"1", ""), ("message", b"1", ""), ("Two", b"2", ""), ("message", b"3", "x")]
    if one_by_one != expected:
        fail(f"the events {expected} were delivered as {one_by_one}")
    if batches != expected:
        fail(f"the events {expected} were delivered in the batches {batches}")


@scenario("arrives")
async def head_before_the_events(subject: TransportSubject) -> None:
    """The status and headers of a stream are available before the first event arrives."""
    go_on = threading.Event()
    play = Play(steps=(go_on, b"data: x\n\n"), delimited=subject.delimited)
    async with subject.with_peer(play) as (transport, peer):
        seen: list[bytes] = []
        with anyio.move_on_after(subject.patience * 0.8):
            async with transport.stream(make_request(peer.host)) as stream:
                go_on.set()
                seen = await read_data(stream)
        if seen != [b"x"]:
            go_on.set()
            fail("stream() waited for the first event before entering the block")


@scenario("arrives")
async def as_they_come(subject: TransportSubject) -> None:
    """An event is delivered as soon as it arrives, without waiting for the next event."""
    go_on = threading.Event()
    play = Play(steps=(b"data: 1\n\ndat", go_on, b"a: 2\n\n"), delimited=subject.delimited)
    async with subject.with_peer(play) as (transport, peer):
        seen: list[bytes] = []
        with anyio.move_on_after(subject.patience * 0.8):
            async with transport.stream(make_request(peer.host)) as stream:
                async for event in stream:
                    seen.append(event.data)
                    go_on.set()
        go_on.set()
        if seen != [b"1", b"2"]:
            fail(f"a received event was not delivered until the next event arrived: {seen} were delivered")


@scenario("cuts", "listens")
async def cut_anywhere(subject: TransportSubject) -> None:
    """Events are parsed correctly at any chunk boundary, even within a character, a line break or a name."""
    body = _ODD.encode()
    for size in (1, 2, 3, len(body)):
        chunks = [body[start : start + size] for start in range(0, len(body), size)]
        async with (
            subject.with_peer(subject.play(*chunks)) as (transport, peer),
            transport.stream(make_request(peer.host)) as stream,
        ):
            seen = [(event.type, event.data.decode(errors="replace"), event.id) async for event in stream]
        if seen != _ODD_EVENTS:
            fail(f"the events {_ODD_EVENTS}, in chunks of {size} bytes, were delivered as {seen}")


@scenario("listens")
async def event_data(subject: TransportSubject) -> None:
    """The data of an event, which may be empty, is unchanged. Each invalid UTF-8 sequence in it becomes U+FFFD."""
    long = b"x" * min(100_000, subject.max_event_bytes // 2)
    data = (b" two spaces ", "\ufeffmark".encode(), b"", b": colon", long)
    body = b"data:\ttab\ndata: \n\ndata: a\xffb\n\n" + b"".join([b"data: " + item + b"\n\n" for item in (*data, b"ok")])
    expected = [b"\ttab\n", "a\ufffdb".encode(), *data, b"ok"]
    async with (
        subject.with_peer(subject.play(body)) as (transport, peer),
        transport.stream(make_request(peer.host)) as stream,
    ):
        seen = await read_data(stream)
    if [len(data) for data in seen] != [len(data) for data in expected]:
        fail(f"events of {[len(data) for data in expected]} bytes were delivered with {[len(data) for data in seen]}")
    if seen != expected:
        changed = [pair for pair in zip(expected, seen, strict=True) if pair[0] != pair[1]]
        fail(f"the data {changed[0][0][:100]!r} was delivered as {changed[0][1][:100]!r}")


@scenario("ends")
async def clean_end(subject: TransportSubject) -> None:
    """The end of the body ends the stream without an error. An incomplete last event is dropped."""
    for body, expected in ((b"", []), (b"data: 1\n\n", [b"1"]), (b"data: 1\n\ndata: 2\n", [b"1"])):
        async with (
            subject.with_peer(subject.play(body) if body else subject.play()) as (transport, peer),
            transport.stream(make_request(peer.host)) as stream,
        ):
            seen = await read_data(stream)
        if seen != expected:
            fail(f"a complete body {body!r} was parsed into the events {seen} instead of {expected}")


async def _require_frames(subject: TransportSubject, framing: Framing, chunks: Sequence[bytes]) -> None:
    play = subject.play(*chunks, headers=JSON)
    async with (
        subject.with_peer(play) as (transport, peer),
        transport.stream(make_request(peer.host, framing=framing)) as stream,
    ):
        seen = [json.loads(event.data) async for event in stream]
    if seen != [{"a": "]}é\n"}, {"b": [2]}]:
        fail(f"a body with the framing {framing!r} was parsed into {seen}")


@scenario("cuts")
async def json_lines(subject: TransportSubject) -> None:
    """With the framing `json-lines`, each line of the body is one event."""
    await _require_frames(subject, "json-lines", ['{"a": "]}é'.encode(), b'\\n"}\r', b'\n{"b": [2]}'])


@scenario("cuts")
async def json_array(subject: TransportSubject) -> None:
    """With the framing `json-array`, each element of the array is one event."""
    await _require_frames(subject, "json-array", ['[{"a": "]}é'.encode(), b'\\n"},\r\n', b' {"b": [2]}', b"]"])


@scenario("framing")
async def broken_framing(subject: TransportSubject) -> None:
    """Invalid framing raises a `TransportError` of kind `protocol`, or of kind `stream` if the body is truncated."""
    for body, kind in ((b"[1, 2] 3", "protocol"), (b"[1, 2", "stream")):
        async with (
            subject.with_peer(subject.play(body, headers=JSON)) as (transport, peer),
            transport.stream(make_request(peer.host, framing="json-array")) as stream,
        ):
            with expect_error(kind, when=f"a JSON array {body!r}"):
                await read_data(stream)


@scenario("framing")
async def event_too_long(subject: TransportSubject) -> None:
    """An event over the size limit raises a `TransportError` of kind `protocol`."""
    step = b"x" * 65536
    long = [b"data: ", *[step] * (subject.max_event_bytes // len(step) + 2)]
    async with (
        subject.with_peer(Play(steps=long, ends="stall", delimited=subject.delimited)) as (transport, peer),
        transport.stream(make_request(peer.host)) as stream,
    ):
        with expect_error("protocol", when=f"an event of more than {subject.max_event_bytes} bytes"):
            await read_data(stream)


@scenario("broke", "raises", needs=("chunked",))
async def broken_stream(subject: TransportSubject) -> None:
    """A broken connection raises a `TransportError` of kind `stream`, after the events received before it."""
    kinds: tuple[tuple[Ending, Delimited], ...] = (("cut", "chunked"), ("reset", "chunked"), ("cut", "length"))
    for ends, delimited in kinds:
        broken = threading.Event()
        play = Play(steps=(b"data: 1\n\n", broken), ends=ends, delimited=delimited, length=100)
        async with subject.with_peer(play) as (transport, peer):
            seen: list[bytes] = []
            async with transport.stream(make_request(peer.host)) as stream:
                with expect_error("stream", when=f"a body ({delimited}) that ended with {ends!r} after an event"):
                    await _read_and_break(stream, seen, broken)
            if seen != [b"1"]:
                fail(f"the event before the connection broke was not delivered; delivered were {seen}")


async def _read_and_break(stream: EventStream, seen: list[bytes], broken: threading.Event) -> None:
    async for event in stream:
        seen.append(event.data)
        broken.set()


@scenario("broke", "arrives", needs=("chunked",))
async def what_came_counts(subject: TransportSubject) -> None:
    """Events that arrived before a disconnect are delivered, even if the reader was busy at that moment."""
    sent = threading.Event()
    play = Play(steps=(b"data: 1\n\n", sent, b"data: 2\n\n", b"data: 3\n\n"), ends="cut")
    async with subject.with_peer(play) as (transport, peer):
        seen: list[bytes] = []
        async with transport.stream(make_request(peer.host)) as stream:
            with suppress(TransportError):
                await _read_slowly(stream, seen, sent)
        if seen != [b"1", b"2", b"3"]:
            fail(f"a slow reader got {seen} of three events before the connection broke")


async def _read_slowly(stream: EventStream, seen: list[bytes], sent: threading.Event) -> None:
    async for event in stream:
        seen.append(event.data)
        if not sent.is_set():
            sent.set()
            # Long enough for the other events and the end of the connection to arrive.
            await anyio.sleep(0.25)


@scenario("silence", "broke", needs=("timeouts",))
async def stalled_stream(subject: TransportSubject) -> None:
    """A pause longer than the idle timeout raises a `TransportError` of kind `timeout`, after the received events."""
    play = Play(steps=(b"data: 1\n\nda",), ends="stall", delimited=subject.delimited)
    async with subject.with_peer(play) as (transport, peer):
        seen: list[bytes] = []
        async with transport.stream(make_request(peer.host, idle=0.2)) as stream:
            with expect_error("timeout", when="a stream that stalls"):
                await read_until_error(stream, seen)
        if seen != [b"1"]:
            fail(f"the event before a stall was not delivered; delivered were {seen}")


@scenario("silence", needs=("timeouts",))
async def slow_and_steady(subject: TransportSubject) -> None:
    """A stream may take much longer than the idle timeout, as long as data keeps arriving."""
    await _require_patience(subject, _read_steady_stream)


@scenario("silence", needs=("timeouts",))
async def slow_body(subject: TransportSubject) -> None:
    """A complete response may take much longer than the idle timeout, as long as data keeps arriving."""
    await _require_patience(subject, _read_steady_body)


async def _require_patience(subject: TransportSubject, read: _SteadyReading) -> None:
    """Fail the scenario unless a slow but steady response is read completely."""
    for slower in (1, 2, 4, 8):
        drips = _SteadyPace(0.15 * slower)
        idle = drips.pause * 4
        came, error = await _read_at_steady_pace(subject, drips, idle, read)
        if error is None and came == len(drips.marks):
            return
        if drips.longest < idle / 2:
            told = f": {error}" if error else ""
            fail(f"a response longer than the idle timeout delivered {came} of {len(drips.marks)} events{told}")
        # Otherwise the machine was too slow, and the pause really exceeded `idle`.
    fail("this machine pauses for seconds, so the idle timeout cannot be tested on it")


class _SteadyPace:
    """Thread events that are set one after another at a steady pace, with a record of the longest pause."""

    def __init__(self, pause: float) -> None:
        self.pause = pause
        self.marks = [threading.Event() for _ in range(6)]
        self.longest = 0.0

    async def run(self) -> None:
        for mark in self.marks:
            began = anyio.current_time()
            await anyio.sleep(self.pause)
            self.longest = max(self.longest, anyio.current_time() - began)
            mark.set()


_SteadyReading: TypeAlias = Callable[[Transport, Request, list[bytes]], Awaitable[None]]


async def _read_steady_stream(transport: Transport, request: Request, came: list[bytes]) -> None:
    """Append the data of each event of a stream to `came`."""
    async with transport.stream(request) as stream:
        await read_until_error(stream, came)


async def _read_steady_body(transport: Transport, request: Request, came: list[bytes]) -> None:
    """Append the non-empty lines of a complete response to `came`."""
    came += [line for line in (await transport.send(request)).body.split(b"\n") if line]


async def _read_at_steady_pace(
    subject: TransportSubject, drips: _SteadyPace, idle: float, read: _SteadyReading
) -> tuple[int, TransportError | None]:
    """Read a response whose events are sent at a steady pace.

    Returns:
        The number of received events, and the error that ended the response, if any.
    """
    steps = [step for number, mark in enumerate(drips.marks) for step in (mark, b"data: %d\n\n" % number)]
    came: list[bytes] = []
    ended: TransportError | None = None
    async with (
        subject.with_peer(Play(steps=steps, delimited=subject.delimited)) as (transport, peer),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(drips.run)
        try:
            await read(transport, make_request(peer.host, idle=idle), came)
        except TransportError as error:
            ended = error
    return len(came), ended
