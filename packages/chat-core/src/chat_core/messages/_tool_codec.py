"""Tools as JSON objects: the call, the status, and what was decided."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, get_args

from chat_core.json import parse
from chat_core.messages._fields import (
    Fields,
    MalformedError,
    expected,
    fields,
    integer,
    items_or_none,
    keep,
    mapping,
    mapping_or_none,
    moment,
    moment_or_none,
    nested,
    rest,
    string,
    string_or,
    string_or_none,
    word,
    word_or_none,
    written,
)
from chat_core.messages._part_codec import read_file, read_opaque, write_file, write_opaque
from chat_core.messages.status import (
    Approved,
    Completed,
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
from chat_core.messages.tool import FunctionCall, Tool

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
    }
)
CALL = frozenset({"name", "id", "raw", "arguments", "problem", "opaque"})
DECISION = frozenset({"action", "by", "at", "note", "arguments"})
PENDING = frozenset({"type", "kind", "expires_at", "at", "error"})
APPROVED = frozenset({"type", "expires_at"})
RUNNING = frozenset({"type", "attempt_id", "attempt", "started_at", "inner"})
SUSPENDED = frozenset({"type", "inner", "attempt_id", "attempt"})
UNKNOWN = frozenset({"type", "attempt_id", "attempt", "reason", "inner"})
COMPLETED = frozenset({"type", "result", "files"})
FAILED = frozenset({"type", "error"})
REJECTED = frozenset({"type", "reason", "source"})

_ACTIONS: dict[str, DecisionAction] = {item: item for item in get_args(DecisionAction)}
_WAITS: dict[str, WaitKind] = {item: item for item in get_args(WaitKind)}
_SOURCES: dict[str, Refuser] = {item: item for item in get_args(Refuser)}


_PLAIN = frozenset({str, int, bool, type(None)})
"""An object with no other values holds no number that JSON does not have."""


def _time(at: datetime | None) -> str | None:
    return None if at is None else written(at)


def _present(**values: object) -> Fields:
    return {key: value for key, value in values.items() if value is not None}


# --- Writing ---------------------------------------------------------------------------------------------------


def write_tool(tool: Tool, write_inner: WriteInner) -> Fields:
    """A tool and its life."""
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
    return keep(data, tool.extra, TOOL) if tool.extra else data


def _write_call(call: FunctionCall) -> Fields:
    data: Fields = {"name": call.name}
    if call.id:
        data["id"] = call.id
    if call.raw is not None:
        data["raw"] = call.raw
    # What can be read from the text again is not stored beside it.
    if not _follows(call):
        if call.raw is not None or call.arguments:
            data["arguments"] = dict(call.arguments)
        if call.problem is not None:
            data["problem"] = call.problem
    if call.opaque is not None:
        data["opaque"] = write_opaque(call.opaque)
    return keep(data, call.extra, CALL) if call.extra else data


def _follows(call: FunctionCall) -> bool:
    if call.raw is None:
        return False
    arguments = plain_arguments(call.raw)
    if arguments is not None:
        return arguments == call.arguments and call.problem is None
    again = FunctionCall.parse(call.name, call.raw)
    return again.arguments == call.arguments and again.problem == call.problem


def plain_arguments(raw: str) -> Fields | None:
    """What `FunctionCall.parse()` finds where it finds what calls nearly always have; `None` where it must be asked."""
    try:
        arguments = fields(parse(raw))
    except (MalformedError, TypeError, ValueError):
        return None
    return arguments if _PLAIN.issuperset(map(type, arguments.values())) else None


def _write_decision(decision: Decision) -> Fields:
    arguments = None if decision.arguments is None else dict(decision.arguments)
    data = _present(
        action=decision.action, by=decision.by, at=_time(decision.at), note=decision.note, arguments=arguments
    )
    return keep(data, decision.extra, DECISION)


def _write_status(status: ToolStatus, write_inner: WriteInner) -> Fields:
    # As nearly always; `match` on classes costs a call for each case.
    if type(status) is Completed and not status.files and not status.extra:
        return {"type": "completed", "result": status.result}
    return _write_any_status(status, write_inner)


def _write_any_status(status: ToolStatus, write_inner: WriteInner) -> Fields:  # noqa: PLR0911 - one case for each status
    data: Fields
    match status:
        case Pending(kind, expires_at, at, error, extra):
            data = _present(type="pending", kind=kind, expires_at=_time(expires_at), at=_time(at), error=error)
            return keep(data, extra, PENDING)
        case Approved(expires_at, extra):
            return keep(_present(type="approved", expires_at=_time(expires_at)), extra, APPROVED)
        case Running(attempt_id, attempt, started_at, inner, extra):
            data = {"type": "running", "attempt_id": attempt_id, "attempt": attempt}
            return keep(data | _present(started_at=_time(started_at), inner=_write(inner, write_inner)), extra, RUNNING)
        case Suspended(inner, attempt_id, attempt, extra):
            data = {"type": "suspended", "attempt_id": attempt_id, "attempt": attempt}
            data["inner"] = write_inner(inner)
            return keep(data, extra, SUSPENDED)
        case Interrupted(attempt_id, attempt, reason, inner, extra):
            data = {"type": "unknown", "attempt_id": attempt_id, "attempt": attempt}
            return keep(data | _present(reason=reason or None, inner=_write(inner, write_inner)), extra, UNKNOWN)
        case Completed(result, files, extra):
            data = {"type": "completed", "result": result}
            if files:
                data["files"] = [write_file(file) for file in files]
            return keep(data, extra, COMPLETED)
        case Failed(error, extra):
            return keep({"type": "failed", "error": error}, extra, FAILED)
        case Rejected(reason, source, extra):
            return keep(_present(type="rejected", reason=reason, source=source), extra, REJECTED)


def _write(inner: Messages | None, write_inner: WriteInner) -> Fields | None:
    return None if inner is None else write_inner(inner)


# --- Reading ---------------------------------------------------------------------------------------------------


def read_tool(data: Fields, read_inner: ReadInner) -> Tool:
    """A tool and its life."""
    id = string(data, "id")  # noqa: A001 - the field's own name
    if not id:
        raise MalformedError(expected("an id", id), "id")
    return Tool(
        nested(mapping(data, "call"), "call", _read_call),
        id=id,
        call_id=string_or_none(data, "call_id"),
        status=nested(mapping(data, "status"), "status", partial(_read_status, read_inner=read_inner)),
        canonical=mapping_or_none(data, "canonical"),
        edited=mapping_or_none(data, "edited"),
        decisions=tuple(items_or_none(data, "decisions", _read_decision)) if "decisions" in data else (),
        idempotency_key=string_or(data, "idempotency_key", ""),
        attempts=integer(data, "attempts", 0),
        revision=integer(data, "revision", 0),
        extra=rest(data, TOOL),
    )


def _read_call(data: Fields) -> FunctionCall:
    name = string(data, "name")
    id = string_or(data, "id", "")  # noqa: A001 - the field's own name
    raw = string_or_none(data, "raw")
    arguments = mapping_or_none(data, "arguments")
    problem = string_or_none(data, "problem")
    opaque = read_opaque(data)
    extra = rest(data, CALL)
    if raw and arguments is None and not id and opaque is None and extra is None:
        return FunctionCall.parse(name, raw)
    if raw is not None and arguments is None:
        again = FunctionCall.parse(name, raw)
        arguments, problem = dict(again.arguments), again.problem
    return FunctionCall(name, arguments or {}, id, raw, problem, opaque, extra=extra)


def _read_decision(value: object) -> Decision:
    data = fields(value)
    return Decision(
        word(data, "action", _ACTIONS),
        string_or_none(data, "by"),
        moment_or_none(data, "at"),
        string_or_none(data, "note"),
        mapping_or_none(data, "arguments"),
        rest(data, DECISION),
    )


def _read_status(data: Fields, read_inner: ReadInner) -> ToolStatus:
    kind = string(data, "type")
    reader = _STATUSES.get(kind)
    if reader is None:
        raise MalformedError(expected(f"one of {', '.join(_STATUSES)}", kind), "type")
    return reader(data, read_inner)


def _read_pending(data: Fields, _: ReadInner) -> Pending:
    kind = word_or_none(data, "kind", _WAITS)
    return Pending(
        kind,
        moment_or_none(data, "expires_at"),
        moment(data, "at") if kind == "schedule" else moment_or_none(data, "at"),
        string_or_none(data, "error"),
        rest(data, PENDING),
    )


def _read_approved(data: Fields, _: ReadInner) -> Approved:
    return Approved(moment_or_none(data, "expires_at"), rest(data, APPROVED))


def _attempt(data: Fields) -> tuple[str, int]:
    return string_or(data, "attempt_id", ""), integer(data, "attempt", 1, least=1)


def _inner(data: Fields, read_inner: ReadInner) -> Messages:
    return nested(mapping(data, "inner"), "inner", read_inner)


def _inner_or_none(data: Fields, read_inner: ReadInner) -> Messages | None:
    return _inner(data, read_inner) if data.get("inner") is not None else None


def _read_running(data: Fields, read_inner: ReadInner) -> Running:
    inner = _inner_or_none(data, read_inner)
    return Running(*_attempt(data), moment_or_none(data, "started_at"), inner, rest(data, RUNNING))


def _read_suspended(data: Fields, read_inner: ReadInner) -> Suspended:
    return Suspended(_inner(data, read_inner), *_attempt(data), rest(data, SUSPENDED))


def _read_lost(data: Fields, read_inner: ReadInner) -> Interrupted:
    inner = _inner_or_none(data, read_inner)
    return Interrupted(*_attempt(data), string_or(data, "reason", ""), inner, rest(data, UNKNOWN))


def _read_completed(data: Fields, _: ReadInner) -> Completed:
    if "result" not in data:
        raise MalformedError("missing", "result")
    if len(data) == 2:  # noqa: PLR2004 - `type` and `result`, as nearly always
        return Completed(data["result"])
    return Completed(data["result"], tuple(items_or_none(data, "files", read_file)), rest(data, COMPLETED))


def _read_failed(data: Fields, _: ReadInner) -> Failed:
    return Failed(string(data, "error"), rest(data, FAILED))


def _read_rejected(data: Fields, _: ReadInner) -> Rejected:
    return Rejected(string_or_none(data, "reason"), word(data, "source", _SOURCES), rest(data, REJECTED))


_STATUSES: dict[str, Callable[[Fields, ReadInner], ToolStatus]] = {
    "pending": _read_pending,
    "approved": _read_approved,
    "running": _read_running,
    "suspended": _read_suspended,
    "unknown": _read_lost,
    "completed": _read_completed,
    "failed": _read_failed,
    "rejected": _read_rejected,
}
