"""A WebSocket server on the loopback interface that follows scripts. Needs `chat-realtime[testing]`."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, final

import anyio
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

Json: TypeAlias = Mapping[str, Any]
Script: TypeAlias = Callable[["ServerPeer"], Awaitable[None]]

_SECONDS = 10.0
"""After this time without an expected message, a script fails."""


@final
class ServerPeer:
    """The server's side of one connection.

    Args:
        connection: the open connection of the websockets library.

    Attributes:
        path: path and query of the handshake.
        headers: headers of the handshake, with lowercase names.
        received: all messages of the client, oldest first.
    """

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection
        request = connection.request
        assert request is not None  # noqa: S101 - the handshake is complete
        self.path: str = request.path
        self.headers: dict[str, str] = {name.lower(): value for name, value in request.headers.raw_items()}
        self.received: list[Json] = []

    async def send(self, *messages: Json | str) -> None:
        """Send messages. A string is sent as it is."""
        for message in messages:
            await self._connection.send(message if isinstance(message, str) else json.dumps(message))

    async def expect(self, matches: Callable[[Json], object], what: str) -> Json:
        """Receive messages until one matches, and return it.

        Args:
            matches: returns a true value for the expected message.
            what: description of the message, for the error.

        Raises:
            AssertionError: no such message arrived.
        """
        kinds: list[str] = []
        try:
            with anyio.fail_after(_SECONDS):
                while True:
                    message: Json = json.loads(await self._connection.recv())
                    self.received.append(message)
                    kinds.append(str(message.get("type", next(iter(message), ""))))
                    if matches(message):
                        return message
        except (TimeoutError, ConnectionClosed):
            msg = f"the session did not send {what}; it sent {', '.join(kinds) or 'nothing'}"
            raise AssertionError(msg) from None

    async def close(self, code: int = 1000) -> None:
        """Close the connection with a code."""
        await self._connection.close(code)

    async def wait_closed(self) -> None:
        """Receive messages until the client closes the connection."""
        try:
            while True:
                self.received.append(json.loads(await self._connection.recv()))
        except ConnectionClosed:
            return


@asynccontextmanager
async def loopback_server(*scripts: Script) -> AsyncGenerator[str]:
    """Start a server that runs one script per connection, in order, and yield its base URL.

    Args:
        scripts: functions of the server's side of a connection. When a script ends, its connection stays open until
            the client closes it.

    Raises:
        AssertionError: on exit, the first error of a script.
    """
    errors: list[Exception] = []
    left: Sequence[Script] = list(scripts)

    async def handle(connection: ServerConnection) -> None:
        nonlocal left
        peer = ServerPeer(connection)
        try:
            if not left:
                msg = "the session opened a connection that the script does not have"
                raise AssertionError(msg)  # noqa: TRY301 - collected below
            script, left = left[0], left[1:]
            await script(peer)
            await peer.wait_closed()
        except ConnectionClosed:
            return
        except Exception as error:  # noqa: BLE001 - raised by the block
            errors.append(error)

    async with serve(handle, "127.0.0.1", 0, close_timeout=1) as server:
        host, port = next(iter(server.sockets)).getsockname()[:2]
        try:
            yield f"http://{host}:{port}"
        except Exception:
            # The script's own error explains why the session failed.
            if errors:
                raise errors[0] from None
            raise
    if errors:
        raise errors[0]
