"""Errors of talks."""

from __future__ import annotations

from typing import final

from chat_core import UsageError


@final
class TalkEndedError(UsageError):
    """Input was sent to a talk that was cancelled or ended, or whose block has exited. The input was not queued."""
