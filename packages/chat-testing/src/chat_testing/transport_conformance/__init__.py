"""Conformance suite for transports: scenarios, a scripted HTTP server (the peer) and capabilities of a transport."""

from __future__ import annotations

from chat_testing.transport_conformance._capabilities import TransportCapabilities
from chat_testing.transport_conformance._contract import CLAUSES
from chat_testing.transport_conformance._peer import Peer, Play, Received, loopback, unreachable
from chat_testing.transport_conformance._scenario import TransportScenario, TransportSubject
from chat_testing.transport_conformance._suite import TRANSPORT_SCENARIOS, TransportConformance, transport_report

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
