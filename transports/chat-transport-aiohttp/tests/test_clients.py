from __future__ import annotations

import asyncio
import gc
import sys
import threading
import weakref

import aiohttp
import anyio
import pytest
from chat_core.errors import UsageError
from chat_core.transport import Request, Timeouts
from chat_testing import Exchange, LoopbackServer
from chat_transport_aiohttp import AiohttpTransport


def ask(host: str) -> Request:
    return Request("POST", "http", host, "/v1", (), b"{}", Timeouts(idle=10.0))


def serve(exchange: Exchange) -> None:
    exchange.events(b"data: x\n\n")


async def read(transport: AiohttpTransport, host: str) -> bytes:
    async with transport.stream(ask(host)) as stream:
        return b"".join([event.data async for event in stream])


def test_one_transport_serves_consecutive_event_loops() -> None:
    transport = AiohttpTransport()
    with LoopbackServer(serve) as server:
        for _ in range(4):

            async def twice() -> bytes:
                return await read(transport, server.host) + await read(transport, server.host)

            assert anyio.run(twice) == b"xx"
    # A connection for each loop: each loop used its own again, and closed it when it ended.
    assert server.connections == 4


def test_connections_are_closed_at_the_end_of_their_event_loop() -> None:
    closed = threading.Event()

    def handler(exchange: Exchange) -> None:
        exchange.answer()
        assert exchange.wait_closed()
        closed.set()

    transport = AiohttpTransport()
    with LoopbackServer(handler) as server:
        anyio.run(transport.send, ask(server.host))
        assert closed.wait(10)


def test_concurrent_event_loops_have_separate_sessions() -> None:
    transport = AiohttpTransport()
    both = threading.Barrier(2, timeout=10)

    def handler(exchange: Exchange) -> None:
        both.wait()
        exchange.events(b"data: x\n\n")

    results: list[bytes] = []
    with LoopbackServer(handler) as server:
        threads = [
            threading.Thread(target=lambda: results.append(anyio.run(read, transport, server.host))) for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
    assert results == [b"x", b"x"]


@pytest.mark.anyio
async def test_a_given_session_is_used_and_not_closed() -> None:
    with LoopbackServer(serve) as server:
        async with aiohttp.ClientSession(headers={"x-mine": "yes"}) as session:
            transport = AiohttpTransport(session)
            assert await read(transport, server.host) == b"x"
            await transport.aclose()
            await transport.aclose()
            assert not session.closed
            assert await read(transport, server.host) == b"x"
    assert [exchange.headers["x-mine"] for exchange in server.exchanges] == ["yes", "yes"]
    assert server.connections == 1


@pytest.mark.anyio
async def test_aclose_closes_connections_and_the_transport_can_be_reused() -> None:
    transport = AiohttpTransport()
    await transport.aclose()
    with LoopbackServer(serve) as server:
        for _ in range(2):
            assert await read(transport, server.host) == b"x"
            await transport.aclose()
            await transport.aclose()
    assert server.connections == 2


@pytest.mark.anyio
async def test_two_hundred_streams_run_concurrently() -> None:
    count = 200
    all_here = threading.Barrier(count, timeout=60)

    def handler(exchange: Exchange) -> None:
        exchange.head(200, {"content-type": "text/event-stream"})
        all_here.wait()  # no task continues before all have arrived
        exchange.chunk(b"data: x\n\n")
        exchange.end()

    transport = AiohttpTransport()
    results: list[bytes] = []

    async def one(host: str) -> None:
        request = Request("POST", "http", host, "/v1", (), b"{}", Timeouts(connect=60, idle=60))
        async with transport.stream(request) as stream:
            results.extend([event.data async for event in stream])

    with LoopbackServer(handler) as server:
        async with anyio.create_task_group() as tasks:
            for _ in range(count):
                tasks.start_soon(one, server.host)
        await transport.aclose()
    assert results == [b"x"] * count


@pytest.mark.anyio
async def test_two_hundred_streams_of_two_hundred_events_lose_and_mix_none() -> None:
    count = 200

    def handler(exchange: Exchange) -> None:
        exchange.events(*[b"data: %s %d\n\n" % (exchange.body, number) for number in range(count)])

    transport = AiohttpTransport()
    whole: list[bytes] = []

    async def one(host: str, name: bytes) -> None:
        request = Request("POST", "http", host, "/v1", (), name, Timeouts(connect=60, idle=60))
        async with transport.stream(request) as stream:
            if [event.data async for event in stream] == [b"%s %d" % (name, number) for number in range(count)]:
                whole.append(name)

    with LoopbackServer(handler) as server:
        tasks = len(asyncio.all_tasks())
        async with anyio.create_task_group() as group:
            for number in range(count):
                group.start_soon(one, server.host, b"s%d" % number)
        assert len(asyncio.all_tasks()) == tasks
        await transport.aclose()
    assert len(whole) == count


@pytest.mark.anyio
async def test_requests_beyond_max_connections_wait() -> None:
    at_once: list[int] = []
    running = threading.Semaphore(2)

    def handler(exchange: Exchange) -> None:
        at_once.append(running.acquire(blocking=False))
        exchange.answer()
        running.release()

    transport = AiohttpTransport(max_connections=2)
    with LoopbackServer(handler) as server:
        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(transport.send, ask(server.host))
        await transport.aclose()
    assert at_once == [True] * 10
    assert server.connections <= 2


def test_using_the_transport_on_trio_raises_usage_error() -> None:
    transport = AiohttpTransport()

    async def stream() -> None:
        await read(transport, "127.0.0.1:9")

    async def send() -> None:
        await transport.send(ask("127.0.0.1:9"))

    for call in (stream, send, transport.aclose):
        with pytest.raises(UsageError, match=r"running asyncio event loop.*on trio, use HttpxTransport"):
            anyio.run(call, backend="trio")


def test_a_closed_event_loop_is_not_kept_alive() -> None:
    transport = AiohttpTransport()

    async def once(host: str) -> weakref.ref[object]:
        await read(transport, host)
        return weakref.ref(asyncio.get_running_loop())

    with LoopbackServer(serve) as server:
        loop = asyncio.run(once(server.host))
    gc.collect()
    assert loop() is None


@pytest.mark.anyio
async def test_aclose_works_without_async_generator_hooks() -> None:
    transport = AiohttpTransport()
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(firstiter=None)
    try:
        with LoopbackServer(lambda exchange: exchange.answer()) as server:
            assert (await transport.send(ask(server.host))).status == 200
    finally:
        sys.set_asyncgen_hooks(*hooks)
    await transport.aclose()
