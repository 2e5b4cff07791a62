"""Closing a stream early, in any way and at any event, leaves no connection, task or generator open."""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import TypeAlias

import anyio
import anyio.to_thread
import pytest
import trio
from chat_core.errors import TransportError
from chat_core.transport import Event, EventStream, Request, Timeouts
from chat_testing import Exchange, LoopbackServer
from chat_transport_httpx import HttpxTransport

pytestmark = pytest.mark.anyio

Opened: TypeAlias = Callable[..., AbstractAsyncContextManager[HttpxTransport]]

EVENTS = 4


def ask(host: str) -> Request:
    return Request("POST", "http", host, "/v1", (("x-key", "k"),), b"{}", Timeouts(idle=10.0))


class Server:
    """Server that sends some events and then none, and records when the client disconnects."""

    def __init__(self, *, at_once: bool = True) -> None:
        self.left = threading.Event()
        self.waits = threading.Event()
        self._at_once = at_once

    def __call__(self, exchange: Exchange) -> None:
        exchange.head(200, {"content-type": "text/event-stream"})
        events = [b"data: %d\n\n" % number for number in range(EVENTS)]
        try:
            for chunk in [b"".join(events)] if self._at_once else events:
                exchange.chunk(chunk)
        except OSError:
            self.left.set()
        self.waits.set()
        if exchange.wait_closed():
            self.left.set()

    async def sees_the_client_leave(self) -> bool:
        return await anyio.to_thread.run_sync(self.left.wait, 10)


def open_generators() -> list[object]:
    """Return the unfinished async generators of the transport code."""
    gc.collect()
    ours = ("httpx", "httpcore", "chat_core")
    generators = [item for item in gc.get_objects() if inspect.isasyncgen(item) and item.ag_frame is not None]
    files = [(item, item.ag_code.co_filename) for item in generators]
    return [item for item, file in files if "tests" not in file and any(part in file for part in ours)]


def open_tasks(backend: str) -> int:
    if backend == "asyncio":
        return len(asyncio.all_tasks())
    return trio.lowlevel.current_statistics().tasks_living


async def leave_by_returning(stream: EventStream, events: int) -> None:
    seen = 0
    async for _ in stream:
        seen += 1
        if seen == events:
            return


async def leave_a_batch(stream: EventStream, events: int) -> None:
    seen = 0
    async for batch in stream.batches():
        seen += len(batch)
        if seen >= events:
            return


async def leave_by_an_error(stream: EventStream, events: int) -> None:
    await leave_by_returning(stream, events)
    raise ZeroDivisionError


WAYS = [leave_by_returning, leave_a_batch, leave_by_an_error]


@pytest.mark.sampled(36)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("events", range(1, EVENTS + 1))
async def test_closing_a_stream_at_any_event_releases_everything(
    opened: Opened,
    way: Callable[[EventStream, int], Awaitable[None]],
    at_once: bool,
    events: int,
    anyio_backend_name: str,
) -> None:
    handler = Server(at_once=at_once)
    with LoopbackServer(handler) as server:
        async with opened() as transport:
            tasks = open_tasks(anyio_backend_name)
            try:
                async with transport.stream(ask(server.host)) as stream:
                    await way(stream, events)
            except ZeroDivisionError:
                pass
            assert open_generators() == []
            assert open_tasks(anyio_backend_name) == tasks
            assert await handler.sees_the_client_leave()


async def test_closing_an_unread_stream_releases_everything(opened: Opened, anyio_backend_name: str) -> None:
    handler = Server()
    with LoopbackServer(handler) as server:
        async with opened() as transport:
            tasks = open_tasks(anyio_backend_name)
            async with transport.stream(ask(server.host)):
                pass
            assert open_generators() == []
            assert open_tasks(anyio_backend_name) == tasks
            assert await handler.sees_the_client_leave()


async def test_cancelling_a_reader_releases_everything(opened: Opened, anyio_backend_name: str) -> None:
    handler = Server()
    with LoopbackServer(handler) as server:
        async with opened() as transport:
            tasks = open_tasks(anyio_backend_name)
            with anyio.CancelScope() as scope:
                async with transport.stream(ask(server.host)) as stream:
                    seen = 0
                    async for _ in stream:
                        seen += 1
                        if seen == EVENTS:
                            scope.cancel()  # the next read waits, and never gets anything
            assert scope.cancelled_caught
            assert open_generators() == []
            assert open_tasks(anyio_backend_name) == tasks
            assert await handler.sees_the_client_leave()


async def test_cancelling_a_waiting_reader_releases_everything(opened: Opened) -> None:
    handler = Server()
    with LoopbackServer(handler) as server:
        async with opened() as transport:

            async def read() -> None:
                async with transport.stream(ask(server.host)) as stream:
                    async for _ in stream:
                        pass

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read)
                await anyio.to_thread.run_sync(handler.waits.wait)
                await anyio.wait_all_tasks_blocked()
                tasks.cancel_scope.cancel()
            assert open_generators() == []
            assert await handler.sees_the_client_leave()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_cancelling_an_asyncio_task_releases_everything(opened: Opened) -> None:
    handler = Server()
    with LoopbackServer(handler) as server:
        async with opened() as transport:

            async def read() -> None:
                async with transport.stream(ask(server.host)) as stream:
                    async for _ in stream:
                        pass

            task = asyncio.create_task(read())
            await anyio.to_thread.run_sync(handler.waits.wait)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert open_generators() == []
            assert await handler.sees_the_client_leave()


async def test_cancelling_send_before_the_response_closes_its_connection(opened: Opened) -> None:
    asked, left = threading.Event(), threading.Event()

    def handler(exchange: Exchange) -> None:
        asked.set()
        if exchange.wait_closed():
            left.set()

    with LoopbackServer(handler) as server:
        async with opened() as transport:
            calls: list[Callable[[Request], Coroutine[object, object, object]]] = [transport.send, _enter(transport)]
            for call in calls:
                asked.clear()
                left.clear()
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(call, ask(server.host))
                    await anyio.to_thread.run_sync(asked.wait)
                    tasks.cancel_scope.cancel()
                assert await anyio.to_thread.run_sync(left.wait, 10)
            assert open_generators() == []


def _enter(transport: HttpxTransport) -> Callable[[Request], Coroutine[object, object, None]]:
    async def enter(request: Request) -> None:
        async with transport.stream(request):
            pytest.fail("there is no answer")

    return enter


async def test_a_stream_with_an_error_status_releases_everything(opened: Opened, anyio_backend_name: str) -> None:
    left = threading.Event()

    def handler(exchange: Exchange) -> None:
        exchange.head(500)
        exchange.chunk(b"x" * 2_000_000)
        if exchange.wait_closed():
            left.set()

    with LoopbackServer(handler) as server:
        async with opened() as transport:
            tasks = open_tasks(anyio_backend_name)
            with pytest.raises(TransportError):
                await _enter(transport)(ask(server.host))
            assert open_generators() == []
            assert open_tasks(anyio_backend_name) == tasks
            assert await anyio.to_thread.run_sync(left.wait, 10)


async def test_closing_a_stream_with_a_buffered_end_keeps_its_connection(opened: Opened) -> None:
    def handler(exchange: Exchange) -> None:
        body = b"a\r\ndata: [1]\n\r\n1\r\n\n\r\n9\r\ndata: x\n\n\r\n0\r\n\r\n"
        exchange.raw(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n" + body)
        exchange.reusable = True

    with LoopbackServer(handler) as server:
        async with opened() as transport:
            for _ in range(3):
                async with transport.stream(ask(server.host)) as stream:
                    await leave_by_returning(stream, 1)
            assert open_generators() == []
    assert server.connections == 1


def is_done(event: Event) -> bool:
    return event.data == b"[DONE]"


def is_third(event: Event) -> bool:
    return event.data == b"3"


async def test_a_body_that_ends_shortly_after_the_last_event_frees_its_connection(opened: Opened) -> None:
    heard = threading.Event()

    def answer(exchange: Exchange) -> None:
        exchange.head(200, {"content-type": "text/event-stream"})
        exchange.chunk(b"data: 1\n\ndata: [DONE]\n\n")
        exchange.pause(heard)
        exchange.end()

    with LoopbackServer(answer) as server:
        async with opened() as transport:
            for _ in range(5):
                heard.clear()
                async with transport.stream(replace(ask(server.host), is_last=is_done)) as stream:
                    async for event in stream:
                        if is_done(event):
                            heard.set()
                            break
            assert server.connections == 1


async def test_a_body_that_continues_after_the_last_event_is_closed(opened: Opened, anyio_backend_name: str) -> None:
    left = threading.Event()

    def answer(exchange: Exchange) -> None:
        exchange.head(200, {"content-type": "text/event-stream"})
        exchange.chunk(b"data: [DONE]\n\n")
        try:
            while True:
                exchange.chunk(b": and so on" * 1000)
        except OSError:
            left.set()

    with LoopbackServer(answer) as server:
        async with opened() as transport:
            tasks = open_tasks(anyio_backend_name)
            async with transport.stream(replace(ask(server.host), is_last=is_done)) as stream:
                async for event in stream:
                    assert is_done(event)
                    break
            assert open_generators() == []
            assert open_tasks(anyio_backend_name) == tasks
            assert await anyio.to_thread.run_sync(left.wait, 10)


async def test_a_body_that_never_ends_after_the_last_event_is_not_awaited(opened: Opened) -> None:
    handler = Server()
    with LoopbackServer(handler) as server:
        async with opened() as transport:
            with anyio.fail_after(10):
                async with transport.stream(replace(ask(server.host), is_last=is_third)) as stream:
                    async for event in stream:
                        if event.data == b"3":
                            break
            assert await handler.sees_the_client_leave()


async def test_a_reset_after_the_last_event_raises_nothing(opened: Opened) -> None:
    def answer(exchange: Exchange) -> None:
        exchange.head(200, {"content-type": "text/event-stream"})
        exchange.chunk(b"data: [DONE]\n\n")
        exchange.reset()

    with LoopbackServer(answer) as server:
        request = replace(ask(server.host), is_last=is_done)
        async with opened() as transport, transport.stream(request) as stream:
            async for event in stream:
                assert is_done(event)
                break
