"""The sockets below httpx: a request is sent with one system call, and an idle connection is checked with one.

httpcore writes the head of a request and then its body, each with a system call, and most bodies of a chat are small.
Here the head is held back until more is written. That delays nothing: httpcore reads no response before it has written
the whole request, and a read sends first what is held back.
"""

from __future__ import annotations

import select
import ssl
from collections.abc import Iterable
from typing import Any, Final, final

import httpcore

_HEAD_ENDS: Final = b"\r\n\r\n"
_HTTP_1: Final = b" HTTP/1.1\r\n"
_SMALL: Final = 65536
"""The largest body that is copied behind a head: to copy more costs more than a call of the system."""


@final
class BufferedStream(httpcore.AsyncNetworkStream):
    """A stream of httpcore that sends the head of a request together with its body."""

    __slots__ = ("_held", "_poll", "_socket", "_stream")

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self._held = b""
        self._socket: Any = None
        self._poll: select.poll | None = None

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - httpcore's signature
        """Return received bytes, at most `max_bytes`; none if the peer has closed the connection."""
        if self._held:
            await self._send(b"", timeout)
        try:
            return await self._stream.read(max_bytes, timeout)
        except ssl.SSLError as error:
            # An alert of the peer's, such as that it wants a certificate. httpcore does not expect it from anyio here.
            raise httpcore.ReadError(str(error)) from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as above
        """Send bytes, or hold back the head of a request until more is written."""
        if not self._held and buffer.endswith(_HEAD_ENDS) and _HTTP_1 in buffer:
            self._held = buffer
        elif self._held or buffer:
            await self._send(buffer, timeout)

    async def _send(self, buffer: bytes, timeout: float | None) -> None:  # noqa: ASYNC109 - as above
        held, self._held = self._held, b""
        try:
            if held and len(buffer) > _SMALL:
                await self._stream.write(held, timeout)
            elif held:
                buffer = held + buffer
            await self._stream.write(buffer, timeout)
        except ssl.SSLError as error:
            raise httpcore.WriteError(str(error)) from error

    async def aclose(self) -> None:
        """Close the stream. Bytes that are held back belong to a request that was given up."""
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - as above
    ) -> httpcore.AsyncNetworkStream:
        """Return the stream with TLS. HTTP/2 has no heads to hold back, so its stream is httpcore's own."""
        stream = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        tls: Any = stream.get_extra_info("ssl_object")
        return stream if tls.selected_alpn_protocol() == "h2" else BufferedStream(stream)

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401 - httpcore's signature
        """Return a property of the connection, such as its socket."""
        if info == "is_readable" and hasattr(select, "poll"):
            return self._is_readable()
        return self._stream.get_extra_info(info)

    def _is_readable(self) -> bool:
        """Return whether an idle connection has bytes to read, mostly its end; httpcore asks before each request."""
        if self._socket is None:
            self._socket = self._stream.get_extra_info("socket")
        if self._socket.fileno() < 0:
            # It is closed; its number may be another file's by now.
            return True
        if self._poll is None:
            self._poll = select.poll()
            self._poll.register(self._socket, select.POLLIN)
        return bool(self._poll.poll(0))


@final
class BufferedBackend(httpcore.AsyncNetworkBackend):
    """Opens connections as httpcore does, on asyncio and trio."""

    def __init__(self) -> None:
        # Its type depends, for a checker, on whether anyio is there; it is.
        backend: Any = httpcore.AnyIOBackend()
        self._backend: httpcore.AsyncNetworkBackend = backend

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - as above
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Open a TCP connection."""
        return BufferedStream(await self._backend.connect_tcp(host, port, timeout, local_address, socket_options))

    async def sleep(self, seconds: float) -> None:
        """Wait before another attempt to connect."""
        await self._backend.sleep(seconds)
