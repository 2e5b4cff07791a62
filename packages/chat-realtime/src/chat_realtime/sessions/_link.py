"""The connection of a session. If the session can be resumed, a new connection replaces a lost one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeAlias, final

import anyio
from chat_core import ChatError, TransportError
from chat_core.transport import DuplexConnection, Request
from chat_core.transport.http import describe_websocket
from chat_core.transport.provider_errors import add_address, translate_transport_error
from chat_core.wire.credentials import Redactor
from chat_core.wire.errors import error_from_response

from chat_realtime.notifier import Notifier
from chat_realtime.sessions.events import (
    GoAway,
    ReceivedEvent,
    ResponseStarted,
    ResumptionHandle,
    SessionReady,
    SessionResumed,
)
from chat_realtime.sessions.protocol import RealtimeCodec, RealtimeModel, SessionSetup

Handler: TypeAlias = Callable[[ReceivedEvent | SessionResumed], Awaitable[None]]


@final
class Link:
    """The connection of a session and its codec.

    Args:
        model: creates the requests and the codecs.
        setup: settings of the session.
        max_reconnects: maximum number of reconnects without a received response in between.
        notifier: wakes the tasks that wait for the connection.

    Attributes:
        is_idle: whether no response is active. If the server has announced its end, the session then reconnects.
    """

    __slots__ = (
        "_codec", "_connection", "_failure", "_handle", "_is_leaving", "_lock", "_max_reconnects", "_model",
        "_notifier", "_reconnects", "_request", "_scope", "_setup", "is_idle",
    )  # fmt: skip

    def __init__(self, model: RealtimeModel, setup: SessionSetup, max_reconnects: int, notifier: Notifier) -> None:
        self._model = model
        self._setup = setup
        self._max_reconnects = max_reconnects
        self._notifier = notifier
        self._lock = anyio.Lock()
        self._connection: DuplexConnection | None = None
        self._codec: RealtimeCodec | None = None
        self._request: Request | None = None
        self._handle: str | None = None
        self._reconnects = 0
        self._is_leaving = False
        self._scope: anyio.CancelScope | None = None
        self._failure: ChatError | None = None
        self.is_idle: bool = True

    async def run(self, handle: Handler) -> None:
        """Connect, and pass each received event to `handle`, until the connection ends and cannot be resumed.

        Raises:
            ChatError: the connection failed or was closed, or the server rejected the session.
        """
        try:
            while True:
                try:
                    await self._serve(handle)
                except TransportError as error:
                    if not self._may_resume():
                        raise self._translate(error) from None
        except ChatError as error:
            self._failure = error
            raise
        finally:
            self._connection = None
            self._notifier.notify()

    def _may_resume(self) -> bool:
        self._connection = self._codec = None
        self._reconnects += 1
        return self._handle is not None and self._reconnects <= self._max_reconnects

    async def _serve(self, handle: Handler) -> None:
        """Handle one connection until it ends."""
        self._request = await self._model.request()
        setup = replace(self._setup, handle=self._handle)
        codec = self._model.codec()
        with anyio.CancelScope() as scope:
            self._scope, self._is_leaving = scope, False
            async with self._model.transport().connect(self._request) as connection:
                for message in codec.setup(setup):
                    await connection.send(message)
                while True:
                    for event in self._read(codec, await connection.receive()):
                        await self._dispatch(event, handle, connection, codec, setup)

    async def _dispatch(
        self,
        event: ReceivedEvent,
        handle: Handler,
        connection: DuplexConnection,
        codec: RealtimeCodec,
        setup: SessionSetup,
    ) -> None:
        match event:
            case SessionReady():
                for message in codec.ready(setup):
                    await connection.send(message)
                self._connection, self._codec = connection, codec
                self._notifier.notify()
                await handle(SessionResumed() if setup.handle is not None else event)
            case ResumptionHandle(handle=token):
                self._handle = token
            case GoAway():
                self._is_leaving = True
                await handle(event)
                self.leave_if_idle()
            case _:
                if isinstance(event, ResponseStarted):
                    self._reconnects = 0
                await handle(event)

    def leave_if_idle(self) -> None:
        """Reconnect if the server has announced its end, no response is active, and the session can be resumed."""
        if self._is_leaving and self.is_idle and self._handle is not None and self._scope is not None:
            self._is_leaving, self._connection, self._codec = False, None, None
            self._scope.cancel()

    def _read(self, codec: RealtimeCodec, message: bytes) -> Sequence[ReceivedEvent]:
        assert self._request is not None  # noqa: S101 - the connection was opened with it
        try:
            return codec.read(message)
        except ChatError as error:
            raise add_address(
                Redactor(self._request).redact_error(error, message), describe_websocket(self._request)
            ) from None

    def _translate(self, error: TransportError) -> ChatError:
        name = self._model.metadata.name
        if self._request is None:
            return translate_transport_error(error, name, "try again")
        redactor = Redactor(self._request)
        if error.kind != "status" or error.status is None:
            return translate_transport_error(redactor.redact_error(error), name, "try again")
        headers, body = redactor.redact_headers(error.headers), redactor.redact_bytes(error.body)
        return add_address(error_from_response(error.status, headers, body, name), describe_websocket(self._request))

    async def wait_ready(self) -> None:
        """Wait until the server has accepted the session.

        Raises:
            ChatError: the connection failed.
        """
        while self._connection is None:
            if self._failure is not None:
                raise self._failure
            await self._notifier.wait()

    async def send_now(self, encode: Callable[[RealtimeCodec], Sequence[str]]) -> bool:
        """Send messages, and return whether they were sent. Unlike `send()`, this does not wait for a connection.

        The receiving task uses this method, because it could not reconnect while it waits.

        Args:
            encode: function of the codec that returns the messages.
        """
        connection, codec = self._connection, self._codec
        if connection is None or codec is None:
            return False
        try:
            for message in encode(codec):
                await connection.send(message)
        except TransportError:
            return False
        return True

    async def send(self, encode: Callable[[RealtimeCodec], Sequence[str]]) -> None:
        """Send messages. During a reconnect, wait for the next connection.

        Args:
            encode: function of the codec that returns the messages.

        Raises:
            ChatError: the connection failed.
        """
        while True:
            await self.wait_ready()
            async with self._lock:
                connection, codec = self._connection, self._codec
                if connection is None or codec is None:
                    continue
                try:
                    for message in encode(codec):
                        await connection.send(message)
                except TransportError as error:
                    if self._handle is None:
                        raise self._translate(error) from None
                    # The receiving task notices the end of the connection and reconnects.
                    if self._connection is connection:
                        self._connection = self._codec = None
                    continue
                return
