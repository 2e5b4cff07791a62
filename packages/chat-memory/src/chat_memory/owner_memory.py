"""`OwnerMemory`, which reads and changes the memory of one owner as JSON objects, such as for a service.

owners = OwnerMemory(memory, store, recall=recall)
service = Service(engine, flow, store, authenticate=tokens, may_decide=owner_may_decide, memory=owners)
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, TypeAlias, cast, final

from chat_core.arguments import require_type
from chat_core.clock import isoformat, utc_now
from chat_core.errors import UsageError
from chat_store import ConversationStore

from chat_memory.citations import UserCitation
from chat_memory.facts import Candidate, Fact, FactStatus, Historical, Inserted, Outcome, Reinforced, Statement
from chat_memory.forgetting import forget_with_notes
from chat_memory.memory import Memory, require_memory
from chat_memory.recall import Match, Recall

Json: TypeAlias = dict[str, object]
_TEXTS: Final = ("subject", "predicate", "object")
_TIMES: Final = ("valid_from", "valid_to")


@final
class OwnerMemory:
    """The memory of each owner as JSON objects. The name of an owner is the name of the scope.

    Args:
        memory: the memory. The caller closes it.
        store: the store of the conversations, whose notes about a forgotten fact are deleted.
        recall: the search. Default: a search by words.
    """

    def __init__(self, memory: Memory, store: ConversationStore, *, recall: Recall | None = None) -> None:
        require_memory(memory)
        require_type("store", store, ConversationStore, "a store, such as SqliteStore('sessions.db')")
        if recall is not None:
            require_type("recall", recall, Recall, "a Recall, or None")
        self._memory = memory
        self._store = store
        self._recall = recall or Recall(memory)

    async def facts(self, owner: str, status: str) -> list[Json]:
        """List the facts that have a status.

        Args:
            owner: the owner of the memory.
            status: "current", "candidate", "historical" or "retracted".
        """
        return [_describe(fact) for fact in await self._memory.scope(owner).facts(status=cast("FactStatus", status))]

    async def search(self, owner: str, question: str, limit: int) -> Json:
        """Return the facts and passages that are relevant to a question, best first.

        Args:
            owner: the owner of the memory.
            question: a question or any other text.
            limit: the maximum number of matches.
        """
        found = await self._recall.search(owner, question, limit=limit)
        matches = [_describe_match(match) for match in found.matches]
        return {"matches": matches, "searched": found.searched, "degraded": found.degraded}

    async def add(self, owner: str, statement: Mapping[str, object]) -> Json:
        """Store a statement of the owner, and return its outcome with the fact.

        Args:
            owner: the owner of the memory, who has made the statement.
            statement: an object with `subject`, `predicate`, `object`, and optionally `text`, `valid_from` and
                `valid_to`.

        Raises:
            UsageError: a field of the statement has a wrong type or value.
        """
        outcome = await self._memory.scope(owner).add(_read_statement(owner, statement))
        return {"outcome": _name(outcome), "fact": _describe(outcome.fact)}

    async def forget(self, owner: str, fact: str) -> Json | None:
        """Delete a fact, and the notes in the owner's conversations that quote the fact.

        Args:
            owner: the owner of the memory.
            fact: the id of the fact.

        Returns:
            The ids of the conversations in which notes were deleted (`redacted`), that may still contain notes because
            a run is active (`busy`), or that cannot be read (`damaged`). `None` if there is nothing to forget.
        """
        done = await forget_with_notes(self._memory.scope(owner), fact, self._store, owner=owner, by=owner)
        if not (done.existed or done.redacted or done.busy):
            return None
        return {"redacted": [*done.redacted], "busy": [*done.busy], "damaged": [*done.damaged]}

    async def export(self, owner: str) -> Json:
        """Return the whole memory of an owner.

        Args:
            owner: the owner of the memory.
        """
        return await self._memory.scope(owner).export()

    async def delete_all(self, owner: str) -> None:
        """Delete the whole memory of an owner. Notes in stored conversations stay.

        Args:
            owner: the owner of the memory.
        """
        await self._memory.scope(owner).delete_all()


def _read_statement(owner: str, fields: Mapping[str, object]) -> Statement:
    texts = {name: _read_text(fields, name) for name in _TEXTS}
    for name, text in texts.items():
        if text is None:
            msg = f"the field {name} is missing: send a text"
            raise UsageError(msg)
    now = utc_now()
    times = {name: _read_time(fields, name) for name in _TIMES}
    return Statement(
        cast("str", texts["subject"]),
        cast("str", texts["predicate"]),
        cast("str", texts["object"]),
        text=_read_text(fields, "text"),
        said_at=now,
        valid_from=times["valid_from"],
        valid_to=times["valid_to"],
        citation=UserCitation(owner, now),
    )


def _read_text(fields: Mapping[str, object], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        msg = f"the field {name} must be a string, not {value!r:.60}"
        raise UsageError(msg)
    return value


def _read_time(fields: Mapping[str, object], name: str) -> datetime | None:
    text = _read_text(fields, name)
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.utcoffset() is None:
        msg = f"the field {name} must be a time with an offset, such as 2026-03-01T00:00:00Z, not {text!r:.60}"
        raise UsageError(msg)
    return time


def _name(outcome: Outcome) -> str:
    if isinstance(outcome, Inserted):
        return "inserted"
    if isinstance(outcome, Reinforced):
        return "reinforced"
    if isinstance(outcome, Candidate):
        return "candidate"
    return "historical" if isinstance(outcome, Historical) else "superseded"


def _describe(fact: Fact) -> Json:
    return {
        "id": fact.id,
        "subject": fact.subject,
        "predicate": fact.predicate,
        "object": fact.object,
        "text": fact.text,
        "status": fact.status,
        "source": fact.source,
        "confidence": fact.confidence,
        "said_at": isoformat(fact.said_at),
        "valid_from": isoformat(fact.valid_from),
        "valid_to": isoformat(fact.valid_to),
    }


def _describe_match(match: Match) -> Json:
    document = match.document
    return {
        "text": document.text,
        "kind": document.kind,
        "score": match.score,
        "fact_id": document.fact,
        "session_id": document.conversation,
        "said_at": isoformat(document.said_at),
    }
