"""Network streams for httpcore that read and write with little overhead.

httpcore enters four nested generators for each read and write, which set the timeout and translate exceptions. Together
they take longer than the read or the write.
"""

from __future__ import annotations

import ssl
from typing import Any, Final, final

import anyio
from anyio.abc import ByteStream

from chat_transport_httpx._asyncio_socket import AsyncioSocket, with_own_reader
from chat_transport_httpx._packages import httpcore

HAS_RECEIVED: Final = "has_received"
"""Name of the property that tells whether bytes of the socket, or its end, were received and not read yet."""


@final
class AnyioStream(httpcore.AsyncNetworkStream):
    """A network stream for httpcore that calls the anyio stream inside a stream of httpcore's anyio backend.

    It has the same timeouts, and raises the same exceptions.

    Args:
        stream: a stream of `AnyIOBackend`.
        package: the package whose exceptions the stream raises, httpcore or httpcore2.
    """

    __slots__ = ("_bytes", "_package", "_socket", "_stream")

    def __init__(self, stream: httpcore.AsyncNetworkStream, package: Any) -> None:  # noqa: ANN401 - a module
        self._stream = stream
        self._package = package
        self._bytes: ByteStream = vars(stream)["_stream"]  # private, see docs/decisions/private-httpx-parts.md
        self._socket = self._bytes if isinstance(self._bytes, AsyncioSocket) else None

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - httpcore's signature
        """Return at most `max_bytes` received bytes, or empty bytes if the peer has closed the connection."""
        try:
            if self._socket is not None:
                return await self._socket.receive_within(timeout, max_bytes)
            with anyio.move_on_after(timeout):
                return await self._bytes.receive(max_bytes)
        except anyio.EndOfStream:
            return b""
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise self._package.ReadError(str(error)) from error
        except TimeoutError as error:
            raise self._package.ReadTimeout(str(error)) from error
        raise self._package.ReadTimeout

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - as above
        """Send bytes."""
        if not buffer:
            return
        try:
            if self._socket is not None and self._socket.send_nowait(buffer):
                return
            with anyio.move_on_after(timeout):
                await (self._bytes.send(buffer) if self._socket is None else self._socket.flush())
                return
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream) as error:
            raise self._package.WriteError(str(error)) from error
        except TimeoutError as error:
            raise self._package.WriteTimeout(str(error)) from error
        raise self._package.WriteTimeout

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - as above
    ) -> httpcore.AsyncNetworkStream:
        """Start TLS and return the new stream."""
        try:
            stream = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        except BaseException:
            # httpcore does not close the connection if it is cancelled, and the event loop would keep it open.
            with anyio.CancelScope(shield=True):
                await self._stream.aclose()
            raise
        return AnyioStream(stream, self._package)

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401 - httpcore's signature
        """Return a property of the connection, such as its socket."""
        if info == HAS_RECEIVED:
            inner: Any = self._bytes
            while not isinstance(inner, AsyncioSocket) and inner is not None:
                # Private, see docs/decisions/private-httpx-parts.md.
                encrypted: ssl.MemoryBIO | None = getattr(inner, "_read_bio", None)
                if encrypted is not None and encrypted.pending:
                    return True
                inner = getattr(inner, "transport_stream", None)  # the stream below TLS
            return inner is not None and inner.has_received
        return self._stream.get_extra_info(info)


def open_stream(stream: httpcore.AsyncNetworkStream, package: Any) -> AnyioStream:  # noqa: ANN401 - a module
    """Return a stream for a new TCP connection of httpcore's anyio backend.

    Args:
        stream: the new connection.
        package: the package whose exceptions the stream raises, httpcore or httpcore2.
    """
    kind: Any = type(stream)
    return AnyioStream(kind(with_own_reader(vars(stream)["_stream"])), package)
