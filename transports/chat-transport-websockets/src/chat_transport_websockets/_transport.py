"""Transport that uses WebSocket connections."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, final
from weakref import WeakSet

from chat_core.arguments import require_text_fields, require_type, require_whole
from chat_core.errors import TransportError, UsageError
from chat_core.transport import (
    MAX_BODY_BYTES,
    MAX_ERROR_BYTES,
    MAX_EVENT_BYTES,
    MAX_STREAM_BYTES,
    DuplexConnection,
    EventStream,
    Headers,
    Request,
    Response,
)
from chat_core.transport.event_loops import PerEventLoop, require_asyncio
from chat_core.transport.http import describe_websocket, is_success
from chat_core.transport.tls import TlsContext
from chat_core.transport.tracebacks import drop_frames

from chat_transport_websockets._backoff import BackOff
from chat_transport_websockets._duplex import OpenSocket
from chat_transport_websockets._frames import FrameProtocol
from chat_transport_websockets._handshake import Handshake, create_tls_context
from chat_transport_websockets._pool import Lease, Pool, PoolLimits

if TYPE_CHECKING:
    from chat_core.transport import DuplexTransport, Transport


class _DefaultProtocol(FrameProtocol):
    """Default protocol: each request is sent as one frame, and each received frame is one event."""


@final
class WebSocketTransport:
    """Transport that sends requests over WebSocket connections and reuses them. It runs on asyncio and not on trio.

    An exchange is one request with its response. Exchanges share a connection only if their URLs and headers are equal.
    If the protocol is `multiplexed`, they use it concurrently. Otherwise each exchange has exclusive use of a
    connection, and exchanges over the limit of `max_connections` wait in order.

    Exiting a stream early closes its connection at once. On a multiplexed connection with other exchanges, only the
    exchange is cancelled, and its remaining frames are dropped. If a connection closes during an exchange, an error is
    raised for every close code. Only the last event (`Request.is_last`, or the end that the protocol defines) completes
    an exchange.

    The transport is safe to share between tasks, and may be used from several event loops at the same time.
    `https` requests use `wss`, and `http` requests use `ws`, for every host. The method of a request is passed to the
    protocol only: a handshake is always a GET. Redirects are not followed.

    Args:
        protocol: converts requests into frames, and frames into responses.
        headers: headers of every handshake. A header of the same name in a request takes precedence.
        subprotocols: the subprotocols that the handshake offers.
        proxy: the URL of an HTTP proxy or, with the package python-socks, a SOCKS proxy. By default, the proxy is read
            from the environment if `trust_env` is true.
        verify: a TLS context, the path of a CA bundle, or whether to verify certificates.
        trust_env: whether to read proxies from the environment.
        compression: whether to negotiate compression. It needs memory for each connection, and CPU time.
        max_connections: the limit on the connections per destination. Exchanges wait for a connection without a
            timeout.
        idle_connection_seconds: seconds until an idle connection is closed; `None` for no limit.
        max_connection_seconds: the maximum age in seconds of a connection when an exchange starts; `None` for no limit.
            The default is below the limit of one hour that model servers set.
        ping_interval: seconds between pings; `None` to send none.
        ping_timeout: seconds to wait for the response to a ping before the connection counts as broken.
        close_timeout: seconds that `aclose()` waits for the close frames of peers.
        back_off: the delay before a connection attempt that follows failures.
        max_message_bytes: the limit on the length of a received message, after decompression.
        max_body_bytes: the limit on the total length of the frames that `send()` reads; `None` for no limit.
        max_stream_bytes: the limit on the total length of the frames of a streamed response; `None` for no limit.
        max_error_bytes: the maximum number of bytes that are read from the frames of an error response.

    Raises:
        UsageError: an argument is invalid.
    """

    def __init__(
        self,
        protocol: FrameProtocol | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        subprotocols: Sequence[str] = (),
        proxy: str | None = None,
        verify: ssl.SSLContext | str | bool = True,
        trust_env: bool = True,
        compression: bool = False,
        max_connections: int = 100,
        idle_connection_seconds: float | None = 300.0,
        max_connection_seconds: float | None = 3300.0,
        ping_interval: float | None = 20.0,
        ping_timeout: float | None = 20.0,
        close_timeout: float = 2.0,
        back_off: BackOff = BackOff(),  # noqa: B008 - immutable
        max_message_bytes: int = MAX_EVENT_BYTES,
        max_body_bytes: int | None = MAX_BODY_BYTES,
        max_stream_bytes: int | None = MAX_STREAM_BYTES,
        max_error_bytes: int = MAX_ERROR_BYTES,
    ) -> None:
        require_whole("max_connections", max_connections, 1)
        if headers is not None:
            require_text_fields("headers", headers)
        require_type("subprotocols", subprotocols, Sequence, "a sequence of names")
        if isinstance(subprotocols, str):
            msg = f"subprotocols must be a sequence of names, such as [{subprotocols!r}], not a string"
            raise UsageError(msg)
        self._protocol: FrameProtocol = protocol if protocol is not None else _DefaultProtocol()
        handshake = Handshake(
            headers=dict(headers or {}),
            subprotocols=tuple(subprotocols),
            proxy=proxy,
            trust_env=trust_env,
            tls=TlsContext(verify, create_tls_context),
            compression=compression,
            max_message_bytes=max_message_bytes,
            max_error_bytes=max_error_bytes,
            ping_interval=ping_interval,
            ping_timeout=ping_timeout,
        )
        limits = PoolLimits(
            max_connections=max_connections,
            idle_seconds=idle_connection_seconds,
            max_seconds=max_connection_seconds,
            close_timeout=close_timeout,
            back_off=back_off,
        )
        self._handshake = handshake
        self._duplex = WeakSet[OpenSocket]()
        self._pools = PerEventLoop[Pool](lambda pools: Pool(self._protocol, handshake, limits, pools))
        self._close_timeout = close_timeout
        self._max_body_bytes = max_body_bytes
        self._max_stream_bytes = max_stream_bytes
        self._max_error_bytes = max_error_bytes

    def __repr__(self) -> str:
        return f"WebSocketTransport({type(self._protocol).__name__}())"

    async def send(self, request: Request, /) -> Response:
        """Implement `Transport.send`.

        The protocol builds the body from the frames and determines the status. If the server rejects the handshake, its
        response is returned.

        Raises:
            TransportError: no complete response arrived, or its frames exceed `max_body_bytes`.
            UsageError: no asyncio event loop is running.
        """
        require_asyncio("WebSocketTransport")
        try:
            lease = await self._start_exchange(request)
        except TransportError as error:
            if error.kind != "status" or error.status is None:
                raise
            return Response(error.status, Headers(error.headers), error.body)
        try:
            status, headers = await lease.exchange.head() or (200, lease.headers)
            lease.exchange.set_limit("max_body_bytes", self._max_body_bytes)
            frames: list[bytes] = []
            await lease.exchange.collect(frames, stop_after=None if is_success(status) else self._max_error_bytes)
        finally:
            await lease.end()
        body = self._build_body(frames, request)
        if not is_success(status):
            body = body[: self._max_error_bytes]
        return Response(status if lease.exchange.error_status is None else lease.exchange.error_status, headers, body)

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncGenerator[EventStream]:
        """Implement `Transport.stream`. Exiting the context before the last event ends the exchange at once.

        Raises:
            TransportError: on entry, the connection could not be opened, or the server rejected the handshake or the
                request. During iteration, the connection ended.
            UsageError: no asyncio event loop is running.
        """
        require_asyncio("WebSocketTransport")
        lease = await self._start_exchange(request)
        try:
            status, headers = await lease.exchange.head() or (200, lease.headers)
            if not is_success(status):
                raise await self._status_error(lease, status, headers, request)
            if not request.is_unlimited:
                lease.exchange.set_limit("max_stream_bytes", self._max_stream_bytes)
            yield EventStream(status, headers, lease.exchange)
        finally:
            await lease.end()

    @asynccontextmanager
    async def connect(self, request: Request, /) -> AsyncGenerator[DuplexConnection]:
        """Implement `DuplexTransport.connect`. The connection is not pooled, and the frame protocol is not used.

        Exiting the context sends a close frame and closes the connection. `max_connections`, the limits of bodies and
        streams, and the limits on the lifetime of pooled connections do not apply. `max_message_bytes` applies.

        Raises:
            TransportError: on entry, the connection could not be opened.
            UsageError: no asyncio event loop is running.
        """
        require_asyncio("WebSocketTransport")
        try:
            socket = OpenSocket(await self._handshake.open(self._handshake.destination(request), request), request)
        except TransportError as error:
            drop_frames(error)
            raise
        self._duplex.add(socket)
        try:
            yield socket
        finally:
            self._duplex.discard(socket)
            await socket.aclose(self._close_timeout)

    async def _start_exchange(self, request: Request) -> Lease:
        """Start an exchange. Tracebacks of errors exclude the handshake, whose variables hold credentials."""
        try:
            return await self._pools.get().start(request)
        except TransportError as error:
            drop_frames(error)
            raise

    async def _status_error(self, lease: Lease, status: int, headers: Headers, request: Request) -> TransportError:
        """Return the error for a response whose status is not 2xx, with as much of the body as arrives."""
        frames: list[bytes] = []
        with suppress(TransportError):
            await lease.exchange.collect(frames, stop_after=self._max_error_bytes)
        body = b""
        with suppress(TransportError):  # the status matters more than an incomplete body
            body = self._build_body(frames, request)[: self._max_error_bytes]
        msg = f"{describe_websocket(request)} returned status {status}"
        return TransportError("status", msg, status=status, headers=headers, body=body)

    def _build_body(self, frames: Sequence[bytes], request: Request) -> bytes:
        """Build the response body from the received frames, and return it.

        Raises:
            TransportError: the frames are not a valid response.
        """
        try:
            return self._protocol.whole(frames)
        except TransportError:
            raise
        except Exception as error:
            msg = f"{describe_websocket(request)}: the response cannot be parsed ({type(error).__name__})"
            raise TransportError("protocol", msg) from error

    async def aclose(self) -> None:
        """Close the connections that belong to the running event loop. Their exchanges and duplex connections fail.

        An exchange that waits for a connection still gets a connection, which is closed after the exchange. The
        connections of other event loops are closed with their loops. May be called more than once, and the transport
        remains usable.

        Raises:
            UsageError: no asyncio event loop is running.
        """
        require_asyncio("WebSocketTransport")
        loop = asyncio.get_running_loop()
        for socket in [socket for socket in self._duplex if socket.loop is loop]:
            await socket.aclose(self._close_timeout)
        await self._pools.aclose()


if TYPE_CHECKING:
    _is_a_transport: Transport = WebSocketTransport()
    _is_a_duplex_transport: DuplexTransport = WebSocketTransport()
