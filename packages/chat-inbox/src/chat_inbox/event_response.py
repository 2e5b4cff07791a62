"""`EventResponse`, a response with server-sent events, and `OpenStreams`, which supervises all of them in one task."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, TypeAlias, final

import anyio
from anyio.abc import TaskGroup
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

Write: TypeAlias = Callable[[bytes], Awaitable[None]]
"""A function that sends encoded events. It returns when the server accepts further data for the client."""

BODY_SEND: Final = "chat_inbox.body_send"
"""Key in the scope for a function that sends the parts of the body of an `EventResponse`, behind all middleware.

The outermost middleware of an application can set it, if no middleware inside changes these parts. Each layer that an
event does not pass saves time.
"""
_LOG = logging.getLogger("chat_inbox")
_CHECK_SECONDS: Final = 0.5
"""Interval between checks of the open streams. All times of `OpenStreams` are exact to this interval."""
_PING: Final = b": ping\n\n"
_HEADERS: Final = {"cache-control": "no-store", "x-accel-buffering": "no"}


@final
class EventResponse(Response):
    """A response with server-sent events.

    The next event is requested only when the server accepts it, so a slow client is not buffered beyond the buffer of
    its connection. The response ends early if the client disconnects, does not read, or the server stops.

    Args:
        send_events: function that sends the encoded events. It is cancelled if the response ends early.
        streams: open streams of the application.
        headers: further headers of the response.
        ends_at_stop: whether the response ends as soon as the server stops, because the client can continue elsewhere.
    """

    def __init__(
        self,
        send_events: Callable[[Write], Awaitable[None]],
        streams: OpenStreams,
        headers: Mapping[str, str] | None = None,
        *,
        ends_at_stop: bool = True,
    ) -> None:
        given = {name.lower(): value for name, value in (headers or {}).items()}
        super().__init__(headers={**_HEADERS, **given}, media_type="text/event-stream")
        del self.headers["content-length"]  # of an empty body
        self._send_events = send_events
        self._streams = streams
        self._ends_at_stop = ends_at_stop

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response. The server closes the connection of a response that ends early."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body"})
            return
        failures: list[Exception] = []
        async with anyio.create_task_group() as group:
            # asyncio resumes a task through all its frames. Here, these are the frames of all middleware, so the events
            # are sent in a task of their own.
            stream = _OpenStream(scope.get(BODY_SEND, send), group, self._ends_at_stop)
            group.start_soon(self._send, stream, failures)
            while (await receive())["type"] != "http.disconnect":
                pass
            group.cancel_scope.cancel()
        if failures:
            raise failures[0]

    async def _send(self, stream: _OpenStream, failures: list[Exception]) -> None:
        """Send all events and the end of the response, and cancel the other tasks of the stream."""
        with self._streams.watch(stream):
            try:
                await self._send_events(stream.write)
                await stream.end()
            except Exception as error:  # noqa: BLE001 - raised by the task of the response, outside of the task group
                failures.append(error)
        stream.group.cancel_scope.cancel()


def encode_event(name: str, data: str, id: str | None = None) -> bytes:
    """Return a server-sent event.

    Args:
        name: name of the event.
        data: the data, without line ends, such as JSON.
        id: id of the event, or `None`.
    """
    place = "" if id is None else f"id: {id}\n"
    return f"{place}event: {name}\ndata: {data}\n\n".encode()


@final
class _OpenStream:
    """An open stream.

    Args:
        send: sends a message to the server.
        group: the tasks of the response.
        ends_at_stop: whether the stream ends as soon as the server stops.

    Attributes:
        group: the tasks of the response.
        ends_at_stop: whether the stream ends as soon as the server stops.
        sent_at: monotonic time at which the last event was passed to the server.
        is_sending: whether the server has not accepted this event yet. True after the end.
    """

    __slots__ = ("_send", "ends_at_stop", "group", "is_sending", "sent_at")

    def __init__(self, send: Send, group: TaskGroup, ends_at_stop: bool) -> None:  # noqa: FBT001 - private
        self._send = send
        self.group = group
        self.ends_at_stop = ends_at_stop
        self.sent_at = time.monotonic()
        self.is_sending = False

    async def write(self, data: bytes) -> None:
        # A timeout here would cost as much as the rest of an event, so `OpenStreams` checks the time.
        self.sent_at = time.monotonic()
        self.is_sending = True
        await self._send({"type": "http.response.body", "body": data, "more_body": True})
        self.is_sending = False

    async def ping(self) -> None:
        if not self.is_sending:  # an event, or the end, may have been sent since this task was started
            await self.write(_PING)

    async def end(self) -> None:
        self.sent_at = time.monotonic()
        self.is_sending = True
        await self._send({"type": "http.response.body"})


@final
class OpenStreams:
    """The open event streams of an application.

    Args:
        ping_seconds: time without an event after which a comment is sent, so that proxies keep the connection open.
            With 0, no comments are sent.
        send_seconds: time that a client has to receive an event or a comment. A slower client is disconnected.
    """

    def __init__(self, ping_seconds: float = 15.0, send_seconds: float = 30.0) -> None:
        self._ping_seconds = ping_seconds
        self._send_seconds = send_seconds
        self._streams: set[_OpenStream] = set()

    @contextmanager
    def watch(self, stream: _OpenStream) -> Generator[None]:
        """Return a context manager that supervises a stream.

        Args:
            stream: the stream.
        """
        self._streams.add(stream)
        try:
            yield
        finally:
            self._streams.discard(stream)

    async def run(self) -> None:
        """Send comments and disconnect slow clients, until the task is cancelled. End all streams if uvicorn stops."""
        while True:
            await anyio.sleep(_CHECK_SECONDS)
            is_stopping, now = _is_server_stopping(), time.monotonic()
            for stream in self._streams:
                seconds = now - stream.sent_at
                if is_stopping and stream.ends_at_stop:
                    stream.group.cancel_scope.cancel()
                elif stream.is_sending:
                    if seconds >= self._send_seconds:
                        _LOG.info("the client of an event stream did not read, and was disconnected")
                        stream.group.cancel_scope.cancel()
                elif 0 < self._ping_seconds <= seconds:
                    stream.group.start_soon(stream.ping)


def _is_server_stopping() -> bool:
    """Return whether uvicorn stops: it has received a signal, or has served the maximum number of requests.

    Uvicorn waits for open responses before it closes the lifespan, and does not notify applications. However, its
    handler of the signal is a method of the server.
    """
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    if getattr(server, "should_exit", False) is True:
        return True
    listeners: Sequence[asyncio.Server] = getattr(server, "servers", ())
    return bool(listeners) and not any(listener.is_serving() for listener in listeners)
