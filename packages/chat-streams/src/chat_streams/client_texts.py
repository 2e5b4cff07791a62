"""Fixed texts about tool calls that a client receives. Details of a failure are for logs and observers."""

from __future__ import annotations

from chat_core import Rejected


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
