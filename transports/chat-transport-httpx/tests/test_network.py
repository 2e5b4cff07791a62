"""The sockets below httpx."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import anyio
import httpcore
import pytest
from chat_transport_httpx._sockets import BufferedBackend, BufferedStream

pytestmark = pytest.mark.anyio

HEAD = b"POST /chat HTTP/1.1\r\nhost: a.example\r\ncontent-length: 2\r\n\r\n"


class Recorder(httpcore.AsyncNetworkStream):
    """Keeps what is written to it."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closed = False

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002, ASYNC109 - httpcore's
        self.written.append(buffer)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002, ASYNC109 - as above
        return b"answer"

    async def aclose(self) -> None:
        self.closed = True

    def get_extra_info(self, info: str) -> Any:
        return info


async def test_the_head_of_a_request_leaves_with_its_body() -> None:
    recorder = Recorder()
    stream = BufferedStream(recorder)
    await stream.write(HEAD)
    await stream.write(b"{}")
    await stream.write(b"")
    assert recorder.written == [HEAD + b"{}"]


async def test_a_request_without_a_body_leaves_when_it_ends() -> None:
    recorder = Recorder()
    stream = BufferedStream(recorder)
    await stream.write(HEAD)
    assert recorder.written == []
    await stream.write(b"")
    assert recorder.written == [HEAD]


async def test_whoever_reads_sends_first_what_is_held() -> None:
    recorder = Recorder()
    stream = BufferedStream(recorder)
    await stream.write(HEAD)
    assert await stream.read(100) == b"answer"
    assert recorder.written == [HEAD]


async def test_the_next_request_of_a_connection_is_joined_too() -> None:
    recorder = Recorder()
    stream = BufferedStream(recorder)
    for _ in range(2):
        await stream.write(HEAD)
        await stream.write(b"{}")
        await stream.read(100)
    assert recorder.written == [HEAD + b"{}"] * 2


@pytest.mark.parametrize("data", [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"{}", b"0\r\n\r\n"])
async def test_nothing_else_is_held(data: bytes) -> None:
    recorder = Recorder()
    stream = BufferedStream(recorder)
    await stream.write(data)
    assert recorder.written == [data]


async def test_a_request_that_is_given_up_is_not_sent() -> None:
    recorder = Recorder()
    stream = BufferedStream(recorder)
    await stream.write(HEAD)
    await stream.aclose()
    assert recorder.written == []
    assert recorder.closed


async def test_a_long_body_is_not_copied_behind_its_head() -> None:
    recorder = Recorder()
    stream = BufferedStream(recorder)
    body = bytes(65537)
    await stream.write(HEAD)
    await stream.write(body)
    assert recorder.written == [HEAD, body]
    assert recorder.written[1] is body


class Alarmed(Recorder):
    """The peer has sent an alert."""

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002, ASYNC109 - as above
        raise ssl.SSLError(1, "tlsv13 alert certificate required")

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002, ASYNC109 - as above
        raise ssl.SSLError(1, "tlsv13 alert certificate required")


async def test_an_alert_of_the_peer_is_an_error_of_the_connection() -> None:
    stream = BufferedStream(Alarmed())
    with pytest.raises(httpcore.ReadError, match="alert certificate required"):
        await stream.read(100)
    with pytest.raises(httpcore.WriteError, match="alert certificate required"):
        await stream.write(b"{}")


class Encrypted(Recorder):
    """A stream over TLS that speaks what was agreed."""

    def __init__(self, protocol: str | None) -> None:
        super().__init__()
        self._protocol = protocol

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,  # noqa: ARG002 - as above
        server_hostname: str | None = None,  # noqa: ARG002 - as above
        timeout: float | None = None,  # noqa: ARG002, ASYNC109 - as above
    ) -> httpcore.AsyncNetworkStream:
        return self

    def get_extra_info(self, info: str) -> Any:
        assert info == "ssl_object"
        return self

    def selected_alpn_protocol(self) -> str | None:
        return self._protocol


@pytest.mark.parametrize(("protocol", "written"), [("h2", [HEAD]), ("http/1.1", []), (None, [])])
async def test_what_looks_like_a_head_is_not_held_where_http_2_was_agreed(
    protocol: str | None, written: list[bytes]
) -> None:
    recorder = Encrypted(protocol)
    stream = await BufferedStream(recorder).start_tls(ssl.create_default_context())
    await stream.write(HEAD)
    assert recorder.written == written


async def test_what_the_stream_says_of_itself_is_passed_on() -> None:
    assert BufferedStream(Recorder()).get_extra_info("ssl_object") == "ssl_object"


@contextmanager
def listening() -> Generator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


async def test_an_idle_connection_is_seen_to_be_closed() -> None:
    with listening() as server:
        stream = await BufferedBackend().connect_tcp("127.0.0.1", server.getsockname()[1])
        peer, _ = server.accept()
        assert stream.get_extra_info("is_readable") is False
        peer.close()
        with anyio.fail_after(10):
            while not stream.get_extra_info("is_readable"):
                await anyio.lowlevel.checkpoint()
        await stream.aclose()
        assert stream.get_extra_info("is_readable") is True


async def test_a_connection_that_is_asked_for_the_first_time_when_it_is_closed_says_so() -> None:
    with listening() as server:
        stream = await BufferedBackend().connect_tcp("127.0.0.1", server.getsockname()[1])
        await stream.aclose()
        with anyio.fail_after(10):
            while stream.get_extra_info("socket").fileno() >= 0:
                await anyio.lowlevel.checkpoint()
        assert stream.get_extra_info("is_readable") is True


async def test_a_request_is_one_packet_on_a_real_connection() -> None:
    with listening() as server:
        stream = await BufferedBackend().connect_tcp("127.0.0.1", server.getsockname()[1])
        peer, _ = server.accept()
        with peer:
            await stream.write(HEAD)
            await stream.write(b"{}")
            await anyio.wait_readable(peer)
            assert peer.recv(1000) == HEAD + b"{}"
        await stream.aclose()
