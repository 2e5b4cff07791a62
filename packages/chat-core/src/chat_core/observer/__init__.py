"""Observers of runs, model calls, tool executions and waits. `ChatBuilder.with_observer()` takes an `Observer`."""

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
