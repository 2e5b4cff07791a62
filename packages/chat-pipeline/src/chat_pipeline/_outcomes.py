"""Outcomes of tasks. DBOS stores the outcome of each executed step as JSON."""

from __future__ import annotations

from typing import Literal, TypeAlias, TypedDict

from chat_core.json import JsonValue


class CompletedTask(TypedDict):
    """The outcome of a task that has an output."""

    kind: Literal["completed"]
    output: JsonValue
    at: float


class FailedTask(TypedDict):
    """The outcome of a task that failed, or that exceeded a time limit."""

    kind: Literal["failed", "timed_out"]
    error: str
    at: float


class WaitingTask(TypedDict):
    """The outcome of an attempt that waits for a decision. The task must be attempted again at the time `until`."""

    kind: Literal["waiting"]
    until: str | None
    at: float


class HeldTask(TypedDict):
    """The outcome of a task that did not start because a dependency failed (`skipped`) or is waiting (`blocked`)."""

    kind: Literal["skipped", "blocked"]
    because: str
    at: float


Outcome: TypeAlias = CompletedTask | FailedTask | WaitingTask | HeldTask

ENDED = frozenset({"completed", "failed", "timed_out", "skipped"})
"""Kinds of final outcomes."""
