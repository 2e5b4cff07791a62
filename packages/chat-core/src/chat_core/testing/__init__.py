"""Fakes for tests: a scripted model, a transport without a network, and a conversation in memory."""

from chat_core.testing.memory_conversation import MemoryConversation
from chat_core.testing.mock_transport import MockTransport, RecordedRequest
from chat_core.testing.scripted import Answer, Asked, ScriptedProvider

__all__ = [
    "Answer",
    "Asked",
    "MemoryConversation",
    "MockTransport",
    "RecordedRequest",
    "ScriptedProvider",
]
