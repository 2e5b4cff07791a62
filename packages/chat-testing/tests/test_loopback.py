from __future__ import annotations

import socket
import threading

import pytest
from chat_testing import Exchange, LoopbackServer


def talk(host: str, *requests: bytes) -> bytes:
    address, _, port = host.partition(":")
    with socket.create_connection((address, int(port)), timeout=10) as connection:
        for request in requests:
            connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    return answer


def test_server_reads_a_whole_request_and_answers_it() -> None:
    with LoopbackServer(lambda exchange: exchange.answer(200, {"x": "y"}, b"body")) as server:
        answer = talk(server.host, b"POST /p?q HTTP/1.1\r\nContent-Length: 4\r\nX-A: b\r\n\r\nwh", b"at")
    assert answer == b"HTTP/1.1 200 Whatever\r\nx: y\r\ncontent-length: 4\r\n\r\nbody"
    [exchange] = server.exchanges
    assert (exchange.method, exchange.path, exchange.headers["x-a"], exchange.body) == ("POST", "/p?q", "b", b"what")
    assert server.connections == 1


def test_server_sends_events_in_chunks() -> None:
    with LoopbackServer(lambda exchange: exchange.events(b"data: x\n\n")) as server:
        answer = talk(server.host, b"GET / HTTP/1.1\r\n\r\n")
    assert answer.endswith(b"transfer-encoding: chunked\r\n\r\n9\r\ndata: x\n\n\r\n0\r\n\r\n")


def test_assertion_error_of_a_handler_is_raised_when_the_server_closes() -> None:
    def handler(_: Exchange) -> None:
        msg = "wrong"
        raise AssertionError(msg)

    with pytest.raises(AssertionError, match="wrong"), LoopbackServer(handler) as server:
        assert talk(server.host, b"GET / HTTP/1.1\r\n\r\n") == b""


def test_reset_closes_the_connection_with_an_error() -> None:
    with LoopbackServer(lambda exchange: exchange.reset()) as server, pytest.raises(OSError):
        talk(server.host, b"GET / HTTP/1.1\r\n\r\n")


def test_wait_closed_returns_whether_the_client_disconnected() -> None:
    seen: list[bool] = []
    still_here, gone = threading.Event(), threading.Event()

    def handler(exchange: Exchange) -> None:
        seen.append(exchange.wait_closed(0.05))
        still_here.set()
        seen.append(exchange.wait_closed())
        gone.set()

    with LoopbackServer(handler) as server:
        address, _, port = server.host.partition(":")
        with socket.create_connection((address, int(port)), timeout=10) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert still_here.wait(10)
        assert gone.wait(10)
    assert seen == [False, True]
