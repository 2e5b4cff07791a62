"""Helper functions of `Tool` that check and copy values, compute statuses and format results."""

from __future__ import annotations

import json
import os
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, cast

from chat_core import model_texts
from chat_core.arguments import argument_error, require_optional_text
from chat_core.errors import IllegalTransitionError, PendingToolsError, UsageError
from chat_core.frozen import MAX_DEPTH, freeze, mutable_twin
from chat_core.json import dumps, is_deeper
from chat_core.messages.parts import File
from chat_core.messages.status import (
    Approved,
    Completed,
    Data,
    Failed,
    Interrupted,
    Pending,
    Refuser,
    Rejected,
    Running,
    Suspended,
    ToolEvent,
    ToolStatus,
    next_status,
)

if TYPE_CHECKING:
    from chat_core.messages.function_call import FunctionCall
    from chat_core.messages.messages import Messages
    from chat_core.messages.tool import Tool

_RunningTwin = mutable_twin(Running)
_CompletedTwin = mutable_twin(Completed)

_MOST_LEVELS = 1000
"""Maximum nesting depth of stored arguments. Earlier versions accepted deeper arguments than this version."""


def new_running(attempt_id: str, attempt: int, started_at: datetime, inner: Messages | None, of: str | None) -> Running:
    """Create the status of an attempt whose steps are stored before their effects, without checking `attempt`."""
    instance: Any = _RunningTwin()
    instance.attempt_id = attempt_id
    instance.attempt = attempt
    instance.started_at = started_at
    instance.inner = inner
    instance.extra = None
    instance.write_ahead = inner is not None
    instance.of = of
    instance.__class__ = Running
    running: Running = instance
    return running


def new_completed(
    result: object, files: tuple[File, ...], data: tuple[Data, ...], state: Mapping[str, object] | None
) -> Completed:
    """Create the same value as `Completed(result, files, data=data, state=state)`, but faster."""
    instance: Any = _CompletedTwin()
    instance.result = result
    instance.files = files
    instance.extra = None
    instance.data = data
    instance.state = state
    instance.__class__ = Completed
    completed: Completed = instance
    return completed


def retried(status: ToolStatus) -> ToolStatus:
    """Return the new status of an interrupted call that is retried.

    A chat used as a tool becomes `Suspended`, so that it resumes its conversation. Any other call becomes `Approved`.
    """
    if isinstance(status, Interrupted) and status.inner is not None:
        return Suspended(status.inner, status.attempt_id, status.attempt, of=status.of)
    return Approved(of=approver_of(status))


def illegal_transition(tool: Tool, event: ToolEvent) -> IllegalTransitionError:
    """Return an error that lists the operations that the status of `tool` allows."""
    status = tool.status
    allowed = ", ".join(sorted([item.value for item in ToolEvent if next_status(status, item)]))
    return IllegalTransitionError(
        f"tool {tool.id!r} is {status_name(status)}, which does not allow {event.value!r}; "
        f"it allows {allowed or 'nothing, because it is final'}"
    )


def require_target(event: ToolEvent, target: type[ToolStatus], new: ToolStatus) -> None:
    """Check that an event may lead to a new status of a call.

    Args:
        event: the event that changes the status.
        target: the class of the status that the event leads to, from `next_status()`.
        new: the new status.

    Raises:
        IllegalTransitionError: the event leads to another status in `TRANSITIONS`.
        UsageError: the inner conversation of the new status is not a `Messages` object.
    """
    if type(new) is not target and not (event is ToolEvent.RETRY and isinstance(new, Suspended)):
        msg = f"the event {event.value!r} changes the status to {target.__name__}, not to {type(new).__name__}"
        raise IllegalTransitionError(msg)
    inner = getattr(new, "inner", None)
    # `Messages` cannot be imported here: its module imports this one.
    if not hasattr(inner, "pending") and (inner is not None or isinstance(new, Suspended)):
        msg = f"an inner conversation must be Messages, not {inner!r}"
        raise UsageError(msg)


def cancelled(status: ToolStatus, reason: str | None) -> Rejected:
    """Return the new status of a call that is cancelled.

    If the call had started, `started` contains its previous status.
    """
    return Rejected(reason, "cancelled", started=status if isinstance(status, (Interrupted, Suspended)) else None)


def refused(reason: object, source: Refuser) -> Rejected:
    """Return the new status of a call that the chat's policy rejects, or whose approval expired.

    Raises:
        UsageError: `reason` is not a string, or `source` is neither `"policy"` nor `"expiry"`.
    """
    if not isinstance(reason, str):
        raise argument_error("reason", "a string", reason)
    if source not in ("policy", "expiry"):
        raise argument_error("source", "'policy' or 'expiry'", source)
    return Rejected(reason, source)


def now_or_aware(at: datetime | None) -> datetime:
    """Return `at` or, if it is None, the current time. Raise `UsageError` if `at` has no time zone."""
    if at is None:
        return datetime.now(UTC)
    require_zone(at)
    return at


def require_zone(at: datetime | None) -> None:
    """Raise `UsageError` if `at` is not a time with a time zone. `None` is accepted."""
    if at is None:
        return
    if not isinstance(at, datetime):
        msg = f"a time must be a datetime with a time zone, not {at!r}"
        raise UsageError(msg)
    if at.utcoffset() is None:
        msg = f"the time {at!r} has no time zone: pass datetime(…, tzinfo=timezone.utc)"
        raise UsageError(msg)


def check_decision(at: datetime | None, **texts: object) -> datetime:
    """Check the texts and the time of a decision, so that no unreadable decision is stored.

    Args:
        at: time of the decision.
        texts: texts of the decision, such as the name of the approver, by parameter name. `None` is accepted, except
            as `error`.

    Returns:
        `at` or, if it is None, the current time.

    Raises:
        UsageError: a text is not a string, or `at` is not a time with a time zone.
    """
    for name, text in texts.items():
        if not isinstance(text, str) and (text is not None or name == "error"):
            msg = f"{name} must be a string, not {text!r}: pass {name}=str(…)"
            raise UsageError(msg)
    return now_or_aware(at)


def check_attachments(files: object, data: object) -> None:
    """Raise `UsageError` unless these are tuples of `File` objects and of `Data` objects."""
    if files != () and not _is_tuple_of(File, files):
        raise argument_error("files", "a tuple of File objects, such as (File.from_path('…'),)", files)
    if data != () and not _is_tuple_of(Data, data):
        raise argument_error("data", "a tuple of Data objects, such as (Data('chart', {…}),)", data)


def _is_tuple_of(kind: type, value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(item, kind) for item in cast("tuple[object, ...]", value))


def equal_as_json(one: object, other: object) -> bool:
    """Return whether two values have the same JSON text. Unlike in Python, 1, 1.0 and True are not equal."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def json_copy(value: object, label: str) -> object:
    """Return a deep copy of a JSON value, so that later changes to the original do not affect it.

    Args:
        value: the value to copy.
        label: name of the value, for the error message.

    Raises:
        UsageError: the value is not JSON, or it is nested more deeply than `MAX_DEPTH`.
    """
    if value is None or isinstance(value, (str, bool)):
        return value
    try:
        copied: object = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        shown = reprlib.repr(value)
        msg = f"{label} must be JSON (str, finite numbers, bool, None, list, dict with string keys), not {shown}"
        raise UsageError(msg) from error
    except RecursionError:
        copied = None
    if copied is None or is_deeper(copied, MAX_DEPTH):
        msg = f"{label} is nested more than {MAX_DEPTH} levels deep, which documents cannot store: flatten it"
        raise UsageError(msg)
    return copied


def json_object(value: object, label: str = "arguments") -> Mapping[str, object]:
    """Return a frozen copy of a JSON object.

    Args:
        value: the object to copy.
        label: name of the value, for the error message.

    Raises:
        UsageError: the value is not a JSON object, or it is nested too deeply.
    """
    if not isinstance(value, Mapping):
        msg = f"{label} must be a JSON object, not {value!r}"
        raise UsageError(msg)
    try:
        return freeze(cast("dict[str, object]", json_copy(dict(cast("Mapping[str, object]", value)), label)))
    except ValueError as error:
        msg = f"{label} must be a JSON object that is not {error}"
        raise UsageError(msg) from error


def frozen_arguments(value: object, label: str) -> Mapping[str, object]:
    """Return a frozen copy of stored arguments, or the arguments themselves if they are frozen.

    Args:
        value: the arguments.
        label: name of the value, for the error.

    Raises:
        UsageError: the arguments are not a JSON object, or they are nested too deeply.
    """
    if not isinstance(value, Mapping):
        raise argument_error(label, "a JSON object, such as {'city': 'Berlin'}, or None", value)
    try:
        return freeze(cast("Mapping[str, object]", value), _MOST_LEVELS)
    except ValueError as error:
        msg = f"{label} must be a JSON object that is not {error}"
        raise UsageError(msg) from error


def canonical_arguments(value: object, call: FunctionCall) -> Mapping[str, object] | None:
    """Return a frozen copy of validated arguments, or None if they equal the arguments of the model.

    Args:
        value: the validated arguments.
        call: the call as the model made it.

    Raises:
        UsageError: the validated arguments are not a JSON object, or they are nested too deeply.
    """
    try:
        if equal_as_json(dict(cast("Mapping[str, object]", value)), dict(call.arguments)):
            return None
    except (TypeError, ValueError):
        pass  # `json_object()` describes the problem
    return json_object(value, "canonical")


def missing_tool(id: object, known: int, pending: Sequence[Tool]) -> KeyError | UsageError:
    """Return the error for an id that matches no tool call of the conversation.

    Args:
        id: the id that was looked up.
        known: number of tool calls in the conversation.
        pending: the unresolved tool calls.
    """
    unresolved = ", ".join([tool.id for tool in pending]) or "none"
    if not isinstance(id, str):
        return argument_error("id", f"the id of a tool call, a string (unresolved tool calls: {unresolved})", id)
    return KeyError(f"no tool with id {id!r} among {known} tool calls; unresolved tool calls: {unresolved}")


def result_text(tool: Tool) -> str:
    """Return the result of a resolved tool call as text for the model.

    Raises:
        IllegalTransitionError: the tool call is not resolved.
    """
    match tool.status:
        case Completed(result):
            return _edit_note(tool, "ran with") + (result if isinstance(result, str) else dumps(result))
        case Failed(error):
            return (_edit_note(tool, "failed with") if tool.attempts else "") + error
        case Rejected(reason, started=Interrupted() as started):
            return model_texts.cancelled_interrupted(started.reason, effects_inside(started.inner), reason)
        case Rejected(reason, started=Suspended(inner)) if effects := effects_inside(inner):
            return model_texts.cancelled_chat(effects, reason)
        case Rejected() as status:
            return model_texts.rejection(status.source, status.reason)
        case status:
            msg = f"tool {tool.id!r} is {status_name(status)} and has no result yet: wait until it is resolved"
            raise IllegalTransitionError(msg)


def _edit_note(tool: Tool, outcome: Literal["ran with", "failed with"]) -> str:
    if tool.edited is None or equal_as_json(dict(tool.edited), dict(tool.call.arguments)):
        return ""
    return model_texts.edit_note(outcome, dumps(dict(tool.edited)))


def effects_inside(inner: Messages | None) -> list[str]:
    """Return a line of text for each resolved call in an inner conversation that may have had side effects."""
    tools = [tool for content in inner or () for tool in content.tools]
    return [
        model_texts.effect_inside(tool.name, dumps(dict(tool.effective_arguments)), tool.result_text())
        for tool in tools
        if tool.resolved and _may_have_acted(tool)
    ]


def _may_have_acted(tool: Tool) -> bool:
    """Return whether a resolved call may have had side effects.

    For a chat that was cancelled while it was suspended, return whether one of its own calls may have had side effects.
    For any other call, return whether the call was started.
    """
    if tool.inner is None or isinstance(tool.status, Failed):
        return tool.attempts > 0
    interrupted = isinstance(tool.status, Rejected) and isinstance(tool.status.started, Interrupted)
    return interrupted or any(_may_have_acted(item) for content in tool.inner for item in content.tools)


def status_name(status: ToolStatus) -> str:
    """Return the class name of a status, for error messages."""
    return type(status).__name__


def is_waiting(status: ToolStatus) -> bool:
    """Return whether a call with this status is waiting for an approval, a time or a result."""
    return isinstance(status, Pending) and status.kind is not None


def awaits_outcome(status: ToolStatus) -> bool:
    """Return whether a call was interrupted or deferred, so that the application must record its outcome."""
    return isinstance(status, Interrupted) or (isinstance(status, Pending) and status.kind == "result")


def require_in_time(tool: Tool, at: datetime | None, kind: Literal["approval", "result"]) -> None:
    """Raise `IllegalTransitionError` if a call has waited beyond its expiry time.

    Args:
        tool: the call.
        at: time of the decision; now by default.
        kind: kind of the wait, for the error message.
    """
    status = tool.status
    if isinstance(status, Pending) and status.expires_at is not None and now_or_aware(at) >= status.expires_at:
        verb = "approved: its approval" if kind == "approval" else "completed: the wait for its result"
        msg = f"tool {tool.id!r} cannot be {verb} expired at {status.expires_at.isoformat()}"
        raise IllegalTransitionError(msg)


def expiry_of(status: ToolStatus) -> datetime | None:
    """Return the time at which a call's wait expires, or None. An approved call keeps the expiry of its wait."""
    return status.expires_at if isinstance(status, (Pending, Approved)) else None


def approver_of(status: ToolStatus) -> str | None:
    """Return the role or name that an approver of the call must have, or None.

    A call keeps this requirement until it ends.
    """
    return getattr(status, "of", None)


def begin_wait(status: ToolStatus, wait: Pending) -> ToolStatus:
    """Return the status of a call that must wait. If the call already waits, its current status is kept.

    Args:
        status: the current status.
        wait: the status of a new wait. If an earlier approval was revoked, the reason is copied to its `error`.
    """
    return status if is_waiting(status) else replace(wait, error=error_of(status))


def wait_again(status: ToolStatus, error: str | None) -> Pending:
    """Return the status of a call that must wait again because its approval was revoked.

    Args:
        status: the current status.
        error: description of invalid edited arguments. If None, the strategy decides about the call again.

    Raises:
        UsageError: `error` is not a string.
    """
    require_optional_text(error=error)
    if error is None:
        return Pending()
    return Pending("approval", expiry_of(status), error=error, of=approver_of(status))


def error_of(status: ToolStatus) -> str | None:
    """Return the reason for which an earlier approval was revoked, or None."""
    return status.error if isinstance(status, Pending) else None


def new_tool_id() -> str:
    """Return a new random id for a tool call."""
    return f"tool_{os.urandom(8).hex()}"


def with_deadline(status: ToolStatus, expires_at: datetime | None, at: datetime | None) -> ToolStatus:
    """Return a copy of an interrupted status with a deadline.

    Return `status` itself if no deadline is given, if it already has a deadline, or if it is not `Interrupted`.

    Args:
        status: the current status.
        expires_at: deadline of a rule `RequireApproval(expires_in=...)`.
        at: deadline of a rule `Schedule(at)`.
    """
    if not isinstance(status, Interrupted) or not (expires_at or at) or status.expires_at or status.at:
        return status
    return replace(status, expires_at=expires_at, at=at)


def pending_error(ids: Sequence[str]) -> PendingToolsError:
    """Return the error for unresolved tool calls that prevent an operation on their conversation."""
    msg = (
        f"{len(ids)} tool call(s) are waiting for a decision ({', '.join(ids)}): approve or reject them, "
        "or call messages.cancel_pending(reason) first"
    )
    return PendingToolsError(msg, [*ids])
