"""The part of a run that adds notes from a memory before the model answers a new user message."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

from chat_core.arguments import require_items, require_type
from chat_core.messages import Recalled, RecalledNote, Turn
from chat_core.messages.token_estimate import estimate_text
from chat_core.recall import RecallListener

if TYPE_CHECKING:
    from chat_core.engine.checkpoint import Checkpoint
    from chat_core.messages import Messages
    from chat_core.recall import RecallSettings


async def add_recalled(settings: RecallSettings, checkpoint: Checkpoint) -> None:
    """Search the memory for notes about a new user message, and store them in a turn with `by="engine"`.

    The memory is searched once per message, so that resumed and retried runs send the same notes. Notes that were
    already sent with an earlier message are not sent again.

    Args:
        settings: the memory of the chat.
        checkpoint: messages of the run, and the stored conversation that receives their changes.

    Raises:
        UsageError: the memory returned other values than notes, or the scope is not a string.
    """
    question = _unanswered_question(checkpoint.messages)
    scope = settings.scope(checkpoint.run) if question else None
    if scope is None:
        return
    require_type("the result of scope() in with_memory()", scope, str, "a string or None")
    known = {(note.id, note.text) for part in checkpoint.messages.recalled for note in part.notes}
    answer = settings.source.recall(scope, question)
    require_type("the result of recall()", answer, Awaitable, "awaitable: define the method with async def")
    found = await answer
    require_items("the result of the memory", found, RecalledNote, "a sequence of RecalledNote objects")
    notes = _limit_notes([note for note in found if (note.id, note.text) not in known], settings)
    if notes:
        await checkpoint.append_turn("user", Turn([Recalled(notes)], by="engine"))
        if isinstance(settings.source, RecallListener):
            await settings.source.received(scope, notes)


def _unanswered_question(messages: Messages) -> str:
    """Return the text of user messages that follow the last response and have no notes yet, or an empty string."""
    last = messages.last
    if last is None or last.role != "user":
        return ""
    live = {id(turn) for _, turn in messages.live_turns[-len(last.turns) :]}
    texts: list[str] = []
    for turn in reversed(last.turns):
        if turn.by == "engine" and any(isinstance(part, Recalled) for part in turn.parts):
            break
        if turn.by != "engine" and id(turn) in live:
            texts.append(turn.text)
    return "\n\n".join(reversed(texts)).strip()


def _limit_notes(notes: Sequence[RecalledNote], settings: RecallSettings) -> tuple[RecalledNote, ...]:
    """Return the notes that fit into the limits of the settings, in order. Notes that do not fit are omitted."""
    kept: tuple[RecalledNote, ...] = ()
    for note in notes:
        longer = (*kept, note)
        if len(longer) <= settings.max_notes and estimate_text(Recalled(longer).text) <= settings.max_tokens:
            kept = longer
    return kept
