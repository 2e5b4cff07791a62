"""Statuses of a tool call, and `TRANSITIONS`, the table of allowed changes from one status to another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final

from chat_core.arguments import argument_error
from chat_core.errors import UsageError
from chat_core.messages.parts import Extra, File

if TYPE_CHECKING:
    from chat_core.messages.messages import Messages

WaitKind: TypeAlias = Literal["approval", "schedule", "result"]
DecisionAction: TypeAlias = Literal["approve", "reject", "cancel", "retry", "complete", "fail"]
Refuser: TypeAlias = Literal["person", "policy", "expiry", "cancelled"]


@final
@dataclass(frozen=True, slots=True)
class Pending:
    """Status of a tool call that has not started and is not approved.

    The terms of a wait (`expires_at`, `at`) are fixed when the wait begins.

    Attributes:
        kind: kind of wait: for an approver, a time, or an external result; `None` before a strategy has decided about
            the call.
        expires_at: time from which the call can no longer be approved, or completed.
        at: time from which a scheduled call may run.
        error: reason for which an earlier approval was revoked: the approver's edited arguments were invalid.
        of: role or name of the principal that must decide, or `None`.
    """

    kind: WaitKind | None = None
    expires_at: datetime | None = None
    at: datetime | None = None
    error: str | None = None
    extra: Extra = field(default=None, repr=False)
    of: str | None = None


NEW_CALL: Final = Pending()
"""Status of a call about which nothing has been decided."""


@final
@dataclass(frozen=True, slots=True)
class Approved:
    """Status of an approved tool call. The next run of the chat executes it.

    Attributes:
        expires_at: expiry time of the wait before the approval. It applies again if the approval is revoked.
        of: role or name of the principal that had to decide. It applies again if the approval is revoked.
    """

    expires_at: datetime | None = None
    extra: Extra = field(default=None, repr=False)
    of: str | None = None


@final
@dataclass(frozen=True, slots=True)
class Running:
    """Status of a tool call whose tool function has started or is about to start.

    Attributes:
        attempt_id: random id of this attempt.
        attempt: number of this attempt, from 1.
        started_at: time at which the attempt started.
        inner: for a chat used as a tool, its conversation, which is kept until the call ends.
        write_ahead: whether each step in `inner` was stored before its effect, so that another process can resume it.
            False for calls started by earlier versions, whose `inner` may lack later steps.
        of: role or name of the principal that had to approve the call, and that decides if the call is interrupted.
    """

    attempt_id: str
    attempt: int = 1
    started_at: datetime | None = None
    inner: Messages | None = None
    extra: Extra = field(default=None, repr=False)
    write_ahead: bool = False
    of: str | None = None

    def __post_init__(self) -> None:
        _require_attempt(self.attempt)


@final
@dataclass(frozen=True, slots=True)
class Suspended:
    """Status of a chat used as a tool that has paused or was interrupted. `inner` is its conversation.

    Attributes:
        of: role or name of the principal that had to approve the call, and that decides if the call is interrupted.
    """

    inner: Messages
    attempt_id: str = ""
    attempt: int = 1
    extra: Extra = field(default=None, repr=False)
    of: str | None = None

    def __post_init__(self) -> None:
        _require_attempt(self.attempt)


@final
@dataclass(frozen=True, slots=True)
class Interrupted:
    """Status of a tool call that was cancelled or whose process died after its function started.

    The function may or may not have taken effect. The deadline for recording the outcome (`expires_at` or `at`) is set
    when the wait for the outcome begins. The first run after the deadline fails the call.

    Attributes:
        attempt_id: random id of the attempt.
        attempt: number of the attempt, from 1.
        reason: description of the interruption.
        inner: for a chat used as a tool, its conversation.
        expires_at: deadline, if the chat's rule is `RequireApproval(expires_in=...)`.
        at: deadline, if the chat's rule is `Schedule(at)`.
        of: role or name of the principal that had to approve the call and now must decide, or `None`.
    """

    attempt_id: str = ""
    attempt: int = 1
    reason: str = ""
    inner: Messages | None = None
    extra: Extra = field(default=None, repr=False)
    expires_at: datetime | None = None
    at: datetime | None = None
    of: str | None = None

    def __post_init__(self) -> None:
        _require_attempt(self.attempt)


def _require_attempt(attempt: object) -> None:
    if type(attempt) is not int:
        raise argument_error("attempt", "the number of the attempt, such as 1", attempt)


@final
@dataclass(frozen=True, slots=True)
class Data:
    """Data that a tool produces for the application, and that models do not receive.

    Attributes:
        type: kind of the data, chosen by the application, such as `"chart"`.
        payload: any value that a tool can return, or a `File`. Events and stored conversations contain it as JSON.
        keep: whether the payload is stored with the result. Otherwise, only the `ToolData` event contains it.
    """

    type: str
    payload: object
    keep: bool = False
    extra: Extra = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.type, str) or not self.type:
            msg = f"the type of Data must be a string that is not empty, such as 'chart', not {self.type!r}"
            raise UsageError(msg)


@final
@dataclass(frozen=True, slots=True)
class Completed:
    """Status of a tool call that returned.

    Attributes:
        result: returned value, as JSON.
        files: files returned along with the value.
        data: data for the application that is stored with the result; the model does not receive it.
        state: object that was merged into the state of the conversation, or `None`.
    """

    result: object
    files: tuple[File, ...] = ()
    extra: Extra = field(default=None, repr=False)
    data: tuple[Data, ...] = ()
    state: Mapping[str, object] | None = None


@final
@dataclass(frozen=True, slots=True)
class Failed:
    """Status of a tool call that failed. The model receives `error`.

    Attributes:
        error: description of the failure.
        inner: for a chat used as a tool, its conversation, in which every call is resolved.
    """

    error: str
    extra: Extra = field(default=None, repr=False)
    inner: Messages | None = None


@final
@dataclass(frozen=True, slots=True)
class Rejected:
    """Status of a tool call that was not allowed to run, or to continue.

    Attributes:
        reason: reason that the model receives.
        source: origin of the rejection: an approver (`"person"`), a strategy (`"policy"`), an expired approval
            (`"expiry"`) or a cancellation (`"cancelled"`).
        started: for a call that had started when it was cancelled, its status at that time. The model receives what is
            known about its effects.
    """

    reason: str | None = None
    source: Refuser = "person"
    extra: Extra = field(default=None, repr=False)
    started: Interrupted | Suspended | None = None


ToolStatus: TypeAlias = Pending | Approved | Running | Suspended | Interrupted | Completed | Failed | Rejected


@final
@dataclass(frozen=True, slots=True)
class Decision:
    """Decision about a tool call by an approver, or by code on their behalf.

    Attributes:
        action: the decision.
        by: name of the user or program that decided.
        at: time of the decision.
        note: comment stored with the decision; the model does not receive it.
        arguments: arguments that the approver substituted for the model's.
        grant: for an approval by a grant, the id of the `Grant` that covered the call. `by` is the user who created the
            grant.
    """

    action: DecisionAction
    by: str | None = None
    at: datetime | None = None
    note: str | None = None
    arguments: Mapping[str, object] | None = None
    extra: Extra = field(default=None, repr=False)
    grant: str | None = None


class ToolEvent(StrEnum):
    """Events that change the status of a tool call. `TRANSITIONS` shows which status allows which events."""

    APPROVE = "approve"
    START = "start"
    REJECT = "reject"
    EXPIRE = "expire"
    CANCEL = "cancel"
    FAIL = "fail"
    SCHEDULE = "schedule"
    AWAIT_APPROVAL = "await approval"
    AWAIT_RESULT = "await result"
    AWAIT_OUTCOME = "await outcome"
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
        _E.AWAIT_RESULT: Pending,
        _E.COMPLETE: Completed,
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
    Interrupted: {
        _E.COMPLETE: Completed,
        _E.RETRY: Approved,
        _E.FAIL: Failed,
        _E.CANCEL: Rejected,
        _E.AWAIT_OUTCOME: Interrupted,
    },
    Completed: {},
    Failed: {},
    Rejected: {},
}
"""New status by current status and event. `Completed`, `Failed` and `Rejected` are final.

There are two exceptions: the retry of a chat used as a tool leads to `Suspended`, because its conversation resumes. A
pending call can be completed only if it waits for a result, and then it cannot be approved or started.
"""


def next_status(status: ToolStatus, event: ToolEvent) -> type[ToolStatus] | None:
    """Return the class of the status that an event leads to, or `None` if the event is not allowed.

    Args:
        status: the current status of a tool call.
        event: the event to apply to the call.
    """
    if isinstance(status, Pending):
        if status.kind == "result":
            if event is ToolEvent.APPROVE or event is ToolEvent.START:
                return None
        elif event is ToolEvent.COMPLETE:
            return None
    return TRANSITIONS[type(status)].get(event)
