"""The transport: turns over WebSockets that stay open between them."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, final

from chat_core.errors import TransportError, UsageError
from chat_core.transport import MAX_EVENT_BYTES, EventStream, Headers, Request, Response
from chat_core.transport.event_loops import PerEventLoop, require_asyncio
from chat_core.transport.http import is_success
from chat_core.transport.tls import TlsContext

from chat_transport_websockets._backoff import BackOff
from chat_transport_websockets._errors import describe
from chat_transport_websockets._frames import FrameProtocol
from chat_transport_websockets._handshake import Handshake, create_tls_context
from chat_transport_websockets._pool import Lease, Pool, PoolLimits

if TYPE_CHECKING:
    from chat_core.transport import Transport


class _Plain(FrameProtocol):
    """A frame out, frames back."""


@final
class WebSocketTransport:
    """Turns over WebSockets, on asyncio. It does not run on trio.

    A connection is opened when a turn needs one, and serves the next turn when that is over. Turns share a connection
    only where they go to one URL with the same headers. Where the protocol is `multiplexed`, they share it at once;
    else each turn has a connection for itself while it lasts, and turns beyond `max_connections` wait in their order.
    A turn that is left before its end leaves nothing behind: its connection is closed at once, or, where others are on
    it, the turn is cancelled and the rest of it is dropped. A connection that ends within a turn is an error, whatever
    its close code: only the last event (`Request.is_last`, or the protocol's own end) ends a turn.

    It is safe to share between tasks, and may be used from several event loops, one after another or at once. The
    scheme is that of the request: `https` becomes `wss`, and `http` becomes `ws`, wherever the host is. The method of a
    request is for the protocol: a handshake is always a GET. Redirects are not followed.

    Args:
        protocol: how requests and answers become frames.
        headers: sent with every handshake, besides those of the request; one of the same name in a request wins.
        subprotocols: offered in the handshake.
        proxy: the URL of a proxy, HTTP or, with the package python-socks, SOCKS; else the environment says it, where
            `trust_env` is set.
        verify: what to trust in TLS: a context, the path of a bundle of authorities, or whether to check at all.
        trust_env: whether the environment may name proxies.
        compression: whether messages may be compressed. That takes memory for each connection, and time.
        max_connections: how many connections to one URL there may be. A turn that finds none waits without a timeout.
        idle_connection_seconds: how long a connection that nobody uses is kept; `None` for as long as it lasts.
        max_connection_seconds: a connection that is older begins no turn; servers of models end one after an hour.
        ping_interval: seconds between pings; `None` for none.
        ping_timeout: how long a ping may be without an answer before the connection counts as broken.
        close_timeout: how long `aclose()` waits for the peer to say goodbye.
        back_off: how soon a connection is opened again.
        max_message_bytes: the longest message, after it has been decompressed.
        max_body_bytes: the longest answer of `send`, all its frames together; none where it is `None`.
        max_error_bytes: how much of the body of a refused handshake is kept.

    Raises:
        UsageError: an argument makes no sense.
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
        max_body_bytes: int | None = None,
        max_error_bytes: int = 64 * 1024,
    ) -> None:
        if max_connections < 1:
            msg = f"max_connections must be 1 or more, not {max_connections}: nothing could be sent"
            raise UsageError(msg)
        if isinstance(subprotocols, str):
            msg = f"subprotocols must be a sequence of names, such as [{subprotocols!r}], not a text"
            raise UsageError(msg)
        self._protocol: FrameProtocol = protocol if protocol is not None else _Plain()
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
        self._pools = PerEventLoop[Pool](lambda pools: Pool(self._protocol, handshake, limits, pools))
        self._max_body_bytes = max_body_bytes
        self._max_error_bytes = max_error_bytes

    def __repr__(self) -> str:
        return f"WebSocketTransport({type(self._protocol).__name__}())"

    async def send(self, request: Request, /) -> Response:
        """Deliver a request and return the whole answer, whatever its status.

        The body is what the protocol makes of the frames. The status is what the protocol says, or that of a handshake
        that was refused.

        Raises:
            TransportError: there was no whole answer, or it is longer than `max_body_bytes`.
            UsageError: asyncio does not run here.
        """
        require_asyncio("WebSocketTransport")
        try:
            lease = await self._pools.get().begin(request)
        except TransportError as error:
            if error.kind != "status" or error.status is None:
                raise
            return Response(error.status, Headers(error.headers), error.body)
        try:
            status, headers = await lease.turn.head() or (200, lease.headers)
            frames: list[bytes] = []
            await lease.turn.collect(frames, self._max_body_bytes)
        finally:
            await lease.leave()
        body = self._whole(frames, request)
        return Response(status if lease.turn.failed is None else lease.turn.failed, headers, body)

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncGenerator[EventStream]:
        """Deliver a request and listen to the answer. Leaving the block before its end ends the turn at once.

        Raises:
            TransportError: on entering, there is no connection, or the request was refused; while iterating, the
                connection ended.
            UsageError: asyncio does not run here.
        """
        require_asyncio("WebSocketTransport")
        lease = await self._pools.get().begin(request)
        try:
            status, headers = await lease.turn.head() or (200, lease.headers)
            if not is_success(status):
                raise await self._refusal(lease, status, headers, request)
            yield EventStream(status, headers, lease.turn)
        finally:
            await lease.leave()

    async def _refusal(self, lease: Lease, status: int, headers: Headers, request: Request) -> TransportError:
        """The error of an answer whose head is a refusal, with what comes of its body."""
        frames: list[bytes] = []
        with suppress(TransportError):
            await lease.turn.collect(frames, self._max_error_bytes)
        body = b""
        with suppress(TransportError):  # the status tells more than that its body is not whole
            body = self._whole(frames, request)[: self._max_error_bytes]
        msg = f"{describe(request)} was answered with {status}"
        return TransportError("status", msg, status=status, headers=headers, body=body)

    def _whole(self, frames: Sequence[bytes], request: Request) -> bytes:
        """The body that frames make together.

        Raises:
            TransportError: they make none.
        """
        try:
            return self._protocol.whole(frames)
        except TransportError:
            raise
        except Exception as error:
            msg = f"{describe(request)}: the answer cannot be understood ({type(error).__name__})"
            raise TransportError("protocol", msg) from error

    async def aclose(self) -> None:
        """Close the connections that this transport has opened on this event loop, and so end the turns on them.

        A turn that waits for a connection meanwhile still gets one, which is closed behind it.
        Those of other loops end with their loops. Closing twice is allowed, and so is using the transport again.
        """
        require_asyncio("WebSocketTransport")
        await self._pools.aclose()


if TYPE_CHECKING:
    _is_a_transport: Transport = WebSocketTransport()
