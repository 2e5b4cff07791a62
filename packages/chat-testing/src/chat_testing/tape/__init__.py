"""Exchanges that are recorded once, with a real service, and replayed anywhere, without one."""

from __future__ import annotations

from chat_testing.tape._fixture import TapeFixture
from chat_testing.tape.recording import RecordingTransport
from chat_testing.tape.redaction import Secrets
from chat_testing.tape.replay import Match, TapeTransport

__all__ = ["Match", "RecordingTransport", "Secrets", "TapeFixture", "TapeTransport"]
