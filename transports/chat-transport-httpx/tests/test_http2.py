"""HTTP/2 over TLS, against a server on h2."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TypeAlias

import anyio
import anyio.to_thread
import h2.config
import h2.connection
import h2.events
import pytest
import trustme
from chat_core.errors import TransportError
from chat_core.transport import Request, Timeouts
from chat_transport_httpx import HttpxTransport

pytestmark = pytest.mark.anyio

Opened: TypeAlias = Callable[..., AbstractAsyncContextManager[HttpxTransport]]


class H2Server:
    """Server that sends three events per request, and leaves the response to the path `/open` unfinished."""

    def __init__(self, authority: trustme.CA) -> None:
        self.resets = threading.Semaphore(0)
        self.connections = 0
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(self._tls)  # pyright: ignore[reportUnknownMemberType]  # pyOpenSSL
        self._tls.set_alpn_protocols(["h2"])
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.host = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def start(self) -> None:
        self._run(self._accept)

    def stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._sockets:
            connection.close()
        for thread in self._threads:
            thread.join(10)

    def _run(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._run(self._serve, plain)

    def _serve(self, plain: socket.socket) -> None:
        try:
            connection = self._tls.wrap_socket(plain, server_side=True)
        except OSError:  # the client did not trust us
            plain.close()
            return
        self._sockets.append(connection)
        protocol = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        protocol.initiate_connection()
        try:
            connection.sendall(protocol.data_to_send())
            while data := connection.recv(65536):
                for event in protocol.receive_data(data):
                    self._answer(protocol, event)
                connection.sendall(protocol.data_to_send())
        except OSError:
            pass
        finally:
            connection.close()

    def _answer(self, protocol: h2.connection.H2Connection, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.RequestReceived):
            stream = event.stream_id
            assert stream is not None
            path = dict(event.headers or [])[b":path"]
            protocol.send_headers(stream, [(":status", "200"), ("content-type", "text/event-stream")])
            for number in range(3):
                protocol.send_data(stream, b"data: %d\n\n" % number)
            if path != b"/open":
                protocol.end_stream(stream)
        elif isinstance(event, h2.events.StreamReset):
            self.resets.release()


@contextmanager
def h2_server(authority: trustme.CA) -> Generator[H2Server]:
    server = H2Server(authority)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trusted(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)  # pyright: ignore[reportUnknownMemberType]  # pyOpenSSL
    return context


def ask(host: str, path: str = "/") -> Request:
    return Request("POST", "https", host, path, (("x-key", "k"),), b"{}", Timeouts(idle=10.0))


async def test_http2_streams_share_a_connection(opened: Opened, authority: trustme.CA, trusted: ssl.SSLContext) -> None:
    seen: list[bytes] = []

    with h2_server(authority) as server:
        async with opened(http2=True, verify=trusted) as transport:

            async def one(host: str) -> None:
                async with transport.stream(ask(host)) as stream:
                    seen.extend([event.data async for event in stream])

            await one(server.host)
            async with anyio.create_task_group() as tasks:
                for _ in range(20):
                    tasks.start_soon(one, server.host)
            assert (await transport.send(ask(server.host))).body == b"data: 0\n\ndata: 1\n\ndata: 2\n\n"
            assert sorted(seen) == sorted([b"0", b"1", b"2"] * 21)
            assert server.connections == 1


@pytest.mark.parametrize("events", [1, 3])
async def test_closing_an_http2_stream_early_resets_only_that_stream(
    opened: Opened, authority: trustme.CA, trusted: ssl.SSLContext, events: int
) -> None:
    with h2_server(authority) as server:
        async with opened(http2=True, verify=trusted) as transport:
            for _ in range(3):
                async with transport.stream(ask(server.host, "/open")) as stream:
                    seen = 0
                    async for _ in stream:
                        seen += 1
                        if seen == events:
                            break
                assert await anyio.to_thread.run_sync(lambda: server.resets.acquire(timeout=10))
            async with transport.stream(ask(server.host)) as stream:
                assert [event.data async for event in stream] == [b"0", b"1", b"2"]
            assert server.connections == 1


async def test_cancelling_a_reader_resets_its_http2_stream(
    opened: Opened, authority: trustme.CA, trusted: ssl.SSLContext
) -> None:
    with h2_server(authority) as server:
        async with opened(http2=True, verify=trusted) as transport:
            with anyio.CancelScope() as scope:
                async with transport.stream(ask(server.host, "/open")) as stream:
                    async for event in stream:
                        if event.data == b"2":
                            scope.cancel()
            assert await anyio.to_thread.run_sync(lambda: server.resets.acquire(timeout=10))


async def test_an_untrusted_certificate_raises_a_connect_error(authority: trustme.CA) -> None:
    transport = HttpxTransport()
    with h2_server(authority) as server:
        with pytest.raises(TransportError, match="CERTIFICATE_VERIFY_FAILED") as caught:
            await transport.send(ask(server.host))
        await transport.aclose()
    assert caught.value.kind == "connect"


async def test_certificates_are_verified_with_a_bundle_or_not_at_all(authority: trustme.CA) -> None:
    with authority.cert_pem.tempfile() as path, h2_server(authority) as server:
        for verify in (path, False):
            transport = HttpxTransport(http2=True, verify=verify)
            assert (await transport.send(ask(server.host))).status == 200
            await transport.aclose()
