"""Protocols for connections on which both sides send messages at any time, such as WebSocket connections."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol, runtime_checkable

from chat_core.transport.values import Request


class DuplexConnection(Protocol):
    """Protocol for an open connection. One task at a time may receive; any number of tasks may send."""

    async def send(self, message: str | bytes, /) -> None:
        """Send one message: a string as a text message, bytes as a binary message. Wait if the send buffer is full.

        Raises:
            TransportError: the connection was closed.
        """
        ...

    async def receive(self) -> bytes:
        """Return the next message. Text is encoded as UTF-8. A cancelled call loses no message.

        Raises:
            TransportError: the connection was closed, by either side and with any close code.
        """
        ...


@runtime_checkable
class DuplexTransport(Protocol):
    """Protocol for transports that open such connections."""

    def connect(self, request: Request, /) -> AbstractAsyncContextManager[DuplexConnection]:
        """Open a connection. Exiting the context closes the connection.

        Args:
            request: address, headers and connect timeout. The method, the body and the idle timeout are ignored.

        Raises:
            TransportError: on entry, the connection could not be opened.
        """
        ...

    async def aclose(self) -> None:
        """Close the open connections. May be called more than once."""
        ...
