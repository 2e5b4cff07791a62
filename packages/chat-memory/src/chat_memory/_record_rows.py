"""Queries that store JSON documents about conversations, such as the output of an extraction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast, final

from chat_core.json import dumps, loads

from chat_memory._database import Session, Value
from chat_memory.facts import require_name, require_short, require_text


@final
class RecordRows:
    """The records of one scope, in one transaction.

    Args:
        session: the transaction.
        scope: the row of the scope.
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

    def conversations(self) -> list[str]:
        """List the conversations that have records."""
        rows = self._session.execute(
            "SELECT DISTINCT conversation FROM chat_memory_records WHERE scope = :scope ORDER BY conversation",
            {"scope": self._scope},
        )
        return [str(row[0]) for row in rows]


def _parse_record(document: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", loads(str(document)))
