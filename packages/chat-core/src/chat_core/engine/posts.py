"""Input that arrives during a run or a pause, from other processes or from the user."""

from __future__ import annotations

from chat_core.engine.checkpoint import Checkpoint
from chat_core.live_input import LiveInput
from chat_core.messages import Turn


async def apply_posts(checkpoint: Checkpoint, live: LiveInput | None = None) -> int:
    """Append posted input to the conversation, and return the number of appended turns.

    If the provider paused its last response, nothing is appended, so that the continuation follows the response
    directly.

    Args:
        checkpoint: messages of the run, and the stored conversation that receives their changes.
        live: input of the user, appended after the input that other processes posted.
    """
    last = checkpoint.messages.last
    if last is not None and last.role == "model" and last.turns[-1].finish_reason == "pause":
        return 0
    count = await checkpoint.apply_posts()
    turns = () if live is None else live.take_turns()
    for turn in turns:
        await checkpoint.append_turn("user", turn)
    return count + len(turns)


async def take_answer(checkpoint: Checkpoint, live: LiveInput | None, *, hooks: object) -> Turn | None:
    """Return the final turn that an earlier run stored, for delivery.

    Return `None` if there is no such turn, or if posted input was appended after it.

    Args:
        checkpoint: messages of the run, and the stored conversation that receives their changes.
        live: input of the user.
        hooks: the after-hooks. If they have not been called for the turn, the posted input waits for the next run.
    """
    turn = checkpoint.stored_answer()
    if turn is None or (hooks and turn.delivered is False) or checkpoint.messages.pending():
        return turn
    return None if await apply_posts(checkpoint, live) else turn
