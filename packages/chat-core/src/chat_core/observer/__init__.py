"""Observers that record runs, model calls, tool executions and waits of a chat, see `ChatBuilder.with_observer()`."""

from __future__ import annotations

from chat_core.observer.log import LoggingObserver
from chat_core.observer.records import (
    CallRecord,
    Observation,
    Observer,
    RunOutcome,
    RunRecord,
    ToolRecord,
    WaitOutcome,
    WaitRecord,
    WarningObserver,
)

__all__ = [
    "CallRecord",
    "LoggingObserver",
    "Observation",
    "Observer",
    "RunOutcome",
    "RunRecord",
    "ToolRecord",
    "WaitOutcome",
    "WaitRecord",
    "WarningObserver",
]
