"""Parts that stand in for real ones in tests, and kits that tell whether a part is right; public and documented."""

from chat_core.testing.conformance.claims import Capabilities
from chat_core.testing.conformance.kit import SCENARIOS, ConformanceReport, ProviderConformance, conformance_report
from chat_core.testing.conformance.scenario import Scenario
from chat_core.testing.conformance.subject import NonconformingError, Subject
from chat_core.testing.conformance.tapes import (
    EmbeddingsTape,
    ProviderTapes,
    Refusal,
    Reply,
    StreamFailure,
    Tape,
    sse_event,
)
from chat_core.testing.loopback import Exchange, LoopbackServer
from chat_core.testing.memory_conversation import MemoryConversation
from chat_core.testing.mock_transport import MockTransport, RecordedRequest
from chat_core.testing.scripted import Answer, Asked, ScriptedProvider
from chat_core.testing.tape import RecordingTransport, Secrets, TapeTransport

__all__ = [
    "SCENARIOS",
    "Answer",
    "Asked",
    "Capabilities",
    "ConformanceReport",
    "EmbeddingsTape",
    "Exchange",
    "LoopbackServer",
    "MemoryConversation",
    "MockTransport",
    "NonconformingError",
    "ProviderConformance",
    "ProviderTapes",
    "RecordedRequest",
    "RecordingTransport",
    "Refusal",
    "Reply",
    "Scenario",
    "ScriptedProvider",
    "Secrets",
    "StreamFailure",
    "Subject",
    "Tape",
    "TapeTransport",
    "conformance_report",
    "sse_event",
]
