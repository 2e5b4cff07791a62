"""Posted input, which a run appends before a model call, and the rest of a conversation whose model call failed."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import datetime

from chat_core.engine.checkpoint import Checkpoint
from chat_core.errors import ChatError, ConflictError, LeaseLostError
from chat_core.messages import Turn


async def apply_posts(checkpoint: Checkpoint) -> int:
    """Append the input posted to the conversation, and return the number of turns.

    Input does not separate a response that its provider paused from its continuation.
    """
    last = checkpoint.messages.last
    if last is not None and last.role == "model" and last.turns[-1].finish_reason == "pause":
        return 0
    return await checkpoint.apply_posts()


async def take_answer(turn: Turn | None, checkpoint: Checkpoint, *, hooks: object) -> Turn | None:
    """Return the stored final turn that the run delivers, or None if posted input now follows it.

    Args:
        turn: the final turn that an earlier run stored, if any.
        checkpoint: the conversation.
        hooks: the after-hooks. If they have not been called for the turn, the posted input waits for the next run.
    """
    if turn is None or (hooks and turn.delivered is False) or checkpoint.messages.pending():
        return turn
    return None if await apply_posts(checkpoint) else turn


@contextmanager
def resting_if_failed(checkpoint: Checkpoint, now: Callable[[], datetime]) -> Generator[None]:
    """Leave a conversation whose model call failed out of the list of due ones.

    Another run would repeat the request. A worker must not do that before somebody changes the conversation.

    Args:
        checkpoint: the conversation.
        now: the clock.
    """
    try:
        yield
    except (ConflictError, LeaseLostError):
        raise
    except ChatError:
        checkpoint.looked_at = now()
        raise
