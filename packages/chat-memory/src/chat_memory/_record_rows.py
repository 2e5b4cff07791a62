"""Database-independent queries for JSON documents about conversations, such as the output of an extraction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import cast, final

from chat_core.errors import ConflictError
from chat_core.json import dumps, loads

from chat_memory._database import Session, Value
from chat_memory.extraction import ExtractedEntity
from chat_memory.facts import FORGOTTEN_PREFIX, require_name, require_short, require_text


@final
class RecordRows:
    """The records of one scope, in one transaction.

    Args:
        session: the database session of an open transaction.
        scope: the key of the scope's row.
    """

    def __init__(self, session: Session, scope: int) -> None:
        self._session = session
        self._scope = scope

    def put(
        self, conversation: str, name: str, document: Mapping[str, object], *, replace: bool
    ) -> Mapping[str, object]:
        """Store a record, and return the stored document. Without `replace`, keep and return an existing document."""
        values: dict[str, Value] = {
            "scope": self._scope,
            "conversation": require_short(require_name(conversation, "conversation"), "conversation"),
            "name": require_short(require_name(name, "the name of a record"), "the name of a record"),
            "document": require_text(dumps(dict(document)), "document"),
        }
        self._session.execute(
            "INSERT INTO chat_memory_records (scope, conversation, name, document) "
            "VALUES (:scope, :conversation, :name, :document) ON CONFLICT (scope, conversation, name) DO "
            + ("UPDATE SET document = excluded.document" if replace else "NOTHING"),
            values,
        )
        return self.find(conversation)[name]

    def find(self, conversation: str) -> dict[str, Mapping[str, object]]:
        """Return the records about a conversation by name."""
        rows = self._session.execute(
            "SELECT name, document FROM chat_memory_records WHERE scope = :scope AND conversation = :conversation "
            "ORDER BY name",
            {"scope": self._scope, "conversation": conversation},
        )
        return {str(name): _parse_record(document) for name, document in rows}

    def require_unforgotten(self, conversation: str, known: Collection[str]) -> None:
        """Raise an error if a fact from a conversation was forgotten after the caller read the records in `known`.

        Raises:
            ConflictError: there is such a fact.
        """
        rows = self._session.execute(
            "SELECT name FROM chat_memory_records WHERE scope = :scope AND conversation = :conversation "
            "AND substr(name, 1, :length) = :prefix",
            {
                "scope": self._scope,
                "conversation": conversation,
                "prefix": FORGOTTEN_PREFIX,
                "length": len(FORGOTTEN_PREFIX),
            },
        )
        if any(name not in known for (name,) in rows):
            msg = f"nothing was stored, because a fact from the conversation {conversation!r} was forgotten meanwhile"
            raise ConflictError(msg)

    def delete_texts(self, conversation: str, turn: int | None) -> dict[int, list[ExtractedEntity]]:
        """Delete the stored extractions and summaries of a conversation.

        The range of each extracted chunk of turns is kept in a record "chunk …", with the entities of the chunk if it
        does not contain `turn`. A later call reads in these records which texts come from a turn.

        Returns:
            The entities of the chunks that contain `turn`, by the index of their first turn.
        """
        found: dict[int, list[ExtractedEntity]] = defaultdict(list)
        for name, document in self.find(conversation).items():
            kind, _, rest = name.partition(" ")
            output = cast("Mapping[str, object]", document.get("output", document))
            if kind not in {"extraction", "chunk"} or "first" not in document or "entities" not in output:
                continue
            first, last = cast("int", document["first"]), cast("int", document["last"])
            entities = cast("list[dict[str, str]]", output["entities"])
            if turn is not None and first <= turn <= last:
                found[first] += [ExtractedEntity(**item) for item in entities]
                entities = []
            chunk = {"first": first, "last": last, "entities": entities}
            self.put(conversation, f"chunk {rest}", chunk, replace=True)
        self._session.execute(
            "DELETE FROM chat_memory_records WHERE scope = :scope AND conversation = :conversation "
            "AND (substr(name, 1, 11) = 'extraction ' OR substr(name, 1, 8) = 'summary ')",
            {"scope": self._scope, "conversation": conversation},
        )
        return found

    def conversations(self) -> list[str]:
        """List the conversations that have records."""
        rows = self._session.execute(
            "SELECT DISTINCT conversation FROM chat_memory_records WHERE scope = :scope ORDER BY conversation",
            {"scope": self._scope},
        )
        return [str(row[0]) for row in rows]


def _parse_record(document: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", loads(str(document)))
