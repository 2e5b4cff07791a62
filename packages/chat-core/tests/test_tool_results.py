"""Results of tool calls, calls that were cancelled, and values that are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from chat_core.errors import IllegalTransitionError, InvalidDocumentError, UsageError
from chat_core.messages import (
    Approved,
    Completed,
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
    ToolStatus,
    Turn,
)
from tool_states import STATUSES, call, tool

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
