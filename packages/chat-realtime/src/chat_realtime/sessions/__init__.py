"""Sessions with native realtime APIs: speech and text in both directions over one connection."""

from chat_realtime.sessions._audio import AudioFormat
from chat_realtime.sessions._connect import connect
from chat_realtime.sessions._usage import ModalityUsage
from chat_realtime.sessions.events import (
    AudioDelta,
    GoAway,
    InputTranscript,
    ResponseEnded,
    ServerWarning,
    SessionEvent,
    SessionResumed,
    SpeechStarted,
    SpeechStopped,
    TranscriptDelta,
    TurnAdded,
)
from chat_realtime.sessions.gemini import GeminiLive
from chat_realtime.sessions.openai import OpenAIRealtime
from chat_realtime.sessions.protocol import CallOutput, RealtimeCodec, RealtimeModel, SessionSetup
from chat_realtime.sessions.session import RealtimeSession

__all__ = [
    "AudioDelta",
    "AudioFormat",
    "CallOutput",
    "GeminiLive",
    "GoAway",
    "InputTranscript",
    "ModalityUsage",
    "OpenAIRealtime",
    "RealtimeCodec",
    "RealtimeModel",
    "RealtimeSession",
    "ResponseEnded",
    "ServerWarning",
    "SessionEvent",
    "SessionResumed",
    "SessionSetup",
    "SpeechStarted",
    "SpeechStopped",
    "TranscriptDelta",
    "TurnAdded",
    "connect",
]
