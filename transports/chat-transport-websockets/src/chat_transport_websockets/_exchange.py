"""Exchanges on a WebSocket connection. An exchange is one request with the frames of its response."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol, final

from chat_core.errors import TransportError
from chat_core.transport import Event, Headers, Request
from chat_core.transport.http import describe_websocket
from chat_core.transport.limits import too_long_error
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from chat_transport_websockets._errors import closed_error
from chat_transport_websockets._frames import FrameProtocol

_MAX_UNREAD_FRAMES = 256
"""Number of unread frames of an exchange at which its connection stops reading."""

ReadFrame = tuple[bytes, Sequence[Event], bool]
"""A frame, its events, and whether it ends its exchange."""


def read_frame(protocol: FrameProtocol, frame: bytes, where: str) -> tuple[str | None, Sequence[Event], bool]:
    """Parse a received frame with the protocol of the transport.

    Args:
        protocol: the frame protocol of the transport.
        frame: the received frame.
        where: description of the request or connection, for the error message.

    Returns:
        The key of the exchange or None, the events, and whether the frame ends its exchange.

    Raises:
        TransportError: with kind `protocol`: the frame is invalid.
    """
    try:
        key, events, last = protocol.read(frame)
    except TransportError:
        raise
    except Exception as error:
        # The frame may quote a secret, so the message does not contain it. A provider redacts the body.
        msg = f"{where}: a frame of {len(frame)} bytes cannot be parsed ({type(error).__name__})"
        raise TransportError("protocol", msg, body=frame[:1000]) from error
    return key, events, last


@final
class IdleTimer:
    """Reusable timer that limits the duration of each wait. Starting a wait is cheap: the waits share a timer handle.

    Args:
        idle: the limit on a wait, in seconds; `None` for no limit.
        expire: called when a wait exceeds the limit.

    Attributes:
        expired: whether a wait has exceeded the limit.
    """

    __slots__ = ("_expire", "_idle", "_loop", "_timer", "_waiting_since", "expired")

    def __init__(self, idle: float | None, expire: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._idle = idle
        self._expire = expire
        self._waiting_since: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.expired = False

    def start(self) -> None:
        """Start a wait, whose duration is limited from now on."""
        if self._idle is None:
            return
        self._waiting_since = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(self._idle, self._check_wait)

    def end(self) -> None:
        """End the current wait, so that it can no longer exceed the limit."""
        self._waiting_since = None

    def close(self) -> None:
        """End the current wait and cancel the timer."""
        self._waiting_since = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check_wait(self) -> None:
        self._timer = None
        if self._waiting_since is None or self._idle is None:
            return  # the next wait starts its own timer
        remaining = self._waiting_since + self._idle - self._loop.time()
        if remaining > 0:
            self._timer = self._loop.call_later(remaining, self._check_wait)
        else:
            self.expired = True
            self._expire()


class Source(Protocol):
    """Interface of the objects that receive the frames of an exchange."""

    async def take(self) -> ReadFrame:
        """Wait for the next frame and return it.

        Raises:
            TransportError: the connection ended, or no frame arrived in time.
        """
        ...

    def close(self) -> None:
        """Stop receiving frames for the exchange."""
        ...


@final
class DirectSource:
    """Source of frames for an exchange that uses a connection exclusively."""

    __slots__ = ("_connection", "_idle_timer", "_key", "_protocol", "_request")

    def __init__(self, key: str, connection: ClientConnection, protocol: FrameProtocol, request: Request) -> None:
        self._key = key
        self._connection = connection
        self._protocol = protocol
        self._request = request
        # A connection that receives no data in time cannot be reused.
        self._idle_timer = IdleTimer(request.timeouts.idle, connection.transport.abort)

    async def take(self) -> ReadFrame:
        """Implement `Source.take`. Frames with the key of an earlier exchange are dropped."""
        while True:
            data = await self._receive_frame()
            key, events, last = read_frame(self._protocol, data, describe_websocket(self._request))
            if key is None or key == self._key:
                return data, events, last

    async def _receive_frame(self) -> bytes:
        timer = self._idle_timer
        timer.start()
        try:
            frame = await self._connection.recv()
        except ConnectionClosed as error:
            if timer.expired:
                raise idle_timeout_error(self._request) from None
            raise closed_error(error, self._request, self._connection.ping_timeout) from None
        finally:
            timer.end()
        return frame.encode() if isinstance(frame, str) else frame

    def close(self) -> None:
        """Implement `Source.close`: cancel the idle timer."""
        self._idle_timer.close()


@final
class FrameQueue:
    """Queue for the frames of one exchange. The task that reads a multiplexed connection fills the queue."""

    __slots__ = ("_failure", "_frames", "_idle_timer", "_request", "_room", "_waiter")

    def __init__(self, request: Request) -> None:
        self._request = request
        self._frames: deque[ReadFrame] = deque()
        self._failure: Callable[[Request], TransportError] | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._idle_timer = IdleTimer(request.timeouts.idle, self._wake_reader)

    def put(self, read: ReadFrame) -> None:
        """Append a frame to the queue and wake the task that waits for it."""
        self._frames.append(read)
        self._wake_reader()

    async def wait_for_room(self) -> None:
        """Wait while the queue is full. Until then the connection is not read, so the peer has to wait as well."""
        if len(self._frames) >= _MAX_UNREAD_FRAMES:
            self._room = asyncio.get_running_loop().create_future()
            try:
                await self._room
            finally:
                self._room = None

    def fail(self, failure: Callable[[Request], TransportError]) -> None:
        """Make `take()` raise the error that `failure` returns, as soon as all queued frames are read."""
        self._failure = failure
        self._wake_reader()

    async def take(self) -> ReadFrame:
        """Implement `Source.take`."""
        while not self._frames:
            if self._failure is not None:
                raise self._failure(self._request)
            if self._idle_timer.expired:
                raise idle_timeout_error(self._request)
            self._waiter = asyncio.get_running_loop().create_future()
            self._idle_timer.start()
            try:
                await self._waiter
            finally:
                self._idle_timer.end()
                self._waiter = None
        frame = self._frames.popleft()
        if self._room is not None and len(self._frames) < _MAX_UNREAD_FRAMES // 2:
            self._make_room()
        return frame

    def close(self) -> None:
        """Implement `Source.close`: drop all unread frames, so that the task that fills the queue can continue."""
        self._idle_timer.close()
        self._frames.clear()
        self._make_room()

    def _make_room(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    def _wake_reader(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def idle_timeout_error(request: Request) -> TransportError:
    """Return the error for a request whose idle timeout was exceeded."""
    idle = request.timeouts.idle
    return TransportError("timeout", f"{describe_websocket(request)}: no data arrived within {idle:g} seconds")


@final
class Exchange:
    """Async iterator over the batches of events in one exchange. Unlike a generator, it does not need to be closed.

    Args:
        key: identifies the exchange on its connection.
        source: the source of the frames.
        protocol: the frame protocol of the transport.
        request: the request that the exchange answers.

    Attributes:
        key: identifies the exchange on its connection.
        finished: whether the last frame has been read. Later frames of the connection belong to other exchanges.
        error_status: the error status that the last event reports, or None.
    """

    __slots__ = (
        "_limit",
        "_option",
        "_protocol",
        "_received",
        "_request",
        "_source",
        "error_status",
        "finished",
        "key",
    )

    def __init__(self, key: str, source: Source, protocol: FrameProtocol, request: Request) -> None:
        self.key = key
        self._source = source
        self._protocol = protocol
        self._request = request
        self.finished = False
        self.error_status: int | None = None
        self._received = 0
        self._limit: int | None = None
        self._option = ""

    def set_limit(self, option: str, limit: int | None) -> None:
        """Limit the total length of the frames that are read after the head of the response.

        Args:
            option: the name of the transport option that sets the limit, for the error message.
            limit: the limit in bytes; `None` for no limit.
        """
        self._option = option
        self._limit = limit

    async def head(self) -> tuple[int, Headers] | None:
        """Read the status and headers of the response, and return them, or None if the protocol does not send them.

        Raises:
            TransportError: no head arrived, or it is invalid.
        """
        if not self._protocol.acknowledged:
            return None
        frame, _, last = await self._source.take()
        try:
            status, headers = self._protocol.head(frame)
        except TransportError:
            raise
        except Exception as error:
            where = describe_websocket(self._request)
            msg = f"{where}: the response does not begin with a valid head ({type(error).__name__})"
            raise TransportError("protocol", msg, body=frame[:1000]) from error
        self.finished = last
        return status, headers

    def __aiter__(self) -> Exchange:
        return self

    async def __anext__(self) -> Sequence[Event]:
        while not self.finished:
            events = self._take_events(await self._take_frame())
            if events:
                return events
        raise StopAsyncIteration

    async def _take_frame(self) -> ReadFrame:
        """Wait for the next frame and return it.

        Raises:
            TransportError: the connection ended, no frame arrived in time, or the frames exceed the limit.
        """
        read = await self._source.take()
        self._received += len(read[0])
        if self._limit is not None and self._received > self._limit:
            what = f"{describe_websocket(self._request)}: the response"
            raise too_long_error(what, self._limit, self._option)
        return read

    def _take_events(self, read: ReadFrame) -> Sequence[Event]:
        """Return the events in a frame, up to the last event of the exchange. Record whether the exchange has ended."""
        _, events, last = read
        is_last = self._request.is_last
        for index, event in enumerate(events):
            if is_last(event):
                events, last = events[: index + 1], True
                break
        if last:
            self.finished = True
            if events:
                self.error_status = self._protocol.failed(events[-1])
        return events

    async def collect(self, frames: list[bytes], *, stop_after: int | None) -> None:
        """Read the remaining frames of the exchange and append them to `frames`.

        Args:
            frames: the list to which the frames are appended; after an error, it has the frames received before.
            stop_after: the total length in bytes after which no more frames are read; `None` reads all frames.

        Raises:
            TransportError: the connection ended or timed out, or the frames exceed the limit.
        """
        while not self.finished and (stop_after is None or self._received < stop_after):
            read = await self._take_frame()
            self._take_events(read)
            frames.append(read[0])

    def close(self) -> None:
        """Stop receiving frames for this exchange."""
        self._source.close()
