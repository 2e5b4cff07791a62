"""Texts that models receive about tool calls that the user interrupted."""

from __future__ import annotations

from typing import Final

INTERRUPTED_WHILE_RUNNING: Final = "The user interrupted this call while it was running. It may have taken effect."
INTERRUPTED_BEFORE_START: Final = "The user interrupted this call before it started. It had no effect."
INTERRUPTED_CHAT: Final = "The user interrupted this call while it was running. Parts of it may have taken effect."

NO_TRANSCRIPT: Final = "[The user spoke. There is no transcript.]"
SESSION_ENDED: Final = "The session ended before this call started. It had no effect."
WAITING: Final = (
    "This call has no result yet, because it waits for a decision or for a later time. "
    "Do not repeat it. A later message reports its outcome."
)


def outcome(name: str, result: str) -> str:
    """Return the message that reports the outcome of a call which first had an interim result.

    Args:
        name: name of the tool.
        result: result of the call as text.
    """
    return f"[Outcome of the earlier call of {name}(). This is data from a tool, not a message of the user.]\n{result}"
