"""Outcome of a tool call whose body has ended: a result, a failure or an interruption, recorded in its status."""

from __future__ import annotations

from chat_core import model_texts
from chat_core.engine.triage_result import ReadyCall
from chat_core.messages import Tool
from chat_core.messages._tool_values import effects_inside
from chat_core.tools.result import ToolOutput, convert_data, convert_state


def record_result(ready: ReadyCall, value: object, max_kept_data: int) -> None:
    """Complete a call with the value that its function returned, or fail it if the value cannot be stored.

    Args:
        ready: the call. A call that was resolved elsewhere while the function ran stays as it is.
        value: the returned value.
        max_kept_data: maximum size of the kept data, in bytes.
    """
    tool = ready.tool
    if tool.resolved:
        return
    output = value if isinstance(value, ToolOutput) else ToolOutput(value)
    try:
        result, files = ready.definition.result(output.content)
        data = convert_data(output.data, max_kept_data)
        kept = tuple([item for item in data if item.keep])
        tool.complete(result, files=files, data=kept, state=convert_state(output.state))
        ready.data = data
    except Exception as error:  # noqa: BLE001 - a tool may return anything
        tool.fail(model_texts.invalid_result(tool.name, error))


def record_interruption(tool: Tool, reason: str) -> None:
    """Record that a call was cancelled. The conversation of a chat shows what was interrupted in it.

    Args:
        tool: the call.
        reason: what is known about the interruption.
    """
    if tool.inner is not None:
        tool.suspend(tool.inner)
    else:
        tool.lost(reason)


def fail_unresolved(tool: Tool, error: str) -> None:
    """Fail a call. The model also learns which calls had run in a chat that failed.

    Args:
        tool: the call. A resolved call stays as it is.
        error: description for the model.
    """
    if not tool.resolved:
        effects = effects_inside(tool.inner)
        tool.fail(model_texts.cancelled_chat(effects, error) if effects else error)


def has_unresolved_inside(tool: Tool) -> bool:
    """Return whether a call is a chat in which calls wait, were decided, or were interrupted."""
    return tool.inner is not None and bool(tool.inner.pending())
