"""The transport: requests to an application in this process, one call of it each."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, final

from anyio import move_on_after
from chat_core.errors import TransportError, UsageError
from chat_core.transport import MAX_EVENT_BYTES, Event, EventStream, Request, Response, framed
from chat_core.transport.http import DRAIN_SECONDS, describe, is_success

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
    """Calls an ASGI 3 application in this process, on asyncio and trio: no socket, no port, no server.

    An answer streams: events arrive while the application still runs, and its `send` waits until the reader takes what
    it sends. An exception of the application becomes a `TransportError` of the kind `stream`, whose `__cause__` it is.

    It is safe to share between tasks, and may be used from several event loops if the application may. As an
    asynchronous context manager it runs the application's lifespan around its block; without, there is none.

    Args:
        app: the application.
        hosts: the hosts that it answers for, as they stand in a request; a request to any other is a `TransportError`
            of the kind `connect`. By default it answers for all.
        grace: how many seconds the application may take to end when a stream is left before its end and it heard so:
            it waited in `receive()`, which then returns `http.disconnect`, or in `send()`, which then raises an
            `OSError`. Where it waits for something else, it is cancelled at once. So many seconds it has, too, when it
            has said that it cannot start.
        max_event_bytes: the longest event of a stream.
        max_error_bytes: how much of the body of a refused stream is kept.
    """

    def __init__(
        self,
        app: AsgiApp,
        *,
        hosts: Collection[str] | None = None,
        grace: float = 1.0,
        max_event_bytes: int = MAX_EVENT_BYTES,
        max_error_bytes: int = 64 * 1024,
    ) -> None:
        self._app = app
        self._hosts = frozenset(hosts) if hosts is not None else None
        self._grace = grace
        self._max_event_bytes = max_event_bytes
        self._max_error_bytes = max_error_bytes
        self._lifespan: Lifespan | None = None
        self._entered = False

    def __repr__(self) -> str:
        return f"AsgiTransport({getattr(self._app, '__qualname__', type(self._app).__name__)})"

    async def send(self, request: Request, /) -> Response:
        """Ask the application and return its whole answer, whatever its status, when the application has ended.

        Raises:
            TransportError: there was no whole answer.
        """
        async with self._exchange(request) as exchange:
            return Response(exchange.status, exchange.headers, b"".join([chunk async for chunk in exchange]))

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncGenerator[EventStream]:
        """Ask the application and listen to its answer. When the block has been left, the application has ended.

        Behind the last event of an answer (`Request.is_last`) the end of the body is waited for, but not for long.

        Raises:
            TransportError: on entering, there was no answer or its status is not 2xx (with status, headers and body);
                while iterating, the application broke off.
        """
        async with self._exchange(request) as exchange:
            if not is_success(exchange.status):
                raise await self._refusal(exchange, request)

            async def drain(batch: list[Event]) -> None:
                if batch and request.is_last(batch[-1]):
                    await exchange.drain(DRAIN_SECONDS)

            batches = framed(exchange, request.framing, max_event_bytes=self._max_event_bytes, tail=drain)
            try:
                yield EventStream(exchange.status, exchange.headers, batches)
            finally:
                await batches.aclose()

    async def aclose(self) -> None:
        """End the application's lifespan, where there is one. Closing twice is allowed."""
        if self._lifespan is not None:
            await self._lifespan.stop()

    async def __aenter__(self) -> Self:
        """Begin the application's lifespan, if it knows of one.

        Raises:
            TransportError: of kind `connect`, the application says that it cannot start.
            UsageError: it has begun.
        """
        if self._entered:
            msg = "this AsgiTransport runs its application already: enter it once at a time"
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
        """An answer as far as its head, while the application goes on."""
        self._check(request)
        exchange = Exchange(self._app, request, self._lifespan.state if self._lifespan is not None else {})
        start(exchange.run)
        try:
            await exchange.head()
            yield exchange
        finally:
            await exchange.leave(self._grace)

    def _check(self, request: Request) -> None:
        """Refuse what no server would get to see."""
        if self._hosts is not None and request.host not in self._hosts:
            known = ", ".join(sorted(self._hosts))
            raise TransportError("connect", f"{describe(request)}: the application answers for {known or 'no host'}")
        if _HOST.fullmatch(request.host) is None:
            shown = request.host.rpartition("@")[2]
            what = f"{request.method}: the host contains characters that HTTP does not allow: {shown!r}"
            raise TransportError("protocol", what)
        for name, value in request.headers:
            if _HEADER_NAME.fullmatch(name) is None or _HEADER_VALUE.fullmatch(value) is None:
                what = f"the header {name!r} has characters that HTTP does not allow, such as a line end behind a key"
                raise TransportError("protocol", f"{describe(request)}: {what}")

    async def _refusal(self, exchange: Exchange, request: Request) -> TransportError:
        """The error of a status that is not 2xx, with as much of the body as comes and is allowed."""
        pieces: list[bytes] = []
        size = 0
        try:
            async for chunk in exchange:
                pieces.append(chunk)
                size += len(chunk)
                if size >= self._max_error_bytes:
                    break
        except TransportError:
            pass  # that it breaks off does not matter any more
        return TransportError(
            "status",
            f"{describe(request)} was answered with {exchange.status}",
            status=exchange.status,
            headers=exchange.headers,
            body=b"".join(pieces)[: self._max_error_bytes],
        )


if TYPE_CHECKING:

    async def _nothing(*_: object) -> None: ...

    _is_a_transport: Transport = AsgiTransport(_nothing)
