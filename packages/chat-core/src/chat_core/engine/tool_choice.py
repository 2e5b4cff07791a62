"""Forced tool choice: how long a request makes the model call a tool."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from chat_core.messages import APPLICATION, Failed
from chat_core.options import NamedTool

if TYPE_CHECKING:
    from chat_core.messages import Messages, Tool
    from chat_core.options import ChatOptions


def relax_tool_choice(options: ChatOptions, messages: Messages) -> ChatOptions:
    """Return the options of the next request, with the tool choice `auto` if a forced choice has been obeyed.

    A forced choice is obeyed by a call after the last message of the user. Calls that the engine failed do not count.
    The history alone decides, so the result is the same after a pause, in another process, and after a correction.

    Args:
        options: options of the run.
        messages: conversation to send, without unresolved calls.
    """
    choice = options.tool_choice
    if (choice == "required" or isinstance(choice, NamedTool)) and _has_call(messages):
        return replace(options, tool_choice="auto")
    return options


def _has_call(messages: Messages) -> bool:
    """Return whether a model turn after the last message of the user has a call that the engine did not fail."""
    for role, turn in reversed(messages.live_turns):
        if role == "user" and turn.by != "engine":
            return False
        if role == "model" and turn.by != APPLICATION and not all(_failed_by_engine(tool) for tool in turn.tools):
            return True
    return False


def _failed_by_engine(tool: Tool) -> bool:
    """Return whether a call failed before it started and without a decision to fail it: it could not run."""
    decided = any(decision.action == "fail" for decision in tool.decisions)
    return isinstance(tool.status, Failed) and not tool.attempts and not decided
