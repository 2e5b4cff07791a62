"""Fixed texts that clients see for tool calls. Only logs and observers receive the details of failures."""

from __future__ import annotations

from chat_core import Completed, Rejected, Tool


def tool_failure_text(name: str) -> str:
    """Return the text for a failed call.

    Args:
        name: name of the tool.
    """
    return f"The {name} tool failed."


def rejection_text(name: str, status: Rejected) -> str:
    """Return the text for a call that was not allowed to run, without the reason that the model receives.

    Args:
        name: name of the tool.
        status: status of the call.
    """
    match status.source:
        case "person":
            return f"The {name} call was rejected."
        case "policy":
            return f"The {name} call is not allowed."
        case "expiry":
            return f"The approval of the {name} call has expired."
        case "cancelled":
            return f"The {name} call was cancelled."


def outcome_text(tool: Tool) -> str:
    """Return the text that a client displays for a resolved call: the result, or a fixed text.

    Args:
        tool: the call.
    """
    if isinstance(tool.status, Completed):
        return tool.result_text()
    return rejection_text(tool.name, tool.status) if isinstance(tool.status, Rejected) else tool_failure_text(tool.name)
