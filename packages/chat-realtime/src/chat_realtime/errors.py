"""Errors of talks."""

from __future__ import annotations

from typing import final

from chat_core import UsageError


@final
class TalkEndedError(UsageError):
    """Input was sent to a talk that had been cancelled, ended or closed. The input was not queued."""
