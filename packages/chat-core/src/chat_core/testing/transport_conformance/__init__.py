"""The kit that tells whether a transport is right: scenarios, the peer that answers, and what a transport claims."""

from __future__ import annotations

from chat_core.testing.transport_conformance._claims import TransportCapabilities
from chat_core.testing.transport_conformance._clauses import CLAUSES
from chat_core.testing.transport_conformance._kit import TRANSPORT_SCENARIOS, TransportConformance, transport_report
from chat_core.testing.transport_conformance._peer import Peer, Play, Received, loopback, unreachable
from chat_core.testing.transport_conformance._scenario import TransportScenario, TransportSubject

__all__ = [
    "CLAUSES",
    "TRANSPORT_SCENARIOS",
    "Peer",
    "Play",
    "Received",
    "TransportCapabilities",
    "TransportConformance",
    "TransportScenario",
    "TransportSubject",
    "loopback",
    "transport_report",
    "unreachable",
]
