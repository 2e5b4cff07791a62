"""Connections of `WebSocketTransport.connect()`, on which both sides send at any time."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from chat_core.errors import TransportError
from chat_core.transport import DuplexTransport, Request
from chat_transport_websockets import WebSocketTransport
from socket_server import Session, SocketServer, refusal

pytestmark = pytest.mark.anyio


def _request(server: SocketServer) -> Request:
    return Request("GET", "http", server.host, "/live", headers=(("authorization", "Bearer secret-1"),))


async def test_both_sides_send_text_and_bytes_in_order() -> None:
    def handler(session: Session, message: bytes) -> None:
        session.send(b"one " + message)
        session.send(b"two " + message)

    with SocketServer(handler) as server:
        transport = WebSocketTransport()
        assert isinstance(transport, DuplexTransport)
        async with transport.connect(_request(server)) as connection:
            await connection.send("text")
            assert [await connection.receive() for _ in range(2)] == [b"one text", b"two text"]
            await connection.send(b"bytes")
            assert [await connection.receive() for _ in range(2)] == [b"one bytes", b"two bytes"]
        (session,) = server.sessions
        asked = session.asked
        assert asked is not None
        assert (asked.path, asked.headers["authorization"]) == ("/live", "Bearer secret-1")
        await asyncio.to_thread(session.closed.wait, 10)
        assert session.goodbye == 1000


async def test_a_connection_that_the_peer_closes_fails_with_the_close_code() -> None:
    with SocketServer(lambda session, _message: session.close(1011)) as server:
        async with WebSocketTransport().connect(_request(server)) as connection:
            await connection.send("text")
            with pytest.raises(TransportError, match="1011") as caught:
                await connection.receive()
            assert caught.value.kind == "stream"
            with pytest.raises(TransportError, match="1011"):
                await connection.send("more")


async def test_a_rejected_handshake_has_the_status_and_the_body() -> None:
    with SocketServer(
        lambda _session, _message: None, handshake=lambda _session, _request: refusal(401, b"who?")
    ) as server:
        with pytest.raises(TransportError) as caught:
            async with WebSocketTransport().connect(_request(server)):
                pass
        assert (caught.value.status, caught.value.body) == (401, b"who?")
        assert "secret-1" not in str(caught.value)


async def test_closing_the_transport_ends_its_connections() -> None:
    with SocketServer(lambda _session, _message: None) as server:
        transport = WebSocketTransport()
        async with transport.connect(_request(server)) as connection:
            receiving = asyncio.create_task(connection.receive())
            await asyncio.sleep(0)
            await transport.aclose()
            with pytest.raises(TransportError):
                await receiving


async def test_a_cancelled_receive_loses_no_message() -> None:
    with SocketServer(lambda session, message: session.send(message)) as server:
        async with WebSocketTransport().connect(_request(server)) as connection:
            receiving = asyncio.create_task(connection.receive())
            await asyncio.sleep(0)
            receiving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await receiving
            await connection.send("later")
            assert await connection.receive() == b"later"
