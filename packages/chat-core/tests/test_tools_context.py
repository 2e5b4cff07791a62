"""Information about a call for tool functions and strategies."""

from __future__ import annotations

from chat_core.tools import CallContext, ToolContext


def test_progress_is_reported_only_if_there_is_a_report_function() -> None:
    seen: list[object] = []
    ToolContext("call_1").progress(0.25)
    ToolContext("call_1", report=seen.append).progress(0.5)
    assert seen == [0.5]


def test_tool_context_has_defaults_for_a_first_attempt() -> None:
    context = ToolContext("call_1")
    assert (context.attempt, context.idempotency_key, context.messages, context.run.conversation_id) == (
        1,
        "",
        (),
        None,
    )
    assert (CallContext(()).run.conversation_id, CallContext(()).decisions) == (None, ())
