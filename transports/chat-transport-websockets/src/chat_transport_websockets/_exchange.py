"""A turn: one request on a connection, and what comes back."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol, final

from chat_core.errors import TransportError
from chat_core.transport import Event, Headers, Request
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from chat_transport_websockets._errors import closed_error, describe
from chat_transport_websockets._frames import FrameProtocol

_UNREAD = 256
"""So many frames of a turn may wait for their reader, before the connection waits for it."""

Read = tuple[bytes, Sequence[Event], bool]
"""A frame, its events, and whether it ends its turn."""


def read_frame(protocol: FrameProtocol, frame: bytes, where: str) -> tuple[str | None, Sequence[Event], bool]:
    """What a frame says.

    Raises:
        TransportError: of kind `protocol`, it is none of this protocol.
    """
    try:
        key, events, last = protocol.read(frame)
    except TransportError:
        raise
    except Exception as error:
        msg = f"{where}: a frame of {len(frame)} bytes cannot be understood ({type(error).__name__})"
        raise TransportError("protocol", msg, body=frame[:1000]) from error
    return key, events, last


@final
class IdleTimer:
    """Ends a wait that takes too long. One timer serves many waits: an event costs a look at the clock.

    Args:
        idle: how many seconds a wait may take; `None` for ever.
        expire: called when one has taken longer.
    """

    __slots__ = ("_expire", "_idle", "_loop", "_since", "_timer", "expired")

    def __init__(self, idle: float | None, expire: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._idle = idle
        self._expire = expire
        self._since: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.expired = False

    def begin(self) -> None:
        """A wait begins."""
        if self._idle is None:
            return
        self._since = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(self._idle, self._look)

    def end(self) -> None:
        """It is over."""
        self._since = None

    def close(self) -> None:
        """There will be no more waits."""
        self._since = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._since is None or self._idle is None:
            return  # the next wait sets a timer of its own
        left = self._since + self._idle - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
        else:
            self.expired = True
            self._expire()


class Source(Protocol):
    """Where the frames of a turn come from."""

    async def take(self) -> Read:
        """The next frame.

        Raises:
            TransportError: there is none.
        """
        ...

    def close(self) -> None:
        """No more frames are wanted."""
        ...


@final
class DirectSource:
    """The frames of a connection that serves this turn alone."""

    __slots__ = ("_connection", "_idle_timer", "_key", "_protocol", "_request")

    def __init__(self, key: str, connection: ClientConnection, protocol: FrameProtocol, request: Request) -> None:
        self._key = key
        self._connection = connection
        self._protocol = protocol
        self._request = request
        # A connection on which nothing comes is of no use any more.
        self._idle_timer = IdleTimer(request.timeouts.idle, connection.transport.abort)

    async def take(self) -> Read:
        """The next frame. What belongs to an earlier turn, and says so, is dropped."""
        while True:
            data = await self._receive()
            key, events, last = read_frame(self._protocol, data, describe(self._request))
            if key is None or key == self._key:
                return data, events, last

    async def _receive(self) -> bytes:
        timer = self._idle_timer
        timer.begin()
        try:
            frame = await self._connection.recv()
        except ConnectionClosed as error:
            if timer.expired:
                raise idle_timeout_error(self._request) from None
            raise closed_error(error, self._request) from None
        finally:
            timer.end()
        return frame.encode() if isinstance(frame, str) else frame

    def close(self) -> None:
        """Look at the clock no more."""
        self._idle_timer.close()


@final
class FrameQueue:
    """The frames of one turn of many on a connection, put here by whoever reads that."""

    __slots__ = ("_failure", "_frames", "_idle_timer", "_request", "_room", "_waiter")

    def __init__(self, request: Request) -> None:
        self._request = request
        self._frames: deque[Read] = deque()
        self._failure: Callable[[Request], TransportError] | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._idle_timer = IdleTimer(request.timeouts.idle, self._wake)

    def put(self, read: Read) -> None:
        """A frame has come."""
        self._frames.append(read)
        self._wake()

    async def room(self) -> None:
        """Wait while too many frames are unread: a reader who is slow holds the peer back."""
        if len(self._frames) >= _UNREAD:
            self._room = asyncio.get_running_loop().create_future()
            try:
                await self._room
            finally:
                self._room = None

    def fail(self, failure: Callable[[Request], TransportError]) -> None:
        """No more frames will come. What has come before is read first."""
        self._failure = failure
        self._wake()

    async def take(self) -> Read:
        """The next frame."""
        while not self._frames:
            if self._failure is not None:
                raise self._failure(self._request)
            if self._idle_timer.expired:
                raise idle_timeout_error(self._request)
            self._waiter = asyncio.get_running_loop().create_future()
            self._idle_timer.begin()
            try:
                await self._waiter
            finally:
                self._idle_timer.end()
                self._waiter = None
        frame = self._frames.popleft()
        if self._room is not None and len(self._frames) < _UNREAD // 2:
            self._make_room()
        return frame

    def close(self) -> None:
        """What is unread is forgotten, and nobody waits for its reader."""
        self._idle_timer.close()
        self._frames.clear()
        self._make_room()

    def _make_room(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def idle_timeout_error(request: Request) -> TransportError:
    """The error of a silence that was too long."""
    idle = request.timeouts.idle
    return TransportError("timeout", f"{describe(request)}: nothing came in time ({idle} seconds)")


@final
class Turn:
    """The events of a turn, by batch. An object, not a generator: left early, it leaves nothing to be closed.

    Attributes:
        key: names it among the turns of its connection.
        finished: whether the turn has come to its end; what comes next on its connection is not of it.
        failed: the status that its last event tells, where that is an error.
    """

    __slots__ = ("_protocol", "_request", "_source", "failed", "finished", "key")

    def __init__(self, key: str, source: Source, protocol: FrameProtocol, request: Request) -> None:
        self.key = key
        self._source = source
        self._protocol = protocol
        self._request = request
        self.finished = False
        self.failed: int | None = None

    async def head(self) -> tuple[int, Headers] | None:
        """Status and headers, where the protocol has them.

        Raises:
            TransportError: they did not come.
        """
        if not self._protocol.acknowledged:
            return None
        frame, _, last = await self._source.take()
        try:
            status, headers = self._protocol.head(frame)
        except TransportError:
            raise
        except Exception as error:
            msg = f"{describe(self._request)}: the answer does not begin with a head ({type(error).__name__})"
            raise TransportError("protocol", msg, body=frame[:1000]) from error
        self.finished = last
        return status, headers

    def __aiter__(self) -> Turn:
        return self

    async def __anext__(self) -> Sequence[Event]:
        while not self.finished:
            events = self._events_until_end(await self._source.take())
            if events:
                return events
        raise StopAsyncIteration

    def _events_until_end(self, read: Read) -> Sequence[Event]:
        """The events of a frame, as far as the end of the turn."""
        _, events, last = read
        is_last = self._request.is_last
        for place, event in enumerate(events):
            if is_last(event):
                events, last = events[: place + 1], True
                break
        if last:
            self.finished = True
            if events:
                self.failed = self._protocol.failed(events[-1])
        return events

    async def collect(self, frames: list[bytes], limit: int | None) -> None:
        """Take all frames to the end of the turn; those that came before an error are there, too.

        Raises:
            TransportError: they do not come, or are longer than the limit together.
        """
        size = 0
        while not self.finished:
            read = await self._source.take()
            self._events_until_end(read)
            frames.append(read[0])
            size += len(read[0])
            if limit is not None and size > limit:
                msg = f"{describe(self._request)}: the answer is longer than {limit} bytes; raise max_body_bytes"
                raise TransportError("protocol", msg)

    def close(self) -> None:
        """Nobody reads on."""
        self._source.close()
