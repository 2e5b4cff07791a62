"""Functions that resolve tool calls which the user interrupted, so that the conversation can continue."""

from __future__ import annotations

from collections.abc import Collection

from chat_core import Approved, Interrupted, Messages, Pending, Running, Suspended

from chat_realtime import model_texts


def interrupted_ids(messages: Messages) -> frozenset[str]:
    """Return the IDs of the calls whose outcome is unknown because an earlier run was interrupted."""
    return frozenset([tool.id for tool in messages.pending() if isinstance(tool.status, Interrupted)])


def end_interrupted_calls(messages: Messages, keep: Collection[str]) -> None:
    """Resolve the calls of a run that was cancelled because the user spoke.

    Calls that wait for a decision, for a result or until a certain time keep waiting.

    Args:
        messages: the conversation.
        keep: IDs of calls that an earlier run interrupted. These calls are not changed.
    """
    for tool in messages.pending():
        status = tool.status
        if isinstance(status, Running) or (isinstance(status, Interrupted) and tool.id not in keep):
            tool.fail(model_texts.INTERRUPTED_WHILE_RUNNING)
        elif isinstance(status, Suspended):
            tool.cancel(model_texts.INTERRUPTED_CHAT)
        elif isinstance(status, Approved) or (isinstance(status, Pending) and status.kind is None):
            tool.cancel(model_texts.INTERRUPTED_BEFORE_START)
