"""Readers and writers for tool calls in stored JSON documents, with their status and decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, get_args

from chat_core.errors import UsageError
from chat_core.json import parse
from chat_core.messages._fields import (
    Fields,
    MalformedError,
    describe_mismatch,
    format_time,
    merge_unknown_fields,
    read_boolean,
    read_choice,
    read_integer,
    read_nested,
    read_object,
    read_optional_choice,
    read_optional_items,
    read_optional_object,
    read_optional_string,
    read_optional_time,
    read_string,
    read_string_or,
    read_time,
    require_object,
    unknown_fields,
)
from chat_core.messages._metadata_codec import read_usage
from chat_core.messages._part_codec import read_file, read_opaque, write_file, write_opaque
from chat_core.messages._tool_values import json_object
from chat_core.messages.function_call import FunctionCall
from chat_core.messages.parts import File
from chat_core.messages.status import (
    Approved,
    Completed,
    Data,
    Decision,
    DecisionAction,
    Failed,
    Interrupted,
    Pending,
    Refuser,
    Rejected,
    Running,
    Suspended,
    ToolStatus,
    WaitKind,
)
from chat_core.messages.tool import Tool
from chat_core.usage import NO_USAGE, Usage

if TYPE_CHECKING:
    from datetime import datetime

    from chat_core.messages.messages import Messages

    WriteInner = Callable[[Messages], Fields]
    ReadInner = Callable[[object], Messages]

TOOL = frozenset(
    {
        "type",
        "id",
        "call_id",
        "call",
        "status",
        "canonical",
        "edited",
        "decisions",
        "idempotency_key",
        "attempts",
        "revision",
        "usage",
    }
)
CALL = frozenset({"name", "id", "raw", "arguments", "problem", "opaque"})
DECISION = frozenset({"action", "by", "at", "note", "arguments", "grant"})
PENDING = frozenset({"type", "kind", "expires_at", "at", "error", "of"})
AWAITING_RESULT = PENDING | {"waits_for", "result_expires_at"}
APPROVED = frozenset({"type", "expires_at", "of"})
RUNNING = frozenset({"type", "attempt_id", "attempt", "started_at", "inner", "write_ahead", "of"})
SUSPENDED = frozenset({"type", "inner", "attempt_id", "attempt", "of"})
INTERRUPTED = frozenset({"type", "attempt_id", "attempt", "reason", "inner", "expires_at", "at", "of"})
COMPLETED = frozenset({"type", "result", "files", "data", "state"})
DATA = frozenset({"type", "payload", "file"})
FAILED = frozenset({"type", "error", "inner"})
REJECTED = frozenset({"type", "reason", "source", "started"})

_ACTIONS: dict[str, DecisionAction] = {item: item for item in get_args(DecisionAction)}
_WAITS: dict[str, WaitKind] = {item: item for item in get_args(WaitKind)}
_SOURCES: dict[str, Refuser] = {item: item for item in get_args(Refuser)}

_AWAITING_RESULT_TERMS: Fields = {
    "kind": "schedule",
    "waits_for": "result",
    "at": "9999-01-01T00:00:00+00:00",
    "expires_at": "1970-01-01T00:00:00+00:00",
}
"""Terms of a call that waits for a result.

Earlier versions of this library do not know `waits_for` and reject unknown values of `kind`. They read such a call as
scheduled for the year 9999, so they do not run it, and as expired, so they do not accept an approval.
"""

_PLAIN_TYPES = frozenset({str, int, bool, type(None)})
"""Types of values that are valid JSON without a check for infinity and NaN."""


def _format_time(at: datetime | None) -> str | None:
    return None if at is None else format_time(at)


def _without_none(**values: object) -> Fields:
    return {key: value for key, value in values.items() if value is not None}


# --- Writing ---------------------------------------------------------------------------------------------------


def write_tool(tool: Tool, write_inner: WriteInner) -> Fields:
    """Return a tool call as a JSON object. Inner conversations are converted by `write_inner`."""
    data: Fields = {"type": "tool", "id": tool.id}
    if tool.call_id is not None:
        data["call_id"] = tool.call_id
    data["call"] = _write_call(tool.call)
    data["status"] = _write_status(tool.status, write_inner)
    if tool.canonical is not None:
        data["canonical"] = dict(tool.canonical)
    if tool.edited is not None:
        data["edited"] = dict(tool.edited)
    if tool.decisions:
        data["decisions"] = [_write_decision(decision) for decision in tool.decisions]
    if tool.idempotency_key:
        data["idempotency_key"] = tool.idempotency_key
    if tool.attempts:
        data["attempts"] = tool.attempts
    if tool.revision:
        data["revision"] = tool.revision
    if tool.inner_usage:
        data["usage"] = tool.inner_usage.to_dict()
    return merge_unknown_fields(data, tool.extra, TOOL) if tool.extra else data


def _write_call(call: FunctionCall) -> Fields:
    data: Fields = {"name": call.name}
    if call.id:
        data["id"] = call.id
    if call.raw is not None:
        data["raw"] = call.raw
    # `arguments` and `problem` are left out if parsing `raw` yields them again.
    if not _is_derived_from_raw(call):
        if call.raw is not None or call.arguments:
            data["arguments"] = dict(call.arguments)
        if call.problem is not None:
            data["problem"] = call.problem
    if call.opaque is not None:
        data["opaque"] = write_opaque(call.opaque)
    return merge_unknown_fields(data, call.extra, CALL) if call.extra else data


def _is_derived_from_raw(call: FunctionCall) -> bool:
    if call.raw is None:
        return False
    arguments = parse_plain_arguments(call.raw)
    if arguments is not None:
        return arguments == call.arguments and call.problem is None
    reparsed = FunctionCall.parse(call.name, call.raw)
    return reparsed.arguments == call.arguments and reparsed.problem == call.problem


def parse_plain_arguments(raw: str) -> Fields | None:
    """Parse `raw` as a JSON object of simple values, or return None if `FunctionCall.parse()` must parse it.

    This is faster than `FunctionCall.parse()`, but handles only strings, integers, booleans and null as values.
    """
    try:
        arguments = require_object(parse(raw))
    except (MalformedError, TypeError, ValueError):
        return None
    return arguments if _PLAIN_TYPES.issuperset(map(type, arguments.values())) else None


def _write_decision(decision: Decision) -> Fields:
    arguments = None if decision.arguments is None else dict(decision.arguments)
    data = _without_none(
        action=decision.action,
        by=decision.by,
        at=_format_time(decision.at),
        note=decision.note,
        arguments=arguments,
        grant=decision.grant,
    )
    return merge_unknown_fields(data, decision.extra, DECISION)


def _write_status(status: ToolStatus, write_inner: WriteInner) -> Fields:
    # The usual case comes first; a `match` on classes costs a call for each case.
    if type(status) is Completed and not (status.files or status.extra or status.data) and status.state is None:
        return {"type": "completed", "result": status.result}
    return _write_any_status(status, write_inner)


def _write_any_status(status: ToolStatus, write_inner: WriteInner) -> Fields:  # noqa: PLR0911 - one case for each status
    data: Fields
    match status:
        case Pending():
            return _write_pending(status)
        case Approved(expires_at, extra, of):
            data = _without_none(type="approved", expires_at=_format_time(expires_at), of=of)
            return merge_unknown_fields(data, extra, APPROVED)
        case Running(attempt_id, attempt, started_at, inner, extra, write_ahead, of):
            data = {"type": "running", "attempt_id": attempt_id, "attempt": attempt}
            data |= _without_none(started_at=_format_time(started_at), inner=_write_optional_inner(inner, write_inner))
            return merge_unknown_fields(data | _without_none(write_ahead=write_ahead or None, of=of), extra, RUNNING)
        case Suspended(inner, attempt_id, attempt, extra, of):
            data = {"type": "suspended", "attempt_id": attempt_id, "attempt": attempt}
            data["inner"] = write_inner(inner)
            return merge_unknown_fields(data | _without_none(of=of), extra, SUSPENDED)
        case Interrupted(attempt_id, attempt, reason, inner, extra, expires_at, at, of):
            data = {"type": "unknown", "attempt_id": attempt_id, "attempt": attempt}
            wait = _without_none(expires_at=_format_time(expires_at), at=_format_time(at), of=of)
            return merge_unknown_fields(
                data | _without_none(reason=reason or None, inner=_write_optional_inner(inner, write_inner)) | wait,
                extra,
                INTERRUPTED,
            )
        case Completed():
            return _write_completed(status)
        case Failed(error, extra, inner):
            data = _without_none(type="failed", error=error, inner=_write_optional_inner(inner, write_inner))
            return merge_unknown_fields(data, extra, FAILED)
        case Rejected(reason, source, extra, started):
            before = None if started is None else _write_any_status(started, write_inner)
            data = _without_none(type="rejected", reason=reason, source=source, started=before)
            return merge_unknown_fields(data, extra, REJECTED)


def _write_pending(status: Pending) -> Fields:
    if status.kind == "result":
        data: Fields = {"type": "pending", **_AWAITING_RESULT_TERMS}
        data |= _without_none(result_expires_at=_format_time(status.expires_at), error=status.error, of=status.of)
        return merge_unknown_fields(data, status.extra, AWAITING_RESULT)
    terms = _without_none(kind=status.kind, expires_at=_format_time(status.expires_at), at=_format_time(status.at))
    data = {"type": "pending", **terms, **_without_none(error=status.error, of=status.of)}
    return merge_unknown_fields(data, status.extra, PENDING)


def _write_completed(status: Completed) -> Fields:
    data: Fields = {"type": "completed", "result": status.result}
    if status.files:
        data["files"] = [write_file(file) for file in status.files]
    if status.data:
        data["data"] = [write_data(item) for item in status.data]
    if status.state is not None:
        data["state"] = status.state
    return merge_unknown_fields(data, status.extra, COMPLETED)


def write_data(item: Data) -> Fields:
    """Return data that a tool produced for the application as a JSON object."""
    payload = item.payload
    content: Fields = {"file": write_file(payload)} if isinstance(payload, File) else {"payload": payload}
    return merge_unknown_fields({"type": item.type, **content}, item.extra, DATA)


def _write_optional_inner(inner: Messages | None, write_inner: WriteInner) -> Fields | None:
    return None if inner is None else write_inner(inner)


# --- Reading ---------------------------------------------------------------------------------------------------


def read_tool(data: Fields, read_inner: ReadInner) -> Tool:
    """Return a tool call, parsed from a JSON object. Inner conversations are parsed by `read_inner`."""
    id = read_string(data, "id")
    if not id:
        raise MalformedError(describe_mismatch("an id", id), "id")
    return Tool(
        read_nested(read_object(data, "call"), "call", _read_call),
        id=id,
        call_id=read_optional_string(data, "call_id"),
        status=read_nested(read_object(data, "status"), "status", partial(_read_status, read_inner=read_inner)),
        canonical=read_optional_object(data, "canonical"),
        edited=read_optional_object(data, "edited"),
        decisions=tuple(read_optional_items(data, "decisions", _read_decision)) if "decisions" in data else (),
        idempotency_key=read_string_or(data, "idempotency_key", ""),
        attempts=read_integer(data, "attempts", 0),
        revision=read_integer(data, "revision", 0),
        inner_usage=_read_inner_usage(data) if "usage" in data else NO_USAGE,
        extra=unknown_fields(data, TOOL),
    )


def _read_inner_usage(data: Fields) -> Usage:
    usage = read_optional_object(data, "usage")
    return NO_USAGE if usage is None else read_nested(usage, "usage", read_usage)


def _read_call(data: Fields) -> FunctionCall:
    name = read_string(data, "name")
    id = read_string_or(data, "id", "")
    raw = read_optional_string(data, "raw")
    arguments = read_optional_object(data, "arguments")
    problem = read_optional_string(data, "problem")
    opaque = read_opaque(data)
    extra = unknown_fields(data, CALL)
    if raw and arguments is None and not id and opaque is None and extra is None:
        return FunctionCall.parse(name, raw)
    if raw is not None and arguments is None:
        reparsed = FunctionCall.parse(name, raw)
        arguments, problem = dict(reparsed.arguments), reparsed.problem
    return FunctionCall(name, arguments or {}, id, raw, problem, opaque, extra=extra)


def _read_decision(value: object) -> Decision:
    data = require_object(value)
    return Decision(
        read_choice(data, "action", _ACTIONS),
        read_optional_string(data, "by"),
        read_optional_time(data, "at"),
        read_optional_string(data, "note"),
        read_optional_object(data, "arguments"),
        unknown_fields(data, DECISION),
        read_optional_string(data, "grant"),
    )


def _read_status(data: Fields, read_inner: ReadInner) -> ToolStatus:
    kind = read_string(data, "type")
    reader = _STATUSES.get(kind)
    if reader is None:
        raise MalformedError(describe_mismatch(f"one of {', '.join(_STATUSES)}", kind), "type")
    return reader(data, read_inner)


def _read_pending(data: Fields, _: ReadInner) -> Pending:
    kind = read_optional_choice(data, "kind", _WAITS)
    if data.get("waits_for") == "result":
        return Pending(
            "result",
            read_optional_time(data, "result_expires_at"),
            None,
            read_optional_string(data, "error"),
            unknown_fields(data, AWAITING_RESULT),
            read_optional_string(data, "of"),
        )
    return Pending(
        kind,
        read_optional_time(data, "expires_at"),
        read_time(data, "at") if kind == "schedule" else read_optional_time(data, "at"),
        read_optional_string(data, "error"),
        unknown_fields(data, PENDING),
        read_optional_string(data, "of"),
    )


def _read_approved(data: Fields, _: ReadInner) -> Approved:
    expires_at = read_optional_time(data, "expires_at")
    return Approved(expires_at, unknown_fields(data, APPROVED), read_optional_string(data, "of"))


def _read_attempt(data: Fields) -> tuple[str, int]:
    return read_string_or(data, "attempt_id", ""), read_integer(data, "attempt", 1, least=1)


def _read_required_inner(data: Fields, read_inner: ReadInner) -> Messages:
    return read_nested(read_object(data, "inner"), "inner", read_inner)


def _read_optional_inner(data: Fields, read_inner: ReadInner) -> Messages | None:
    return _read_required_inner(data, read_inner) if data.get("inner") is not None else None


def _read_running(data: Fields, read_inner: ReadInner) -> Running:
    inner = _read_optional_inner(data, read_inner)
    return Running(
        *_read_attempt(data),
        read_optional_time(data, "started_at"),
        inner,
        unknown_fields(data, RUNNING),
        read_boolean(data, "write_ahead"),
        read_optional_string(data, "of"),
    )


def _read_suspended(data: Fields, read_inner: ReadInner) -> Suspended:
    inner, of = _read_required_inner(data, read_inner), read_optional_string(data, "of")
    return Suspended(inner, *_read_attempt(data), unknown_fields(data, SUSPENDED), of)


def _read_interrupted(data: Fields, read_inner: ReadInner) -> Interrupted:
    inner = _read_optional_inner(data, read_inner)
    return Interrupted(
        *_read_attempt(data),
        read_string_or(data, "reason", ""),
        inner,
        unknown_fields(data, INTERRUPTED),
        read_optional_time(data, "expires_at"),
        read_optional_time(data, "at"),
        read_optional_string(data, "of"),
    )


def _read_completed(data: Fields, _: ReadInner) -> Completed:
    if "result" not in data:
        raise MalformedError("missing", "result")
    if len(data) == 2:  # noqa: PLR2004 - only `type` and `result`, the usual case
        return Completed(data["result"])
    return Completed(
        data["result"],
        tuple(read_optional_items(data, "files", read_file)),
        unknown_fields(data, COMPLETED),
        tuple(read_optional_items(data, "data", _read_data)),
        read_state(data),
    )


def read_state(data: Fields) -> Mapping[str, object] | None:
    """Return the object in the field `state`, which changes the conversation's state, or None if it is absent."""
    value = read_optional_object(data, "state")
    return None if value is None else read_nested(value, "state", read_json_object)


def read_json_object(value: object) -> Mapping[str, object]:
    """Return a frozen copy of a JSON object from the application, such as a client tool's declaration."""
    try:
        return json_object(value)
    except UsageError:
        raise MalformedError(describe_mismatch("a JSON object with finite numbers", value)) from None


def _read_data(value: object) -> Data:
    data = require_object(value)
    kind = read_string(data, "type")
    if not kind:
        raise MalformedError(describe_mismatch("a type", kind), "type")
    file = read_optional_object(data, "file")
    if file is None and "payload" not in data:
        raise MalformedError("missing", "payload")
    payload = data["payload"] if file is None else read_nested(file, "file", read_file)
    return Data(kind, payload, keep=True, extra=unknown_fields(data, DATA))


def _read_failed(data: Fields, read_inner: ReadInner) -> Failed:
    error = read_string(data, "error")
    return Failed(error, unknown_fields(data, FAILED), _read_optional_inner(data, read_inner))


def _read_rejected(data: Fields, read_inner: ReadInner) -> Rejected:
    return Rejected(
        read_optional_string(data, "reason"),
        read_choice(data, "source", _SOURCES),
        unknown_fields(data, REJECTED),
        _read_started(data, read_inner),
    )


def _read_started(data: Fields, read_inner: ReadInner) -> Interrupted | Suspended | None:
    started = read_optional_object(data, "started")
    if started is None:
        return None
    status = read_nested(started, "started", partial(_read_status, read_inner=read_inner))
    if isinstance(status, (Interrupted, Suspended)):
        return status
    raise MalformedError(describe_mismatch("'unknown' or 'suspended'", started.get("type")), "started", "type")


_STATUSES: dict[str, Callable[[Fields, ReadInner], ToolStatus]] = {
    "pending": _read_pending,
    "approved": _read_approved,
    "running": _read_running,
    "suspended": _read_suspended,
    "unknown": _read_interrupted,
    "completed": _read_completed,
    "failed": _read_failed,
    "rejected": _read_rejected,
}
