"""Connection pool: lifetime of connections, and delays before reconnecting."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import weakref
from collections.abc import Sequence

import anyio
import pytest
from chat_core.errors import TransportError, UsageError
from chat_core.transport import Event
from chat_transport_websockets import BackOff, FrameProtocol, WebSocketTransport
from socket_exchanges import ask, opened, read, three, until
from socket_server import Session, SocketServer, refusal


class Keyed(FrameProtocol):
    """Frame protocol whose frames begin with their key."""

    @property
    def multiplexed(self) -> bool:
        return True

    def read(self, frame: bytes, /) -> tuple[str | None, Sequence[Event], bool]:
        return "1", [Event("message", frame)], False


class Clock:
    """Clock that records requested delays, with random numbers that are always the maximum."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self.drawn: list[tuple[float, float]] = []

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    def draw(self, low: float, high: float) -> float:
        self.drawn.append((low, high))
        return high

    def back_off(self, longest: float = 8.0) -> BackOff:
        return BackOff(first=1.0, longest=longest, sleep=self.sleep, uniform=self.draw)


@pytest.mark.anyio
async def test_consecutive_failures_increase_the_delay_up_to_a_limit() -> None:
    clock = Clock()
    async with opened(back_off=clock.back_off()) as transport:
        for _ in range(7):
            with pytest.raises(TransportError):
                await transport.send(ask("127.0.0.1:9"))
    assert clock.waits == [1.0, 2.0, 4.0, 8.0, 8.0, 8.0]
    assert clock.drawn[0] == (0.0, 1.0)
    assert {low for low, _ in clock.drawn} == {0.0}


@pytest.mark.anyio
async def test_the_delay_after_a_thousand_failures_is_the_maximum() -> None:
    clock = Clock()
    await clock.back_off(5.0).wait(10_000)
    assert clock.waits == [5.0]


@pytest.mark.anyio
async def test_a_successful_exchange_resets_the_failure_count() -> None:
    clock = Clock()
    refusing = [True, True, False, True, False]

    def handshake(_session: Session, _request: object) -> object:
        return refusal(503, b"") if refusing.pop(0) else None

    with SocketServer(three, handshake=handshake) as server:  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - an answer or none
        async with opened(back_off=clock.back_off(), idle_connection_seconds=None) as transport:
            for _ in range(3):
                await transport.send(ask(server.host))
            assert clock.waits == [1.0, 2.0]
            await transport.aclose()
            for _ in range(2):
                await transport.send(ask(server.host))
    assert clock.waits == [1.0, 2.0, 1.0]


@pytest.mark.anyio
async def test_only_a_connection_lost_during_an_exchange_counts_as_failed() -> None:
    clock = Clock()

    def handler(session: Session, message: bytes) -> None:
        session.send("1")
        if message == b"break":
            session.abort()

    with SocketServer(handler) as server:
        async with opened(back_off=clock.back_off()) as transport:
            for _ in range(3):
                async with transport.stream(ask(server.host, "leave")) as stream:
                    await anext(aiter(stream))
            assert clock.waits == []
            for _ in range(3):
                with pytest.raises(TransportError):
                    await read(transport, ask(server.host, "break"))
            assert clock.waits == [1.0, 2.0]


@pytest.mark.anyio
async def test_failures_of_one_url_do_not_delay_others() -> None:
    clock = Clock()
    with SocketServer(three) as server:
        async with opened(back_off=clock.back_off()) as transport:
            for number in range(100):
                with pytest.raises(TransportError):
                    await transport.send(ask("127.0.0.1:9", path=f"/{number}"))
            await transport.send(ask(server.host))
    assert clock.waits == []


@pytest.mark.anyio
async def test_an_idle_connection_is_closed_after_a_timeout() -> None:
    with SocketServer(three) as server:
        async with opened(idle_connection_seconds=0.05) as transport:
            await read(transport, ask(server.host))
            await until(server.sessions[0].closed.is_set)
            assert server.sessions[0].goodbye == 1001
            assert len(await read(transport, ask(server.host))) == 3
        assert server.connections == 2


@pytest.mark.anyio
@pytest.mark.parametrize("protocol", [None, Keyed()])
async def test_a_connection_over_its_maximum_age_is_closed_and_not_reused(protocol: Keyed | None) -> None:
    with SocketServer(lambda session, _: session.send("1 end")) as server:
        async with opened(protocol, max_connection_seconds=0.0, idle_connection_seconds=None) as transport:
            for number in range(3):
                assert await read(transport, ask(server.host)) == [b"1 end"]
                await until(server.sessions[number].closed.is_set)
        assert server.connections == 3


@pytest.mark.anyio
async def test_waiting_exchanges_keep_their_order_if_a_connection_is_unusable() -> None:
    asked: list[bytes] = []
    go_on = threading.Event()

    def handler(session: Session, message: bytes) -> None:
        asked.append(message)
        session.wait(go_on)
        session.send("end")

    with SocketServer(handler) as server:
        async with opened(max_connections=1, max_connection_seconds=0.0) as transport:
            turns: list[asyncio.Task[list[bytes]]] = []
            for number in range(5):
                turns.append(asyncio.create_task(read(transport, ask(server.host, f"{number}"))))
                await asyncio.sleep(0)  # it waits now
            go_on.set()
            await asyncio.gather(*turns)
    assert asked == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.anyio
async def test_aclose_sends_a_close_frame_and_the_transport_can_be_reused() -> None:
    with SocketServer(three) as server:
        transport = WebSocketTransport()
        await transport.aclose()
        for number in range(2):
            assert len(await read(transport, ask(server.host))) == 3
            await transport.aclose()
            await transport.aclose()
            await until(server.sessions[number].closed.is_set)
            assert server.sessions[number].goodbye == 1000
        assert server.connections == 2


@pytest.mark.anyio
async def test_aclose_does_not_wait_for_a_server_that_sends_no_close_frame() -> None:
    with SocketServer(lambda _session, _message: None, reads=False) as server:
        transport = WebSocketTransport(close_timeout=0.05, ping_interval=None)
        turn = asyncio.create_task(read(transport, ask(server.host)))
        await until(lambda: server.sessions and server.sessions[0].is_open)
        server.sessions[0].send("end")  # to a question that it does not read, and neither will it a goodbye
        assert await turn == [b"end"]
        async with asyncio.timeout(30):
            await transport.aclose()


@pytest.mark.anyio
@pytest.mark.parametrize("protocol", [None, Keyed()])
async def test_a_connection_opened_while_the_transport_closes_is_not_kept(
    protocol: Keyed | None,
) -> None:
    opening, go_on = threading.Event(), threading.Event()

    def handshake(session: Session, _: object) -> None:
        opening.set()
        session.wait(go_on)

    with SocketServer(lambda session, _: session.send("1 end"), handshake=handshake) as server:
        transport = WebSocketTransport(protocol, idle_connection_seconds=None)
        turn = asyncio.create_task(read(transport, ask(server.host)))
        await until(opening.is_set)
        await transport.aclose()
        go_on.set()
        assert await turn == [b"1 end"]
        await until(server.sessions[0].closed.is_set)


@pytest.mark.anyio
async def test_an_exchange_that_waits_during_close_leaves_no_connection_open() -> None:
    def handler(session: Session, message: bytes) -> None:
        if message == b"short":
            session.send("end")

    with SocketServer(handler) as server:
        transport = WebSocketTransport(max_connections=1, idle_connection_seconds=None)
        first = asyncio.create_task(read(transport, ask(server.host, "long")))
        await until(lambda: server.sessions and server.sessions[0].is_open)
        second = asyncio.create_task(read(transport, ask(server.host, "short")))
        await asyncio.sleep(0)
        await transport.aclose()
        with pytest.raises(TransportError, match="the transport was closed before the response was complete"):
            await first
        assert await second == [b"end"]
        await until(server.sessions[1].closed.is_set)


def test_one_transport_serves_consecutive_event_loops() -> None:
    transport = WebSocketTransport()
    with SocketServer(three) as server:
        for _ in range(3):

            async def twice() -> int:
                return len(await read(transport, ask(server.host)) + await read(transport, ask(server.host)))

            assert anyio.run(twice) == 6
        for session in server.sessions:
            assert session.closed.wait(30)
    assert server.connections == 3


def test_concurrent_event_loops_have_separate_connections() -> None:
    transport = WebSocketTransport()
    both = threading.Barrier(2, timeout=30)

    def handler(session: Session, message: bytes) -> None:
        both.wait()
        three(session, message)

    results: list[int] = []
    with SocketServer(handler) as server:

        def run() -> None:
            results.append(len(anyio.run(read, transport, ask(server.host))))

        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert results == [3, 3]


def test_a_closed_event_loop_is_not_kept_alive() -> None:
    transport = WebSocketTransport()

    async def once(host: str) -> weakref.ref[object]:
        await read(transport, ask(host))
        return weakref.ref(asyncio.get_running_loop())

    with SocketServer(three) as server:
        loop = asyncio.run(once(server.host))
    gc.collect()
    assert loop() is None


@pytest.mark.anyio
async def test_aclose_works_without_async_generator_hooks() -> None:
    transport = WebSocketTransport()
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(firstiter=None)
    try:
        with SocketServer(three) as server:
            assert (await transport.send(ask(server.host))).status == 200
            await transport.aclose()
    finally:
        sys.set_asyncgen_hooks(*hooks)


def test_using_the_transport_on_trio_raises_usage_error() -> None:
    transport = WebSocketTransport()

    async def stream() -> None:
        await read(transport, ask("127.0.0.1:9"))

    async def send() -> None:
        await transport.send(ask("127.0.0.1:9"))

    for call in (stream, send, transport.aclose):
        with pytest.raises(UsageError, match=r"running asyncio event loop.*on trio, use HttpxTransport"):
            anyio.run(call, backend="trio")
