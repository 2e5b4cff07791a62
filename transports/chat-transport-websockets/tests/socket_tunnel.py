"""Scripted responses of the conformance suite over WebSockets: one frame per request, and keyed response frames."""

from __future__ import annotations

import base64
import json
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from chat_core.errors import TransportError
from chat_core.transport import Event, Framer, Framing, Headers, Request, framer
from chat_testing.transport_conformance import Play, Received
from chat_transport_websockets import FrameProtocol
from socket_server import ClientGoneError, Session, SocketServer

LIMIT = 1_000_000
"""Maximum length of an event and of a message."""


class Tunnel(FrameProtocol):
    """Frame protocol for HTTP. A frame with a piece of a body contains its bytes and its events."""

    @property
    def acknowledged(self) -> bool:
        return True

    def ask(self, request: Request, key: str, /) -> str:
        body = base64.b64encode(request.body).decode()
        asked: list[object] = [key, request.method, request.path, request.headers, body, request.framing]
        return json.dumps(asked)

    def read(self, frame: bytes, /) -> tuple[str | None, Sequence[Event], bool]:
        said = json.loads(frame)
        events = [Event(kind, data.encode(), name) for kind, data, name in said.get("events", ())]
        return said["key"], events, said.get("last", False)

    def head(self, frame: bytes, /) -> tuple[int, Headers]:
        said = json.loads(frame)
        return said["status"], Headers([(name, value) for name, value in said["headers"]])

    def whole(self, frames: Sequence[bytes], /) -> bytes:
        return b"".join([base64.b64decode(json.loads(frame).get("piece", "")) for frame in frames])


class Shared(Tunnel):
    """The same protocol with several exchanges on one connection."""

    @property
    def multiplexed(self) -> bool:
        return True


@dataclass
class TunnelPeer:
    """Peer of the conformance suite."""

    answer: Callable[[Received], Play]
    host: str = ""
    path: str = ""
    received: list[Received] = field(default_factory=list[Received])
    left: threading.Event = field(default_factory=threading.Event)
    taken: int = 0
    server: SocketServer | None = None

    @property
    def connections(self) -> int:
        return self.server.connections if self.server is not None else 0

    def handle(self, session: Session, message: bytes) -> None:
        """Respond to a request."""
        key, method, path, headers, body, framing = cast("list[Any]", json.loads(message))
        fields = Headers([(name, value) for name, value in headers])
        received = Received(method, path, fields, base64.b64decode(body))
        self.received.append(received)
        play = self.answer(received)
        try:
            self._play(session, play, key, framing)
        except ClientGoneError:
            self.left.set()
            return
        if play.ends in {"cut", "reset"}:
            session.abort(reset=play.ends == "reset")
            return
        if play.ends == "stall" or play.delimited == "length":
            session.wait_closed()
            self.left.set()

    def _play(self, session: Session, play: Play, key: str, framing: Framing) -> None:
        if play.before is not None:
            session.wait(play.before)
        if play.raw is not None:
            session.raw(play.raw)
            return
        say = Saying(session, key, framer(framing, LIMIT))
        say.frame(status=play.status, headers=play.headers)
        remaining = sys.maxsize if play.length is None else play.length
        for step in play.steps:
            if isinstance(step, bytes):
                say.piece(step[:remaining])
                remaining = max(0, remaining - len(step))
            else:
                session.wait(step)
        while play.ends == "endless":
            step = b": and so on, and so on\n" * 1000
            say.piece(step)
            self.taken += len(step)
        if play.ends == "whole" or (play.delimited == "length" and play.length is None):
            say.end()


@dataclass
class Saying:
    """Response in progress, with the parser that splits it into events."""

    session: Session
    key: str
    framer: Framer
    failed: TransportError | None = None

    def frame(self, **fields: object) -> None:
        self.session.send(json.dumps({"key": self.key, **fields}))

    def piece(self, step: bytes) -> None:
        """Send a piece with the events that it completes. An invalid piece becomes an invalid frame."""
        try:
            events = self.framer.feed(step)
        except TransportError as error:
            # An event over the limit, or nonsense: the one is a message over the limit, and the other is nonsense.
            self.session.send("x" * (2 * LIMIT) if "longer" in str(error) else "nonsense")
            return
        piece = base64.b64encode(step).decode()
        said = [(event.type, event.data.decode(errors="replace"), event.id) for event in events]
        self.frame(piece=piece, events=said)

    def end(self) -> None:
        try:
            events = self.framer.end()
        except TransportError as error:
            if error.kind == "stream":
                self.session.abort()
            else:
                self.session.send("nonsense")
            return
        self.frame(events=[(event.type, event.data.decode(), event.id) for event in events], last=True)


@contextmanager
def tunnelled(answer: Callable[[Received], Play]) -> Generator[TunnelPeer]:
    """Run a server that sends scripted responses."""
    peer = TunnelPeer(answer)
    with SocketServer(peer.handle) as server:
        peer.server, peer.host = server, server.host
        yield peer


@contextmanager
def deaf() -> Generator[TunnelPeer]:
    """Run a server that accepts connections and reads nothing."""
    peer = TunnelPeer(lambda _: Play())
    with SocketServer(peer.handle, reads=False) as server:
        peer.host = server.host
        yield peer
