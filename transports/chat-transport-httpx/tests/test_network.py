"""Network streams of the transport, below httpx."""

from __future__ import annotations

import gc
import socket
import ssl
import struct
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import anyio
import pytest
from chat_transport_httpx._anyio_stream import HAS_RECEIVED
from chat_transport_httpx._asyncio_socket import AsyncioSocket
from chat_transport_httpx._packages import httpcore
from chat_transport_httpx._sockets import BufferedBackend, BufferedStream

pytestmark = pytest.mark.anyio

CORES: Final = [import_module(name) for name in ("httpcore", "httpcore2") if find_spec(name) is not None]
HEAD = b"POST /chat HTTP/1.1\r\nhost: a.example\r\ncontent-length: 2\r\n\r\n"


class Recorder(httpcore.AsyncNetworkStream):
    """Network stream that records the written bytes."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closed = False

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - httpcore's
        self.written.append(buffer)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - as above
        return b"answer"

    async def aclose(self) -> None:
        self.closed = True

    def get_extra_info(self, info: str) -> Any:
        return info


async def test_request_head_and_body_are_written_together() -> None:
    recorder = Recorder()
    stream = BufferedStream(recorder)
    await stream.write(HEAD)
    await stream.write(b"{}")
    await stream.write(b"")
    assert recorder.written == [HEAD + b"{}"]


async def test_a_request_without_a_body_is_written_at_its_end() -> None:
    recorder = Recorder()
    stream = BufferedStream(recorder)
    await stream.write(HEAD)
    assert recorder.written == []
    await stream.write(b"")
    assert recorder.written == [HEAD]


async def test_reading_first_writes_the_buffered_head() -> None:
    recorder = Recorder()
    stream = BufferedStream(recorder)
    await stream.write(HEAD)
    assert await stream.read(100) == b"answer"
    assert recorder.written == [HEAD]


async def test_the_next_request_on_a_connection_is_also_written_together() -> None:
    recorder = Recorder()
    stream = BufferedStream(recorder)
    for _ in range(2):
        await stream.write(HEAD)
        await stream.write(b"{}")
        await stream.read(100)
    assert recorder.written == [HEAD + b"{}"] * 2


@pytest.mark.parametrize("data", [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"{}", b"0\r\n\r\n"])
async def test_only_a_request_head_is_buffered(data: bytes) -> None:
    recorder = Recorder()
    stream = BufferedStream(recorder)
    await stream.write(data)
    assert recorder.written == [data]


async def test_closing_a_stream_discards_the_buffered_head() -> None:
    recorder = Recorder()
    stream = BufferedStream(recorder)
    await stream.write(HEAD)
    await stream.aclose()
    assert recorder.written == []
    assert recorder.closed


async def test_a_large_body_is_written_without_a_copy() -> None:
    recorder = Recorder()
    stream = BufferedStream(recorder)
    body = bytes(65537)
    await stream.write(HEAD)
    await stream.write(body)
    assert recorder.written == [HEAD, body]
    assert recorder.written[1] is body


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


class Answering(Recorder):
    """Network stream that returns prepared reads."""

    def __init__(self, *reads: bytes) -> None:
        super().__init__()
        self._reads = list(reads)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - as above
        return self._reads.pop(0)


async def test_a_read_ends_at_the_headers_of_a_response_with_plain_chunks() -> None:
    stream = BufferedStream(Answering(CHUNKED[:20], CHUNKED[20:] + b"3\r\none\r\n", b"0\r\n\r\n"))
    await stream.write(HEAD)
    assert [await stream.read(100), await stream.read(100)] == [CHUNKED[:20], CHUNKED[20:]]
    assert stream.has_unread_chunks
    assert [await stream.receive(), await stream.receive()] == [b"3\r\none\r\n", b"0\r\n\r\n"]


async def test_a_read_after_the_headers_returns_the_chunks() -> None:
    stream = BufferedStream(Answering(CHUNKED + b"3\r\none\r\n", b"0\r\n\r\n"))
    await stream.write(HEAD)
    reads = [await stream.read(max_bytes) for max_bytes in (100, 4, 100, 100)]
    assert reads == [CHUNKED, b"3\r\no", b"ne\r\n", b"0\r\n\r\n"]
    assert not stream.has_unread_chunks


async def test_a_response_to_head_has_no_chunks() -> None:
    stream = BufferedStream(Answering(CHUNKED + b"HTTP/1.1 200 OK"))
    await stream.write(HEAD.replace(b"POST", b"HEAD"))
    assert await stream.read(100) == CHUNKED + b"HTTP/1.1 200 OK"
    assert not stream.has_unread_chunks


async def test_the_next_read_returns_what_was_unread_or_raises_what_failed() -> None:
    stream = BufferedStream(Answering(b"two"))
    stream.unread(b"one")
    assert [await stream.read(100), await stream.read(100)] == [b"one", b"two"]
    stream.fail(httpcore.ReadTimeout())
    with pytest.raises(httpcore.ReadTimeout):
        await stream.read(100)


class Alarmed(Recorder):
    """Network stream whose peer has sent a TLS alert."""

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as above
        raise ssl.SSLError(1, "tlsv13 alert certificate required")

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - as above
        raise ssl.SSLError(1, "tlsv13 alert certificate required")


async def test_a_tls_alert_raises_a_read_or_write_error() -> None:
    stream = BufferedStream(Alarmed())
    with pytest.raises(httpcore.ReadError, match="alert certificate required"):
        await stream.read(100)
    with pytest.raises(httpcore.WriteError, match="alert certificate required"):
        await stream.write(b"{}")


class Encrypted(Recorder):
    """TLS network stream with a negotiated protocol."""

    def __init__(self, protocol: str | None) -> None:
        super().__init__()
        self._protocol = protocol

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - as above
    ) -> httpcore.AsyncNetworkStream:
        return self

    def get_extra_info(self, info: str) -> Any:
        assert info == "ssl_object"
        return self

    def selected_alpn_protocol(self) -> str | None:
        return self._protocol


@pytest.mark.parametrize(("protocol", "written"), [("h2", [HEAD]), ("http/1.1", []), (None, [])])
async def test_a_head_is_not_buffered_if_http2_was_negotiated(protocol: str | None, written: list[bytes]) -> None:
    recorder = Encrypted(protocol)
    stream = await BufferedStream(recorder).start_tls(ssl.create_default_context())
    await stream.write(HEAD)
    assert recorder.written == written


async def test_get_extra_info_is_passed_to_the_inner_stream() -> None:
    assert BufferedStream(Recorder()).get_extra_info("ssl_object") == "ssl_object"


@contextmanager
def listening() -> Generator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@asynccontextmanager
async def connected(package: Any = httpcore) -> AsyncGenerator[tuple[Any, socket.socket]]:
    """Open a connection and yield its stream and the socket of the peer."""
    with listening() as server:
        stream = await BufferedBackend(package).connect_tcp("127.0.0.1", server.getsockname()[1])
        peer, _ = server.accept()
        with peer:
            yield stream, peer
        await stream.aclose()


async def wait_for_bytes(
    peer: socket.socket, read: Callable[..., Coroutine[Any, Any, bytes]], *arguments: object
) -> None:
    """Start a read, and let the peer send bytes when it waits."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read, *arguments)
        await anyio.wait_all_tasks_blocked()
        peer.sendall(b"one")


async def test_is_readable_reports_that_the_server_closed_an_idle_connection() -> None:
    async with connected() as (stream, peer):
        assert stream.get_extra_info("is_readable") is False
        peer.close()
        with anyio.fail_after(10):
            while not stream.get_extra_info("is_readable"):
                await anyio.lowlevel.checkpoint()
        await stream.aclose()
        assert stream.get_extra_info("is_readable") is True


async def test_is_readable_is_true_for_a_connection_closed_before_the_first_call() -> None:
    with listening() as server:
        stream = await BufferedBackend().connect_tcp("127.0.0.1", server.getsockname()[1])
        await stream.aclose()
        with anyio.fail_after(10):
            while stream.get_extra_info("socket").fileno() >= 0:
                await anyio.lowlevel.checkpoint()
        assert stream.get_extra_info("is_readable") is True


@pytest.mark.parametrize("has_poll", [True, False])
async def test_bytes_that_arrive_on_an_idle_connection_make_it_readable(
    anyio_backend_name: str, monkeypatch: pytest.MonkeyPatch, has_poll: bool
) -> None:
    if not has_poll:  # as on Windows
        monkeypatch.delattr("select.poll")
    async with connected() as (stream, peer):
        assert stream.get_extra_info("is_readable") is False
        peer.sendall(b"HTTP/1.1 408 Timeout")
        with anyio.fail_after(10):
            # On asyncio, the event loop reads the bytes before anybody asks for them.
            while not stream.get_extra_info(HAS_RECEIVED) and anyio_backend_name == "asyncio":
                await anyio.lowlevel.checkpoint()
            while not stream.get_extra_info("is_readable"):
                await anyio.lowlevel.checkpoint()
        assert stream.get_extra_info(HAS_RECEIVED) is (anyio_backend_name == "asyncio")
        assert await stream.read(100, 10) == b"HTTP/1.1 408 Timeout"
        assert stream.get_extra_info("is_readable") is False


async def test_bytes_that_were_received_before_the_first_read_are_kept(anyio_backend_name: str) -> None:
    if anyio_backend_name != "asyncio":
        return
    with listening() as server:
        stream = await anyio.connect_tcp("127.0.0.1", server.getsockname()[1])
        peer, _ = server.accept()
        with peer:
            transport = getattr(stream, "_transport")  # noqa: B009 - private
            transport.get_protocol().data_received(b"early ")
            peer.sendall(b"late")
            reader = AsyncioSocket(stream, transport)
            received = await reader.receive_within(5, 6)
            rest = await reader.receive_within(5, 100)
        await reader.aclose()
    assert (received, rest) == (b"early ", b"late")


async def test_a_peer_that_sends_more_than_is_read_has_to_wait() -> None:
    async with connected() as (stream, peer):
        peer.setblocking(False)
        sent = refused = 0
        while refused < 100:
            try:
                sent += peer.send(bytes(65536))
                refused = 0
            except BlockingIOError:
                refused += 1
            assert sent < 100_000_000, "the received bytes are not limited"
            await anyio.lowlevel.checkpoint()
        received = 0
        while received < sent:
            data = await stream.read(65536, 10)
            assert 0 < len(data) <= 65536
            received += len(data)
        assert received == sent


async def test_two_reads_at_once_raise_an_error() -> None:
    async with connected() as (stream, peer), anyio.create_task_group() as tasks:
        tasks.start_soon(stream.read, 100, 10)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(anyio.BusyResourceError):
            await stream.read(100, 10)
        peer.sendall(b"one")


async def test_closing_a_connection_ends_its_read() -> None:
    async with connected() as (stream, _):

        async def read() -> None:
            with pytest.raises(httpcore.ReadError):
                await stream.read(100, 10)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            await stream.aclose()


async def test_closing_a_connection_ends_its_write() -> None:
    async with connected() as (stream, _):

        async def write() -> None:
            with pytest.raises(httpcore.WriteError):
                await stream.write(bytes(100_000_000), 10)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write)
            await anyio.wait_all_tasks_blocked()
            await stream.aclose()


async def test_a_request_is_sent_as_one_packet() -> None:
    async with connected() as (stream, peer):
        await stream.write(HEAD)
        await stream.write(b"{}")
        await anyio.wait_readable(peer)
        assert peer.recv(1000) == HEAD + b"{}"


@pytest.mark.parametrize("package", CORES)
async def test_a_read_or_write_that_takes_too_long_raises_a_timeout(package: Any) -> None:
    async with connected(package) as (stream, _):
        with pytest.raises(package.ReadTimeout):
            await stream.read(100, 0.01)
        with pytest.raises(package.WriteTimeout):
            for _ in range(100):
                await stream.write(bytes(1_000_000), 0.01)


async def test_a_closed_connection_is_freed_before_its_time_limit(anyio_backend_name: str) -> None:
    if anyio_backend_name != "asyncio":
        return
    with listening() as server:
        stream = await anyio.connect_tcp("127.0.0.1", server.getsockname()[1])
        peer, _ = server.accept()
        transport = getattr(stream, "_transport")  # noqa: B009 - private
        reader = AsyncioSocket(stream, transport)
        protocol = weakref.ref(transport.get_protocol())
        with peer:
            await wait_for_bytes(peer, reader.receive_within, 300, 100)
        await reader.aclose()
        del stream, transport, reader
        with anyio.fail_after(10):
            while protocol() is not None:
                gc.collect()
                await anyio.lowlevel.checkpoint()


async def test_each_read_has_its_own_time_limit() -> None:
    async with connected() as (stream, peer):
        await wait_for_bytes(peer, stream.read, 100, 300)
        with anyio.fail_after(10), pytest.raises(httpcore.ReadTimeout):
            await stream.read(100, 0.01)
        await wait_for_bytes(peer, stream.read, 100, 0.1)
        begun = anyio.current_time()
        with anyio.fail_after(10), pytest.raises(httpcore.ReadTimeout):
            await stream.read(100, 0.2)
        assert anyio.current_time() - begun >= 0.2
        with anyio.fail_after(10), pytest.raises(httpcore.ReadTimeout):
            await stream.read(100, 0.01)
        await wait_for_bytes(peer, stream.read, 100, 0.05)
        with anyio.move_on_after(0.1) as scope:
            await stream.read(100, None)
        assert scope.cancelled_caught


async def test_reading_at_the_end_of_a_connection_returns_no_bytes() -> None:
    async with connected() as (stream, peer):
        peer.close()
        assert await stream.read(100, 10) == b""


async def test_using_a_closed_or_reset_connection_raises_a_read_or_write_error() -> None:
    async with connected() as (stream, peer):
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()
        with pytest.raises(httpcore.ReadError):
            await stream.read(100, 10)
        await stream.aclose()
        with pytest.raises(httpcore.ReadError):
            await stream.read(100, 10)
        with pytest.raises(httpcore.WriteError):
            await stream.write(b"{}", 10)
