"""The end of a model call that a run closes before its response is complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chat_core.messages import Text, Turn
from chat_core.usage import Usage

if TYPE_CHECKING:
    from chat_core.engine.checkpoint import Checkpoint
    from chat_core.engine.model_call import ModelCall
    from chat_core.live_input import LiveInput


async def close_model_call(call: ModelCall, checkpoint: Checkpoint, live: LiveInput | None) -> Usage:
    """Close the connection of a model call, and store its usage. Return the usage.

    Args:
        call: the model call, whose turn has not been appended to the history.
        checkpoint: messages of the run, and the stored conversation that receives their changes.
        live: input of the user, if the delivered text is kept as a turn of the history.
    """
    await call.aclose()
    text = "" if live is None else live.delivered_text()
    if text:
        turn = _create_interrupted_turn(call, text)
        turn.view_offset = checkpoint.messages.view().offset
        await checkpoint.append_turn("model", turn)
    else:
        await checkpoint.record_failed_usage(call.usage, call.failed_requests)
    return call.usage


def _create_interrupted_turn(call: ModelCall, text: str) -> Turn:
    """Return a turn with the delivered text and the metadata that the provider has reported so far."""
    received = call.turn or call.partial
    turn = Turn([Text(text)], finish_reason="interrupted")
    if received is None:
        turn.failed_usage, turn.failed_requests = call.usage or None, call.failed_requests
    else:
        turn.metadata, turn.failed_usage = received.metadata, received.failed_usage
        turn.failed_requests = received.failed_requests
    return turn
