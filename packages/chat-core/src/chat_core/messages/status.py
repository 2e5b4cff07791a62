"""The statuses of a tool and the table of its life: what is not in `TRANSITIONS` cannot happen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Literal, TypeAlias, final

if TYPE_CHECKING:
    from chat_core.messages.messages import Messages
    from chat_core.messages.parts import Extra, File

WaitKind: TypeAlias = Literal["approval", "schedule"]
DecisionAction: TypeAlias = Literal["approve", "reject", "cancel", "retry", "complete", "fail"]
Refuser: TypeAlias = Literal["person", "policy", "expiry", "cancelled"]


@final
@dataclass(frozen=True, slots=True)
class Pending:
    """Nothing has run. `kind` says what it waits for, `None` that no policy has looked at it yet.

    The terms are fixed when the wait begins. `error` says why an approval was taken back (its edit was not accepted).
    """

    kind: WaitKind | None = None
    expires_at: datetime | None = None
    at: datetime | None = None
    error: str | None = None
    extra: Extra = field(default=None, repr=False)


@final
@dataclass(frozen=True, slots=True)
class Approved:
    """Somebody allowed it; the next pass runs it.

    `expires_at` are the terms of the wait that this ended: they hold again if the approval is taken back.
    """

    expires_at: datetime | None = None
    extra: Extra = field(default=None, repr=False)


@final
@dataclass(frozen=True, slots=True)
class Running:
    """Its body has started, or is about to. `attempt` counts from 1.

    `inner` is the conversation that a chat goes on with, kept until it ends: a crash must not lose what was decided
    in it.
    """

    attempt_id: str
    attempt: int = 1
    started_at: datetime | None = None
    inner: Messages | None = None
    extra: Extra = field(default=None, repr=False)


@final
@dataclass(frozen=True, slots=True)
class Suspended:
    """It is a chat, and that chat waits. `inner` is its conversation."""

    inner: Messages
    attempt_id: str = ""
    attempt: int = 1
    extra: Extra = field(default=None, repr=False)


@final
@dataclass(frozen=True, slots=True)
class Interrupted:
    """Its body had started when its process went away. It may have taken effect, or not."""

    attempt_id: str = ""
    attempt: int = 1
    reason: str = ""
    inner: Messages | None = None
    extra: Extra = field(default=None, repr=False)


@final
@dataclass(frozen=True, slots=True)
class Completed:
    """It returned. `result` is JSON; `files` are what it returned beside that."""

    result: object
    files: tuple[File, ...] = ()
    extra: Extra = field(default=None, repr=False)


@final
@dataclass(frozen=True, slots=True)
class Failed:
    """It did not return. `error` is what the model is told."""

    error: str
    extra: Extra = field(default=None, repr=False)


@final
@dataclass(frozen=True, slots=True)
class Rejected:
    """It was not allowed to run. `source` tells who refused: a person, the policy, the clock, or a cancellation."""

    reason: str | None = None
    source: Refuser = "person"
    extra: Extra = field(default=None, repr=False)


ToolStatus: TypeAlias = Pending | Approved | Running | Suspended | Interrupted | Completed | Failed | Rejected


@final
@dataclass(frozen=True, slots=True)
class Decision:
    """Something that a person, or code in their name, decided about a call."""

    action: DecisionAction
    by: str | None = None
    at: datetime | None = None
    note: str | None = None
    arguments: Mapping[str, object] | None = None
    extra: Extra = field(default=None, repr=False)


class ToolEvent(Enum):
    """What can happen to a tool."""

    APPROVE = "approve"
    START = "start"
    REJECT = "reject"
    EXPIRE = "expire"
    CANCEL = "cancel"
    FAIL = "fail"
    SCHEDULE = "schedule"
    AWAIT_APPROVAL = "await approval"
    RECONSIDER = "reconsider"
    COMPLETE = "complete"
    LOST = "lost"
    AGAIN = "again"
    SUSPEND = "suspend"
    RETRY = "retry"


_E = ToolEvent

TRANSITIONS: dict[type[ToolStatus], dict[ToolEvent, type[ToolStatus]]] = {
    Pending: {
        _E.APPROVE: Approved,
        _E.START: Running,
        _E.REJECT: Rejected,
        _E.EXPIRE: Rejected,
        _E.CANCEL: Rejected,
        _E.FAIL: Failed,
        _E.SCHEDULE: Pending,
        _E.AWAIT_APPROVAL: Pending,
    },
    Approved: {
        _E.START: Running,
        _E.REJECT: Rejected,
        _E.CANCEL: Rejected,
        _E.FAIL: Failed,
        _E.RECONSIDER: Pending,
    },
    Running: {
        _E.COMPLETE: Completed,
        _E.FAIL: Failed,
        _E.LOST: Interrupted,
        _E.AGAIN: Running,
        _E.SUSPEND: Suspended,
    },
    Suspended: {_E.START: Running, _E.CANCEL: Rejected},
    Interrupted: {_E.COMPLETE: Completed, _E.RETRY: Approved, _E.FAIL: Failed, _E.CANCEL: Rejected},
    Completed: {},
    Failed: {},
    Rejected: {},
}
"""From a status, by an event, to a status. `Completed`, `Failed` and `Rejected` are final."""


def tool_life() -> str:
    """The table as a page of the reference: a diagram and a table in Markdown."""
    steps = [
        (start.__name__, event.value, end.__name__) for start, row in TRANSITIONS.items() for event, end in row.items()
    ]
    final = [start.__name__ for start, row in TRANSITIONS.items() if not row]
    return "\n".join(
        [
            "# The life of a tool call",
            "",
            "Generated from `chat_core.messages.TRANSITIONS`. Any other transition raises `IllegalTransitionError` and",
            "changes nothing.",
            "",
            "```mermaid",
            "stateDiagram-v2",
            "    [*] --> Pending",
            *[f"    {start} --> {end}: {event}" for start, event, end in steps],
            *[f"    {name} --> [*]" for name in final],
            "```",
            "",
            "| from | event | to |",
            "|---|---|---|",
            *[f"| `{start}` | {event} | `{end}` |" for start, event, end in steps],
            "",
            f"{', '.join(f'`{name}`' for name in final)} are final.",
            "",
        ]
    )
