"""A WebSocket connection and its exchanges."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import final

from chat_core.errors import TransportError
from chat_core.transport import Headers, Request
from chat_core.transport.http import describe_websocket
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.server import broadcast
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.protocol import State

from chat_transport_websockets._errors import closed_error
from chat_transport_websockets._exchange import (
    DirectSource,
    Exchange,
    FrameQueue,
    IdleTimer,
    Source,
    idle_timeout_error,
    read_frame,
)
from chat_transport_websockets._frames import FrameProtocol


@final
class Connection:
    """A WebSocket connection that serves exchanges.

    On a multiplexed connection, one task reads the frames of all exchanges. Otherwise, each exchange reads its own
    frames.

    Args:
        connection: the open connection of the websockets library. This object owns it.
        protocol: the frame protocol of the transport.

    Attributes:
        headers: the headers of the handshake response.
        opened_at: the time at which the connection was opened, by the clock of the event loop.
        active: the number of current exchanges.
        retired: whether the connection accepts no further exchange.
        broke: whether the connection was lost during an exchange. The pool resets this attribute when it counts the
            failure.
        on_end: called when the reader task of a multiplexed connection ends.
        timer: the timer that closes an idle connection; owned by the pool.
    """

    __slots__ = (
        "_connection",
        "_number",
        "_protocol",
        "_queues",
        "_reader",
        "active",
        "broke",
        "headers",
        "on_end",
        "opened_at",
        "retired",
        "timer",
    )

    def __init__(self, connection: ClientConnection, protocol: FrameProtocol) -> None:
        self._connection = connection
        self._protocol = protocol
        self._number = 0
        self._queues: dict[str, FrameQueue] = {}
        self._reader: asyncio.Task[None] | None = None
        loop = asyncio.get_running_loop()
        self.opened_at = loop.time()
        self.active = 0
        self.retired = False
        self.broke = False
        self.timer: asyncio.TimerHandle | None = None
        self.on_end: Callable[[], None] | None = None
        self.headers = _headers(connection)
        if protocol.multiplexed:
            self._reader = loop.create_task(self._read(), name="websocket reader")

    @property
    def is_open(self) -> bool:
        """Whether the connection can serve another exchange. A lost connection may not have been detected yet."""
        return not self.retired and self._connection.state is State.OPEN

    async def is_quiet(self) -> bool:
        """Return whether the connection is open and no frame is left that could be mistaken for the next response.

        Frames with a key are harmless: the next exchange drops frames of other exchanges.
        """
        # The event loop reads data that has already arrived in its next iterations.
        for _ in range(2):
            await asyncio.sleep(0)
        try:
            while True:
                async with asyncio.timeout(0):
                    frame = await self._connection.recv()
                data = frame.encode() if isinstance(frame, str) else frame
                if read_frame(self._protocol, data, "")[0] is None:
                    return False
        except TimeoutError:
            return self.is_open
        except (ConnectionClosed, TransportError):
            return False

    async def start(self, request: Request) -> Exchange:
        """Send a request and return the exchange that receives its response.

        Raises:
            TransportError: the request could not be sent.
        """
        self._number += 1
        key = str(self._number)
        frame = self._protocol.ask(request, key)
        source: Source = DirectSource(key, self._connection, self._protocol, request)
        if self._reader is not None:
            source = self._queues[key] = FrameQueue(request)
        exchange = Exchange(key, source, self._protocol, request)
        self.active += 1
        try:
            await self._send(frame, request)
        except BaseException:
            await self.end_exchange(exchange)
            raise
        return exchange

    async def _send(self, frame: str | bytes, request: Request) -> None:
        """Send a frame. The idle timeout is only exceeded if the peer accepts no data during that time."""
        transport = self._connection.transport
        data = frame.encode() if isinstance(frame, str) else frame
        pending_bytes = len(data) + transport.get_write_buffer_size()

        def expire() -> None:
            nonlocal pending_bytes
            unsent = transport.get_write_buffer_size()
            if unsent < pending_bytes:
                pending_bytes, idle_timer.expired = unsent, False
                idle_timer.start()
            else:
                transport.abort()

        idle_timer = IdleTimer(request.timeouts.idle, expire)
        idle_timer.start()
        try:
            await self._connection.send(data, text=isinstance(frame, str))
        except ConnectionClosed as error:
            if idle_timer.expired:
                raise idle_timeout_error(request) from None
            raise closed_error(error, request, self._connection.ping_timeout) from None
        finally:
            idle_timer.close()
        if idle_timer.expired:
            raise idle_timeout_error(request)

    async def end_exchange(self, exchange: Exchange) -> None:
        """End an exchange. If it is incomplete, prevent its remaining frames from reaching another exchange.

        An exclusive connection is closed: later frames could not be attributed, and only closing makes the peer stop.
        On a multiplexed connection, the peer receives a cancel frame, and later frames with this key are dropped.
        """
        exchange.close()
        self.active -= 1
        # Without keys, late frames of a failed exchange could be mistaken for the next response.
        self.retired = self.retired or (exchange.error_status is not None and self._reader is None)
        self.broke = self.broke or (not exchange.finished and self._connection.state is not State.OPEN)
        is_clean = exchange.finished
        if self._queues.pop(exchange.key, None) is not None and not is_clean and self._connection.state is State.OPEN:
            frame = self._protocol.cancel(exchange.key)
            if frame is not None:
                broadcast([self._connection], frame)
            is_clean = frame is not None or bool(self.active)
        if not is_clean or (self.retired and not self.active):
            self.abort_connection()
            await self._connection.wait_closed()
            if self._reader is not None:
                await asyncio.wait([self._reader])

    def abort_connection(self) -> None:
        """Close the connection without waiting for the peer. A close frame is sent if possible."""
        self.retired = True
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        self._send_close(CloseCode.GOING_AWAY)
        self._connection.transport.abort()

    def _send_close(self, code: CloseCode) -> None:
        if self._connection.state is State.OPEN:
            # The `close()` of the library does not work while the event loop shuts down.
            with suppress(Exception):
                self._connection.protocol.send_close(code)
                self._connection.send_data()

    async def aclose(self, close_timeout: float) -> None:
        """Close the connection. Abort it if the peer sends no close frame within `close_timeout` seconds."""
        self.retired = True
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        self._send_close(CloseCode.NORMAL_CLOSURE)
        try:
            async with asyncio.timeout(close_timeout):
                await self._connection.wait_closed()
        except TimeoutError:
            pass
        finally:
            self._connection.transport.abort()
            for queue in self._queues.values():
                queue.fail(_closed_transport_error)
            if self._reader is not None:
                self._reader.cancel()
        await self._connection.wait_closed()
        if self._reader is not None:
            await asyncio.wait([self._reader])

    async def _read(self) -> None:
        """Receive frames and put each into the queue of its exchange, until the connection ends."""
        failure: Callable[[Request], TransportError]
        try:
            while True:
                frame = await self._connection.recv()
                data = frame.encode() if isinstance(frame, str) else frame
                key, events, last = read_frame(self._protocol, data, "a multiplexed connection")
                # A peer may send a key of any type, such as a list, which is not hashable.
                queue = self._queues.get(key) if isinstance(key, str) else None
                if queue is not None:
                    queue.put((data, events, last))
                    await queue.wait_for_room()
        except ConnectionClosed as error:
            closed = error
            failure = lambda request: closed_error(closed, request, self._connection.ping_timeout)  # noqa: E731 - a closure
        except TransportError as error:
            invalid = error
            failure = lambda _: TransportError(invalid.kind, str(invalid), body=invalid.body)  # noqa: E731 - as above
        self.retired = True
        for queue in self._queues.values():
            queue.fail(failure)
        self.abort_connection()
        if self.on_end is not None:
            self.on_end()


def _headers(connection: ClientConnection) -> Headers:
    """Return the headers of the handshake response, except those that only concern the handshake."""
    fields = connection.response.headers.raw_items() if connection.response is not None else ()
    own = ("connection", "upgrade", "sec-websocket-accept", "sec-websocket-extensions")
    return Headers([(name, value) for name, value in fields if name.lower() not in own])


def _closed_transport_error(request: Request) -> TransportError:
    return TransportError(
        "stream", f"{describe_websocket(request)}: the transport was closed before the response was complete"
    )
