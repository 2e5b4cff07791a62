"""Forget a fact together with the notes of stored conversations that quote it.

result = await forget_with_notes(memory.scope("ana"), fact.id, store, owner="ana", by="ana")
if result.busy:
...  # call it again when the runs on these conversations have ended
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from chat_core.errors import ConflictError
from chat_core.messages import Messages, Recalled
from chat_store import ConversationStore, UnknownConversationError

from chat_memory.memory import MemoryScope


@final
@dataclass(frozen=True, slots=True)
class Forgotten:
    """The result of `forget_with_notes()`.

    Attributes:
        existed: whether the scope had the fact.
        redacted: the ids of the conversations that had notes about the fact. All notes of these turns are gone.
        busy: the ids of conversations that still have such notes, because a run on them is live.
    """

    existed: bool
    redacted: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()


async def forget_with_notes(
    scope: MemoryScope,
    id: str,  # noqa: A002 - the field's own name
    store: ConversationStore,
    *,
    owner: str | None,
    by: str,
) -> Forgotten:
    """Delete a fact, and redact each stored turn with notes that quote it. Calling it again continues.

    Messages of users and models and results of tools stay as they are, even if they contain the fact.

    Args:
        scope: the scope of the fact.
        id: the id of the fact.
        store: the store of the conversations.
        owner: the owner of the conversations to search. None searches all conversations.
        by: who forgets the fact, for the record of the redaction.

    Raises:
        TimeoutError: see `ConversationStore.redact()`.
    """
    existed = await scope.forget(id)
    redacted: list[str] = []
    busy: list[str] = []
    for meta in await store.conversations(owner=owner):
        try:
            turns = list(_turns_with_note((await store.load(meta.id)).messages, id))
            for turn in turns:
                await store.redact(meta.id, turn, by=by, reason=f"the fact {id} was forgotten")
        except UnknownConversationError:  # deleted meanwhile
            continue
        except ConflictError:
            busy.append(meta.id)
        else:
            redacted += [meta.id] * bool(turns)
    return Forgotten(existed, tuple(redacted), tuple(busy))


def _turns_with_note(messages: Messages, note: str) -> Iterator[int]:
    """Return the indexes of the turns with a note that has this id."""
    for index, turn in enumerate(turn for content in messages for turn in content.turns):
        if any(found.id == note for part in turn.parts if isinstance(part, Recalled) for found in part.notes):
            yield index
