"""Conformance scenarios for streams that are closed early by `break`, by an error or by cancellation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from functools import partial
from types import AsyncGeneratorType
from typing import Any, NoReturn, cast

import anyio
import anyio.to_thread
from chat_core.transport import Transport

from chat_testing.errors import fail
from chat_testing.transport_conformance._peer import Peer, Play
from chat_testing.transport_conformance._scenario import (
    TransportSubject,
    make_request,
    open_stream,
    read_data,
    scenario,
)

_EVENTS = 3
_SHARE = 0.4


class _ReaderError(Exception):
    """Exception that a scenario raises while it reads a stream."""


def _raise_reader_error() -> NoReturn:
    raise _ReaderError


def _stalling_play(subject: TransportSubject, *, at_once: bool) -> Play:
    """Return a scripted response that sends some events and then stalls."""
    events = [b"data: %d\n\n" % number for number in range(_EVENTS)]
    return Play(steps=(b"".join(events),) if at_once else events, ends="stall", delimited=subject.delimited)


async def saw_disconnect(subject: TransportSubject, peer: Peer) -> bool:
    """Wait a short time, and return whether the peer saw that the client closed the connection."""
    return await anyio.to_thread.run_sync(peer.left.wait, subject.patience * _SHARE, abandon_on_cancel=True)


async def _read_and_leave(transport: Transport, host: str, events: int, *, by_error: bool) -> None:
    """Open a stream and close it after `events` events, by `break` or by an error. With 0, read no event."""
    try:
        async with transport.stream(make_request(host)) as stream:
            seen = 0
            if events:
                async for _ in stream:
                    seen += 1
                    if seen == events:
                        break
            if by_error:
                _raise_reader_error()
    except _ReaderError:
        pass


@scenario("leaves")
async def left_early(subject: TransportSubject) -> None:
    """A stream that is closed early, after any event, by `break` or by an error, closes its connection at once."""
    for events in range(_EVENTS + 1):
        for at_once, by_error in ((True, False), (False, True)):
            async with subject.with_peer(_stalling_play(subject, at_once=at_once)) as (transport, peer):
                await _read_and_leave(transport, peer.host, events, by_error=by_error)
                if not await saw_disconnect(subject, peer):
                    how = "with an error" if by_error else "by `break`"
                    fail(f"the connection of a stream that was closed after {events} events ({how}) stayed open")


@scenario("leaves")
async def errors_of_the_reader(subject: TransportSubject) -> None:
    """An exception that is raised inside the context of a stream propagates unchanged."""
    async with subject.with_peer(_stalling_play(subject, at_once=True)) as (transport, peer):
        try:
            async with transport.stream(make_request(peer.host)):
                _raise_reader_error()
        except _ReaderError:
            return
        except Exception as error:  # noqa: BLE001 - the message names the error
            fail(f"an exception in the reader's block was raised as {error!r}")
        fail("an exception in the reader's block was suppressed")


@scenario("closes_below")
async def nothing_left_open(subject: TransportSubject) -> None:
    """After a stream is closed, all of its asynchronous generators and tasks have ended."""
    for events in range(_EVENTS + 1):
        async with subject.with_peer(_stalling_play(subject, at_once=False)) as (transport, peer):
            await _read_and_leave(
                transport, peer.host, 1, by_error=False
            )  # create the objects that are created only once
            tasks = _count_tasks()
            with _track_generators() as generators:
                await _read_and_leave(transport, peer.host, events, by_error=False)
                left = _count_tasks() - tasks
            if left > 0:
                fail(f"a task of a stream that was closed after {events} events is still running")
            for generator in generators:
                if generator.ag_frame is not None:
                    name = generator.__qualname__
                    fail(f"the generator {name!r} is still open after its stream was closed (events read: {events})")


@contextmanager
def _track_generators() -> Generator[list[AsyncGeneratorType[object, object]]]:
    """Collect the async generators that start in this thread. The yielded list keeps them from being finalized."""
    hooks = sys.get_asyncgen_hooks()
    begun: list[AsyncGeneratorType[object, object]] = []

    def firstiter(generator: Any) -> None:  # noqa: ANN401 - a library may register a look-alike
        if hooks.firstiter is not None:
            hooks.firstiter(generator)
        if isinstance(generator, AsyncGeneratorType):
            begun.append(cast("AsyncGeneratorType[object, object]", generator))

    sys.set_asyncgen_hooks(firstiter=firstiter, finalizer=hooks.finalizer)
    try:
        yield begun
    finally:
        sys.set_asyncgen_hooks(*hooks)


def _count_tasks() -> int:
    return len(anyio.get_running_tasks())


@scenario("leaves")
async def cancelled_reader(subject: TransportSubject) -> None:
    """A reader that is canceled while it waits ends at once, and its connection is closed."""
    async with subject.with_peer(_stalling_play(subject, at_once=True)) as (transport, peer):
        read: list[object] = []

        async def reader() -> None:
            async with transport.stream(make_request(peer.host)) as stream:
                async for event in stream:
                    read.append(event)  # noqa: PERF401 - the next one never comes
            read.append("went on")

        await _start_and_cancel(subject, reader, lambda: len(read) == _EVENTS)
        if "went on" in read:
            fail("a cancelled reader continued")
        if not await saw_disconnect(subject, peer):
            fail("the connection of a cancelled reader stayed open")


@scenario("leaves", "not_whole", needs=("network",))
async def cancelled_before_the_answer(subject: TransportSubject) -> None:
    """A request that is canceled before its response arrives ends at once, and its connection is closed."""
    for name in ("send()", "stream()"):
        async with subject.with_peer(Play(headers=(), ends="stall", raw=b"")) as (transport, peer):

            async def call(transport: Transport = transport, peer: Peer = peer, name: str = name) -> None:
                request = make_request(peer.host)
                await (transport.send(request) if name == "send()" else open_stream(transport, request))
                fail("a missing response was returned as a response")

            await _start_and_cancel(subject, call, partial(_has_received_request, peer))
            if not await saw_disconnect(subject, peer):
                fail(f"the connection of {name}, cancelled before its response, stayed open")


def _has_received_request(peer: Peer) -> bool:
    return bool(peer.received)


async def _start_and_cancel(
    subject: TransportSubject, call: Callable[[], Coroutine[object, object, None]], ready: Callable[[], bool]
) -> None:
    """Start `call`, cancel it as soon as `ready` returns true, and fail the scenario if it does not end."""
    with anyio.move_on_after(subject.patience * _SHARE) as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            while not ready():  # noqa: ASYNC110 - a thread makes it ready
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()
    if scope.cancelled_caught:
        fail("a cancelled task did not end")


@scenario("leaves", "listens")
async def nothing_for_the_next(subject: TransportSubject) -> None:
    """Unread data of a stream that was closed early never appears in the next response."""
    count = iter(range(1000))

    def answer(_: object) -> Play:
        number = next(count)
        events = [b"data: %d.%d\n\n" % (number, place) for place in range(100)]
        return Play(steps=(b"".join(events), *events), delimited=subject.delimited)

    async with subject.with_peer(answer) as (transport, peer):
        for number in range(0, 8, 2):
            async with transport.stream(make_request(peer.host)) as stream:
                async for _ in stream:
                    break
            async with transport.stream(make_request(peer.host)) as stream:
                seen = await read_data(stream)
            if {event.partition(b".")[0] for event in seen} != {b"%d" % (number + 1)} or len(seen) != 200:
                fail("data of a stream that was closed early reached the next request")


@scenario("moves", "leaves", needs=("back_pressure",))
async def slow_reader(subject: TransportSubject) -> None:
    """A transport stops reading a connection while its stream is not read. Closing the stream closes the connection."""
    async with subject.with_peer(Play(steps=(b"data: 1\n\n",), ends="endless")) as (transport, peer):
        async with transport.stream(make_request(peer.host)) as stream:
            async for _ in stream:
                break
            taken, unchanged = -1, 0
            while unchanged < _UNCHANGED and peer.taken < _TOO_MUCH:
                unchanged = unchanged + 1 if taken == peer.taken else 0
                taken = peer.taken
                await anyio.sleep(0.1)
            taken = peer.taken
        if taken >= _TOO_MUCH:
            fail(f"{taken} bytes were read from the connection while no consumer read the stream")
        if not await saw_disconnect(subject, peer):
            fail("the connection of an endless stream stayed open after its block was exited")


_UNCHANGED = 4
"""Number of checks without new bytes after which a transport counts as stopped. A busy machine may cause pauses."""
_TOO_MUCH = 64 * 1024 * 1024
