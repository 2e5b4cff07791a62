"""Connections that serve one exchange at a time."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence

import pytest
from chat_core.errors import TransportError, UsageError
from chat_core.transport import Event, Headers, Request
from chat_transport_websockets import FrameProtocol, WebSocketTransport
from socket_exchanges import ask, opened, read, three, until, until_it_stops
from socket_server import Session, SocketServer

pytestmark = pytest.mark.anyio


async def test_a_connection_serves_consecutive_exchanges() -> None:
    with SocketServer(three) as server:
        async with opened() as transport:
            assert server.connections == 0
            for number in range(5):
                assert await read(transport, ask(server.host, f"q{number}")) == [
                    b"q%d 1" % number,
                    b"q%d 2" % number,
                    b"q%d end" % number,
                ]
                assert (await transport.send(ask(server.host, f"s{number}"))).body == b"s%d end" % number
        assert server.connections == 1


async def test_closing_a_stream_at_any_event_leaves_no_frame_for_the_next() -> None:
    with SocketServer(three) as server:
        async with opened() as transport:
            for events in range(3):
                before = server.connections
                async with transport.stream(ask(server.host, "left")) as stream:
                    for _ in range(events):
                        await anext(aiter(stream))
                assert await read(transport, ask(server.host, "next")) == [b"next 1", b"next 2", b"next end"]
                await until(server.sessions[before - 1 if before else 0].closed.is_set)
            assert server.connections == 4


async def test_closing_a_stream_early_sends_close_code_1001() -> None:
    with SocketServer(lambda session, _: session.send("1")) as server:
        async with opened() as transport:
            async with transport.stream(ask(server.host)) as stream:
                await anext(aiter(stream))
            await until(server.sessions[0].closed.is_set)
            assert server.sessions[0].goodbye == 1001


async def test_the_connection_of_a_completely_read_exchange_is_reused() -> None:
    with SocketServer(three) as server:
        async with opened() as transport:
            for _ in range(3):
                async with transport.stream(ask(server.host)) as stream:
                    async for event in stream:
                        if event.data.endswith(b"end"):
                            break
        assert server.connections == 1


async def test_a_frame_after_the_last_event_is_not_read_by_the_next_exchange() -> None:
    more = threading.Event()

    def handler(session: Session, message: bytes) -> None:
        three(session, message)
        if session.number == 0:
            session.send("late")
            more.set()

    with SocketServer(handler) as server:
        async with opened() as transport:
            await read(transport, ask(server.host, "a"))
            await asyncio.to_thread(more.wait, 30)
            assert await read(transport, ask(server.host, "b")) == [b"b 1", b"b 2", b"b end"]
            assert await read(transport, ask(server.host, "c")) == [b"c 1", b"c 2", b"c end"]
        assert server.connections == 2


async def test_concurrent_exchanges_have_separate_connections() -> None:
    everybody = threading.Barrier(20, timeout=30)

    def handler(session: Session, message: bytes) -> None:
        everybody.wait()
        three(session, message)

    with SocketServer(handler) as server:
        async with opened() as transport:
            for _ in range(2):
                answers = await asyncio.gather(*[read(transport, ask(server.host, f"q{n}")) for n in range(20)])
                assert answers == [[b"q%d 1" % n, b"q%d 2" % n, b"q%d end" % n] for n in range(20)]
        assert server.connections == 20


async def test_exchanges_beyond_max_connections_wait_in_order() -> None:
    asked: list[bytes] = []

    def handler(session: Session, message: bytes) -> None:
        asked.append(message)
        three(session, message)

    with SocketServer(handler) as server:
        async with opened(max_connections=1) as transport:
            answers = await asyncio.gather(*[read(transport, ask(server.host, f"q{n}")) for n in range(20)])
        assert [answer[-1] for answer in answers] == [b"q%d end" % n for n in range(20)]
        assert asked == [b"q%d" % n for n in range(20)]
        assert server.connections == 1


async def test_a_cancelled_waiting_exchange_does_not_block_the_next() -> None:
    go_on = threading.Event()

    def handler(session: Session, message: bytes) -> None:
        session.wait(go_on)
        three(session, message)

    with SocketServer(handler) as server:
        async with opened(max_connections=1) as transport:
            first = asyncio.create_task(read(transport, ask(server.host, "first")))
            await until(lambda: server.connections)
            second = asyncio.create_task(read(transport, ask(server.host, "second")))
            third = asyncio.create_task(read(transport, ask(server.host, "third")))
            await asyncio.sleep(0)
            second.cancel()
            go_on.set()
            assert (await first)[-1] == b"first end"
            assert (await third)[-1] == b"third end"
            with pytest.raises(asyncio.CancelledError):
                await second
        assert server.connections == 1


async def test_closing_a_stream_early_lets_a_waiting_exchange_start() -> None:
    with SocketServer(lambda session, message: session.send(f"{message.decode()} 1")) as server:
        async with opened(max_connections=1) as transport:

            async def begin(name: str) -> bytes:
                async with transport.stream(ask(server.host, name)) as stream:
                    return (await anext(aiter(stream))).data

            assert await asyncio.gather(*[begin(f"q{n}") for n in range(5)]) == [b"q%d 1" % n for n in range(5)]
        assert server.connections == 5


async def test_connections_are_not_shared_between_urls_or_credentials() -> None:
    with SocketServer(three) as server:
        async with opened() as transport:
            for headers in ((("authorization", "Bearer a"),), (("authorization", "Bearer b"),)):
                for path in ("/a", "/b"):
                    for _ in range(2):
                        await read(transport, ask(server.host, path=path, headers=headers))
        assert server.connections == 4
        asked = [session.asked for session in server.sessions]
        assert [(request.path, request.headers["authorization"]) for request in asked if request is not None] == [
            ("/a", "Bearer a"),
            ("/b", "Bearer a"),
            ("/a", "Bearer b"),
            ("/b", "Bearer b"),
        ]


class Odd(FrameProtocol):
    """Frame protocol with JSON frames, its own end marker, and an error status."""

    def ask(self, request: Request, key: str, /) -> bytes:
        return json.dumps({"method": request.method, "key": key}).encode()

    def read(self, frame: bytes, /) -> tuple[str | None, Sequence[Event], bool]:
        said = json.loads(frame)
        events = [Event("message", said["say"].encode())] if "say" in said else []
        return said.get("key"), events, said.get("over", False)

    def failed(self, event: Event, /) -> int | None:
        return 418 if event.data == b"teapot" else None

    def whole(self, frames: Sequence[bytes], /) -> bytes:
        return "".join([json.loads(frame)["say"] for frame in frames]).encode()


def frame(say: str | None = None, **fields: object) -> str:
    return json.dumps({**({} if say is None else {"say": say}), **fields})


async def test_a_frame_protocol_parses_frames_and_marks_the_last() -> None:
    asked: list[dict[str, object]] = []

    def handler(session: Session, message: bytes) -> None:
        asked.append(json.loads(message))
        session.send(frame("a"), frame(), frame("b").encode(), frame("c", over=True))

    with SocketServer(handler) as server:
        async with opened(Odd()) as transport:
            assert await read(transport, ask(server.host)) == [b"a", b"b", b"c"]
            request = Request("GET", "http", server.host, "/v1")
            with pytest.raises(TransportError, match=r"cannot be parsed \(KeyError\)"):
                await transport.send(request)
        assert server.connections == 1
        assert asked == [{"method": "POST", "key": "1"}, {"method": "GET", "key": "2"}]


async def test_a_frame_of_an_earlier_exchange_is_dropped() -> None:
    def handler(session: Session, message: bytes) -> None:
        key = json.loads(message)["key"]
        late = [frame("late", key=str(int(key) - 1)), frame(key=str(int(key) - 1), over=True)]
        session.send(*late, frame("x", key=key), frame(key=key, over=True), *late)

    with SocketServer(handler) as server:
        async with opened(Odd()) as transport:
            for _ in range(5):
                assert await read(transport, ask(server.host)) == [b"x"]
        assert server.connections == 1


async def test_an_unparsable_frame_raises_and_closes_its_connection() -> None:
    with SocketServer(lambda session, _: session.send(frame("a"), "<html>")) as server:
        async with opened(Odd()) as transport:
            seen: list[bytes] = []
            with pytest.raises(TransportError, match="a frame of 6 bytes cannot be parsed") as caught:
                async with transport.stream(ask(server.host)) as stream:
                    async for event in stream:
                        seen.append(event.data)
            assert (caught.value.kind, caught.value.body, seen) == ("protocol", b"<html>", [b"a"])
            assert "<html>" not in str(caught.value), "a frame may quote a secret"
            await until(server.sessions[0].closed.is_set)


async def test_a_failed_exchange_has_a_status_and_closes_its_connection() -> None:
    with SocketServer(lambda session, _: session.send(frame("teapot", over=True))) as server:
        async with opened(Odd()) as transport:
            response = await transport.send(ask(server.host))
            assert (response.status, response.body) == (418, b"teapot")
            assert await read(transport, ask(server.host)) == [b"teapot"]
            await until(lambda: all(session.closed.is_set() for session in server.sessions))
        assert server.connections == 2


async def test_a_protocol_error_before_sending_is_raised_and_keeps_the_connection() -> None:
    class Picky(FrameProtocol):
        def ask(self, request: Request, key: str, /) -> str:
            if request.body == b"no":
                msg = "not that"
                raise UsageError(msg)
            return str(super().ask(request, key))

    with SocketServer(three) as server:
        async with opened(Picky()) as transport:
            with pytest.raises(UsageError, match="not that"):
                await transport.send(ask(server.host, "no"))
            assert (await read(transport, ask(server.host, "yes")))[-1] == b"yes end"
        assert server.connections == 1


class Headed(Odd):
    """Frame protocol whose first frame contains the status."""

    @property
    def acknowledged(self) -> bool:
        return True

    def head(self, frame: bytes, /) -> tuple[int, Headers]:
        return json.loads(frame)["status"], Headers()


@pytest.mark.parametrize("rest", [[frame("no", over=True)], [frame(over=True)], ["<html>"], []])
async def test_an_error_status_is_raised_with_any_body(rest: list[str]) -> None:
    def handler(session: Session, _: bytes) -> None:
        session.send(frame(status=429), *rest)
        session.close()

    with SocketServer(handler) as server:
        async with opened(Headed()) as transport:
            with pytest.raises(TransportError, match="returned status 429") as caught:
                await read(transport, ask(server.host))
    assert (caught.value.status, caught.value.body) == (429, b"no" if "no" in str(rest) else b"")


async def test_a_response_over_max_body_bytes_raises() -> None:
    with SocketServer(lambda session, _: session.send(*["x" * 1000] * 100, "end")) as server:
        async with opened(max_body_bytes=50_000) as transport:
            with pytest.raises(TransportError, match="raise max_body_bytes"):
                await transport.send(ask(server.host))
            assert len(await read(transport, ask(server.host))) == 101


async def test_a_slow_reader_applies_backpressure_to_the_server() -> None:
    sent = 0

    def handler(session: Session, _: bytes) -> None:
        nonlocal sent
        while True:
            session.send("x" * 10_000)
            sent += 10_000

    with SocketServer(handler) as server:
        async with opened() as transport, transport.stream(ask(server.host)) as stream:
            await anext(aiter(stream))
            await until_it_stops(lambda: sent, 64_000_000)
            assert sent < 64_000_000


async def test_two_hundred_streams_of_two_hundred_events_lose_and_mix_none() -> None:
    def handler(session: Session, message: bytes) -> None:
        text = message.decode()
        session.send(*[f"{text} {number}" for number in range(199)], f"{text} end")

    with SocketServer(handler) as server:
        async with opened(max_connections=200) as transport:
            tasks = len(asyncio.all_tasks())
            answers = await asyncio.gather(*[read(transport, ask(server.host, f"q{n}")) for n in range(200)])
            for number, answer in enumerate(answers):
                expected = [b"q%d %d" % (number, event) for event in range(199)]
                assert answer == [*expected, b"q%d end" % number]
        await until(lambda: len(asyncio.all_tasks()) == tasks)
        assert server.connections <= 200


def test_the_repr_of_a_transport_hides_secrets() -> None:
    transport = WebSocketTransport(Odd(), headers={"authorization": "hunter2"}, proxy="http://me:hunter2@proxy")
    assert repr(transport) == "WebSocketTransport(Odd())"


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(UsageError, match="max_connections must be at least 1"):
        WebSocketTransport(max_connections=0)
    with pytest.raises(UsageError, match=r"such as \['graphql-ws'\]"):
        WebSocketTransport(subprotocols="graphql-ws")
