"""Network streams for httpcore that use fewer system calls, and whose chunked bodies can be read without httpcore.

httpcore writes the headers and the body of a request with one system call each. These streams buffer the headers until
the next write or read, so small bodies are sent together with them. This causes no delay, because httpcore reads no
response before it has written the whole request. An idle connection is checked with one system call.
"""

from __future__ import annotations

import select
import ssl
from collections.abc import Iterable
from typing import Any, Final, final

from chat_transport_httpx._anyio_stream import HAS_RECEIVED, AnyioStream, open_stream
from chat_transport_httpx._chunks import HeadSplitter
from chat_transport_httpx._packages import httpcore

_HEAD_ENDS: Final = b"\r\n\r\n"
_HTTP_1: Final = b" HTTP/1.1\r\n"
_MAX_JOINED_BYTES: Final = 65536
"""The largest body that is joined with the headers. Copying a larger one costs more than a system call."""

_MAX_READ_BYTES: Final = 65536


@final
class BufferedStream(httpcore.AsyncNetworkStream):
    """A network stream for httpcore that sends the headers of a request together with its body.

    If the body of a response has plain chunks, `read()` ends at the end of the headers. The response object may then
    read the body with `receive()`, and return the part that httpcore must parse with `unread()`.

    Args:
        stream: the stream to read from and write to.
        package: the package whose exceptions the stream raises, httpcore or httpcore2.

    Attributes:
        has_unread_chunks: whether httpcore has read the headers of a response with plain chunks, and no body.
    """

    __slots__ = (
        "_buffered_headers",
        "_failure",
        "_head",
        "_package",
        "_poll",
        "_received",
        "_socket",
        "_stream",
        "has_unread_chunks",
    )

    def __init__(self, stream: httpcore.AsyncNetworkStream, package: Any = httpcore) -> None:  # noqa: ANN401 - a module
        self._stream = stream
        self._package = package
        self._buffered_headers = b""
        self._head: HeadSplitter | None = None
        self._received = b""
        self._failure: Exception | None = None
        self._socket: Any = None
        self._poll: select.poll | None = None
        self.has_unread_chunks: bool = False

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - httpcore's signature
        """Return at most `max_bytes` received bytes, or empty bytes if the peer has closed the connection."""
        if self._buffered_headers:
            await self._write_buffer(b"", timeout)
        self.has_unread_chunks = False
        if self._failure is not None:
            raise self._failure
        data = await self.receive(timeout, max_bytes)
        if self._head is None:
            return data
        position = self._head.find_body(data)
        if self._head.is_done:
            self._head = None
        if position is None:
            return data
        self.has_unread_chunks = True
        self.unread(data[position:])
        return data[:position]

    async def receive(self, timeout: float | None = None, max_bytes: int = _MAX_READ_BYTES) -> bytes:  # noqa: ASYNC109 - as above
        """Return received bytes that httpcore has not read, or empty bytes if the peer has closed the connection."""
        if self._received:
            data, self._received = self._received[:max_bytes], self._received[max_bytes:]
            return data
        try:
            return await self._stream.read(max_bytes, timeout)
        except ssl.SSLError as error:
            # A TLS alert, such as a required client certificate. httpcore does not translate it here.
            raise self._package.ReadError(str(error)) from error

    def unread(self, data: bytes) -> None:
        """Let the next read return bytes, before those that were not read yet."""
        self._received = data + self._received

    def fail(self, error: Exception) -> None:
        """Let the next read of httpcore raise an exception of `receive()`."""
        self._failure = error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as above
        """Send bytes. If they are the headers of a request, buffer them until the next write or read."""
        if not self._buffered_headers and buffer.endswith(_HEAD_ENDS) and _HTTP_1 in buffer:
            self._buffered_headers = buffer
            self._head = None if buffer.startswith(b"HEAD ") else HeadSplitter()
        elif self._buffered_headers or buffer:
            await self._write_buffer(buffer, timeout)

    async def _write_buffer(self, buffer: bytes, timeout: float | None) -> None:  # noqa: ASYNC109 - as above
        buffered, self._buffered_headers = self._buffered_headers, b""
        try:
            if buffered and len(buffer) > _MAX_JOINED_BYTES:
                await self._stream.write(buffered, timeout)
            elif buffered:
                buffer = buffered + buffer
            await self._stream.write(buffer, timeout)
        except ssl.SSLError as error:
            raise self._package.WriteError(str(error)) from error

    async def aclose(self) -> None:
        """Close the stream. Buffered headers belong to an abandoned request and are dropped."""
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - as above
    ) -> httpcore.AsyncNetworkStream:
        """Start TLS and return the new stream. A stream for HTTP/2 has no headers to buffer."""
        stream = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        tls: Any = stream.get_extra_info("ssl_object")
        return stream if tls.selected_alpn_protocol() == "h2" else BufferedStream(stream, self._package)

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401 - httpcore's signature
        """Return a property of the connection, such as its socket or whether it is readable."""
        if info == "is_readable" and hasattr(select, "poll"):
            return self._is_readable()
        found = self._stream.get_extra_info(info)
        if info == "is_readable":
            return found or self._has_received()
        return found

    def _is_readable(self) -> bool:
        """Return whether an idle connection is readable, which usually means that the peer closed it."""
        if self._socket is None:
            self._socket = self._stream.get_extra_info("socket")
        if self._socket.fileno() < 0:
            # The socket is closed, and its file descriptor may have been reused.
            return True
        if self._poll is None:
            self._poll = select.poll()
            self._poll.register(self._socket, select.POLLIN)
        return bool(self._poll.poll(0)) or self._has_received()

    def _has_received(self) -> bool:
        return bool(self._received) or self._stream.get_extra_info(HAS_RECEIVED) is True


@final
class BufferedBackend(httpcore.AsyncNetworkBackend):
    """httpcore network backend that opens buffered streams, for asyncio and trio.

    Args:
        package: the package of the connection pool, httpcore or httpcore2.
    """

    def __init__(self, package: Any = httpcore) -> None:  # noqa: ANN401 - a module
        # Typed as Any, because type checkers may not resolve the optional anyio dependency of httpcore.
        backend: Any = package.AnyIOBackend()
        self._backend: httpcore.AsyncNetworkBackend = backend
        self._package = package

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - as above
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Open a TCP connection and return it as a buffered stream. The arguments are those of httpcore."""
        stream = await self._backend.connect_tcp(host, port, timeout, local_address, socket_options)
        return BufferedStream(open_stream(stream, self._package), self._package)

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109 - as above
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Open a connection to a Unix socket. The arguments are those of httpcore."""
        stream = await self._backend.connect_unix_socket(path, timeout, socket_options)
        return BufferedStream(AnyioStream(stream, self._package), self._package)

    async def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds before the next connection attempt."""
        await self._backend.sleep(seconds)
