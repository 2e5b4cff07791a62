"""Calls of a cancelled run end, and calls that wait for something else keep waiting."""

from __future__ import annotations

from chat_core import Failed, FunctionCall, Interrupted, Messages, Pending, Rejected, Text, Tool, Turn
from chat_realtime import model_texts
from chat_realtime.interrupted_calls import end_interrupted_calls, interrupted_ids


def conversation(*tools: Tool) -> Messages:
    messages = Messages.from_user("Go.")
    messages.append("model", Turn([Text("Yes."), *tools], finish_reason="tool_calls"))
    return messages


def call(id: str) -> Tool:
    return Tool(FunctionCall("act", {}, id=id), id=id)


def test_interrupted_calls_end_according_to_their_status() -> None:
    running, lost, queued, approved = call("running"), call("lost"), call("queued"), call("approved")
    messages = conversation(running, lost, queued, approved)
    running.start()
    lost.start()
    lost.lost("cancelled")
    approved.await_approval()
    approved.approve()

    end_interrupted_calls(messages, frozenset())

    assert running.status == lost.status == Failed(model_texts.INTERRUPTED_WHILE_RUNNING)
    assert isinstance(queued.status, Rejected)
    assert isinstance(approved.status, Rejected)
    assert queued.status.reason == model_texts.INTERRUPTED_BEFORE_START
    assert messages.pending() == []


def test_calls_that_wait_or_were_interrupted_earlier_do_not_change() -> None:
    waiting, earlier = call("waiting"), call("earlier")
    messages = conversation(waiting, earlier)
    waiting.await_approval()
    earlier.start()
    earlier.lost("its process ended")

    end_interrupted_calls(messages, interrupted_ids(messages))

    assert isinstance(waiting.status, Pending)
    assert isinstance(earlier.status, Interrupted)
