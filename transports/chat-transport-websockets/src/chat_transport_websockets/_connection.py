"""A connection, and the turns on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import final

from chat_core.errors import TransportError
from chat_core.transport import Headers, Request
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.server import broadcast
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.protocol import State

from chat_transport_websockets._errors import closed_error, describe
from chat_transport_websockets._exchange import (
    DirectSource,
    FrameQueue,
    IdleTimer,
    Source,
    Turn,
    idle_timeout_error,
    read_frame,
)
from chat_transport_websockets._frames import FrameProtocol


@final
class Connection:
    """A connection. Where it is multiplexed, one task reads it for all its turns; else each turn reads for itself.

    Attributes:
        headers: those of the answer to the handshake.
        born: when it was opened, by the clock of its event loop.
        busy: how many turns are on it.
        spent: whether it serves no further turn.
        broke: whether it has ended within a turn, and nobody here wanted that.
    """

    __slots__ = (
        "_connection",
        "_number",
        "_protocol",
        "_queues",
        "_reader",
        "born",
        "broke",
        "busy",
        "headers",
        "on_end",
        "spent",
        "timer",
    )

    def __init__(self, connection: ClientConnection, protocol: FrameProtocol) -> None:
        self._connection = connection
        self._protocol = protocol
        self._number = 0
        self._queues: dict[str, FrameQueue] = {}
        self._reader: asyncio.Task[None] | None = None
        loop = asyncio.get_running_loop()
        self.born = loop.time()
        self.busy = 0
        self.spent = False
        self.broke = False
        self.timer: asyncio.TimerHandle | None = None
        self.on_end: Callable[[], None] | None = None
        self.headers = _headers(connection)
        if protocol.multiplexed:
            self._reader = loop.create_task(self._read(), name="websocket reader")

    @property
    def is_open(self) -> bool:
        """Whether it can serve a turn, as far as is known."""
        return not self.spent and self._connection.state is State.OPEN

    async def is_quiet(self) -> bool:
        """Whether nothing has come that nobody asked for: it would be taken for the beginning of the next answer.

        A frame that says to which turn it belongs does no harm.
        """
        # What stands in the socket is read in the next round of the event loop.
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

    async def begin(self, request: Request) -> Turn:
        """Send a request.

        Raises:
            TransportError: it was not taken.
        """
        self._number += 1
        key = str(self._number)
        frame = self._protocol.ask(request, key)
        source: Source = DirectSource(key, self._connection, self._protocol, request)
        if self._reader is not None:
            source = self._queues[key] = FrameQueue(request)
        turn = Turn(key, source, self._protocol, request)
        self.busy += 1
        try:
            await self._send(frame, request)
        except BaseException:
            await self.leave(turn)
            raise
        return turn

    async def _send(self, frame: str | bytes, request: Request) -> None:
        """Send a frame. How long that takes does not matter, as long as something is taken."""
        transport = self._connection.transport
        data = frame.encode() if isinstance(frame, str) else frame
        waiting = len(data) + transport.get_write_buffer_size()

        def expire() -> None:
            nonlocal waiting
            left = transport.get_write_buffer_size()
            if left < waiting:
                waiting, idle_timer.expired = left, False
                idle_timer.begin()
            else:
                transport.abort()

        idle_timer = IdleTimer(request.timeouts.idle, expire)
        idle_timer.begin()
        try:
            await self._connection.send(data, text=isinstance(frame, str))
        except ConnectionClosed as error:
            if idle_timer.expired:
                raise idle_timeout_error(request) from None
            raise closed_error(error, request) from None
        finally:
            idle_timer.close()
        if idle_timer.expired:
            raise idle_timeout_error(request)

    async def leave(self, turn: Turn) -> None:
        """A turn is left. If it is not at its end, what is still to come of it will be no other turn's.

        A connection that served this turn alone is closed: of a frame that comes later nobody could tell whose it is,
        and nothing else tells the peer to stop. Where there are other turns, the peer is told, and what it says
        nevertheless has a key that nobody looks for.
        """
        turn.close()
        self.busy -= 1
        # Where turns have no keys, what is left of one that failed could be taken for the next answer.
        self.spent = self.spent or (turn.failed is not None and self._reader is None)
        self.broke = self.broke or (not turn.finished and self._connection.state is not State.OPEN)
        over = turn.finished
        if self._queues.pop(turn.key, None) is not None and not over and self._connection.state is State.OPEN:
            frame = self._protocol.cancel(turn.key)
            if frame is not None:
                broadcast([self._connection], frame)
            over = frame is not None or bool(self.busy)
        if not over or (self.spent and not self.busy):
            self.hang_up()
            await self._connection.wait_closed()
            if self._reader is not None:
                await asyncio.wait([self._reader])

    def hang_up(self) -> None:
        """End the connection at once. The peer is told, where nothing stands in the way."""
        self.spent = True
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        self._say_goodbye(CloseCode.GOING_AWAY)
        self._connection.transport.abort()

    def _say_goodbye(self, code: CloseCode) -> None:
        if self._connection.state is State.OPEN:
            # The library's `close()` does not work any more when the event loop ends.
            with suppress(Exception):
                self._connection.protocol.send_close(code)
                self._connection.send_data()

    async def aclose(self, patience: float) -> None:
        """End the connection as the protocol wants it, if the peer plays along for so many seconds."""
        self.spent = True
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        self._say_goodbye(CloseCode.NORMAL_CLOSURE)
        try:
            async with asyncio.timeout(patience):
                await self._connection.wait_closed()
        except TimeoutError:
            pass
        finally:
            self._connection.transport.abort()
            for queue in self._queues.values():
                queue.fail(_closed)
            if self._reader is not None:
                self._reader.cancel()
        await self._connection.wait_closed()
        if self._reader is not None:
            await asyncio.wait([self._reader])

    async def _read(self) -> None:
        """Hand each frame to its turn, until the connection ends."""
        failure: Callable[[Request], TransportError]
        try:
            while True:
                frame = await self._connection.recv()
                data = frame.encode() if isinstance(frame, str) else frame
                key, events, last = read_frame(self._protocol, data, "a multiplexed connection")
                # A peer may make a key of anything, a list for instance.
                queue = self._queues.get(key) if isinstance(key, str) else None
                if queue is not None:
                    queue.put((data, events, last))
                    await queue.room()
        except ConnectionClosed as error:
            closed = error
            failure = lambda request: closed_error(closed, request)  # noqa: E731 - one of two
        except TransportError as error:
            told = error
            failure = lambda _: TransportError(told.kind, str(told), body=told.body)  # noqa: E731 - the other one
        else:
            return
        self.spent = True
        for queue in self._queues.values():
            queue.fail(failure)
        self.hang_up()
        if self.on_end is not None:
            self.on_end()


def _headers(connection: ClientConnection) -> Headers:
    """The headers of the answer to the handshake, without those of the handshake itself."""
    fields = connection.response.headers.raw_items() if connection.response is not None else ()
    own = ("connection", "upgrade", "sec-websocket-accept", "sec-websocket-extensions")
    return Headers([(name, value) for name, value in fields if name.lower() not in own])


def _closed(request: Request) -> TransportError:
    return TransportError("stream", f"{describe(request)}: the transport was closed within the turn")
