"""Exchanges that are recorded once, with a real service, and replayed anywhere, without one."""

from __future__ import annotations

from chat_core.testing.tape._recording import RecordingTransport
from chat_core.testing.tape._replaying import Match, TapeTransport
from chat_core.testing.tape._secrets import Secrets

__all__ = ["Match", "RecordingTransport", "Secrets", "TapeTransport"]
