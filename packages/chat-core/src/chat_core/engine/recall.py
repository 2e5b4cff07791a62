"""The part of a run that adds notes from a memory before the model answers a new message of the user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from chat_core.messages import Recalled, RecalledNote, Turn

if TYPE_CHECKING:
    from chat_core.engine.checkpoint import Checkpoint
    from chat_core.messages import Messages
    from chat_core.recall import RecallSettings


async def add_recalled(settings: RecallSettings, checkpoint: Checkpoint) -> None:
    """Ask the memory about a new message of the user, and store the notes in a turn of the engine.

    A message that has notes is not asked about again, so that resumed and retried runs send the same notes. A note that
    the model has received before an earlier message is not sent again.

    Args:
        settings: the memory of the chat.
        checkpoint: checkpoint of the run.
    """
    question = _unanswered_question(checkpoint.messages)
    scope = settings.scope(checkpoint.run) if question else None
    if scope is None:
        return
    known = {(note.id, note.text) for part in checkpoint.messages.recalled for note in part.notes}
    found = await settings.source.recall(scope, question)
    notes = _limit_notes([note for note in found if (note.id, note.text) not in known], settings)
    if notes:
        await checkpoint.append_turn("user", Turn([Recalled(notes)], by="engine"))


def _unanswered_question(messages: Messages) -> str:
    """Return the text of the last turns if they are messages of the user without notes, otherwise an empty text."""
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
    """Return the first notes that are within the limits of the settings. A note that does not fit is left out."""
    kept: tuple[RecalledNote, ...] = ()
    for note in notes:
        if len(kept) < settings.max_notes and len(Recalled((*kept, note)).text) <= settings.max_characters:
            kept = (*kept, note)
    return kept
