"""A recording transport passes the transport suite, and recorded exchanges are replayed without a network."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from chat_core.errors import TransportError
from chat_core.transport import Request, Transport
from chat_testing import Exchange, LoopbackServer, RecordingTransport, TapeTransport
from chat_testing.transport_conformance import (
    Peer,
    Play,
    Received,
    TransportCapabilities,
    TransportConformance,
    loopback,
)
from chat_transport_httpx import HttpxTransport

# Reading the roots of trust takes longer than a scenario.
TLS = ssl.create_default_context()


class TestRecordingHttpxTransport(TransportConformance):
    capabilities = TransportCapabilities(pooling=True, compression=True, checks_headers=True, back_pressure=True)
    max_event_bytes = 200_000  # an event over the limit is not stored

    @contextmanager
    def serve(self, answer: Callable[[Received], Play], /) -> Generator[Peer]:
        with TemporaryDirectory() as folder, loopback(answer) as peer:
            self.folder = Path(folder)
            yield peer

    @contextmanager
    def unreachable(self, listens: bool, /) -> Generator[Peer]:
        with TemporaryDirectory() as folder, super().unreachable(listens) as peer:
            self.folder = Path(folder)
            yield peer

    def make_transport(self, _peer: Peer, /) -> Transport:
        inner = HttpxTransport(verify=TLS, max_event_bytes=self.max_event_bytes)
        return RecordingTransport(inner, self.folder / "tape.json")


def answering(exchange: Exchange) -> None:
    if exchange.path == "/busy":
        exchange.answer(429, {"retry-after": "2"}, b"slow down")
    elif exchange.path == "/cut":
        exchange.head(200, {"content-type": "text/event-stream"})
        exchange.chunk(b"data: 1\n\n")
    else:
        exchange.events(b"data: 1\n\ndata: 2\n\n", b"data: 3\n\n")


async def met(transport: Transport, host: str) -> list[str]:
    """Return the events and the error that a reader receives."""
    seen: list[str] = []
    for path in ("/", "/busy", "/cut"):
        try:
            async with transport.stream(Request("POST", "http", host, path)) as stream:
                seen.append(str(stream.status))
                async for event in stream:
                    seen.append(event.data.decode())
        except TransportError as error:
            seen.append(f"{error.kind} {error.status} {error.headers.get('retry-after')} {error.body!r}")
    response = await transport.send(Request("GET", "http", host, "/whole"))
    return [*seen, response.body.decode()]


@pytest.mark.anyio
async def test_recorded_exchanges_are_replayed_without_a_connection(tmp_path: Path) -> None:
    with LoopbackServer(answering) as server:
        recording = RecordingTransport(HttpxTransport(verify=TLS), tmp_path / "tape.json")
        recorded = await met(recording, server.host)
        await recording.aclose()
    tape = TapeTransport(tmp_path / "tape.json")
    replayed = await met(tape, server.host)  # no server listens there any more
    await tape.aclose()

    assert replayed == recorded
    assert recorded[:4] == ["200", "1", "2", "3"]
    assert recorded[4:7] == ["status 429 2 b'slow down'", "200", "1"]
    assert recorded[7].startswith("stream None")
