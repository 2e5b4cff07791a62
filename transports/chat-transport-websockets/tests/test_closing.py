"""Connections that end during an exchange, and the errors that are raised."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, cast

import pytest
from chat_core.errors import TransportError
from chat_core.transport import Request, Timeouts
from chat_transport_websockets import FrameProtocol
from chat_transport_websockets._connection import Connection
from chat_transport_websockets._exchange import IdleTimer
from socket_exchanges import ask, is_end, opened, read, until, ways
from socket_server import Session, SocketServer
from websockets.protocol import State

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

pytestmark = pytest.mark.anyio

SECRET = "sk-hunter2"


@pytest.mark.parametrize(
    ("code", "kind", "status"),
    [
        (1000, "stream", None),
        (1001, "stream", None),
        (1002, "protocol", None),
        (1003, "protocol", None),
        (1007, "protocol", None),
        (1008, "status", 403),
        (1009, "status", 413),
        (1011, "stream", None),
        (1012, "stream", None),
        (1013, "status", 503),
        (1014, "stream", None),
        (3000, "stream", None),
        (4000, "stream", None),
        (4401, "status", 401),
        (4429, "status", 429),
        (4503, "status", 503),
        (4999, "stream", None),
    ],
)
async def test_a_close_code_during_an_exchange_determines_the_error_kind(
    code: int, kind: str, status: int | None
) -> None:
    def handler(session: Session, _: bytes) -> None:
        session.send("1")
        session.close(code, "so it is")

    with SocketServer(handler) as server:
        async with opened() as transport:
            for call in ways(transport):
                with pytest.raises(TransportError, match=f"closed the connection.*{code} so it is") as caught:
                    await call(ask(server.host))
                assert (caught.value.kind, caught.value.status) == (kind, status)
        assert server.connections == 2


@pytest.mark.parametrize("reset", [False, True])
async def test_an_end_without_a_close_frame_raises_after_the_received_events(reset: bool) -> None:
    delivered = threading.Event()

    def handler(session: Session, _: bytes) -> None:
        session.send("1", "2")
        session.wait(delivered)
        session.abort(reset=reset)

    with SocketServer(handler) as server:
        async with opened() as transport:
            seen: list[bytes] = []
            with pytest.raises(TransportError, match="1006") as caught:
                async with transport.stream(ask(server.host)) as stream:
                    async for event in stream:
                        seen.append(event.data)
                        if len(seen) == 2:
                            delivered.set()
            assert (caught.value.kind, seen) == ("stream", [b"1", b"2"])


async def test_a_connection_lost_before_the_first_frame_raises_a_stream_error() -> None:
    with SocketServer(lambda session, _: session.abort()) as server:
        async with opened() as transport:
            for call in ways(transport):
                with pytest.raises(TransportError) as caught:
                    await call(ask(server.host))
                assert caught.value.kind == "stream"


async def test_a_too_long_message_raises_an_error_that_names_the_limit() -> None:
    with SocketServer(lambda session, _: session.send("1", "x" * 2000)) as server:
        async with opened(max_message_bytes=1000) as transport:
            with pytest.raises(TransportError, match="raise max_message_bytes") as caught:
                await read(transport, ask(server.host))
            assert caught.value.kind == "protocol"


async def test_a_message_that_is_not_utf8_raises_a_protocol_error() -> None:
    def handler(session: Session, _: bytes) -> None:
        session.raw(b"\x81\x02\xff\xfe")

    with SocketServer(handler) as server:
        async with opened() as transport:
            with pytest.raises(TransportError, match="1007") as caught:
                await read(transport, ask(server.host))
            assert caught.value.kind == "protocol"


async def test_bytes_that_are_not_a_frame_raise_a_protocol_error() -> None:
    with SocketServer(lambda session, _: session.raw(b"HTTP/1.1 200 OK\r\n\r\n" * 20)) as server:
        async with opened() as transport:
            with pytest.raises(TransportError) as caught:
                await read(transport, ask(server.host))
            assert caught.value.kind == "protocol"


async def test_pings_of_the_server_do_not_prevent_the_idle_timeout() -> None:
    def handler(session: Session, _: bytes) -> None:
        session.send("1")
        while not session.closed.wait(0.02):
            session.ping(b"still here")

    with SocketServer(handler) as server:
        async with opened() as transport:
            with pytest.raises(TransportError, match=r"no data arrived within 0.3 seconds") as caught:
                await read(transport, ask(server.host, idle=0.3))
            assert caught.value.kind == "timeout"


async def test_an_idle_timer_expires_only_while_it_is_started() -> None:
    expired: list[None] = []
    watch = IdleTimer(0.02, lambda: expired.append(None))
    for _ in range(3):
        watch.start()
        watch.end()
        # A reader may take as long as it likes. However slow this is, the timer's turn comes before this one's.
        await asyncio.sleep(0.1)
        assert not expired
    watch.start()
    await until(lambda: expired)
    assert watch.expired
    watch.close()
    patient = IdleTimer(None, lambda: expired.append(None))
    patient.start()
    await asyncio.sleep(0.1)
    patient.close()
    assert len(expired) == 1


async def test_a_server_that_answers_no_ping_raises_a_timeout() -> None:
    with SocketServer(lambda _session, _message: None, reads=False) as server:
        async with opened(ping_interval=0.05, ping_timeout=0.05) as transport:
            with pytest.raises(TransportError, match=r"a ping within 0\.05 seconds; .*\(ping_timeout=…\)") as caught:
                await read(transport, ask(server.host))
            assert caught.value.kind == "timeout"


async def test_a_server_that_reads_nothing_raises_a_timeout() -> None:
    with SocketServer(lambda _session, _message: None, reads=False) as server:
        async with opened() as transport:
            with pytest.raises(TransportError) as caught:
                await transport.send(ask(server.host, "x" * 20_000_000, idle=0.3))
            assert caught.value.kind == "timeout"


class Frames(FrameProtocol):
    """Default frame protocol."""


class Slow:
    """Connection that accepts a third of a message, split inside characters, at each check."""

    def __init__(self) -> None:
        self.response = None
        self.state = State.OPEN
        self.transport = self
        self.left = 0
        self.aborted = False
        self.taken = asyncio.Event()

    async def send(self, message: str | bytes, *, text: bool | None = None) -> None:
        self.left = len(message.encode() if isinstance(message, str) else message)
        assert text is not False
        await self.taken.wait()

    def get_write_buffer_size(self) -> int:
        left = self.left
        self.left = max(0, left - 1000)
        if not left:
            self.taken.set()
        return left

    def abort(self) -> None:
        self.aborted = True
        self.taken.set()


async def test_a_slow_upload_with_progress_does_not_time_out() -> None:
    slow = Slow()
    link = Connection(cast("ClientConnection", slow), Frames())
    slow.left = 50  # of another message
    turn = await link.start(ask("127.0.0.1:9", "\N{HIRAGANA LETTER A}" * 1000, idle=0.01))
    assert not slow.aborted
    turn.close()


async def test_a_connection_closed_between_exchanges_is_opened_again() -> None:
    def handler(session: Session, message: bytes) -> None:
        session.send(f"{message.decode()} end")
        session.close(1001)

    with SocketServer(handler) as server:
        async with opened() as transport:
            for number in range(3):
                assert await read(transport, ask(server.host, f"q{number}")) == [b"q%d end" % number]
                await until(server.sessions[-1].closed.is_set)
        assert server.connections == 3


async def test_a_close_reason_that_contains_a_secret_is_not_shown() -> None:
    def handler(session: Session, message: bytes) -> None:
        session.close(4401 if message == b"header" else 1011, f"{SECRET} is not a key")

    with SocketServer(handler) as server:
        async with opened() as transport:
            for body, path, headers in (
                ("header", "/v1", (("authorization", f"Bearer {SECRET}"),)),
                ("query", f"/v1?key={SECRET}", ()),
            ):
                request = Request("POST", "http", server.host, path, headers, body.encode(), Timeouts(), is_last=is_end)
                with pytest.raises(TransportError) as caught:
                    await read(transport, request)
                error = caught.value
                assert SECRET not in f"{error!r} {error} {error.body!r}"
                assert SECRET not in f"{error.__cause__!r} {error.__cause__}"
