"""Scripted HTTP server (the peer of a transport under test) that sends valid and faulty responses."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import Final, Literal, Protocol, TypeAlias, final

from chat_core.transport import Headers

from chat_testing.loopback import Exchange, LoopbackServer

Step: TypeAlias = bytes | threading.Event
"""Step of a body: a chunk to send, or an event to wait for."""

Ending: TypeAlias = Literal["whole", "cut", "reset", "stall", "endless"]
Delimited: TypeAlias = Literal["chunked", "length", "close"]

SSE: Final = (("content-type", "text/event-stream"),)
_ENDLESS: Final = b": and so on, and so on\n" * 1000


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """Scripted response of the test server to one request.

    Attributes:
        status, headers: status and headers of the response.
        steps: the body, as chunks and events to wait for.
        ends: end of the body. `whole`: the body is complete. `cut`: the connection closes before the body ends.
            `reset`: the connection is reset. `stall`: nothing more is sent. `endless`: data follows until the client
            leaves.
        delimited: framing of the body: chunked encoding, `content-length`, or closing the connection.
        length: a false `content-length`. Default: the actual length.
        before: event to wait for before the headers are sent.
        raw: bytes to send instead of an HTTP response.
    """

    status: int = 200
    headers: tuple[tuple[str, str], ...] = SSE
    steps: Sequence[Step] = ()
    ends: Ending = "whole"
    delimited: Delimited = "chunked"
    length: int | None = None
    before: threading.Event | None = None
    raw: bytes | None = None

    @property
    def body(self) -> bytes:
        """All chunks of the body, joined."""
        return b"".join([step for step in self.steps if isinstance(step, bytes)])


@final
@dataclass(frozen=True, slots=True)
class Received:
    """Request that the scripted HTTP server received."""

    method: str
    path: str
    headers: Headers
    body: bytes


class Peer(Protocol):
    """Interface of the scripted HTTP server that a transport under test connects to.

    Attributes:
        host: host and port, in the form of `Request.host`.
        path: path of the Unix socket, or an empty string.
        received: received requests, in order.
        connections: number of accepted connections.
        left: set when a client disconnects before the end of a response.
        taken: number of bytes that were sent in endless responses.
    """

    host: str
    path: str
    received: list[Received]
    left: threading.Event
    taken: int

    @property
    def connections(self) -> int:
        """Number of connections that the server has accepted."""
        ...


Answering: TypeAlias = Callable[[Received], Play]


@final
@dataclass(slots=True)
class LoopbackPeer:
    """Handler for a `LoopbackServer` that sends scripted responses and records the requests."""

    answer: Answering
    received: list[Received] = field(default_factory=list[Received])
    left: threading.Event = field(default_factory=threading.Event)
    taken: int = 0
    host: str = ""
    path: str = ""
    server: LoopbackServer | None = None

    @property
    def connections(self) -> int:
        """Number of connections that the server has accepted."""
        return self.server.connections if self.server is not None else 0

    def __call__(self, exchange: Exchange) -> None:
        """Record a request and send its scripted response."""
        received = Received(exchange.method, exchange.path, exchange.headers, exchange.body)
        self.received.append(received)
        play = self.answer(received)
        try:
            if self._send_play(exchange, play):
                return
        except OSError:
            # The client disconnected before the end of the body.
            self.left.set()
            return
        if play.ends == "reset":
            exchange.reset()
        elif play.ends == "stall" and exchange.wait_closed():
            self.left.set()

    def _send_play(self, exchange: Exchange, play: Play) -> bool:
        """Send a scripted response, and return whether its body ended properly."""
        if play.before is not None:
            exchange.pause(play.before)
        if play.raw is not None:
            exchange.raw(play.raw)
            return False
        fields = list(play.headers)
        if play.delimited == "length":
            fields.append(("content-length", str(len(play.body) if play.length is None else play.length)))
        elif play.delimited == "close":
            fields.append(("connection", "close"))
        chunked = play.delimited == "chunked"
        exchange.head(play.status, fields, chunked=chunked)
        write = exchange.chunk if chunked else exchange.raw
        for step in play.steps:
            if isinstance(step, bytes):
                write(step)
            else:
                exchange.pause(step)
        while play.ends == "endless":
            write(_ENDLESS)
            self.taken += len(_ENDLESS)
        if play.ends != "whole":
            return False
        if chunked:
            exchange.end()
        # If the body has no length, it ends when this function returns and the connection closes.
        exchange.reusable = play.delimited != "close"
        return True


@contextmanager
def loopback(answer: Answering, *, unix: bool = False) -> Generator[Peer]:
    """Run an HTTP server on the loopback interface, or on a Unix socket, that sends scripted responses.

    Args:
        answer: returns the scripted response to a request.
        unix: whether to listen on a Unix socket.
    """
    with TemporaryDirectory() if unix else nullcontext("") as folder:
        peer = LoopbackPeer(answer, path=f"{folder}/peer" if unix else "")
        with LoopbackServer(peer, unix=peer.path or None) as server:
            peer.server, peer.host = server, server.host
            yield peer


@contextmanager
def unreachable(*, listens: bool, unix: bool = False) -> Generator[Peer]:
    """Yield a peer that never responds.

    Args:
        listens: whether the peer accepts connections, without reading from them. Otherwise it refuses them.
        unix: whether the peer uses a Unix socket instead of the loopback interface.
    """
    with TemporaryDirectory() if unix else nullcontext("") as folder, socket.socket(_socket_family(unix=unix)) as bound:
        path = f"{folder}/peer"
        bound.bind(path if unix else ("127.0.0.1", 0))
        # A bound socket that does not listen refuses connections.
        if listens:
            bound.listen()
        host = "localhost" if unix else f"127.0.0.1:{bound.getsockname()[1]}"
        yield LoopbackPeer(lambda _: Play(), host=host, path=path if unix else "")


def _socket_family(*, unix: bool) -> socket.AddressFamily:
    return socket.AF_UNIX if unix else socket.AF_INET
