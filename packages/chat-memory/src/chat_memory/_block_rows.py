"""Database-independent queries for core blocks, which are named texts."""

from __future__ import annotations

from typing import final

from chat_memory._database import Session, Value
from chat_memory.facts import require_name, require_short, require_text


@final
class BlockRows:
    """The core blocks of one scope, in one transaction.

    Args:
        session: the database session of an open transaction.
        scope: the key of the scope's row.
    """

    def __init__(self, session: Session, scope: int) -> None:
        self._session = session
        self._scope = scope

    def find(self) -> dict[str, str]:
        """Return the texts of the blocks by name."""
        rows = self._session.execute(
            "SELECT name, text FROM chat_memory_blocks WHERE scope = :scope ORDER BY name", {"scope": self._scope}
        )
        return {str(name): str(text) for name, text in rows}

    def set(self, name: str, text: str, replaces: str | None) -> bool:
        """Store the text of a block, and return True. If `replaces` differs from the stored text, return False.

        An empty text deletes the block.
        """
        require_short(require_name(name, "the name of a block"), "the name of a block")
        if replaces is not None and self.find().get(name, "") != replaces:
            return False
        values: dict[str, Value] = {"scope": self._scope, "name": name, "text": require_text(text, "text")}
        if text:
            self._session.execute(
                "INSERT INTO chat_memory_blocks (scope, name, text) VALUES (:scope, :name, :text) "
                "ON CONFLICT (scope, name) DO UPDATE SET text = excluded.text",
                values,
            )
        else:
            self._session.execute("DELETE FROM chat_memory_blocks WHERE scope = :scope AND name = :name", values)
        return True
