"""`Tool`, a tool call with its status and the decisions about it.

`status.py` has the table of allowed transitions. Every method that changes the status goes through
`Tool._transition()`, which raises `IllegalTransitionError` before anything changes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar, Literal, final

from chat_core import model_texts
from chat_core.arguments import require_time, require_type
from chat_core.messages import _tool_values as values
from chat_core.messages.function_call import FunctionCall
from chat_core.messages.parts import Extra, File
from chat_core.messages.status import (
    NEW_CALL,
    Approved,
    Completed,
    Data,
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
    next_status,
)
from chat_core.usage import NO_USAGE, Usage

if TYPE_CHECKING:
    from chat_core.messages.messages import Messages

FINAL_STATUSES = frozenset({Completed, Failed, Rejected})
_STARTED_STATUSES = (Running, Suspended, Interrupted)
_STATUSES_WITH_INNER = (*_STARTED_STATUSES, Failed)


@final
class Tool:
    """Tool call that a model made, with its status and the decisions about it.

    Attributes:
        id: id of this tool call, unique in its conversation; the provider's id if that is usable.
        call_id: the provider's id, or `None` if the provider sent none.
        call: the call as the model made it; never changes.
        canonical: the model's arguments after validation, with defaults filled in, stored when the call begins to wait;
            `None` if they equal the model's arguments.
        edited: arguments that an approver substituted for the model's, or `None`.
        decisions: decisions about the call, oldest first.
        idempotency_key: key that the tool receives, the same for every attempt; empty before the first attempt.
        attempts: number of started attempts.
        revision: number of status changes.
        inner_usage: for a chat used as a tool that has ended, the usage of its conversation.
        extra: unknown fields of the stored tool call.
    """

    __slots__ = (
        "_status", "attempts", "call", "call_id", "canonical", "decisions", "edited", "extra", "id", "idempotency_key",
        "inner_usage", "revision",
    )  # fmt: skip

    def __init__(
        self,
        call: FunctionCall,
        *,
        id: str = "",
        call_id: str | None = None,
        status: ToolStatus | None = None,
        canonical: Mapping[str, object] | None = None,
        edited: Mapping[str, object] | None = None,
        decisions: tuple[Decision, ...] = (),
        idempotency_key: str = "",
        attempts: int = 0,
        revision: int = 0,
        inner_usage: Usage = NO_USAGE,
        extra: Extra = None,
    ) -> None:
        self.call: FunctionCall = call
        self.id: str = id or call_id or values.new_tool_id()
        self.call_id: str | None = call_id
        self._status: ToolStatus = status or NEW_CALL
        self.canonical: Mapping[str, object] | None = canonical
        if canonical is not None:
            self.canonical = values.frozen_arguments(canonical, "canonical")
        self.edited: Mapping[str, object] | None = edited
        if edited is not None:
            self.edited = values.frozen_arguments(edited, "edited")
        self.decisions: tuple[Decision, ...] = decisions
        self.idempotency_key: str = idempotency_key
        self.attempts: int = max(attempts, status.attempt) if isinstance(status, _STARTED_STATUSES) else attempts
        self.revision: int = revision
        self.inner_usage: Usage = inner_usage
        self.extra = extra

    def __repr__(self) -> str:
        arguments = dict(self.effective_arguments)
        return f"Tool(id={self.id!r}, name={self.name!r}, arguments={arguments!r}, status={self.status!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tool) and all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__: ClassVar[Callable[[object], int]] = object.__hash__

    # --- Properties ---------------------------------------------------------------------------------

    @property
    def status(self) -> ToolStatus:
        """Current status, which only the methods of this class change."""
        return self._status

    @property
    def name(self) -> str:
        """Name of the called tool."""
        return self.call.name

    @property
    def effective_arguments(self) -> Mapping[str, object]:
        """Arguments for the tool: the approver's if they edited the call, otherwise the model's after validation.

        The arguments are deeply read-only. To edit them, pass a new object to `approve(arguments=…)`.
        """
        if self.edited is not None:
            return self.edited
        return self.call.arguments if self.canonical is None else self.canonical

    @property
    def resolved(self) -> bool:
        """Whether the status is final, so that the result may be sent to a provider."""
        return type(self._status) in FINAL_STATUSES

    @property
    def inner(self) -> Messages | None:
        """Inner conversation of a chat used as a tool; `None` for any other tool call.

        The conversation exists from the start of the call, and is removed when the call completes.
        """
        status = self._status.started if isinstance(self._status, Rejected) else self._status
        return status.inner if isinstance(status, _STATUSES_WITH_INNER) else None

    @property
    def usage(self) -> Usage:
        """Token usage of a chat used as a tool, so far; zero for any other tool call."""
        inner = self.inner
        return self.inner_usage if inner is None else inner.usage

    @property
    def failed(self) -> bool:
        """Whether the call ended without a result: failed or rejected."""
        return isinstance(self._status, (Failed, Rejected))

    def result_text(self) -> str:
        """Return the result as the model receives it: a string as it is, any other value as compact JSON.

        The result of an edited call begins with a note about the arguments that were used. A rejection names its
        source. If a call was cancelled after its start, the text describes the known effects.

        Raises:
            IllegalTransitionError: the tool call is not resolved.
        """
        return values.result_text(self)

    @property
    def result_files(self) -> tuple[File, ...]:
        """Files returned along with the result."""
        return self._status.files if isinstance(self._status, Completed) else ()

    @property
    def data(self) -> tuple[Data, ...]:
        """Data for the application, which is stored with the result and which the model does not receive."""
        return self._status.data if isinstance(self._status, Completed) else ()

    # --- Decisions of an approver --------------------------------------------------------------------

    def approve(
        self,
        *,
        arguments: Mapping[str, object] | None = None,
        by: str | None = None,
        note: str | None = None,
        at: datetime | None = None,
    ) -> None:
        """Approve the call. The next run of a chat executes it.

        Args:
            arguments: arguments that replace the model's, a JSON object. The model's arguments stay in `call`.
            by: name of the approver.
            note: comment stored with the decision; the model does not receive it.
            at: time of the decision, with a time zone; now by default.

        Raises:
            IllegalTransitionError: the call is not waiting, or its approval expired before `at`.
            UsageError: `arguments` is not a JSON object, a text is not a string, or `at` has no time zone.
        """
        at = values.check_decision(at, by=by, note=note)
        values.require_in_time(self, at, "approval")
        edited = None if arguments is None else values.json_object(arguments)
        status = self._status
        self._transition(ToolEvent.APPROVE, Approved(values.expiry_of(status), of=values.approver_of(status)))
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
        """Reject the call.

        Args:
            reason: reason that the model receives.
            by: name of the user who rejected the call.
            note: comment stored with the decision; the model does not receive it.
            at: time of the decision, with a time zone; now by default.

        Raises:
            IllegalTransitionError: the call has started or is resolved.
        """
        at = values.check_decision(at, reason=reason, by=by, note=note)
        self._transition(ToolEvent.REJECT, Rejected(reason, "person"))
        self._record_decision("reject", by, at, note)

    def cancel(self, reason: str | None = None, *, by: str | None = None, at: datetime | None = None) -> None:
        """Cancel an unresolved call that is not running. It becomes `Rejected` with the source `"cancelled"`.

        If the call has started, `Rejected.started` keeps its last status, and the model receives its known effects.
        Unresolved calls in the inner conversation are cancelled too.

        Args:
            reason: reason that the model receives.
            by: name of the user who cancelled the call.
            at: time of the decision, with a time zone; now by default.

        Raises:
            IllegalTransitionError: the call is running or resolved.
        """
        at = values.check_decision(at, reason=reason, by=by)
        self._transition(ToolEvent.CANCEL, values.cancelled(self._status, reason))
        self._record_decision("cancel", by, at, None)
        self._cancel_inside(reason, by, at)

    def retry(self, *, by: str | None = None, note: str | None = None, at: datetime | None = None) -> None:
        """Approve another attempt of an interrupted call, which may have taken effect already.

        A chat used as a tool becomes `Suspended`, and the next run resumes its conversation where it stopped.

        Args:
            by: name of the user who decided.
            note: comment stored with the decision; the model does not receive it.
            at: time of the decision, with a time zone; now by default.

        Raises:
            IllegalTransitionError: the status is not `Interrupted`.
        """
        at = values.check_decision(at, by=by, note=note)
        self._transition(ToolEvent.RETRY, values.retried(self._status))
        self._record_decision("retry", by, at, note)

    def complete(
        self,
        result: object,
        *,
        files: tuple[File, ...] = (),
        data: tuple[Data, ...] = (),
        state: Mapping[str, object] | None = None,
        by: str | None = None,
        note: str | None = None,
        at: datetime | None = None,
    ) -> None:
        """Record the result of a call that is running, was interrupted, or waits for an external result.

        Args:
            result: the result, made of JSON types; it is copied.
            files: files returned along with the result.
            data: data for the application that is kept with the result.
            state: JSON object that is merged into the state of the conversation.
            by: name of the user or program that supplied the result, if not the tool itself.
            note: comment stored with the decision; the model does not receive it.
            at: time of the decision, with a time zone; now by default.

        Raises:
            IllegalTransitionError: the call is neither running nor interrupted nor waiting for a result, or the wait
                for its result expired before `at`.
            UsageError: `result` or `state` is not JSON, `at` has no time zone, or another argument has the wrong type.
        """
        if at is not None or by is not None or note is not None:
            values.check_decision(at, by=by, note=note)
        change = None if state is None else values.json_object(state, "state")
        value = values.json_copy(result, "a tool's result")
        values.check_attachments(files, data)
        from_outside = not isinstance(self._status, Running) and values.awaits_outcome(self._status)
        if from_outside:
            values.require_in_time(self, at, "result")
        self._transition(ToolEvent.COMPLETE, values.new_completed(value, files, data, change))
        if from_outside or by is not None:
            self._record_decision("complete", by, values.now_or_aware(at), note)

    def fail(self, error: str, *, by: str | None = None, note: str | None = None, at: datetime | None = None) -> None:
        """Record that the call failed. For a chat used as a tool, cancel unresolved calls in its conversation.

        Args:
            error: description that the model receives and can act on.
            by: name of the user or program that decided, if not the tool itself.
            note: comment stored with the decision; the model does not receive it.
            at: time of the decision, with a time zone; now by default.

        Raises:
            IllegalTransitionError: the call is resolved, or is a paused chat.
        """
        values.check_decision(at, error=error, by=by, note=note)
        from_outside, inner = values.awaits_outcome(self.status), self.inner
        self._transition(ToolEvent.FAIL, Failed(error, inner=inner))
        if from_outside or by is not None:
            self._record_decision("fail", by, values.now_or_aware(at), note)
        if inner is not None:
            self._cancel_inside(error, by, values.now_or_aware(at))

    # --- Transitions of the engine -----------------------------------------------------------------------

    def await_approval(
        self,
        expires_at: datetime | None = None,
        *,
        canonical: Mapping[str, object] | None = None,
        of: str | None = None,
    ) -> None:
        """Make the call wait for an approver. If the call already waits, the terms of that wait stay in effect.

        Args:
            expires_at: time from which the call can no longer be approved; no limit by default.
            canonical: validated arguments, which the approver sees and the tool receives.
            of: role or name of the principal that must decide.
        """
        values.check_decision(expires_at, of=of)
        self._wait(ToolEvent.AWAIT_APPROVAL, Pending("approval", expires_at, of=of), canonical)

    def await_result(
        self, expires_at: datetime | None = None, *, canonical: Mapping[str, object] | None = None
    ) -> None:
        """Make the call wait for an external result. If the call already waits, the terms of that wait stay in effect.

        Args:
            expires_at: time from which the call can no longer be completed; no limit by default.
            canonical: validated arguments, which the source of the result receives.
        """
        values.require_zone(expires_at)
        self._wait(ToolEvent.AWAIT_RESULT, Pending("result", expires_at), canonical)

    def schedule(self, at: datetime, *, canonical: Mapping[str, object] | None = None) -> None:
        """Make the call wait until a time. If the call already waits, the terms of that wait stay in effect.

        Args:
            at: time from which the call may run, with a time zone.
            canonical: validated arguments, which the tool will receive.
        """
        require_time("at", at)
        self._wait(ToolEvent.SCHEDULE, Pending("schedule", None, at), canonical)

    def _wait(self, event: ToolEvent, wait: Pending, canonical: Mapping[str, object] | None) -> None:
        if canonical is not None:
            canonical = values.canonical_arguments(canonical, self.call)
        self._transition(event, values.begin_wait(self._status, wait))
        if self.canonical is None:
            self.canonical = canonical

    def refuse(self, reason: str, source: Literal["policy", "expiry"] = "policy") -> None:
        """Reject the call on behalf of the chat's policy.

        Args:
            reason: reason that the model receives.
            source: `"policy"` if a strategy rejected the call, `"expiry"` if its approval expired.
        """
        event = ToolEvent.EXPIRE if source == "expiry" else ToolEvent.REJECT
        self._transition(event, values.refused(reason, source))

    def reconsider(self, error: str | None = None) -> None:
        """Revoke the approval of the call, so that the call must be decided again.

        Args:
            error: description of the invalid edited arguments. The call keeps them and waits for an approver again, on
                the terms of the earlier wait. Without an error, the chat's strategy decides again.
        """
        self._transition(ToolEvent.RECONSIDER, values.wait_again(self._status, error))

    def start(self, at: datetime | None = None, *, inner: Messages | None = None) -> Running:
        """Record that the tool is about to start, and return the new status. A suspended chat resumes its attempt.

        Args:
            at: time of the start; now by default.
            inner: conversation of a chat used as a tool that starts for the first time.
        """
        return self._begin_attempt(ToolEvent.START, at, inner)

    def again(self, at: datetime | None = None) -> Running:
        """Record the next attempt of an interrupted idempotent call, with the same key, and return the new status."""
        return self._begin_attempt(ToolEvent.AGAIN, at)

    def _begin_attempt(self, event: ToolEvent, at: datetime | None, inner: Messages | None = None) -> Running:
        status, random_ids = self._status, os.urandom(32).hex()
        attempt = self.attempts if isinstance(status, Suspended) else self.attempts + 1
        inner = getattr(status, "inner", None) or inner
        at, of = values.now_or_aware(at), values.approver_of(status)
        running = values.new_running(random_ids[:32], attempt, at, inner, of)
        self._transition(event, running)
        self.attempts = attempt
        if not self.idempotency_key:
            self.idempotency_key = random_ids[32:]
        return running

    def lost(self, reason: str) -> None:
        """Record that the process died, or the call was cancelled, while the tool was running."""
        values.check_decision(None, reason=reason)
        old = self._status
        if isinstance(old, Running):
            old = Interrupted(old.attempt_id, old.attempt, reason, old.inner, of=old.of)
        self._transition(ToolEvent.LOST, old)

    def await_outcome(self, expires_at: datetime | None = None, at: datetime | None = None) -> None:
        """Make an interrupted call wait for its outcome until a deadline. An existing deadline is not changed.

        Args:
            expires_at: deadline of a rule `RequireApproval(expires_in=...)`, with a time zone.
            at: deadline of a rule `Schedule(at)`, with a time zone.
        """
        values.require_zone(expires_at)
        values.require_zone(at)
        self._transition(ToolEvent.AWAIT_OUTCOME, values.with_deadline(self._status, expires_at, at))

    def suspend(self, inner: Messages) -> None:
        """Record that a chat used as a tool has paused; `inner` is its conversation."""
        old = self._status
        if isinstance(old, Running):
            old = Suspended(inner, old.attempt_id, old.attempt, of=old.of)
        self._transition(ToolEvent.SUSPEND, old)

    # --- Implementation ----------------------------------------------------------------------------------

    def _transition(self, event: ToolEvent, new: ToolStatus) -> None:
        old = self._status
        if (target := next_status(old, event)) is None:
            raise values.illegal_transition(self, event)
        inner = getattr(new, "inner", None)
        if inner is not None or type(new) is not target or target is Suspended:
            values.require_target(event, target, new)
        inner = getattr(old, "inner", None)
        self._status = new
        if inner is not None and self.inner is None:
            self.inner_usage = inner.usage
        if new is not old:
            self.revision += 1

    def _cancel_inside(self, reason: str | None, by: str | None, at: datetime) -> None:
        for tool in self.inner.pending() if self.inner is not None else ():
            if isinstance(tool.status, Running):
                tool.lost(model_texts.PROCESS_ENDED)
            tool.cancel(reason, by=by, at=at)

    def _record_decision(
        self,
        action: DecisionAction,
        by: str | None,
        at: datetime,
        note: str | None,
        arguments: Mapping[str, object] | None = None,
    ) -> None:
        self.decisions = (*self.decisions, Decision(action, by, at, note, arguments))

    def with_status(self, status: ToolStatus) -> Tool:
        """Return a copy of this call with another status, for use by stores. This call does not change."""
        state = {name: getattr(self, name) for name in self.__slots__ if name not in {"_status", "call"}}
        return Tool(self.call, status=status, **state)

    def adopt(self, other: Tool) -> None:
        """Update this call from another copy of the same call. For a call in messages, use `Messages.adopt()`.

        Raises:
            UsageError: `other` is not a tool call.
        """
        require_type("other", other, Tool, "a tool call")
        self._status = other.status
        self.canonical = other.canonical
        self.edited = other.edited
        self.decisions = other.decisions
        self.idempotency_key = other.idempotency_key
        self.attempts = other.attempts
        self.revision = other.revision
        self.inner_usage = other.inner_usage
        self.extra = other.extra
