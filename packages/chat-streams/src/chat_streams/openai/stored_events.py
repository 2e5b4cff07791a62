"""The events of an earlier run, recreated from the turns that the run stored."""

from __future__ import annotations

from collections.abc import Iterator

from chat_core import ChatResponse, Done, Messages, Paused, StepFinished, ToolCall, ToolResult, Usage
from chat_core.middleware import turn_deltas


def stored_events(messages: Messages, outcome: ChatResponse | Paused, *, start: int) -> Iterator[object]:
    """Yield the events of a finished run, as its stream would have contained them, with each text in a single event.

    A run on an answered conversation yields the stored answer again.

    Args:
        messages: the conversation after the run.
        outcome: result of `chat.complete()`.
        start: number of turns before the run.
    """
    turns = messages.turns
    for _, turn in turns[:start]:
        yield from [ToolResult(tool) for tool in turn.tools if tool.resolved]
    for step, (role, turn) in enumerate(turns[start:], 1):
        if role != "model":
            continue
        yield from turn_deltas(turn)
        yield from [ToolCall(tool) for tool in turn.tools]
        yield StepFinished(step, turn.usage if turn.metadata is not None else Usage())
        yield from [ToolResult(tool) for tool in turn.tools if tool.resolved]
    if not turns[start:] and not isinstance(outcome, Paused):
        yield from turn_deltas(turns[-1][1])
    yield outcome if isinstance(outcome, Paused) else Done(outcome)
