"""The connections of one event loop: which one serves a turn, and what becomes of it afterwards."""

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
from chat_transport_websockets._exchange import Turn
from chat_transport_websockets._frames import FrameProtocol
from chat_transport_websockets._handshake import Destination, Handshake

_MAX_UNUSED_ENDPOINTS = 64
"""So many destinations are remembered that have no connection."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PoolLimits:
    """How many connections there are, and how long they are kept."""

    max_connections: int
    idle_seconds: float | None
    max_seconds: float | None
    close_timeout: float
    back_off: BackOff


@final
class _Endpoint:
    """The connections to one destination."""

    __slots__ = ("connecting", "count", "failures", "idle", "links", "waiters")

    def __init__(self) -> None:
        self.count = 0
        self.failures = 0
        self.idle: list[Connection] = []
        self.links: set[Connection] = set()
        self.connecting: asyncio.Future[Connection] | None = None
        self.waiters: deque[asyncio.Future[Connection | None]] = deque()


@final
class Lease:
    """A turn on a connection, which is given back when the turn is left."""

    __slots__ = ("_endpoint", "_link", "_pool", "turn")

    def __init__(self, pool: Pool, endpoint: _Endpoint, link: Connection, turn: Turn) -> None:
        self._pool = pool
        self._endpoint = endpoint
        self._link = link
        self.turn = turn

    @property
    def headers(self) -> Headers:
        """The headers of the answer to the handshake."""
        return self._link.headers

    async def leave(self) -> None:
        """The turn is over, or nobody wants to know more of it."""
        try:
            await self._link.leave(self.turn)
        finally:
            if self.turn.finished and self.turn.failed is None:
                self._endpoint.failures = 0
            self._pool.give_back(self._endpoint, self._link)


@final
class Pool:
    """The connections of one event loop, by destination. The loop closes them when it ends."""

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

    async def begin(self, request: Request) -> Lease:
        """Send a request over a connection that nobody else reads, or whose turns are told apart.

        Raises:
            TransportError: there is no connection, or it did not take the request.
        """
        destination = self._handshake.destination(request)
        if destination not in self._endpoints and len(self._endpoints) >= _MAX_UNUSED_ENDPOINTS:
            self._endpoints = {where: endpoint for where, endpoint in self._endpoints.items() if endpoint.count}
        endpoint = self._endpoints.setdefault(destination, _Endpoint())
        find = self._shared_connection if self._protocol.multiplexed else self._exclusive_connection
        link = await find(endpoint, destination, request)
        try:
            turn = await link.begin(request)
        except BaseException:
            self.give_back(endpoint, link)
            raise
        return Lease(self, endpoint, link, turn)

    async def _exclusive_connection(
        self, endpoint: _Endpoint, destination: Destination, request: Request
    ) -> Connection:
        """A connection for this turn alone: one that is free, or a new one, or the next one that is given back."""
        while endpoint.idle:
            link = endpoint.idle.pop()
            self._cancel_idle_timer(link)
            if await self._can_serve(endpoint, link):
                return link
            if not endpoint.idle:  # its room is this turn's, which would else go behind those that came later
                return await self._connect(endpoint, destination, request)
            self._release_slot(endpoint)
        if endpoint.count < self._limits.max_connections:
            endpoint.count += 1
            return await self._connect(endpoint, destination, request)
        waiter: asyncio.Future[Connection | None] = self._loop.create_future()
        endpoint.waiters.append(waiter)
        try:
            given = await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._hand_over(endpoint, waiter.result())
            raise
        # Where a connection has ended, its room is given instead.
        if given is not None and await self._can_serve(endpoint, given):
            return given
        return await self._connect(endpoint, destination, request)

    async def _can_serve(self, endpoint: _Endpoint, link: Connection) -> bool:
        """Whether a connection can serve the next turn. One that cannot is closed, and its room is the caller's."""
        try:
            good = self._may_begin(link) and await link.is_quiet()
        except BaseException:
            link.hang_up()
            self._remove(endpoint, link)
            raise
        if not good:
            link.hang_up()
            endpoint.links.discard(link)
        return good

    def _may_begin(self, link: Connection) -> bool:
        """Whether a connection is open, and not too old."""
        oldest = self._limits.max_seconds
        return link.is_open and (oldest is None or self._loop.time() - link.born < oldest)

    async def _connect(self, endpoint: _Endpoint, destination: Destination, request: Request) -> Connection:
        """A new connection; room for it has been made."""
        try:
            await self._limits.back_off.wait(endpoint.failures)
            connection = await self._handshake.open(destination, request)
        except BaseException as error:
            endpoint.failures += isinstance(error, TransportError)
            self._release_slot(endpoint)
            raise
        link = Connection(connection, self._protocol)
        endpoint.links.add(link)
        return link

    async def _shared_connection(self, endpoint: _Endpoint, destination: Destination, request: Request) -> Connection:
        """The connection that serves all turns, opened by the first of them."""
        while True:
            for link in list(endpoint.idle):
                if self._may_begin(link):
                    self._cancel_idle_timer(link)
                    return link
                if not link.busy:
                    link.hang_up()
                    self._remove(endpoint, link)
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
            link = await self._connect(endpoint, destination, request)
        except TransportError as error:
            connecting.set_exception(error)
            connecting.exception()  # nobody may be waiting
            raise
        except BaseException:
            connecting.cancel()
            raise
        finally:
            endpoint.connecting = None
        link.on_end = lambda: self._remove(endpoint, link)
        endpoint.idle.append(link)
        connecting.set_result(link)
        return link

    def give_back(self, endpoint: _Endpoint, link: Connection) -> None:
        """A turn is over: the connection waits for the next one, if it may."""
        if link.broke:
            link.broke = False
            endpoint.failures += 1
        if not link.is_open:
            if not link.busy:
                self._remove(endpoint, link)
        elif self._protocol.multiplexed:
            if not link.busy:
                self._keep_idle(endpoint, link)
        elif endpoint.waiters:
            self._hand_over(endpoint, link)
        else:
            endpoint.idle.append(link)
            self._keep_idle(endpoint, link)

    def _hand_over(self, endpoint: _Endpoint, link: Connection | None) -> None:
        """Give a connection, or the room for one, to whoever has waited longest."""
        while endpoint.waiters:
            waiter = endpoint.waiters.popleft()
            if not waiter.done():
                waiter.set_result(link)
                return
        if link is None:
            endpoint.count -= 1
        else:
            endpoint.idle.append(link)
            self._keep_idle(endpoint, link)

    def _release_slot(self, endpoint: _Endpoint) -> None:
        self._hand_over(endpoint, None)

    def _remove(self, endpoint: _Endpoint, link: Connection) -> None:
        """A connection has ended."""
        if link in endpoint.links:
            endpoint.links.remove(link)
            if link in endpoint.idle:
                endpoint.idle.remove(link)
            self._release_slot(endpoint)

    def _keep_idle(self, endpoint: _Endpoint, link: Connection) -> None:
        """Nobody uses a connection: it is kept for a while."""

        def end() -> None:
            link.timer = None
            if not link.busy:
                link.hang_up()
                self._remove(endpoint, link)

        self._cancel_idle_timer(link)
        if self._closed or not self._may_begin(link):
            end()
            return
        seconds = self._limits.idle_seconds
        if seconds is not None:
            link.timer = self._loop.call_later(seconds, end)

    def _cancel_idle_timer(self, link: Connection) -> None:
        if link.timer is not None:
            link.timer.cancel()
            link.timer = None

    async def aclose(self) -> None:
        """Close the connections. One that is opened for a turn that has begun before is closed behind that turn."""
        self._closed = True
        self._pools.discard()
        links = [link for endpoint in self._endpoints.values() for link in endpoint.links]
        await asyncio.gather(*[link.aclose(self._limits.close_timeout) for link in links])
        for endpoint in self._endpoints.values():
            for link in list(endpoint.links):
                self._remove(endpoint, link)


def _copy_error(error: BaseException) -> BaseException:
    """The same error for another turn."""
    if not isinstance(error, TransportError):
        return error
    return TransportError(error.kind, str(error), status=error.status, headers=error.headers, body=error.body)
