"""Network streams for httpcore that read and write with little overhead.

httpcore enters four nested generators for each read and write, which set the timeout and translate exceptions. Together
they take longer than the read or the write.
"""

from __future__ import annotations

import ssl
from typing import Any, final

import anyio
from anyio.abc import ByteStream

from chat_transport_httpx._packages import httpcore


@final
class AnyioStream(httpcore.AsyncNetworkStream):
    """A network stream for httpcore that calls the anyio stream inside a stream of httpcore's anyio backend.

    It has the same timeouts, and raises the same exceptions.

    Args:
        stream: a stream of `AnyIOBackend`.
        package: the package whose exceptions the stream raises, httpcore or httpcore2.
    """

    __slots__ = ("_bytes", "_package", "_stream")

    def __init__(self, stream: httpcore.AsyncNetworkStream, package: Any) -> None:  # noqa: ANN401 - a module
        self._stream = stream
        self._package = package
        self._bytes: ByteStream = vars(stream)["_stream"]  # private, see docs/decisions/private-httpx-parts.md

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - httpcore's signature
        """Return at most `max_bytes` received bytes, or empty bytes if the peer has closed the connection."""
        try:
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
            with anyio.move_on_after(timeout):
                await self._bytes.send(buffer)
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
        return AnyioStream(await self._stream.start_tls(ssl_context, server_hostname, timeout), self._package)

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401 - httpcore's signature
        """Return a property of the connection, such as its socket."""
        return self._stream.get_extra_info(info)
