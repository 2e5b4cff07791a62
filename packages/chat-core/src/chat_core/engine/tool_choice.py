"""Function that relaxes a forced tool choice as soon as the model has called a tool."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from chat_core.messages import APPLICATION, Failed
from chat_core.options import NamedTool

if TYPE_CHECKING:
    from chat_core.messages import Messages, Tool
    from chat_core.options import ChatOptions


def relax_tool_choice(options: ChatOptions, messages: Messages) -> ChatOptions:
    """Return the options of the next request. If the model obeyed a forced tool choice, the choice becomes `auto`.

    A forced choice counts as obeyed once the model has called a tool since the last user message. Calls that failed
    before they started do not count. The result depends only on the history, so it is the same after a pause, in
    another process, and after a correction.

    Args:
        options: options of the run.
        messages: conversation to send, without unresolved calls.
    """
    choice = options.tool_choice
    if (choice == "required" or isinstance(choice, NamedTool)) and _has_model_call(messages):
        return replace(options, tool_choice="auto")
    return options


def _has_model_call(messages: Messages) -> bool:
    """Return whether the model has made a tool call since the last user message.

    Calls that the engine marked as failed before they started do not count.
    """
    for role, turn in reversed(messages.live_turns):
        if role == "user" and turn.by != "engine":
            return False
        if role == "model" and turn.by != APPLICATION and not all(_was_failed_by_engine(tool) for tool in turn.tools):
            return True
    return False


def _was_failed_by_engine(tool: Tool) -> bool:
    """Return whether the engine, and not an approver, marked a call as failed before its tool function started."""
    decided = any(decision.action == "fail" for decision in tool.decisions)
    return isinstance(tool.status, Failed) and not tool.attempts and not decided
