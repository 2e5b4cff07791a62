"""Connection pool for one event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import final

from chat_core.errors import TransportError
from chat_core.transport import Headers, Request
from chat_core.transport.event_loops import PerEventLoop, close_with_event_loop

from chat_transport_websockets._backoff import BackOff
from chat_transport_websockets._connection import Connection
from chat_transport_websockets._exchange import Exchange
from chat_transport_websockets._frames import FrameProtocol
from chat_transport_websockets._handshake import Destination, Handshake

_MAX_UNUSED_ENDPOINTS = 64
"""Number of known destinations above which destinations without a connection are dropped."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    """Limits on the number and the lifetime of connections. The attributes match those of `WebSocketTransport`."""

    max_connections: int
    idle_seconds: float | None
    max_seconds: float | None
    close_timeout: float
    back_off: BackOff


@final
class _Endpoint:
    """The open, idle and awaited connections to one destination.

    Attributes:
        count: the number of connections that are open or being opened.
        failures: the number of failures in a row.
        idle: connections that an exchange can use: idle connections, or the shared connection of a multiplexed
            protocol.
        connections: all open connections.
        connecting: the result of the current attempt to open the shared connection.
        waiters: futures of the exchanges that wait, in order. Each result is a connection, or `None` as the permission
            to open a connection.
    """

    __slots__ = ("connecting", "connections", "count", "failures", "idle", "waiters")

    def __init__(self) -> None:
        self.count = 0
        self.failures = 0
        self.idle: list[Connection] = []
        self.connections: set[Connection] = set()
        self.connecting: asyncio.Future[Connection] | None = None
        self.waiters: deque[asyncio.Future[Connection | None]] = deque()


@final
class Lease:
    """An exchange and its connection, which is returned to the pool when the exchange ends."""

    __slots__ = ("_connection", "_endpoint", "_pool", "exchange")

    def __init__(self, pool: Pool, endpoint: _Endpoint, connection: Connection, exchange: Exchange) -> None:
        self._pool = pool
        self._endpoint = endpoint
        self._connection = connection
        self.exchange = exchange

    @property
    def headers(self) -> Headers:
        """The headers of the handshake response."""
        return self._connection.headers

    async def end(self) -> None:
        """End the exchange and return its connection to the pool."""
        try:
            await self._connection.end_exchange(self.exchange)
        finally:
            if self.exchange.finished and self.exchange.error_status is None:
                self._endpoint.failures = 0
            self._pool.give_back(self._endpoint, self._connection)


@final
class Pool:
    """The connections in one event loop, by destination. The loop closes the pool when it shuts down."""

    __slots__ = ("__weakref__", "_closed", "_endpoints", "_handshake", "_limits", "_loop", "_pools", "_protocol")

    def __init__(
        self, protocol: FrameProtocol, handshake: Handshake, limits: PoolLimits, pools: PerEventLoop[Pool]
    ) -> None:
        self._protocol = protocol
        self._handshake = handshake
        self._limits = limits
        self._pools = pools
        self._loop = asyncio.get_running_loop()
        self._endpoints: dict[Destination, _Endpoint] = {}
        self._closed = False
        close_with_event_loop(self)

    async def start(self, request: Request) -> Lease:
        """Send a request over an exclusive connection, or over the shared connection if the protocol is multiplexed.

        Raises:
            TransportError: the connection could not be opened, or the request could not be sent.
        """
        destination = self._handshake.destination(request)
        if destination not in self._endpoints and len(self._endpoints) >= _MAX_UNUSED_ENDPOINTS:
            self._endpoints = {key: endpoint for key, endpoint in self._endpoints.items() if endpoint.count}
        endpoint = self._endpoints.setdefault(destination, _Endpoint())
        find = self._shared_connection if self._protocol.multiplexed else self._exclusive_connection
        connection = await find(endpoint, destination, request)
        try:
            exchange = await connection.start(request)
        except BaseException:
            self.give_back(endpoint, connection)
            raise
        return Lease(self, endpoint, connection, exchange)

    async def _exclusive_connection(
        self, endpoint: _Endpoint, destination: Destination, request: Request
    ) -> Connection:
        """Return a connection for one exchange: an idle or new connection, or the next connection that becomes free."""
        while endpoint.idle:
            connection = endpoint.idle.pop()
            self._cancel_idle_timer(connection)
            if await self._can_serve(endpoint, connection):
                return connection
            if not endpoint.idle:  # keep the slot: otherwise later exchanges would overtake this exchange
                return await self._connect(endpoint, destination, request)
            self._release_slot(endpoint)
        if endpoint.count < self._limits.max_connections:
            endpoint.count += 1
            return await self._connect(endpoint, destination, request)
        waiter: asyncio.Future[Connection | None] = self._loop.create_future()
        endpoint.waiters.append(waiter)
        try:
            received = await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._hand_over(endpoint, waiter.result())
            raise
        # None means a free slot, without a connection.
        if received is not None and await self._can_serve(endpoint, received):
            return received
        return await self._connect(endpoint, destination, request)

    async def _can_serve(self, endpoint: _Endpoint, connection: Connection) -> bool:
        """Return whether a connection can serve an exchange. If not, close it. The caller then owns its slot."""
        try:
            usable = self._is_usable(connection) and await connection.is_quiet()
        except BaseException:
            connection.abort_connection()
            self._remove(endpoint, connection)
            raise
        if not usable:
            connection.abort_connection()
            endpoint.connections.discard(connection)
        return usable

    def _is_usable(self, connection: Connection) -> bool:
        """Return whether a connection is open and young enough to serve another exchange."""
        oldest = self._limits.max_seconds
        return connection.is_open and (oldest is None or self._loop.time() - connection.opened_at < oldest)

    async def _connect(self, endpoint: _Endpoint, destination: Destination, request: Request) -> Connection:
        """Open a connection in a slot that the caller has reserved, and return it."""
        try:
            await self._limits.back_off.wait(endpoint.failures)
            websocket = await self._handshake.open(destination, request)
        except BaseException as error:
            endpoint.failures += isinstance(error, TransportError)
            self._release_slot(endpoint)
            raise
        connection = Connection(websocket, self._protocol)
        endpoint.connections.add(connection)
        return connection

    async def _shared_connection(self, endpoint: _Endpoint, destination: Destination, request: Request) -> Connection:
        """Return the connection that all exchanges share. The first exchange opens that connection."""
        while True:
            for connection in list(endpoint.idle):
                if self._is_usable(connection):
                    self._cancel_idle_timer(connection)
                    return connection
                if not connection.active:
                    connection.abort_connection()
                    self._remove(endpoint, connection)
            if endpoint.connecting is None:
                return await self._connect_shared(endpoint, destination, request)
            connecting = endpoint.connecting
            await asyncio.wait([connecting])
            if not connecting.cancelled() and (error := connecting.exception()) is not None:
                raise _copy_error(error)

    async def _connect_shared(self, endpoint: _Endpoint, destination: Destination, request: Request) -> Connection:
        connecting: asyncio.Future[Connection] = self._loop.create_future()
        endpoint.connecting = connecting
        endpoint.count += 1
        try:
            connection = await self._connect(endpoint, destination, request)
        except TransportError as error:
            connecting.set_exception(error)
            connecting.exception()  # marks the exception as retrieved: no other exchange may be waiting
            raise
        except BaseException:
            connecting.cancel()
            raise
        finally:
            endpoint.connecting = None
        connection.on_end = lambda: self._remove(endpoint, connection)
        endpoint.idle.append(connection)
        connecting.set_result(connection)
        return connection

    def give_back(self, endpoint: _Endpoint, connection: Connection) -> None:
        """Return a connection to the pool after an exchange: pass it to a waiter, keep it idle, or close it."""
        if connection.broke:
            connection.broke = False
            endpoint.failures += 1
        if not connection.is_open:
            if not connection.active:
                self._remove(endpoint, connection)
        elif self._protocol.multiplexed:
            if not connection.active:
                self._keep_idle(endpoint, connection)
        elif endpoint.waiters:
            self._hand_over(endpoint, connection)
        else:
            endpoint.idle.append(connection)
            self._keep_idle(endpoint, connection)

    def _hand_over(self, endpoint: _Endpoint, connection: Connection | None) -> None:
        """Give a connection, or only a free slot (None), to the exchange that has waited longest."""
        while endpoint.waiters:
            waiter = endpoint.waiters.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return
        if connection is None:
            endpoint.count -= 1
        else:
            endpoint.idle.append(connection)
            self._keep_idle(endpoint, connection)

    def _release_slot(self, endpoint: _Endpoint) -> None:
        self._hand_over(endpoint, None)

    def _remove(self, endpoint: _Endpoint, connection: Connection) -> None:
        """Remove a closed connection from the pool, and release its slot."""
        if connection in endpoint.connections:
            endpoint.connections.remove(connection)
            if connection in endpoint.idle:
                endpoint.idle.remove(connection)
            self._release_slot(endpoint)

    def _keep_idle(self, endpoint: _Endpoint, connection: Connection) -> None:
        """Keep an idle connection open, and close it after the idle timeout."""

        def close_idle() -> None:
            connection.timer = None
            if not connection.active:
                connection.abort_connection()
                self._remove(endpoint, connection)

        self._cancel_idle_timer(connection)
        if self._closed or not self._is_usable(connection):
            close_idle()
            return
        seconds = self._limits.idle_seconds
        if seconds is not None:
            connection.timer = self._loop.call_later(seconds, close_idle)

    def _cancel_idle_timer(self, connection: Connection) -> None:
        if connection.timer is not None:
            connection.timer.cancel()
            connection.timer = None

    async def aclose(self) -> None:
        """Close the connections. A connection that is still being opened is closed after its exchange."""
        self._closed = True
        self._pools.discard()
        connections = [connection for endpoint in self._endpoints.values() for connection in endpoint.connections]
        await asyncio.gather(*[connection.aclose(self._limits.close_timeout) for connection in connections])
        for endpoint in self._endpoints.values():
            for connection in list(endpoint.connections):
                self._remove(endpoint, connection)


def _copy_error(error: BaseException) -> BaseException:
    """Return a copy of a `TransportError` for another exchange to raise. Other errors are returned unchanged."""
    if not isinstance(error, TransportError):
        return error
    return TransportError(error.kind, str(error), status=error.status, headers=error.headers, body=error.body)
