"""Conformance suites for providers and transports, recorded exchanges (tapes), and a loopback HTTP server."""

from chat_testing.conformance.capabilities import Capabilities
from chat_testing.conformance.scenario import Scenario
from chat_testing.conformance.subject import Subject
from chat_testing.conformance.suite import SCENARIOS, ConformanceReport, ProviderConformance, conformance_report
from chat_testing.conformance.tapes import (
    EmbeddingsTape,
    ProviderTapes,
    Refusal,
    Reply,
    StreamFailure,
    Tape,
    sse_event,
)
from chat_testing.errors import NonconformingError
from chat_testing.loopback import Exchange, LoopbackServer
from chat_testing.tape import RecordingTransport, Secrets, TapeTransport

__all__ = [
    "SCENARIOS",
    "Capabilities",
    "ConformanceReport",
    "EmbeddingsTape",
    "Exchange",
    "LoopbackServer",
    "NonconformingError",
    "ProviderConformance",
    "ProviderTapes",
    "RecordingTransport",
    "Refusal",
    "Reply",
    "Scenario",
    "Secrets",
    "StreamFailure",
    "Subject",
    "Tape",
    "TapeTransport",
    "conformance_report",
    "sse_event",
]
