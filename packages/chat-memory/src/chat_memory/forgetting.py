"""`forget_with_notes()`, which deletes a fact and the notes in stored conversations that quote the fact.

result = await forget_with_notes(memory.scope("ana"), fact.id, store, owner="ana", by="ana")
if result.busy:
...  # call forget_with_notes() again when the runs on these conversations have ended
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from chat_core.errors import ConflictError, InvalidDocumentError
from chat_core.messages import Messages, Recalled
from chat_store import ConversationStore, UnknownConversationError

from chat_memory.memory import MemoryScope


@final
@dataclass(frozen=True, slots=True)
class Forgotten:
    """The result of `forget_with_notes()`.

    Attributes:
        existed: whether the scope contained the fact.
        redacted: the ids of the conversations whose notes about the fact were deleted. Other notes in the same turns
            were deleted as well.
        busy: the ids of conversations with an active run. They may still contain such notes, or receive new ones.
        damaged: the ids of conversations that cannot be read, and may still contain such notes. Delete them, or restore
            them from a backup and call `forget_with_notes()` again.
    """

    existed: bool
    redacted: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()


async def forget_with_notes(
    scope: MemoryScope,
    id: str,
    store: ConversationStore,
    *,
    owner: str | None,
    by: str,
) -> Forgotten:
    """Delete a fact, and redact each stored turn with notes that quote it. A repeated call continues.

    Messages of users and models, and results of tools, are not changed, even if they contain the fact.

    Args:
        scope: the scope of the fact.
        id: the id of the fact.
        store: the store of the conversations.
        owner: the owner of the conversations to search. None searches all conversations.
        by: name of the person who requests the deletion, which is recorded with the redaction.

    Raises:
        TimeoutError: see `ConversationStore.redact()`.
    """
    existed = await scope.forget(id)
    redacted: list[str] = []
    busy: list[str] = []
    damaged: list[str] = []
    for meta in await store.conversations(owner=owner):
        try:
            snapshot = await store.load(meta.id)
            if snapshot.running:  # the run may have recalled the fact and not stored the note yet
                busy.append(meta.id)
                continue
            turns = list(_turns_with_note(snapshot.messages, id))
            for turn in turns:
                await store.redact(meta.id, turn, by=by, reason=f"the fact {id} was forgotten")
        except UnknownConversationError:  # deleted since then
            continue
        except ConflictError:
            busy.append(meta.id)
        except InvalidDocumentError:
            damaged.append(meta.id)
        else:
            redacted += [meta.id] * bool(turns)
    return Forgotten(existed, tuple(redacted), tuple(busy), tuple(damaged))


def _turns_with_note(messages: Messages, note: str) -> Iterator[int]:
    """Return the indexes of the turns with a note that has this id."""
    for index, (_, turn) in enumerate(messages.turns):
        if any(found.id == note for part in turn.parts if isinstance(part, Recalled) for found in part.notes):
            yield index
