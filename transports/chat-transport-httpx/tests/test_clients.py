from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from chat_core.transport import Request, Timeouts
from chat_testing import Exchange, LoopbackServer
from chat_transport_httpx import HttpxTransport
from client_packages import NAMES, PACKAGES


def ask(host: str) -> Request:
    return Request("POST", "http", host, "/v1", (), b"{}", Timeouts(idle=10.0))


def serve(exchange: Exchange) -> None:
    exchange.events(b"data: x\n\n")


async def read(transport: HttpxTransport, host: str) -> bytes:
    async with transport.stream(ask(host)) as stream:
        return b"".join([event.data async for event in stream])


def run(backend: str, call: Callable[[], Awaitable[bytes]]) -> bytes:
    return anyio.run(call, backend=backend)


def test_one_transport_serves_consecutive_event_loops() -> None:
    transport = HttpxTransport()
    with LoopbackServer(serve) as server:
        for backend in ("asyncio", "trio", "asyncio", "asyncio", "trio"):

            async def twice() -> bytes:
                return await read(transport, server.host) + await read(transport, server.host)

            assert run(backend, twice) == b"xx"
    # A connection for each loop: each loop used its own again, and closed it when it ended.
    assert server.connections == 5


def test_connections_are_closed_at_the_end_of_their_event_loop() -> None:
    closed = threading.Event()

    def handler(exchange: Exchange) -> None:
        exchange.answer()
        assert exchange.wait_closed()
        closed.set()

    transport = HttpxTransport()
    with LoopbackServer(handler) as server:
        anyio.run(transport.send, ask(server.host))
        assert closed.wait(10)


def test_a_request_after_the_shutdown_of_the_event_loop_raises() -> None:
    transport = HttpxTransport()

    async def after_the_end(host: str) -> None:
        await read(transport, host)
        await asyncio.get_running_loop().shutdown_asyncgens()
        with pytest.raises(RuntimeError, match="client is closed"):
            await transport.send(ask(host))

    with LoopbackServer(serve) as server:
        anyio.run(after_the_end, server.host, backend="asyncio")
    assert server.connections == 1


def test_concurrent_event_loops_have_separate_clients() -> None:
    transport = HttpxTransport()
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
@pytest.mark.parametrize("package", PACKAGES, ids=NAMES)
async def test_a_given_client_is_used_and_not_closed(package: Any) -> None:
    with LoopbackServer(serve) as server:
        async with package.AsyncClient(headers={"x-mine": "yes"}) as client:
            transport = HttpxTransport(client)
            assert await read(transport, server.host) == b"x"
            await transport.aclose()
            await transport.aclose()
            assert not client.is_closed
            assert await read(transport, server.host) == b"x"
    assert [exchange.headers["x-mine"] for exchange in server.exchanges] == ["yes", "yes"]
    assert server.connections == 1


@pytest.mark.anyio
@pytest.mark.parametrize("package", PACKAGES, ids=NAMES)
async def test_a_given_client_with_follow_redirects_follows_none(package: Any) -> None:
    with LoopbackServer(lambda exchange: exchange.answer(302, {"location": "/elsewhere"})) as server:
        async with package.AsyncClient(follow_redirects=True) as client:
            response = await HttpxTransport(client).send(ask(server.host))
    assert response.status == 302
    assert len(server.exchanges) == 1


@pytest.mark.anyio
async def test_aclose_closes_connections_and_the_transport_can_be_reused() -> None:
    transport = HttpxTransport()
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

    transport = HttpxTransport()
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
async def test_requests_beyond_max_connections_wait() -> None:
    at_once: list[int] = []
    running = threading.Semaphore(2)

    def handler(exchange: Exchange) -> None:
        at_once.append(running.acquire(blocking=False))
        exchange.answer()
        running.release()

    transport = HttpxTransport(max_connections=2)
    with LoopbackServer(handler) as server:
        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(transport.send, ask(server.host))
        await transport.aclose()
    assert at_once == [True] * 10
    assert server.connections <= 2
