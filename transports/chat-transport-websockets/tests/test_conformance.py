"""The transport conformance suite over WebSockets, with one and with many exchanges per connection."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import pytest
from chat_core.transport import Transport
from chat_testing.transport_conformance import Peer, TransportCapabilities, TransportConformance, unreachable
from chat_transport_websockets import WebSocketTransport
from socket_tunnel import LIMIT, Shared, Tunnel, deaf, tunnelled

if TYPE_CHECKING:
    from collections.abc import Callable

    from chat_testing.transport_conformance import Play, Received


class OverSockets(TransportConformance):
    backends = ("asyncio",)
    max_event_bytes = LIMIT
    max_body_bytes = 2_000_000  # quicker to exceed than the defaults
    max_stream_bytes = 20_000_000
    patience = 60.0
    idle: float | None = None

    @pytest.fixture(autouse=True)
    def waits_for_the_end_of_an_idle_connection(self, request: pytest.FixtureRequest) -> None:
        # The last event ends a turn, and its connection waits for the next one. This play waits until it does so no
        # more, and has one turn. In the others a pause, however long, costs no connection.
        if "no_end_behind_the_last_event" in str(request.node.name):
            self.idle = 0.05

    def serve(self, answer: Callable[[Received], Play], /) -> AbstractContextManager[Peer]:
        return tunnelled(answer)

    def limited(self, protocol: Tunnel) -> Transport:
        return WebSocketTransport(
            protocol,
            max_message_bytes=LIMIT,
            max_body_bytes=self.max_body_bytes,
            max_stream_bytes=self.max_stream_bytes,
            idle_connection_seconds=self.idle,
        )

    def unreachable(self, listens: bool, /) -> AbstractContextManager[Peer]:
        return deaf() if listens else unreachable(listens=False)


class TestOneTurnAtATime(OverSockets):
    capabilities = TransportCapabilities(pooling=True, checks_headers=True, limits=True, back_pressure=True)

    def make_transport(self, _peer: Peer, /) -> Transport:
        return self.limited(Tunnel())


class TestManyTurnsAtOnce(OverSockets):
    capabilities = TransportCapabilities(pooling=True, checks_headers=True, limits=True, back_pressure=True)

    def make_transport(self, _peer: Peer, /) -> Transport:
        return self.limited(Shared())
