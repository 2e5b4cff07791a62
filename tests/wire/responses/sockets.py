"""A WebSocket server on the loopback interface, in the event loop of a test, that plays recorded frames."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus

from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from ..normalise import Object

Playing = Callable[["Sockets", ServerConnection, Object], Awaitable[None]]


@dataclass
class Sockets:
    """The server.

    Attributes:
        host: host and port of the server, for a base URL.
        asked: frames of the clients, in order.
        handshakes: requests of the handshakes.
        open: number of open connections.
        errors: errors in the server.
    """

    host: str = ""
    asked: list[Object] = field(default_factory=list[Object])
    handshakes: list[Request] = field(default_factory=list[Request])
    open: int = 0
    errors: list[Exception] = field(default_factory=list[Exception])

    @property
    def connections(self) -> int:
        """Number of accepted connections."""
        return len(self.handshakes)


@asynccontextmanager
async def serving(play: Playing, refuse: Response | None = None) -> AsyncGenerator[Sockets]:
    """Call `play` with each frame that a client sends, or refuse every handshake."""
    sockets = Sockets()

    def handshake(_connection: ServerConnection, request: Request) -> Response | None:
        sockets.handshakes.append(request)
        return refuse

    async def listen(connection: ServerConnection) -> None:
        sockets.open += 1
        try:
            async for message in connection:
                sockets.asked.append(json.loads(message))
                await play(sockets, connection, sockets.asked[-1])
        except ConnectionClosed:
            pass
        except Exception as error:  # noqa: BLE001 - raised at the end
            sockets.errors.append(error)
        finally:
            sockets.open -= 1

    async with serve(listen, "127.0.0.1", 0, process_request=handshake, max_size=None, compression=None) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        sockets.host = f"127.0.0.1:{port}"
        yield sockets
    assert not sockets.errors


def refusal(status: int, headers: dict[str, str], body: bytes) -> Response:
    """Return a response that refuses a handshake."""
    kept = {name: value for name, value in headers.items() if name.lower() not in {"content-length", "connection"}}
    fields = Headers([*kept.items(), ("content-length", str(len(body)))])
    return Response(status, HTTPStatus(status).phrase, fields, body)
