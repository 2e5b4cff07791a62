"""A tool call and its life, in one part: the call as the model wrote it, and what has become of it.

The life is the table in `status.py`. Every method that changes the status goes through `Tool._transition`, which looks
the event up there and raises `IllegalTransitionError` before it touches anything.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, Self, cast, final

from chat_core import model_texts
from chat_core.errors import IllegalTransitionError, UsageError
from chat_core.json import dumps, is_finite, loads
from chat_core.messages.status import (
    TRANSITIONS,
    Approved,
    Completed,
    Decision,
    DecisionAction,
    Failed,
    Interrupted,
    Pending,
    Rejected,
    Running,
    Suspended,
    ToolEvent,
    ToolStatus,
)

if TYPE_CHECKING:
    from chat_core.messages.messages import Messages
    from chat_core.messages.parts import Extra, File, Opaque
    from chat_core.tools.context import CallContext  # circular: a strategy reads the context from the call

FINAL_STATUSES = (Completed, Failed, Rejected)
_STARTED_STATUSES = (Running, Suspended, Interrupted)


@final
@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call of a function by its name.

    In the history it is the call as the model wrote it. A strategy is shown one whose `arguments` are validated and
    canonical JSON, exactly what will run, with our id of the tool and a read-only `context`.

    Attributes:
        raw: the model's text of the arguments, where it is not just the compact JSON of `arguments`.
        problem: why `raw` is no JSON object; `arguments` is empty then.
        opaque: what the provider wants back with the call.
    """

    name: str
    arguments: Mapping[str, object] = field(default_factory=dict[str, object])
    id: str = ""
    raw: str | None = field(default=None, repr=False)
    problem: str | None = None
    opaque: Opaque | None = field(default=None, repr=False)
    context: CallContext | None = field(default=None, repr=False, compare=False)
    extra: Extra = field(default=None, repr=False)

    @classmethod
    def parse(cls, name: str, raw: str, *, opaque: Opaque | None = None) -> Self:
        """Read arguments from a model's text. Nothing is raised: what cannot be read is told in `problem`.

        Empty text means no arguments: several servers write it for functions that take none.
        """
        if not raw.strip():
            return cls(name, raw=raw or None, opaque=opaque)
        try:
            value = loads(raw)
            if not is_finite(value):
                json.dumps(value, allow_nan=False)
        except ValueError as error:
            return cls(name, raw=raw, problem=model_texts.unreadable_arguments(error), opaque=opaque)
        if not isinstance(value, dict):
            kind = "null" if value is None else type(value).__name__
            if value is None:
                return cls(name, raw=raw, opaque=opaque)
            return cls(name, raw=raw, problem=model_texts.arguments_not_an_object(kind), opaque=opaque)
        return cls(name, cast("dict[str, object]", value), raw=raw, opaque=opaque)

    @property
    def text(self) -> str:
        """The arguments as text: what the model wrote, where that is known, else compact JSON."""
        return self.raw if self.raw is not None else dumps(self.arguments)

    def shown(self, arguments: Mapping[str, object], id: str, context: CallContext) -> FunctionCall:  # noqa: A002
        """The call as a strategy is shown it."""
        return FunctionCall(self.name, arguments, id, self.text, self.problem, self.opaque, context, self.extra)


@final
class Tool:
    """A call of a tool and its life.

    Attributes:
        id: unique in its conversation, ours; the provider's where that is usable.
        call_id: the provider's id of the call, `None` where it gave none.
        call: what the model asked for; it never changes.
        status: what has become of it; it only moves forward.
        canonical: the model's arguments as they were validated when the call began to wait (defaults filled in), `None`
            where that is what it wrote.
        edited: the arguments that an approver put in place of the model's, `None` where nobody did.
        decisions: who decided what about it, oldest first.
        idempotency_key: given to the tool's body, the same for every attempt; empty before the first.
        attempts: how many times its body was started.
        revision: how many transitions it has made.
    """

    __slots__ = (
        "attempts", "call", "call_id", "canonical", "decisions", "edited", "extra", "id", "idempotency_key", "revision",
        "status",
    )  # fmt: skip

    def __init__(
        self,
        call: FunctionCall,
        *,
        id: str = "",  # noqa: A002 - the field's own name
        call_id: str | None = None,
        status: ToolStatus | None = None,
        canonical: Mapping[str, object] | None = None,
        edited: Mapping[str, object] | None = None,
        decisions: tuple[Decision, ...] = (),
        idempotency_key: str = "",
        attempts: int = 0,
        revision: int = 0,
        extra: Extra = None,
    ) -> None:
        self.call = call
        self.id = id or call_id or new_tool_id()
        self.call_id = call_id
        self.status: ToolStatus = status or Pending()
        self.canonical = canonical
        self.edited = edited
        self.decisions = decisions
        self.idempotency_key = idempotency_key
        self.attempts = max(attempts, status.attempt) if isinstance(status, _STARTED_STATUSES) else attempts
        self.revision = revision
        self.extra = extra

    def __repr__(self) -> str:
        arguments = dict(self.effective_arguments)
        return f"Tool(id={self.id!r}, name={self.name!r}, arguments={arguments!r}, status={self.status!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tool) and all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = object.__hash__

    # --- What it is ---------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The function's name."""
        return self.call.name

    @property
    def effective_arguments(self) -> Mapping[str, object]:
        """What runs, or ran: the approver's arguments where they gave some, else the model's, as validated."""
        if self.edited is not None:
            return self.edited
        return self.call.arguments if self.canonical is None else self.canonical

    @property
    def resolved(self) -> bool:
        """Whether its life is over, so that it may reach the wire."""
        return isinstance(self.status, FINAL_STATUSES)

    @property
    def inner(self) -> Messages | None:
        """The conversation of the chat that this tool is, from its first pause until it ends."""
        return self.status.inner if isinstance(self.status, _STARTED_STATUSES) else None

    @property
    def failed(self) -> bool:
        """Whether it ended without a result: failed or rejected."""
        return isinstance(self.status, (Failed, Rejected))

    def result_text(self) -> str:
        """The result as the model is told it: a string as it is, anything else as compact JSON.

        An edited call says first what was run instead. A rejection says who refused.

        Raises:
            IllegalTransitionError: it is not resolved.
        """
        match self.status:
            case Completed(result):
                return self._edit_note("ran with") + (result if isinstance(result, str) else dumps(result))
            case Failed(error):
                return (self._edit_note("failed with") if self.attempts else "") + error
            case Rejected() as status:
                return model_texts.rejection(status.source, status.reason)
            case status:
                msg = f"tool {self.id!r} is {_status_name(status)} and has no result yet"
                raise IllegalTransitionError(msg)

    def _edit_note(self, outcome: Literal["ran with", "failed with"]) -> str:
        if self.edited is None or _equal_as_json(dict(self.edited), dict(self.call.arguments)):
            return ""
        return model_texts.edit_note(outcome, dumps(dict(self.edited)))

    @property
    def result_files(self) -> tuple[File, ...]:
        """The files that it returned beside its result."""
        return self.status.files if isinstance(self.status, Completed) else ()

    # --- What a person decides -----------------------------------------------------------------------

    def approve(
        self,
        *,
        arguments: Mapping[str, object] | None = None,
        by: str | None = None,
        note: str | None = None,
        at: datetime | None = None,
    ) -> None:
        """Allow the call; the next run of a chat executes it. `arguments` replace the model's, which are kept beside.

        The name cannot be edited. `at` is when the decision was made, now unless given.

        Raises:
            IllegalTransitionError: it does not wait (any more), or its approval has expired.
            UsageError: `arguments` are not a JSON object.
        """
        at = _now_or_aware(at)
        status = self.status
        if isinstance(status, Pending) and status.expires_at is not None and at >= status.expires_at:
            msg = f"tool {self.id!r} cannot be approved: the approval expired at {status.expires_at.isoformat()}"
            raise IllegalTransitionError(msg)
        edited = None if arguments is None else _json_object(arguments)
        self._transition(ToolEvent.APPROVE, lambda old: Approved(_expires_at(old)))
        if edited is not None:
            self.edited = edited
        self._record_decision("approve", by, at, note, edited)

    def reject(
        self,
        reason: str | None = None,
        *,
        by: str | None = None,
        note: str | None = None,
        at: datetime | None = None,
    ) -> None:
        """Refuse the call; the model is told `reason`.

        Raises:
            IllegalTransitionError: it has started already, or is over.
        """
        at = _now_or_aware(at)
        self._transition(ToolEvent.REJECT, lambda _: Rejected(reason, "person"))
        self._record_decision("reject", by, at, note)

    def cancel(self, reason: str | None = None, *, by: str | None = None, at: datetime | None = None) -> None:
        """Give the call up, whatever it waits for; written as a rejection.

        Raises:
            IllegalTransitionError: it runs now, or is over.
        """
        at = _now_or_aware(at)
        self._transition(ToolEvent.CANCEL, lambda _: Rejected(reason, "cancelled"))
        self._record_decision("cancel", by, at, None)

    def retry(self, *, by: str | None = None, note: str | None = None, at: datetime | None = None) -> None:
        """Let an interrupted call run again, knowing that it may have taken effect.

        Raises:
            IllegalTransitionError: it is not `Interrupted`.
        """
        at = _now_or_aware(at)
        self._transition(ToolEvent.RETRY, lambda _: Approved())
        self._record_decision("retry", by, at, note)

    def complete(
        self,
        result: object,
        *,
        files: tuple[File, ...] = (),
        by: str | None = None,
        note: str | None = None,
        at: datetime | None = None,
    ) -> None:
        """Record the result: of a running call, or of an interrupted one that somebody looked up. `result` is JSON.

        Raises:
            IllegalTransitionError: it neither runs nor was interrupted.
            UsageError: `result` is not made of JSON's types.
        """
        _require_zone(at)
        value = _json_copy(result, "a tool's result")
        interrupted = isinstance(self.status, Interrupted)
        self._transition(ToolEvent.COMPLETE, lambda _: Completed(value, files))
        if interrupted or by is not None:
            self._record_decision("complete", by, _now_or_aware(at), note)

    def fail(self, error: str, *, by: str | None = None, note: str | None = None, at: datetime | None = None) -> None:
        """Record that the call failed, in words that the model can act on.

        Raises:
            IllegalTransitionError: it is over, or is a chat that waits.
        """
        _require_zone(at)
        interrupted = isinstance(self.status, Interrupted)
        self._transition(ToolEvent.FAIL, lambda _: Failed(error))
        if interrupted or by is not None:
            self._record_decision("fail", by, _now_or_aware(at), note)

    # --- What the loop does ----------------------------------------------------------------------------

    def await_approval(
        self, expires_at: datetime | None = None, *, canonical: Mapping[str, object] | None = None
    ) -> None:
        """Begin to wait for a person. The terms of a wait that has begun stay as they are.

        `canonical` are the validated arguments: what is shown to the person, and what runs.
        """
        _require_zone(expires_at)
        self._transition(
            ToolEvent.AWAIT_APPROVAL,
            lambda old: old if _is_waiting(old) else Pending("approval", expires_at, None, _error_of(old)),
        )
        self._set_canonical(canonical)

    def schedule(self, at: datetime, *, canonical: Mapping[str, object] | None = None) -> None:
        """Begin to wait for a time. The terms of a wait that has begun stay as they are; `canonical` as above."""
        _require_zone(at)
        self._transition(
            ToolEvent.SCHEDULE, lambda old: old if _is_waiting(old) else Pending("schedule", None, at, _error_of(old))
        )
        self._set_canonical(canonical)

    def _set_canonical(self, canonical: Mapping[str, object] | None) -> None:
        if (
            canonical is not None
            and self.canonical is None
            and not _equal_as_json(dict(canonical), dict(self.call.arguments))
        ):
            self.canonical = _json_object(canonical)

    def refuse(self, reason: str, source: Literal["policy", "expiry"] = "policy") -> None:
        """Record that the policy refused the call, or that its approval came too late."""
        event = ToolEvent.EXPIRE if source == "expiry" else ToolEvent.REJECT
        self._transition(event, lambda _: Rejected(reason, source))

    def reconsider(self, error: str | None = None) -> None:
        """Take an approval back. With an `error` a person must look again, at the edit that was not accepted.

        The edit stays: what the person is shown is what an approval without another one would run. So do the terms of
        the wait. Without an `error` nothing has looked at the call yet, and the policy decides anew.
        """
        self._transition(
            ToolEvent.RECONSIDER,
            lambda old: Pending("approval", _expires_at(old), error=error) if error is not None else Pending(),
        )

    def start(self, at: datetime | None = None) -> Running:
        """Say that its body is about to start: a new attempt, or, of a chat that waited, the same one going on."""
        at = _now_or_aware(at)
        goes_on = isinstance(self.status, Suspended)
        return self._begin_attempt(ToolEvent.START, self.attempts if goes_on else self.attempts + 1, at)

    def again(self, at: datetime | None = None) -> Running:
        """Start the next attempt of an idempotent call that was interrupted, with the same idempotency key."""
        return self._begin_attempt(ToolEvent.AGAIN, self.attempts + 1, _now_or_aware(at))

    def _begin_attempt(self, event: ToolEvent, attempt: int, at: datetime) -> Running:
        drawn = os.urandom(32).hex()
        running = Running(drawn[:32], attempt, at, self.inner)
        self._transition(event, lambda _: running)
        self.attempts = attempt
        if not self.idempotency_key:
            self.idempotency_key = drawn[32:]
        return running

    def lost(self, reason: str) -> None:
        """Say that its process went away, or that it was cancelled in the middle: nobody knows what became of it."""
        self._transition(
            ToolEvent.LOST,
            lambda old: (
                Interrupted(old.attempt_id, old.attempt, reason, old.inner) if isinstance(old, Running) else old
            ),
        )

    def suspend(self, inner: Messages) -> None:
        """Say that the chat that this tool is has paused; `inner` is its conversation."""
        self._transition(
            ToolEvent.SUSPEND,
            lambda old: Suspended(inner, old.attempt_id, old.attempt) if isinstance(old, Running) else old,
        )

    # --- Below -------------------------------------------------------------------------------------------

    def _transition(self, event: ToolEvent, to: Callable[[ToolStatus], ToolStatus]) -> None:
        if event not in TRANSITIONS[type(self.status)]:
            allowed = ", ".join(sorted(item.value for item in TRANSITIONS[type(self.status)])) or "nothing: it is final"
            msg = f"tool {self.id!r} is {_status_name(self.status)} and cannot {event.value}; it can: {allowed}"
            raise IllegalTransitionError(msg)
        old, self.status = self.status, to(self.status)
        if self.status is not old:
            self.revision += 1

    def _record_decision(
        self,
        action: DecisionAction,
        by: str | None,
        at: datetime,
        note: str | None,
        arguments: Mapping[str, object] | None = None,
    ) -> None:
        self.decisions = (*self.decisions, Decision(action, by, at, note, arguments))

    def adopt(self, other: Tool) -> None:
        """Take over the state of the same tool elsewhere. For a tool in messages, call `Messages.adopt()`."""
        self.status = other.status
        self.canonical = other.canonical
        self.edited = other.edited
        self.decisions = other.decisions
        self.idempotency_key = other.idempotency_key
        self.attempts = other.attempts
        self.revision = other.revision
        self.extra = other.extra


def new_tool_id() -> str:
    """A new id for a tool."""
    return f"tool_{os.urandom(8).hex()}"


def _status_name(status: ToolStatus) -> str:
    return type(status).__name__


def _is_waiting(status: ToolStatus) -> bool:
    return isinstance(status, Pending) and status.kind is not None


def _expires_at(status: ToolStatus) -> datetime | None:
    return status.expires_at if isinstance(status, (Pending, Approved)) else None


def _error_of(status: ToolStatus) -> str | None:
    return status.error if isinstance(status, Pending) else None


def _now_or_aware(at: datetime | None) -> datetime:
    if at is None:
        return datetime.now(UTC)
    _require_zone(at)
    return at


def _require_zone(at: datetime | None) -> None:
    if at is not None and at.utcoffset() is None:
        msg = f"a time needs a zone, and {at!r} has none: pass datetime(…, tzinfo=timezone.utc)"
        raise UsageError(msg)


def _equal_as_json(one: object, other: object) -> bool:
    # As JSON: Python's 1, 1.0 and True are equal, and JSON's are not.
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _json_copy(value: object, what: str) -> object:
    """A copy, so that what was decided or recorded cannot change afterwards."""
    if value is None or isinstance(value, (str, bool)):
        return value
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        msg = f"{what} must be JSON (str, finite numbers, bool, None, list, dict with string keys), not {value!r}"
        raise UsageError(msg) from error


def _json_object(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        msg = f"arguments must be a JSON object, not {value!r}"
        raise UsageError(msg)
    return cast("dict[str, object]", _json_copy(dict(cast("Mapping[str, object]", value)), "arguments"))
