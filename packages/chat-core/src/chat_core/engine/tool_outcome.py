"""Functions that record the result, failure or interruption of a tool call in its status."""

from __future__ import annotations

from chat_core import model_texts
from chat_core.engine.plan import Settings
from chat_core.engine.subchat_report import InnerFailure
from chat_core.engine.triage_result import ReadyCall
from chat_core.messages import Tool
from chat_core.messages._tool_values import effects_inside
from chat_core.tools.result import ToolOutput, convert_data, convert_state, limit_result, limit_text


def record_result(ready: ReadyCall, value: object, settings: Settings) -> None:
    """Complete a tool call with the value that its function returned.

    The call fails if the value is invalid, or if it is the failure of an inner chat.

    Args:
        ready: the call. It remains unchanged if another process resolved it while the function ran.
        value: the value that the tool function returned.
        settings: settings of the chat, with the limits of results and kept data.
    """
    tool = ready.tool
    if tool.resolved:
        return
    if isinstance(value, InnerFailure):
        ready.raised = value.error
        text = model_texts.failed_chat(effects_inside(tool.inner), value.text)
        tool.fail(limit_text(text, settings.max_result_bytes))
        return
    try:
        if not isinstance(value, ToolOutput):
            result, files = ready.definition.result(value)
            tool.complete(limit_result(result, settings.max_result_bytes), files=files)
            return
        result, files = ready.definition.result(value.content)
        result = limit_result(result, settings.max_result_bytes)
        data = convert_data(value.data, settings.max_kept_data)
        kept = tuple([item for item in data if item.keep])
        tool.complete(result, files=files, data=kept, state=convert_state(value.state))
        ready.data = data
    except Exception as error:  # noqa: BLE001 - a tool may return anything
        tool.fail(model_texts.invalid_result(tool.name, error))


def record_interruption(tool: Tool, reason: str) -> None:
    """Record that a tool call was cancelled. A call that runs an inner chat is suspended instead.

    The conversation of the inner chat shows which of its calls were interrupted.

    Args:
        tool: the call to change.
        reason: description of the interruption.
    """
    if tool.inner is not None:
        tool.suspend(tool.inner)
    else:
        tool.lost(reason)


def fail_unresolved(tool: Tool, error: str, max_bytes: int | None) -> None:
    """Fail a tool call. The error for the model lists the calls that had already run in a failed inner chat.

    Args:
        tool: the call. It remains unchanged if it is already resolved.
        error: description for the model.
        max_bytes: maximum size of the error, or `None`, see `limit_text()`.
    """
    if not tool.resolved:
        effects = effects_inside(tool.inner)
        tool.fail(limit_text(model_texts.cancelled_chat(effects, error) if effects else error, max_bytes))


def has_unresolved_inside(tool: Tool) -> bool:
    """Return whether a tool call has an inner chat with unresolved calls."""
    return tool.inner is not None and bool(tool.inner.pending())
