"""Conformance scenarios for transports that are used concurrently, reuse connections, and are closed."""

from __future__ import annotations

import threading
from contextlib import suppress

import anyio
import anyio.to_thread
from chat_core.errors import TransportError
from chat_core.transport import Event, Transport

from chat_testing.errors import fail
from chat_testing.transport_conformance._early_exit import saw_disconnect
from chat_testing.transport_conformance._peer import Peer, Play, Received
from chat_testing.transport_conformance._scenario import (
    TransportSubject,
    both_methods,
    make_request,
    read_data,
    scenario,
)

_AT_ONCE = 20
_OTHER_RESPONSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 13\r\n\r\ndata: other\n\n"


def is_done(event: Event) -> bool:
    """Return whether an event is the last event of a response in these scenarios."""
    return event.data == b"[DONE]"


@scenario("shared", needs=("concurrent",))
async def at_once(subject: TransportSubject) -> None:
    """Many requests are sent concurrently, and no request waits until another request has finished."""
    everybody = threading.Event()
    asked: list[None] = []

    def answer(_: Received) -> Play:
        asked.append(None)
        if len(asked) == _AT_ONCE:
            everybody.set()
        return Play(steps=(b"data: 1\n\n",), before=everybody, delimited=subject.delimited)

    async with subject.with_peer(answer) as (transport, peer):
        seen: list[bytes] = []

        async def listen() -> None:
            async with transport.stream(make_request(peer.host)) as stream:
                seen.extend(await read_data(stream))

        async def send() -> None:
            seen.append((await transport.send(make_request(peer.host))).body)

        with anyio.move_on_after(subject.patience * 0.8):
            async with anyio.create_task_group() as tasks:
                for number in range(_AT_ONCE):
                    tasks.start_soon(send if number % 2 else listen)
        everybody.set()
        if len(seen) != _AT_ONCE:
            fail(f"only {len(asked)} of {_AT_ONCE} concurrent requests were sent at the same time")


@scenario("shared", needs=("concurrent",))
async def each_its_own(subject: TransportSubject) -> None:
    """Each of many concurrent requests gets its own response, complete and in order."""

    def answer(received: Received) -> Play:
        events = [b"data: %s %d\n\n" % (received.body, number) for number in range(20)]
        return Play(steps=events, delimited=subject.delimited)

    async with subject.with_peer(answer) as (transport, peer):
        wrong: list[bytes] = []

        async def one(name: bytes) -> None:
            async with transport.stream(make_request(peer.host, body=name)) as stream:
                seen = await read_data(stream)
            if seen != [b"%s %d" % (name, number) for number in range(20)]:
                wrong.append(name)
            response = await transport.send(make_request(peer.host, body=name))
            if not response.body.startswith(b"data: %s 0\n" % name):
                wrong.append(name)

        async with anyio.create_task_group() as tasks:
            for number in range(_AT_ONCE):
                tasks.start_soon(one, b"r%d" % number)
    if wrong:
        fail(f"{len(wrong)} of {_AT_ONCE} concurrent requests got the response of another request")


@scenario("shared", "leaves", needs=("concurrent",))
async def others_continue(subject: TransportSubject) -> None:
    """Closing a stream early does not affect the other streams of the transport."""
    go_on = threading.Event()

    def answer(received: Received) -> Play:
        if received.body == b"left":
            return Play(steps=(b"data: 1\n\n",), ends="stall", delimited=subject.delimited)
        return Play(steps=(b"data: 1\n\n", go_on, b"data: 2\n\n"), delimited=subject.delimited)

    async with subject.with_peer(answer) as (transport, peer):
        seen: list[bytes] = []
        try:
            async with transport.stream(make_request(peer.host)) as stream:
                async for event in stream:
                    seen.append(event.data)
                    if not go_on.is_set():
                        await _leave_after_one_event(transport, peer.host)
                        go_on.set()
        except TransportError as error:
            fail(f"a stream failed when another stream was closed early: {error}")
        finally:
            go_on.set()
    if seen != [b"1", b"2"]:
        fail(f"a stream had the events {seen} instead of two, because another stream was closed early")


async def _leave_after_one_event(transport: Transport, host: str) -> None:
    async with transport.stream(make_request(host, body=b"left")) as stream:
        async for _ in stream:
            break


@scenario("moves", needs=("network",))
async def used_after_a_failure(subject: TransportSubject) -> None:
    """A transport can be used after a request has failed."""
    failures = (
        Play(raw=b"", ends="cut"),
        Play(steps=(b"data: 1\n\n",), ends="reset"),
        subject.play(status=503),
    )
    for failure in failures:

        def answer(received: Received, failure: Play = failure) -> Play:
            return failure if received.body == b"fail" else subject.play(b"data: x\n\n")

        async with subject.with_peer(answer) as (transport, peer):
            for call in both_methods(transport, make_request(peer.host, body=b"fail")).values():
                with suppress(TransportError):
                    await call()
                try:
                    await transport.send(make_request(peer.host))
                    async with transport.stream(make_request(peer.host)) as stream:
                        await read_data(stream)
                except TransportError as error:
                    fail(f"a request after a failed request raised {error!r}")


@scenario("loops")
async def other_loops(subject: TransportSubject) -> None:
    """One transport can be used on several event loops, one after another."""
    async with subject.with_peer(subject.play(b"data: x\n\n")) as (transport, peer):

        async def twice() -> list[bytes]:
            seen: list[bytes] = []
            for _ in range(2):
                async with transport.stream(make_request(peer.host)) as stream:
                    seen += await read_data(stream)
            await transport.send(make_request(peer.host))
            return seen

        def elsewhere() -> list[bytes]:
            return anyio.run(twice, backend=subject.backend)

        for _ in range(2):
            seen = await anyio.to_thread.run_sync(elsewhere, abandon_on_cancel=True)
            if seen + await twice() != [b"x"] * 4:
                fail("a stream on another event loop was incomplete")


@scenario("twice")
async def closing_twice(subject: TransportSubject) -> None:
    """A transport can be closed twice, whether or not it was used before."""
    async with subject.with_peer(subject.play(b"data: x\n\n")) as (transport, peer):
        for used in (True, False):
            if used:
                await transport.send(make_request(peer.host))
            for _ in range(2):
                try:
                    await transport.aclose()
                except Exception as error:  # noqa: BLE001 - the message names the error
                    fail(f"the second aclose() raised {error!r}")


@scenario("closes", needs=("pooling",))
async def closing(subject: TransportSubject) -> None:
    """Closing a transport closes its idle connections."""
    async with subject.with_peer(Play(steps=(b"data: x\n\n",), ends="stall", delimited="length")) as (transport, peer):
        # The response is complete by its length. The peer then watches the connection.
        await transport.send(make_request(peer.host))
        await transport.aclose()
        if not await saw_disconnect(subject, peer):
            fail("a pooled connection stayed open after aclose()")


@scenario("keeps", needs=("passed_in",))
async def passed_in(subject: TransportSubject) -> None:
    """A client that the caller passed in is used, and stays open when the transport is closed."""
    with subject.serve(lambda _: subject.play(b"data: x\n\n")) as peer:
        async with subject.passed_in(peer) as (transport, is_open):
            for _ in range(2):
                async with transport.stream(make_request(peer.host)) as stream:
                    if await read_data(stream) != [b"x"]:
                        fail("a stream over the object that was passed in was incomplete")
                await transport.aclose()
                if not is_open():
                    fail("aclose() closed the object that was passed in")


@scenario("moves", "last", needs=("pooling",))
async def connection_used_again(subject: TransportSubject) -> None:
    """A connection is reused for the next request after a complete response."""
    async with subject.with_peer(subject.play(b"data: 1\n\n", b"data: [DONE]\n\n")) as (transport, peer):
        for _ in range(3):
            await transport.send(make_request(peer.host))
            async with transport.stream(make_request(peer.host)) as stream:
                await read_data(stream)
        _require_one_connection(peer, "six requests, one after another,")


def _require_one_connection(peer: Peer, what: str) -> None:
    if peer.connections != 1:
        fail(f"{what} opened {peer.connections} connections instead of 1")


@scenario("whole", "listens", needs=("pooling",))
async def bytes_after_a_response(subject: TransportSubject) -> None:
    """Bytes that a server sends after a response are not taken as the response to the next request."""
    may_continue = threading.Event()
    steps = (b"data: ", may_continue, b"x\n\n" + _OTHER_RESPONSE)
    play = Play(steps=steps, delimited="length", length=len(b"data: x\n\n"))
    async with subject.with_peer(play) as (transport, peer):
        for _ in range(2):
            async with transport.stream(make_request(peer.host)) as stream:
                may_continue.set()
                if await read_data(stream) != [b"x"]:
                    fail("a response began with bytes that the server sent after the response before it")


@scenario("last", needs=("pooling",))
async def last_event(subject: TransportSubject) -> None:
    """A stream that is closed at its last event returns its connection to the pool, even before the body ends."""
    over: list[threading.Event] = []

    def answer(_: Received) -> Play:
        over.append(threading.Event())
        return Play(steps=(b"data: 1\n\ndata: [DONE]\n\n", over[-1]))

    async with subject.with_peer(answer) as (transport, peer):
        for _ in range(4):
            async with transport.stream(make_request(peer.host, is_last=is_done)) as stream:
                async for event in stream:
                    if is_done(event):
                        over[-1].set()
                        break
        _require_one_connection(peer, "four streams that were left at their last events")


@scenario("last", "leaves")
async def no_end_behind_the_last_event(subject: TransportSubject) -> None:
    """If the body does not end after the last event, closing the stream closes the connection without waiting."""
    play = Play(steps=(b"data: [DONE]\n\n",), ends="stall", delimited=subject.delimited)
    async with subject.with_peer(play) as (transport, peer):
        await _read_until_done(transport, peer.host)
        if not await saw_disconnect(subject, peer):
            fail("the connection stayed open after the last event, although the body continued")


async def _read_until_done(transport: Transport, host: str) -> None:
    async with transport.stream(make_request(host, is_last=is_done)) as stream:
        async for event in stream:
            if is_done(event):
                break
