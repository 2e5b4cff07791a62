"""The transport conformance suite, with an application as the peer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

import anyio
from chat_core.transport import Headers, Transport
from chat_testing.transport_conformance import (
    Peer,
    Play,
    Received,
    TransportCapabilities,
    TransportConformance,
)
from chat_transport_asgi import AsgiTransport, Receive, Scope, Send

HOST = "app.example"
_ENDLESS = b": and so on, and so on\n" * 1000


@dataclass
class Playing:
    """Application that sends scripted responses. It needs no event loop of its own."""

    answer: Callable[[Received], Play]
    host: str = HOST
    path: str = ""
    received: list[Received] = field(default_factory=list[Received])
    left: threading.Event = field(default_factory=threading.Event)
    taken: int = 0
    connections: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        query = f"?{scope['query_string'].decode()}" if scope["query_string"] else ""
        headers = Headers([(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]])
        request = await receive()
        received = Received(scope["method"], scope["raw_path"].decode() + query, headers, request["body"])
        self.received.append(received)
        play = self.answer(received)
        try:
            await self._play(play, receive, send)
        except ConnectionResetError:
            raise
        except OSError:
            self.left.set()
        except BaseException:
            self.left.set()  # cancelled
            raise

    async def _play(self, play: Play, receive: Receive, send: Send) -> None:
        if play.before is not None:
            await until(play.before)
        if play.raw is None:
            await _answer(play, send)
        elif play.raw:
            await send({"type": play.raw.decode().strip()})
        while play.ends == "endless":
            await send({"type": "http.response.body", "body": _ENDLESS, "more_body": True})
            self.taken += len(_ENDLESS)
        if play.ends == "whole":
            await send({"type": "http.response.body"})
        elif play.ends == "reset":
            raise ConnectionResetError
        elif play.ends == "stall":
            message = await receive()
            assert message == {"type": "http.disconnect"}
            self.left.set()


async def _answer(play: Play, send: Send) -> None:
    fields = [(name.encode(), value.encode()) for name, value in play.headers]
    if play.delimited == "length":
        fields.append((b"content-length", b"%d" % (len(play.body) if play.length is None else play.length)))
    await send({"type": "http.response.start", "status": play.status, "headers": fields})
    for step in play.steps:
        if isinstance(step, bytes):
            await send({"type": "http.response.body", "body": step, "more_body": True})
        else:
            await until(step)


async def until(event: threading.Event) -> None:
    while not event.is_set():  # noqa: ASYNC110 - a thread may set it
        await anyio.sleep(0.01)


class TestAsgiTransport(TransportConformance):
    capabilities = TransportCapabilities(compression=True, checks_headers=True, limits=True, back_pressure=True)
    max_body_bytes = 2_000_000  # quicker to exceed than the defaults
    max_stream_bytes = 20_000_000

    @contextmanager
    def serve(self, answer: Callable[[Received], Play], /) -> Generator[Peer]:
        yield Playing(answer)

    @contextmanager
    def unreachable(self, listens: bool, /) -> Generator[Peer]:
        yield Playing(lambda _: Play(before=threading.Event()), host=HOST if listens else "nobody.example")

    def make_transport(self, peer: Peer, /) -> Transport:
        assert isinstance(peer, Playing)
        return AsgiTransport(
            peer, hosts=[HOST], max_body_bytes=self.max_body_bytes, max_stream_bytes=self.max_stream_bytes
        )
