from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import pytest
from chat_core.errors import IllegalTransitionError, UsageError
from chat_core.messages import (
    TRANSITIONS,
    Approved,
    Completed,
    Decision,
    Failed,
    Interrupted,
    Messages,
    Pending,
    Rejected,
    Running,
    Suspended,
    Tool,
    ToolEvent,
    ToolStatus,
    Turn,
    tool_to_dict,
)
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tool_states import LATER, NOON, STATUSES, call, tool

CALLS: dict[ToolEvent, Callable[[Tool], object]] = {
    ToolEvent.APPROVE: lambda tool: tool.approve(arguments={"cents": 1}, at=NOON),
    ToolEvent.START: lambda tool: tool.start(NOON),
    ToolEvent.REJECT: lambda tool: tool.reject("no", at=NOON),
    ToolEvent.EXPIRE: lambda tool: tool.refuse("late", "expiry"),
    ToolEvent.CANCEL: lambda tool: tool.cancel("no", at=NOON),
    ToolEvent.FAIL: lambda tool: tool.fail("broken", by="ops", at=NOON),
    ToolEvent.SCHEDULE: lambda tool: tool.schedule(LATER),
    ToolEvent.AWAIT_APPROVAL: lambda tool: tool.await_approval(LATER),
    ToolEvent.RECONSIDER: lambda tool: tool.reconsider("wrong"),
    ToolEvent.AWAIT_RESULT: lambda tool: tool.await_result(LATER),
    ToolEvent.COMPLETE: lambda tool: tool.complete({"ok": True}, by="ops", at=NOON),
    ToolEvent.AWAIT_OUTCOME: lambda tool: tool.await_outcome(LATER),
    ToolEvent.LOST: lambda tool: tool.lost("gone"),
    ToolEvent.AGAIN: lambda tool: tool.again(NOON),
    ToolEvent.SUSPEND: lambda tool: tool.suspend(Messages()),
    ToolEvent.RETRY: lambda tool: tool.retry(at=NOON),
}


def target_of(status: ToolStatus, event: ToolEvent) -> type[ToolStatus] | None:
    """Return the status that an event leads to, or None. What a pending call waits for decides about its result."""
    if isinstance(status, Pending):
        refused = {ToolEvent.APPROVE, ToolEvent.START} if status.kind == "result" else {ToolEvent.COMPLETE}
        if event in refused:
            return None
    return TRANSITIONS[type(status)].get(event)


def snapshot(tool: Tool) -> object:
    return copy.deepcopy(tool_to_dict(tool))


# --- The table ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("event", ToolEvent, ids=str)
@pytest.mark.parametrize("status", STATUSES, ids=repr)
def test_status_changes_only_by_the_transitions_of_the_table(status: ToolStatus, event: ToolEvent) -> None:
    subject = tool(status)
    before = snapshot(subject)
    target = target_of(status, event)
    if target is None:
        with pytest.raises(IllegalTransitionError, match=f"which does not allow {event.value!r}"):
            CALLS[event](subject)
        assert snapshot(subject) == before
        assert subject.revision == 0
    else:
        CALLS[event](subject)
        assert type(subject.status) is target
        assert subject.revision == (subject.status is not status)


class Life(RuleBasedStateMachine):
    """State machine that applies events in any order and checks the transitions. Final statuses never change."""

    subject: Tool

    @initialize()
    def born(self) -> None:
        self.subject = tool()
        self.key = ""

    @rule(event=st.sampled_from(ToolEvent))
    def happens(self, event: ToolEvent) -> None:
        before, old, decisions = snapshot(self.subject), self.subject.status, self.subject.decisions
        target = target_of(old, event)
        try:
            CALLS[event](self.subject)
        except IllegalTransitionError:
            assert target is None
            assert snapshot(self.subject) == before
        else:
            assert type(self.subject.status) is target
            assert self.subject.decisions[: len(decisions)] == decisions

    @invariant()
    def the_key_of_every_attempt_is_the_same(self) -> None:
        assert not self.key or self.subject.idempotency_key == self.key
        self.key = self.subject.idempotency_key

    @invariant()
    def an_attempt_is_counted(self) -> None:
        status = self.subject.status
        if isinstance(status, (Running, Suspended, Interrupted)):
            assert status.attempt == self.subject.attempts > 0
        assert bool(self.subject.attempts) == bool(self.subject.idempotency_key)

    @invariant()
    def what_is_shown_is_what_would_run(self) -> None:
        edits = [decision.arguments for decision in self.subject.decisions if decision.arguments is not None]
        assert self.subject.effective_arguments == (edits[-1] if edits else self.subject.call.arguments)
        assert self.subject.call == call()


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


# --- Ids -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call_id", ["toolu_01A09q90", "call_1|fc_2", " ", "вызов", "\ud83d", "x" * 1000])
def test_any_text_is_a_valid_call_id(call_id: str) -> None:
    subject = Tool(call(), call_id=call_id)
    assert (subject.id, subject.call_id) == (call_id, call_id)


@pytest.mark.parametrize("call_id", [None, ""])
def test_tool_gets_a_generated_id_if_the_provider_gave_none(call_id: str | None) -> None:
    one, other = Tool(call(), call_id=call_id), Tool(call(), call_id=call_id)
    assert one.id.startswith("tool_")
    assert one.id != other.id
    assert one.call_id == call_id


# --- Decisions -----------------------------------------------------------------------------------------------------


def test_edited_approval_keeps_the_original_call_and_runs_with_the_edit() -> None:
    subject = tool()
    subject.await_approval()
    subject.approve(arguments={"cents": 5})
    assert isinstance(subject.start(), Running)
    assert subject.effective_arguments == {"cents": 5}
    subject.complete("paid")
    assert subject.effective_arguments == {"cents": 5}
    assert subject.call == call()


def test_plain_approval_runs_the_arguments_of_the_model() -> None:
    subject = tool()
    subject.approve()
    assert subject.edited is None
    assert subject.effective_arguments == {"cents": 500}


def test_changing_the_passed_arguments_does_not_change_the_approval() -> None:
    subject, arguments = tool(), {"to": {"iban": "A"}}
    subject.approve(arguments=arguments)
    arguments["to"]["iban"] = "B"
    assert subject.effective_arguments == {"to": {"iban": "A"}}


def test_decision_records_author_time_note_and_arguments() -> None:
    subject = tool()
    subject.approve(arguments={"cents": 5}, by="ana", note="less", at=NOON)
    assert subject.decisions == (Decision("approve", "ana", NOON, "less", {"cents": 5}),)


def test_decisions_of_approvers_are_recorded_in_order() -> None:
    subject = tool(Interrupted("a", 1, "gone"))
    subject.retry(by="ops", note="nothing arrived", at=NOON)
    subject.start()
    subject.lost("gone again")
    subject.complete("paid", by="bank", at=LATER)
    assert [(item.action, item.by, item.at) for item in subject.decisions] == [
        ("retry", "ops", NOON),
        ("complete", "bank", LATER),
    ]
    rejected, cancelled, failed = tool(), tool(), tool(Interrupted())
    rejected.reject("no", by="ana", note="why", at=NOON)
    cancelled.cancel("moved on", by="ana", at=NOON)
    failed.fail("lost for good", at=NOON)
    assert [item.decisions[0].action for item in (rejected, cancelled, failed)] == ["reject", "cancel", "fail"]


def test_automatic_transitions_are_not_recorded_as_decisions() -> None:
    subject = tool()
    subject.await_approval()
    subject.approve()
    subject.start()
    subject.complete(1)
    assert [item.action for item in subject.decisions] == ["approve"]
    refused = tool()
    refused.refuse("above the limit")
    assert refused.decisions == ()


def test_approving_twice_raises() -> None:
    subject = tool()
    subject.approve(by="ana")
    with pytest.raises(IllegalTransitionError, match="is Approved, which does not allow 'approve'"):
        subject.approve(by="bob", arguments={"cents": 1})
    assert subject.edited is None
    assert [item.by for item in subject.decisions] == ["ana"]


@pytest.mark.parametrize("status", [Completed(1), Failed("no"), Rejected("no")], ids=repr)
def test_approving_a_resolved_call_raises(status: ToolStatus) -> None:
    with pytest.raises(IllegalTransitionError, match="it allows nothing, because it is final"):
        tool(status).approve()


def test_approval_arguments_cannot_change_the_name_of_a_call() -> None:
    subject = tool()
    subject.approve(arguments={"name": "other"})
    assert subject.name == "transfer"


@pytest.mark.parametrize("arguments", [[1], "x", {"a": object()}, {"a": float("nan")}, {"a": {1, 2}}])
def test_approving_with_arguments_that_are_not_a_json_object_changes_nothing(arguments: object) -> None:
    subject = tool()
    before = snapshot(subject)
    with pytest.raises(UsageError, match="arguments must be"):
        subject.approve(arguments=arguments)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - that is the test
    assert snapshot(subject) == before


# --- Waiting -------------------------------------------------------------------------------------------------------


def test_approving_after_expiry_raises_and_changes_nothing() -> None:
    subject = tool()
    subject.await_approval(LATER)
    before = snapshot(subject)
    with pytest.raises(IllegalTransitionError, match="expired at 2026-03-01T13:00:00"):
        subject.approve(at=LATER)
    assert snapshot(subject) == before
    subject.approve(at=LATER - timedelta(microseconds=1))
    assert isinstance(subject.status, Approved)


def test_expiry_is_compared_as_an_instant_across_time_zones() -> None:
    subject = tool()
    subject.await_approval(LATER)
    tokyo = timezone(timedelta(hours=9))
    with pytest.raises(IllegalTransitionError, match="expired"):
        subject.approve(at=LATER.astimezone(tokyo))


def test_awaiting_or_scheduling_again_does_not_change_the_terms_of_a_wait() -> None:
    subject = tool()
    subject.await_approval(LATER)
    revision = subject.revision
    subject.await_approval(LATER + timedelta(days=1))
    subject.schedule(LATER + timedelta(days=1))
    assert subject.status == Pending("approval", LATER)
    assert subject.revision == revision
    other = tool()
    other.schedule(LATER)
    other.schedule(NOON)
    other.await_approval(NOON)
    assert other.status == Pending("schedule", at=LATER)


def test_reconsidering_an_invalid_edit_keeps_the_terms_and_reports_the_error() -> None:
    subject = tool()
    subject.await_approval(LATER)
    subject.approve(arguments={"cents": -1}, at=NOON)
    subject.reconsider("cents: must be more than 0")
    assert subject.status == Pending("approval", LATER, None, "cents: must be more than 0")
    assert subject.effective_arguments == {"cents": -1}
    with pytest.raises(IllegalTransitionError, match="expired"):
        subject.approve(at=LATER)


def test_plain_approval_after_reconsider_runs_the_edited_arguments() -> None:
    subject = tool()
    subject.await_approval()
    subject.approve(arguments={"cents": -1})
    subject.reconsider("too little")
    shown = dict(subject.effective_arguments)
    subject.approve()
    assert subject.effective_arguments == shown
    assert len(subject.decisions) == 2


def test_approver_can_restore_the_arguments_of_the_model() -> None:
    subject = tool()
    subject.approve(arguments={"cents": -1})
    subject.reconsider("too little")
    subject.approve(arguments=subject.call.arguments)
    assert subject.effective_arguments == {"cents": 500}
    subject.start()
    subject.complete("paid")
    assert subject.result_text() == "paid"


def test_policy_that_schedules_an_edited_call_replaces_its_terms() -> None:
    subject = tool()
    subject.await_approval(LATER)
    subject.approve(arguments={"cents": 5}, at=NOON)
    subject.reconsider()
    subject.schedule(LATER + timedelta(days=1))
    assert subject.status == Pending("schedule", at=LATER + timedelta(days=1))
    assert subject.effective_arguments == {"cents": 5}


NAIVE = datetime(2026, 3, 1, 12)  # noqa: DTZ001 - that is the test


USES: list[tuple[ToolStatus, Callable[[Tool], object]]] = [
    (Pending(), lambda tool: tool.await_approval(NAIVE)),
    (Pending(), lambda tool: tool.schedule(NAIVE)),
    (Pending(), lambda tool: tool.approve(at=NAIVE)),
    (Pending(), lambda tool: tool.reject(at=NAIVE)),
    (Pending(), lambda tool: tool.cancel(at=NAIVE)),
    (Pending(), lambda tool: tool.start(NAIVE)),
    (Running("a"), lambda tool: tool.again(NAIVE)),
    (Running("a"), lambda tool: tool.complete(1, at=NAIVE)),
    (Running("a"), lambda tool: tool.fail("no", at=NAIVE)),
    (Interrupted(), lambda tool: tool.retry(at=NAIVE)),
]


@pytest.mark.parametrize(("status", "act"), USES)
def test_time_without_a_zone_raises_and_changes_nothing(status: ToolStatus, act: Callable[[Tool], object]) -> None:
    subject = tool(status)
    before = snapshot(subject)
    with pytest.raises(UsageError, match="has no time zone"):
        act(subject)
    assert snapshot(subject) == before


# --- Running -------------------------------------------------------------------------------------------------------


def test_attempts_are_counted_over_every_kind_of_retry() -> None:
    subject = tool()
    assert subject.start(NOON).attempt == 1
    assert subject.again().attempt == 2
    subject.lost("gone")
    subject.retry()
    assert subject.start().attempt == 3
    subject.lost("gone")
    subject.retry()
    subject.reconsider("the policy changed")
    subject.approve()
    assert subject.start().attempt == 4


def test_new_attempt_keeps_the_idempotency_key_and_has_a_new_attempt_id() -> None:
    subject = tool()
    assert subject.idempotency_key == ""
    first = subject.start()
    key = subject.idempotency_key
    assert key
    second = subject.again()
    subject.lost("gone")
    subject.retry()
    third = subject.start()
    assert subject.idempotency_key == key
    assert len({first.attempt_id, second.attempt_id, third.attempt_id}) == 3


def test_interrupted_status_contains_the_attempt_and_the_reason() -> None:
    subject = tool()
    running = subject.start()
    subject.lost("the process is gone")
    assert subject.status == Interrupted(running.attempt_id, 1, "the process is gone")


def test_interrupted_call_is_still_reserved_for_its_approver() -> None:
    for inner in (None, Messages.from_user("pay")):
        subject = tool()
        subject.await_approval(of="cfo")
        subject.approve(by="cfo")
        subject.start(inner=inner)
        if inner is not None:
            subject.suspend(inner)
            subject.start()
        for _ in range(2):
            messages = Messages.from_user("Pay.")
            messages.append("model", Turn([subject], finish_reason="tool_calls"))
            subject = Messages.from_json(messages.to_json()).tool(subject.id)
            subject.lost("the process is gone")
            assert isinstance(subject.status, Interrupted)
            assert subject.status.of == "cfo"
            subject.retry(by="cfo")
            subject.start()


def test_suspended_chat_resumes_in_the_same_attempt_with_its_conversation() -> None:
    subject, inner = tool(), Messages.from_user("pay")
    subject.start()
    subject.suspend(inner)
    assert subject.inner is inner
    assert subject.start().attempt == 1
    assert subject.inner is inner
    subject.lost("gone")
    assert subject.inner is inner
