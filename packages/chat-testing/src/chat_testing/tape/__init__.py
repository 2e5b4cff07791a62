"""Transports that record exchanges with a real service and replay them without a network."""

from __future__ import annotations

from chat_testing.tape._fixture import TapeFixture
from chat_testing.tape.recording import RecordingTransport
from chat_testing.tape.redaction import Secrets
from chat_testing.tape.replay import Match, TapeTransport

__all__ = ["Match", "RecordingTransport", "Secrets", "TapeFixture", "TapeTransport"]
