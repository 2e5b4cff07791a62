from __future__ import annotations

import copy
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from chat_core.errors import IllegalTransitionError, InvalidDocumentError, UsageError
from chat_core.messages import (
    TRANSITIONS,
    Approved,
    Completed,
    Decision,
    Failed,
    File,
    FunctionCall,
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

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)

STATUSES: list[ToolStatus] = [
    Pending(),
    Pending("approval", LATER),
    Pending("schedule", at=LATER),
    Pending("result", LATER),
    Approved(),
    Running("a", 2, NOON),
    Suspended(Messages(), "a", 2),
    Interrupted("a", 2, "gone"),
    Completed(1),
    Failed("no"),
    Rejected("no"),
]

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


def call(raw: str = '{"cents": 500}') -> FunctionCall:
    return FunctionCall.parse("transfer", raw)


def tool(status: ToolStatus | None = None) -> Tool:
    return Tool(call(), call_id="call_1", status=status)


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


# --- Ending --------------------------------------------------------------------------------------------------------


def test_result_is_stored_as_a_json_copy() -> None:
    subject, result = tool(Running("a")), {"rows": (1, 2)}
    subject.complete(result)
    assert subject.status == Completed({"rows": [1, 2]})


@pytest.mark.parametrize("result", [object(), {"a": b""}, float("inf"), {"a": {1}}])
def test_completing_with_a_result_that_is_not_json_raises_and_changes_nothing(result: object) -> None:
    subject = tool(Running("a"))
    with pytest.raises(UsageError, match="a tool's result must be JSON"):
        subject.complete(result)
    assert subject.status == Running("a")


def test_result_files_are_returned_separately_from_the_result() -> None:
    file = File("image/png", data=b"\x89PNG")
    subject = tool(Running("a"))
    subject.complete("drawn", files=(file,))
    assert subject.result_files == (file,)


@pytest.mark.parametrize(
    ("result", "text"),
    [("as it is", "as it is"), ({"é": [1, None]}, '{"é":[1,null]}'), (None, "null"), (True, "true"), ("", "")],
)
def test_result_text_is_the_text_sent_to_the_model(result: object, text: str) -> None:
    assert tool(Completed(result)).result_text() == text


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (Failed("no such account"), "no such account"),
        (Rejected("not now", "person"), "The call was rejected by a person: not now"),
        (Rejected(None, "person"), "The call was rejected by a person"),
        (Rejected("above the limit", "policy"), "The call was rejected by policy: above the limit"),
        (Rejected("an hour", "expiry"), "The call was not approved in time: an hour"),
        (Rejected("moved on", "cancelled"), "The call was cancelled: moved on"),
    ],
)
def test_result_text_of_a_failure_or_rejection_gives_its_source_and_reason(status: ToolStatus, text: str) -> None:
    assert tool(status).result_text() == text
    assert tool(status).failed


def test_result_text_of_a_policy_rejection_does_not_mention_a_person() -> None:
    subject = tool()
    subject.refuse("above the limit")
    assert "person" not in subject.result_text()
    assert "user" not in subject.result_text().lower()


@pytest.mark.parametrize("status", STATUSES[:7], ids=repr)
def test_unresolved_call_has_no_result_text(status: ToolStatus) -> None:
    subject = tool(status)
    assert not subject.resolved
    with pytest.raises(IllegalTransitionError, match="has no result yet"):
        subject.result_text()


def test_result_text_of_an_edited_call_shows_the_arguments_that_ran() -> None:
    subject = tool()
    subject.approve(arguments={"cents": 5})
    subject.start()
    subject.complete("paid")
    assert subject.result_text() == '[The call was changed by its approver and ran with {"cents":5}]\npaid'


def test_result_text_of_a_failed_edited_call_shows_the_arguments_that_failed() -> None:
    subject = tool()
    subject.approve(arguments={"cents": 5})
    subject.start()
    subject.fail("no such account")
    assert subject.result_text() == (
        '[The call was changed by its approver and failed with {"cents":5}]\nno such account'
    )


def test_result_text_mentions_only_edits_that_change_a_value_or_type() -> None:
    subject = Tool(call('{"a": 1, "b": 2}'), edited={"b": 2, "a": 1}, status=Completed("ok"))
    assert subject.result_text() == "ok"
    subject = Tool(call('{"a": 1}'), edited={"a": True}, status=Completed("ok"))
    assert subject.result_text() == '[The call was changed by its approver and ran with {"a":true}]\nok'


# --- State from another process ---------------------------------------------------------------------------------------


def test_adopt_copies_the_whole_state_of_another_tool() -> None:
    here, there = tool(), tool()
    there.approve(arguments={"cents": 5}, by="ana")
    there.start()
    here.adopt(there)
    assert here == there
    assert here.start is not there.start


def test_repr_of_a_tool_shows_name_arguments_and_status() -> None:
    subject = tool()
    subject.approve(arguments={"cents": 5})
    text = repr(subject)
    assert "transfer" in text
    assert "{'cents': 5}" in text
    assert "Approved" in text


# --- Calls that had started when they were cancelled ----------------------------------------------------------------


def chat_call(*inner: Tool) -> Tool:
    """Create a call of a chat that has paused, with these calls in its conversation."""
    messages = Messages.from_user("go")
    messages.append("model", Turn([*inner]))
    outer = Tool(FunctionCall("ask", {"request": "go"}), id="ask")
    outer.start()
    outer.suspend(messages)
    return outer


def started(id: str) -> Tool:
    tool = Tool(FunctionCall("pay", {"cents": 5}), id=id)
    tool.start()
    return tool


def test_result_text_of_a_cancelled_interrupted_call_mentions_a_possible_effect() -> None:
    tool = started("pay")
    tool.lost("its process ended")
    before = tool.status
    tool.cancel("moved on", by="ana")
    assert isinstance(tool.status, Rejected)
    assert tool.status.started == before
    assert tool.result_text() == (
        "The call was interrupted and may have taken effect: its process ended\nIt is not continued: moved on"
    )


def test_cancelled_chat_keeps_its_conversation_and_lists_the_calls_that_ran() -> None:
    done, lost, waiting = started("done"), started("lost"), Tool(FunctionCall("pay", {"cents": 6}), id="waiting")
    done.complete("paid")
    lost.lost("it stopped")
    waiting.await_approval()
    outer = chat_call(done, lost, waiting)
    messages = Messages()
    messages.append("model", Turn([outer]))
    messages.cancel_pending("moved on")
    again = Messages.from_json(messages.to_json())
    assert again == messages
    assert again.tool("ask", "done").status == Completed("paid")
    assert isinstance(again.tool("ask", "waiting").status, Rejected)
    assert again.pending() == []
    assert again.tool("ask").result_text() == (
        "The call did not reach its end: moved on\nBefore that, these calls had been run in it:\n"
        '- pay({"cents":5}): paid\n'
        '- pay({"cents":5}): The call was interrupted and may have taken effect: it stopped\n'
        "It is not continued: moved on"
    )


def test_cancelled_chat_lists_the_calls_that_ran_in_nested_chats() -> None:
    done = started("done")
    done.complete("paid")
    outer = chat_call(chat_call(done))
    outer.cancel()
    assert outer.result_text().endswith('- pay({"cents":5}): paid')
    assert "cancelled" not in outer.result_text()


def test_result_text_of_a_cancelled_chat_without_effects_is_cancelled() -> None:
    waiting = Tool(FunctionCall("pay", {"cents": 6}), id="waiting")
    waiting.await_approval()
    outer = chat_call(chat_call(waiting))
    outer.cancel("moved on")
    assert outer.result_text() == "The call was cancelled: moved on"
    assert outer.inner is not None


def test_cancelled_interrupted_chat_reports_the_interruption_and_the_calls_that_ran() -> None:
    done, running = started("done"), started("running")
    done.complete("paid")
    outer = chat_call(done, running)
    outer.start()
    outer.lost("it stopped")
    outer.cancel()
    assert outer.result_text().splitlines()[:2] == [
        "The call was interrupted and may have taken effect: it stopped",
        '- pay({"cents":5}): paid',
    ]
    assert isinstance(running.status, Rejected)
    assert "its process ended while it ran" in outer.result_text()


def test_retrying_an_interrupted_chat_suspends_it_so_that_it_resumes() -> None:
    outer = chat_call(started("pay"))
    outer.start()
    outer.lost("it stopped")
    inner, key = outer.inner, outer.idempotency_key
    outer.retry(by="ana")
    assert isinstance(outer.status, Suspended)
    assert outer.inner is inner
    assert [decision.action for decision in outer.decisions] == ["retry"]
    outer.start()
    assert (outer.attempts, outer.idempotency_key) == (1, key)


@pytest.mark.parametrize("status", ["completed", "running"])
def test_document_with_an_invalid_started_status_of_a_cancelled_call_raises(status: str) -> None:
    document = chat_call(started("pay"))
    document.cancel()
    messages = Messages()
    messages.append("model", Turn([document]))
    data = json.loads(messages.to_json())
    data["contents"][0]["turns"][0]["parts"][0]["status"]["started"] = {"type": status, "result": 1}
    with pytest.raises(InvalidDocumentError, match="started"):
        Messages.from_json(json.dumps(data))


def test_document_with_an_invalid_write_ahead_flag_raises() -> None:
    messages = Messages()
    messages.append("model", Turn([started("pay")]))
    data = json.loads(messages.to_json())
    data["contents"][0]["turns"][0]["parts"][0]["status"]["write_ahead"] = 1
    with pytest.raises(InvalidDocumentError, match="write_ahead"):
        Messages.from_json(json.dumps(data))


def test_status_and_arguments_of_a_tool_cannot_be_assigned() -> None:
    tool: Any = Tool(FunctionCall("pay", {"cents": 1}), id="call_1")
    stored: Any = Messages.from_json(completed_document()).tool("call_1")
    for item in (tool, stored):
        before = item.status
        with pytest.raises(AttributeError):
            item.status = Approved()
        with pytest.raises(TypeError, match="read-only"):
            item.call.arguments["cents"] = 2
        assert item.status is before
        assert item.effective_arguments == {"cents": 1}
    assert stored.status == Completed("paid")


def completed_document() -> bytes | str:
    messages = Messages.from_user("pay")
    done = Tool(FunctionCall.parse("pay", '{"cents": 1}'), id="call_1")
    done.start()
    done.complete("paid")
    messages.append("model", Turn([done]))
    return messages.to_json()


@pytest.mark.parametrize("inner", [None, "text", 7, object()])
def test_suspending_without_an_inner_conversation_raises(inner: Any) -> None:
    called = tool(Running("a"))
    with pytest.raises(UsageError, match="inner conversation must be Messages"):
        called.suspend(inner)
    assert (called.status, called.revision) == (Running("a"), 0)


def test_starting_with_an_inner_conversation_of_another_type_raises() -> None:
    called = tool(Approved())
    inner: Any = ["pay"]
    with pytest.raises(UsageError, match="inner conversation must be Messages"):
        called.start(inner=inner)
    assert (called.status, called.attempts) == (Approved(), 0)


def test_retrying_with_an_invalid_inner_conversation_raises() -> None:
    inner: Any = "text"
    called = tool(Interrupted("a", inner=inner))
    with pytest.raises(UsageError, match="inner conversation must be Messages"):
        called.retry()


def test_transition_to_a_status_outside_the_table_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong_status(_: ToolStatus) -> ToolStatus:
        return Completed("paid")

    monkeypatch.setattr("chat_core.messages._tool_values.retried", wrong_status)
    called = tool(Interrupted("a"))
    with pytest.raises(IllegalTransitionError, match="'retry' changes the status to Approved, not to Completed"):
        called.retry()
    assert called.status == Interrupted("a")


def nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


def test_result_nested_200_levels_can_be_stored() -> None:
    called = tool(Running("a"))
    called.complete(nested(200))
    messages = Messages()
    messages.append("model", Turn([called]))
    assert Messages.from_json(messages.to_json()) == messages


@pytest.mark.parametrize("levels", [201, 990, 5000])
def test_result_nested_deeper_than_200_levels_raises(levels: int) -> None:
    called = tool(Running("a"))
    with pytest.raises(UsageError, match="result is nested more than 200 levels deep"):
        called.complete(nested(levels))
    assert called.status == Running("a")


def test_arguments_from_a_document_may_be_nested_deeper_than_those_of_a_new_call() -> None:
    deep: dict[str, object] = {}
    for _ in range(240):
        deep = {"a": deep}

    assert Tool(FunctionCall("pay", {}), canonical=deep, edited=deep).effective_arguments == deep


@pytest.mark.parametrize(
    ("status", "method", "arguments"),
    [
        (Pending("approval"), "approve", {"by": 17}),
        (Pending("approval"), "approve", {"note": 17}),
        (Pending("approval"), "approve", {"at": 17}),
        (Pending("approval"), "reject", {"reason": 17}),
        (Pending("approval"), "cancel", {"reason": 17}),
        (Interrupted("a"), "retry", {"by": 17}),
        (Pending("result"), "complete", {"result": "done", "by": 17}),
        (Pending("result"), "fail", {"error": 17}),
        (Pending("result"), "fail", {"error": None}),
    ],
)
def test_a_decision_that_could_not_be_read_again_raises_and_changes_nothing(
    status: ToolStatus, method: str, arguments: dict[str, object]
) -> None:
    called = tool(status)
    with pytest.raises(UsageError, match=r"must be a (string|datetime with a time zone), not (17|None)"):
        getattr(called, method)(**arguments)
    assert (called.status, called.decisions) == (status, ())
