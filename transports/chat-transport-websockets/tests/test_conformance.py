"""The transport held to the kit, whose plays come over a socket: a turn to a connection, and many turns on one."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from chat_core.testing.transport_conformance import Peer, TransportCapabilities, TransportConformance, unreachable
from chat_core.transport import Transport
from chat_transport_websockets import WebSocketTransport
from socket_tunnel import LIMIT, Shared, Tunnel, deaf, tunnelled

if TYPE_CHECKING:
    from collections.abc import Callable

    from chat_core.testing.transport_conformance import Play, Received

# The last event ends a turn, and its connection waits for the next one: so long, which the kit's patience outlasts.
IDLE = 10.0


class OverSockets(TransportConformance):
    backends = ("asyncio",)
    max_event_bytes = LIMIT
    patience = 60.0

    def serve(self, answer: Callable[[Received], Play], /) -> AbstractContextManager[Peer]:
        return tunnelled(answer)

    def unreachable(self, listens: bool, /) -> AbstractContextManager[Peer]:
        return deaf() if listens else unreachable(listens=False)


class TestOneTurnAtATime(OverSockets):
    capabilities = TransportCapabilities(pooling=True, checks_headers=True, back_pressure=True)

    def make_transport(self, _peer: Peer, /) -> Transport:
        return WebSocketTransport(Tunnel(), max_message_bytes=LIMIT, idle_connection_seconds=IDLE)


class TestManyTurnsAtOnce(OverSockets):
    capabilities = TransportCapabilities(pooling=True, checks_headers=True, back_pressure=True)

    def make_transport(self, _peer: Peer, /) -> Transport:
        return WebSocketTransport(Shared(), max_message_bytes=LIMIT, idle_connection_seconds=IDLE)
