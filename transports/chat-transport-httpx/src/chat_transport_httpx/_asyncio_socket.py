"""Sockets of asyncio that the event loop always reads.

A socket of anyio starts and stops reading for each read, which takes two system calls, and its timeout needs a cancel
scope. If each event of a stream arrives alone, both take longer than decoding the event.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, cast, final

import anyio
from anyio.abc import ByteStream

_MAX_RECEIVED_BYTES = 65536


@final
class AsyncioSocket(ByteStream):
    """A socket that reads from a transport of asyncio and writes to it. The stream of anyio closes it.

    Args:
        stream: the stream of anyio for a new connection, which nobody has read from.
        transport: the transport of the stream.
    """

    def __init__(self, stream: ByteStream, transport: asyncio.Transport) -> None:
        self._stream = stream
        self._reader = _Reader(transport)
        self._transport = transport
        self._is_closed = False

    async def receive(self, max_bytes: int = _MAX_RECEIVED_BYTES) -> bytes:
        """Return received bytes without a timeout. Implements `ByteStream.receive`."""
        return await self.receive_within(None, max_bytes)

    async def receive_within(self, timeout: float | None, max_bytes: int) -> bytes:  # noqa: ASYNC109 - avoids a cancel scope
        """Return received bytes.

        Args:
            timeout: the limit on the time to wait, in seconds; None for no limit.
            max_bytes: the limit on the number of bytes.

        Raises:
            TimeoutError: no bytes arrived in time.
            anyio.EndOfStream: the peer has closed the connection.
            anyio.BrokenResourceError: the connection broke.
            anyio.ClosedResourceError: the socket was closed.
        """
        reader = self._reader
        if not reader.received and not reader.has_ended and not self._is_closed:
            await reader.wait(timeout)
        if reader.received:
            return reader.take(max_bytes)
        if self._is_closed:
            raise anyio.ClosedResourceError
        if reader.error is not None:
            raise anyio.BrokenResourceError from reader.error
        raise anyio.EndOfStream

    async def send(self, item: bytes) -> None:
        """Send bytes. Implements `ByteStream.send`."""
        self.send_nowait(item)
        await self.flush()

    def send_nowait(self, data: bytes) -> bool:
        """Send bytes without waiting. Return whether the system took all of them; otherwise, call `flush()`.

        anyio gives up control for each write, so that the event loop makes another turn, which takes longer than the
        write.

        Raises:
            anyio.BrokenResourceError: the connection broke.
            anyio.ClosedResourceError: the socket was closed.
        """
        self._require_open()
        self._transport.write(data)
        return self._reader.is_writable

    async def flush(self) -> None:
        """Wait until the system has taken all bytes of `send_nowait()`.

        Raises:
            anyio.BrokenResourceError: the connection broke.
            anyio.ClosedResourceError: the socket was closed.
        """
        if not self._reader.is_writable:
            await self._reader.wait_until_writable()
            self._require_open()

    def _require_open(self) -> None:
        if self._is_closed:
            raise anyio.ClosedResourceError
        if self._transport.is_closing():
            raise anyio.BrokenResourceError from self._reader.error

    async def send_eof(self) -> None:
        """Close the connection for writing. Implements `ByteStream.send_eof`."""
        await self._stream.send_eof()

    async def aclose(self) -> None:
        """Close the socket at once. Implements `ByteStream.aclose`."""
        self._is_closed = True
        self._reader.wake()
        await self._stream.aclose()

    @property
    def has_received(self) -> bool:
        """Whether there are received bytes or the connection has ended, so that a read does not wait."""
        return bool(self._reader.received) or self._reader.has_ended

    @property
    def extra_attributes(self) -> Mapping[Any, Callable[[], Any]]:
        """The attributes of the stream of anyio."""
        stream: Any = self._stream  # the attributes of anyio have no types
        attributes: Mapping[Any, Callable[[], Any]] = stream.extra_attributes
        return attributes


@final
class _Reader(asyncio.Protocol):
    """Protocol that keeps received bytes. It forwards everything about writing to the protocol that it replaces."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.received: deque[bytes] = deque()
        self.has_ended = transport.is_closing()
        self.error: Exception | None = None
        self._is_paused = False
        self._waiter: asyncio.Future[None] | None = None
        self._deadline = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf
        self._loop = asyncio.get_running_loop()
        self._transport = transport
        self._writer = cast("Any", transport.get_protocol())
        # uvloop may read before the protocol is replaced.
        self.received.extend(self._writer.read_queue)
        self._size = sum(map(len, self.received))
        self.has_ended = self.has_ended or self._writer.is_at_eof
        transport.set_protocol(self)
        transport.resume_reading()

    async def wait(self, timeout: float | None) -> None:  # noqa: ASYNC109 - see `receive_within`
        """Wait for bytes, or for the end of the connection."""
        if self._waiter is not None:
            action = "reading from"
            raise anyio.BusyResourceError(action)
        waiter = self._waiter = self._loop.create_future()
        self._set_deadline(timeout)
        try:
            await waiter
        finally:
            self._waiter = None

    def _set_deadline(self, timeout: float | None) -> None:
        """Set the time at which `wait()` expires.

        Creating a timer for each wait takes longer than decoding an event of a stream. Therefore a timer remains when a
        wait ends. When it fires too early, it is set again for the current wait.
        """
        if timeout is None:
            self._deadline = math.inf
            return
        deadline = self._deadline = self._loop.time() + timeout
        if deadline < self._timer_at:
            self._set_timer(deadline)

    def _set_timer(self, at: float) -> None:
        self._cancel_timer()
        self._timer_at = at
        self._timer = self._loop.call_at(at, self._check_deadline)

    def _cancel_timer(self) -> None:
        self._timer_at = math.inf
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check_deadline(self) -> None:
        self._cancel_timer()
        waiter, deadline = self._waiter, self._deadline
        if waiter is None or waiter.done() or deadline == math.inf:
            return
        if self._loop.time() < deadline:
            self._set_timer(deadline)
        else:
            waiter.set_exception(TimeoutError())

    def take(self, max_bytes: int) -> bytes:
        """Return all received bytes up to a limit."""
        received = self.received
        data = received.popleft() if len(received) == 1 else b"".join(received)
        received.clear()
        if len(data) > max_bytes:
            received.append(data[max_bytes:])
            data = data[:max_bytes]
        self._size -= len(data)
        if self._is_paused and self._size <= _MAX_RECEIVED_BYTES and not self._transport.is_closing():
            self._is_paused = False
            self._transport.resume_reading()
        return data

    @property
    def is_writable(self) -> bool:
        """Whether the system has taken all bytes that were written, because anyio sets the limit for others to 0."""
        return bool(self._writer.write_event.is_set())

    async def wait_until_writable(self) -> None:
        """Wait until the system has taken all bytes that were written, or the connection is lost."""
        await self._writer.write_event.wait()

    def wake(self) -> None:
        """Let the current `wait()` return."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def data_received(self, data: bytes) -> None:
        self.received.append(bytes(data))
        self._size += len(data)
        if self._size > _MAX_RECEIVED_BYTES and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()
        self.wake()

    def eof_received(self) -> bool | None:
        self.has_ended = True
        self.wake()
        return True  # as in anyio: the connection stays open for writing

    def connection_lost(self, exc: Exception | None) -> None:
        self.has_ended = True
        self.error = exc
        self._cancel_timer()
        self._writer.connection_lost(exc)
        self.wake()

    def pause_writing(self) -> None:
        self._writer.pause_writing()

    def resume_writing(self) -> None:
        self._writer.resume_writing()


def with_own_reader(stream: ByteStream) -> ByteStream:
    """Return a faster socket for a new stream of anyio, or the stream itself if it has no transport of asyncio."""
    transport: Any = getattr(stream, "_transport", None)  # private, see docs/decisions/private-httpx-parts.md
    # The transports of uvloop are not instances of `asyncio.Transport`.
    return AsyncioSocket(stream, transport) if hasattr(transport, "set_protocol") else stream
