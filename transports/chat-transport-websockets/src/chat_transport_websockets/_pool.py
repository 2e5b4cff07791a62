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
from chat_transport_websockets._frames import FrameProtocol
from chat_transport_websockets._links import Link
from chat_transport_websockets._opening import Destination, Opening
from chat_transport_websockets._turns import Turn

_PLACES = 64
"""So many destinations are remembered that have no connection."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """How many connections there are, and how long they are kept."""

    max_connections: int
    idle_seconds: float | None
    max_seconds: float | None
    close_timeout: float
    back_off: BackOff


@final
class _Place:
    """The connections to one destination."""

    __slots__ = ("count", "failures", "idle", "links", "opening", "waiters")

    def __init__(self) -> None:
        self.count = 0
        self.failures = 0
        self.idle: list[Link] = []
        self.links: set[Link] = set()
        self.opening: asyncio.Future[Link] | None = None
        self.waiters: deque[asyncio.Future[Link | None]] = deque()


@final
class Lease:
    """A turn on a connection, which is given back when the turn is left."""

    __slots__ = ("_link", "_place", "_pool", "turn")

    def __init__(self, pool: Pool, place: _Place, link: Link, turn: Turn) -> None:
        self._pool = pool
        self._place = place
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
                self._place.failures = 0
            self._pool.give_back(self._place, self._link)


@final
class Pool:
    """The connections of one event loop, by destination. The loop closes them when it ends."""

    __slots__ = ("__weakref__", "_closed", "_keeping", "_loop", "_opening", "_places", "_pools", "_protocol")

    def __init__(self, protocol: FrameProtocol, opening: Opening, keeping: Keeping, pools: PerEventLoop[Pool]) -> None:
        self._protocol = protocol
        self._opening = opening
        self._keeping = keeping
        self._pools = pools
        self._loop = asyncio.get_running_loop()
        self._places: dict[Destination, _Place] = {}
        self._closed = False
        close_with_event_loop(self)

    async def begin(self, request: Request) -> Lease:
        """Send a request over a connection that nobody else reads, or whose turns are told apart.

        Raises:
            TransportError: there is no connection, or it did not take the request.
        """
        destination = self._opening.destination(request)
        if destination not in self._places and len(self._places) >= _PLACES:
            self._places = {where: place for where, place in self._places.items() if place.count}
        place = self._places.setdefault(destination, _Place())
        find = self._shared if self._protocol.multiplexed else self._own
        link = await find(place, destination, request)
        try:
            turn = await link.begin(request)
        except BaseException:
            self.give_back(place, link)
            raise
        return Lease(self, place, link, turn)

    async def _own(self, place: _Place, destination: Destination, request: Request) -> Link:
        """A connection for this turn alone: one that is free, or a new one, or the next one that is given back."""
        while place.idle:
            link = place.idle.pop()
            self._wake(link)
            if await self._is_good(place, link):
                return link
            if not place.idle:  # its room is this turn's, which would else go behind those that came later
                return await self._opened(place, destination, request)
            self._leave_room(place)
        if place.count < self._keeping.max_connections:
            place.count += 1
            return await self._opened(place, destination, request)
        waiter: asyncio.Future[Link | None] = self._loop.create_future()
        place.waiters.append(waiter)
        try:
            given = await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._pass_on(place, waiter.result())
            raise
        # Where a connection has ended, its room is given instead.
        if given is not None and await self._is_good(place, given):
            return given
        return await self._opened(place, destination, request)

    async def _is_good(self, place: _Place, link: Link) -> bool:
        """Whether a connection can serve the next turn. One that cannot is closed, and its room is the caller's."""
        try:
            good = self._may_begin(link) and await link.is_quiet()
        except BaseException:
            link.hang_up()
            self._gone(place, link)
            raise
        if not good:
            link.hang_up()
            place.links.discard(link)
        return good

    def _may_begin(self, link: Link) -> bool:
        """Whether a connection is open, and not too old."""
        oldest = self._keeping.max_seconds
        return link.is_open and (oldest is None or self._loop.time() - link.born < oldest)

    async def _opened(self, place: _Place, destination: Destination, request: Request) -> Link:
        """A new connection; room for it has been made."""
        try:
            await self._keeping.back_off.wait(place.failures)
            connection = await self._opening.open(destination, request)
        except BaseException as error:
            place.failures += isinstance(error, TransportError)
            self._leave_room(place)
            raise
        link = Link(connection, self._protocol)
        place.links.add(link)
        return link

    async def _shared(self, place: _Place, destination: Destination, request: Request) -> Link:
        """The connection that serves all turns, opened by the first of them."""
        while True:
            for link in list(place.idle):
                if self._may_begin(link):
                    self._wake(link)
                    return link
                if not link.busy:
                    link.hang_up()
                    self._gone(place, link)
            if place.opening is None:
                return await self._open_for_all(place, destination, request)
            opening = place.opening
            await asyncio.wait([opening])
            if not opening.cancelled() and (error := opening.exception()) is not None:
                raise _again(error)

    async def _open_for_all(self, place: _Place, destination: Destination, request: Request) -> Link:
        opening: asyncio.Future[Link] = self._loop.create_future()
        place.opening = opening
        place.count += 1
        try:
            link = await self._opened(place, destination, request)
        except TransportError as error:
            opening.set_exception(error)
            opening.exception()  # nobody may be waiting
            raise
        except BaseException:
            opening.cancel()
            raise
        finally:
            place.opening = None
        link.on_end = lambda: self._gone(place, link)
        place.idle.append(link)
        opening.set_result(link)
        return link

    def give_back(self, place: _Place, link: Link) -> None:
        """A turn is over: the connection waits for the next one, if it may."""
        if link.broke:
            link.broke = False
            place.failures += 1
        if not link.is_open:
            if not link.busy:
                self._gone(place, link)
        elif self._protocol.multiplexed:
            if not link.busy:
                self._rest(place, link)
        elif place.waiters:
            self._pass_on(place, link)
        else:
            place.idle.append(link)
            self._rest(place, link)

    def _pass_on(self, place: _Place, link: Link | None) -> None:
        """Give a connection, or the room for one, to whoever has waited longest."""
        while place.waiters:
            waiter = place.waiters.popleft()
            if not waiter.done():
                waiter.set_result(link)
                return
        if link is None:
            place.count -= 1
        else:
            place.idle.append(link)
            self._rest(place, link)

    def _leave_room(self, place: _Place) -> None:
        self._pass_on(place, None)

    def _gone(self, place: _Place, link: Link) -> None:
        """A connection has ended."""
        if link in place.links:
            place.links.remove(link)
            if link in place.idle:
                place.idle.remove(link)
            self._leave_room(place)

    def _rest(self, place: _Place, link: Link) -> None:
        """Nobody uses a connection: it is kept for a while."""

        def end() -> None:
            link.timer = None
            if not link.busy:
                link.hang_up()
                self._gone(place, link)

        self._wake(link)
        if self._closed or not self._may_begin(link):
            end()
            return
        seconds = self._keeping.idle_seconds
        if seconds is not None:
            link.timer = self._loop.call_later(seconds, end)

    def _wake(self, link: Link) -> None:
        if link.timer is not None:
            link.timer.cancel()
            link.timer = None

    async def aclose(self) -> None:
        """Close the connections. One that is opened for a turn that has begun before is closed behind that turn."""
        self._closed = True
        self._pools.discard()
        links = [link for place in self._places.values() for link in place.links]
        await asyncio.gather(*[link.aclose(self._keeping.close_timeout) for link in links])
        for place in self._places.values():
            for link in list(place.links):
                self._gone(place, link)


def _again(error: BaseException) -> BaseException:
    """The same error for another turn."""
    if not isinstance(error, TransportError):
        return error
    return TransportError(error.kind, str(error), status=error.status, headers=error.headers, body=error.body)
