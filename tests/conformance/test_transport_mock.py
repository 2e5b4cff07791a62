"""`MockTransport` passes the transport scenarios that apply to scripted responses."""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import anyio
import anyio.to_thread
from chat_core.errors import TransportError
from chat_core.testing import MockTransport
from chat_core.transport import EventStream, Headers, Request, Response, Transport
from chat_testing.transport_conformance import (
    Peer,
    Play,
    Received,
    TransportCapabilities,
    TransportConformance,
)


@dataclass
class Script:
    """A peer that answers a `MockTransport` by adding responses to its script."""

    answer: Callable[[Received], Play]
    host: str = "127.0.0.1:1"
    path: str = ""
    received: list[Received] = field(default_factory=list[Received])
    left: threading.Event = field(default_factory=threading.Event)
    taken: int = 0
    connections: int = 0

    def play(self, request: Request, mock: MockTransport) -> None:
        received = Received(request.method, request.path, Headers(request.headers), request.body)
        self.received.append(received)
        play = self.answer(received)
        before = [self._wait(play.before)] if play.before is not None else []
        steps = [step if isinstance(step, bytes) else self._wait(step) for step in play.steps]
        ends: dict[str, Sequence[object]] = {
            "cut": [TransportError("stream", "cut")],
            "reset": [TransportError("stream", "reset")],
            "stall": [self._stall],
        }
        mock.answer(play.status, play.headers, [*before, *steps, *ends.get(play.ends, [])])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]  # callables are steps

    def _wait(self, event: threading.Event) -> Callable[[], object]:
        return lambda: anyio.to_thread.run_sync(event.wait, abandon_on_cancel=True)

    async def _stall(self) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            self.left.set()


class Mocked:
    """A `MockTransport` whose script is extended with each request."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._mock = MockTransport()

    async def send(self, request: Request, /) -> Response:
        self._script.play(request, self._mock)
        return await self._mock.send(request)

    @asynccontextmanager
    async def stream(self, request: Request, /) -> AsyncGenerator[EventStream]:
        self._script.play(request, self._mock)
        try:
            async with self._mock.stream(request) as stream:
                yield stream
        finally:
            self._script.left.set()

    async def aclose(self) -> None:
        await self._mock.aclose()


class TestMockTransport(TransportConformance):
    capabilities = TransportCapabilities(network=False, chunked=False, timeouts=False, concurrent=False)

    @contextmanager
    def serve(self, answer: Callable[[Received], Play], /) -> Generator[Peer]:
        yield Script(answer)

    def make_transport(self, peer: Peer, /) -> Transport:
        assert isinstance(peer, Script)
        return Mocked(peer)
