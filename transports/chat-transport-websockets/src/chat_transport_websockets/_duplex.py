"""Connections on which the application and the peer send messages at any time."""

from __future__ import annotations

import asyncio
from typing import final

from chat_core.transport import Request
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode

from chat_transport_websockets._errors import closed_error


@final
class OpenSocket:
    """An open WebSocket connection. Implements `DuplexConnection`.

    Args:
        connection: the open connection of the websockets library. This object owns it.
        request: the request that opened it, for errors.

    Attributes:
        loop: the event loop of the connection.
    """

    __slots__ = ("__weakref__", "_connection", "_request", "loop")

    def __init__(self, connection: ClientConnection, request: Request) -> None:
        self._connection = connection
        self._request = request
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()

    async def send(self, message: str | bytes, /) -> None:
        """Implement `DuplexConnection.send`."""
        try:
            await self._connection.send(message)
        except ConnectionClosed as error:
            raise closed_error(error, self._request, self._connection.ping_timeout) from None

    async def receive(self) -> bytes:
        """Implement `DuplexConnection.receive`."""
        try:
            message = await self._connection.recv()
        except ConnectionClosed as error:
            raise closed_error(error, self._request, self._connection.ping_timeout) from None
        return message.encode() if isinstance(message, str) else message

    async def aclose(self, close_timeout: float) -> None:
        """Close the connection. Abort it if the peer sends no close frame within `close_timeout` seconds."""
        try:
            async with asyncio.timeout(close_timeout):
                await self._connection.close(CloseCode.NORMAL_CLOSURE)
        except TimeoutError:
            pass
        finally:
            self._connection.transport.abort()
        await self._connection.wait_closed()
