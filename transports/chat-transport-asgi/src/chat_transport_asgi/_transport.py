"""Transport that calls an ASGI application."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, final

from anyio import move_on_after
from chat_core.arguments import require_type
from chat_core.errors import TransportError, UsageError
from chat_core.transport import (
    MAX_BODY_BYTES,
    MAX_ERROR_BYTES,
    MAX_EVENT_BYTES,
    MAX_STREAM_BYTES,
    Event,
    EventStream,
    Request,
    Response,
    framed,
)
from chat_core.transport.http import DRAIN_SECONDS, describe, is_success, require_valid_address
from chat_core.transport.limits import read_body

from chat_transport_asgi._exchange import Exchange
from chat_transport_asgi._lifespan import Lifespan
from chat_transport_asgi._tasks import start
from chat_transport_asgi._types import AsgiApp

if TYPE_CHECKING:
    from chat_core.transport import Transport

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE: Final = re.compile(r"[!-~\x80-\xff](?:[\t -~\x80-\xff]*[!-~\x80-\xff])?|")
_HOST: Final = re.compile(r"[!-~\x80-\xff]*")


@final
class AsgiTransport:
    """Transport that calls an ASGI 3 application in this process, without a socket, on asyncio and trio.

    Responses are streamed: events arrive while the application runs, and its `send()` waits until the reader has
    received the data. An exception of the application becomes the cause of a `TransportError` of kind `stream`.

    The transport is safe to share between tasks, and may be used from several event loops if the application supports
    it. As an async context manager, it runs the lifespan of the application; otherwise no lifespan is run.

    Args:
        app: the ASGI application.
        hosts: the hosts of the application, as in `Request.host`. A request to another host raises a `TransportError`
            of kind `connect`. By default, all hosts are accepted.
        grace: seconds that the application may take to end after the reader exits a stream early. This applies if the
            application waits in `receive()`, which returns `http.disconnect`, or in `send()`, which raises an
            `OSError`. Otherwise the application is cancelled at once. The limit also applies after a failed startup.
        max_event_bytes: the limit on the length of a streamed event.
        max_body_bytes: the limit on the length of the body that `send()` reads; `None` for no limit.
        max_stream_bytes: the limit on the length of a streamed body; `None` for no limit.
        max_error_bytes: the maximum number of bytes that are read from the body of an error response.
    """

    def __init__(
        self,
        app: AsgiApp,
        *,
        hosts: Collection[str] | None = None,
        grace: float = 1.0,
        max_event_bytes: int = MAX_EVENT_BYTES,
        max_body_bytes: int | None = MAX_BODY_BYTES,
        max_stream_bytes: int | None = MAX_STREAM_BYTES,
        max_error_bytes: int = MAX_ERROR_BYTES,
    ) -> None:
        self._app = app
        if hosts is not None:
            require_type("hosts", hosts, Collection, "a collection of names of hosts")
        self._hosts = frozenset(hosts) if hosts is not None else None
        self._grace = grace
        self._max_event_bytes = max_event_bytes
        self._max_body_bytes = max_body_bytes
        self._max_stream_bytes = max_stream_bytes
        self._max_error_bytes = max_error_bytes
        self._lifespan: Lifespan | None = None
        self._entered = False

    def __repr__(self) -> str:
        return f"AsgiTransport({getattr(self._app, '__qualname__', type(self._app).__name__)})"

    async def send(self, request: Request, /) -> Response:
        """Implement `Transport.send`. The call returns after the application has ended.

        The body of an error response is truncated to `max_error_bytes`.

        Raises:
            TransportError: the application sent no complete response, or its body exceeds `max_body_bytes`.
        """
        async with self._exchange(request) as exchange:
            return Response(exchange.status, exchange.headers, await self._read_body(exchange, request))

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncGenerator[EventStream]:
        """Implement `Transport.stream`. When the context has exited, the application has ended.

        After the last event (`Request.is_last`), exiting waits for the end of the body for at most `DRAIN_SECONDS`.

        Raises:
            TransportError: on entry, the application sent no response, or its status is not 2xx. During iteration, the
                application ended before its response was complete.
        """
        async with self._exchange(request) as exchange:
            if not is_success(exchange.status):
                raise await self._status_error(exchange, request)

            async def drain(batch: list[Event]) -> None:
                if batch and request.is_last(batch[-1]):
                    await exchange.drain(DRAIN_SECONDS)

            batches = framed(
                exchange,
                request.framing,
                max_event_bytes=self._max_event_bytes,
                max_stream_bytes=None if request.is_unlimited else self._max_stream_bytes,
                tail=drain,
            )
            try:
                yield EventStream(exchange.status, exchange.headers, batches)
            finally:
                await batches.aclose()

    async def aclose(self) -> None:
        """End the lifespan of the application, if it was started. May be called more than once."""
        if self._lifespan is not None:
            await self._lifespan.stop()

    async def __aenter__(self) -> Self:
        """Start the lifespan of the application, if the application supports it.

        Raises:
            TransportError: with kind `connect`: the application reports a failed startup.
            UsageError: the lifespan is already running.
        """
        if self._entered:
            msg = "the lifespan of this AsgiTransport is already running; exit its context before you enter it again"
            raise UsageError(msg)
        self._entered = True
        lifespan = Lifespan(self._app)
        start(lifespan.run)
        try:
            await lifespan.start()
        except BaseException:
            self._entered = False
            with move_on_after(self._grace):
                await lifespan.stop()
            raise
        self._lifespan = lifespan
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        try:
            await self.aclose()
        finally:
            self._entered = False
            self._lifespan = None

    @asynccontextmanager
    async def _exchange(self, request: Request) -> AsyncGenerator[Exchange]:
        """Start the application, wait for the status and headers of its response, and end the exchange on exit."""
        self._check_request(request)
        exchange = Exchange(self._app, request, self._lifespan.state if self._lifespan is not None else {})
        start(exchange.run)
        try:
            await exchange.head()
            yield exchange
        finally:
            await exchange.leave(self._grace)

    def _check_request(self, request: Request) -> None:
        """Raise an error if a request is not valid HTTP, or is for a host that this transport does not serve."""
        require_valid_address(request)
        if self._hosts is not None and request.host not in self._hosts:
            known = ", ".join(sorted(self._hosts))
            raise TransportError(
                "connect", f"{describe(request)}: unknown host; the allowed hosts are: {known or 'none'}"
            )
        if _HOST.fullmatch(request.host) is None:
            shown = request.host.rpartition("@")[2]
            what = f"{request.method}: the host contains characters that HTTP does not allow: {shown!r}"
            raise TransportError("protocol", what)
        for name, value in request.headers:
            if _HEADER_NAME.fullmatch(name) is None or _HEADER_VALUE.fullmatch(value) is None:
                problem = f"the header {name!r} contains characters that HTTP does not allow"
                hint = "check for a line end after an API key"
                raise TransportError("protocol", f"{describe(request)}: {problem}; {hint}")

    async def _read_body(self, exchange: Exchange, request: Request) -> bytes:
        """Read the body of a response up to the configured limit, and return it.

        Raises:
            TransportError: the body is incomplete, or exceeds `max_body_bytes`.
        """
        return await read_body(
            exchange,
            describe(request),
            max_body_bytes=self._max_body_bytes,
            max_error_bytes=self._max_error_bytes,
            is_error=not is_success(exchange.status),
        )

    async def _status_error(self, exchange: Exchange, request: Request) -> TransportError:
        """Return the error for a response whose status is not 2xx, with the beginning of the response body."""
        pieces: list[bytes] = []
        size = 0
        try:
            async for chunk in exchange:
                pieces.append(chunk)
                size += len(chunk)
                if size >= self._max_error_bytes:
                    break
        except TransportError:
            pass  # the status matters more than an incomplete body
        return TransportError(
            "status",
            f"{describe(request)} returned status {exchange.status}",
            status=exchange.status,
            headers=exchange.headers,
            body=b"".join(pieces)[: self._max_error_bytes],
        )


if TYPE_CHECKING:

    async def _do_nothing(*_: object) -> None: ...

    _is_a_transport: Transport = AsgiTransport(_do_nothing)
