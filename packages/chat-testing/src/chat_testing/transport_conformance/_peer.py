"""The other side: a server that answers each request as it is told, well or badly."""

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
"""A step of a body: a chunk, or something to wait for before the next one."""

Ending: TypeAlias = Literal["whole", "cut", "reset", "stall", "endless"]
Delimited: TypeAlias = Literal["chunked", "length", "close"]

SSE: Final = (("content-type", "text/event-stream"),)
_ENDLESS: Final = b": and so on, and so on\n" * 1000


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """How a peer answers one request.

    Attributes:
        status, headers: the head of the answer.
        steps: its body, a chunk or a wait at a time.
        ends: what comes behind the body. `whole`: its proper end. `cut`: the connection ends without it. `reset`: the
            connection breaks. `stall`: nothing, until the client leaves. `endless`: more and more, until it does.
        delimited: how the end of the body is told: in chunks, by a length, or by the end of the connection.
        length: the length that is told, where it is a lie.
        before: something to wait for before the head.
        raw: what is sent in place of everything else.
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
        """The chunks in one."""
        return b"".join([step for step in self.steps if isinstance(step, bytes)])


@final
@dataclass(frozen=True, slots=True)
class Received:
    """A request as it arrived."""

    method: str
    path: str
    headers: Headers
    body: bytes


class Peer(Protocol):
    """What a scenario sees of the other side.

    Attributes:
        host: where it is, as a `Request` wants it.
        path: its Unix socket, where it has one.
        received: what it was asked, in order.
        connections: how many connections it has accepted.
        left: set when a client has left an answer that goes on.
        taken: how many bytes of endless answers were taken.
    """

    host: str
    path: str
    received: list[Received]
    left: threading.Event
    taken: int

    @property
    def connections(self) -> int:
        """How many connections it has accepted."""
        ...


Answering: TypeAlias = Callable[[Received], Play]


@final
@dataclass(slots=True)
class LoopbackPeer:
    """A `LoopbackServer` that plays."""

    answer: Answering
    received: list[Received] = field(default_factory=list[Received])
    left: threading.Event = field(default_factory=threading.Event)
    taken: int = 0
    host: str = ""
    path: str = ""
    server: LoopbackServer | None = None

    @property
    def connections(self) -> int:
        """How many connections it has accepted."""
        return self.server.connections if self.server is not None else 0

    def __call__(self, exchange: Exchange) -> None:
        """Answer a request."""
        received = Received(exchange.method, exchange.path, exchange.headers, exchange.body)
        self.received.append(received)
        play = self.answer(received)
        try:
            if self._send_play(exchange, play):
                return
        except OSError:
            # The client has left in the middle of a body.
            self.left.set()
            return
        if play.ends == "reset":
            exchange.reset()
        elif play.ends == "stall" and exchange.wait_closed():
            self.left.set()

    def _send_play(self, exchange: Exchange, play: Play) -> bool:
        """Play, and tell whether the end has come."""
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
        # A body that ends with its connection ends when this returns.
        exchange.reusable = play.delimited != "close"
        return True


@contextmanager
def loopback(answer: Answering, *, unix: bool = False) -> Generator[Peer]:
    """A server on the loopback interface, or at a Unix socket, that answers like this."""
    with TemporaryDirectory() if unix else nullcontext("") as folder:
        peer = LoopbackPeer(answer, path=f"{folder}/peer" if unix else "")
        with LoopbackServer(peer, unix=peer.path or None) as server:
            peer.server, peer.host = server, server.host
            yield peer


@contextmanager
def unreachable(*, listens: bool, unix: bool = False) -> Generator[Peer]:
    """A peer that answers nothing. If it `listens`, connections come about, and nothing is ever read."""
    with TemporaryDirectory() if unix else nullcontext("") as folder, socket.socket(_socket_family(unix=unix)) as bound:
        path = f"{folder}/peer"
        bound.bind(path if unix else ("127.0.0.1", 0))
        # What is bound and does not listen refuses.
        if listens:
            bound.listen()
        host = "localhost" if unix else f"127.0.0.1:{bound.getsockname()[1]}"
        yield LoopbackPeer(lambda _: Play(), host=host, path=path if unix else "")


def _socket_family(*, unix: bool) -> socket.AddressFamily:
    return socket.AF_UNIX if unix else socket.AF_INET
