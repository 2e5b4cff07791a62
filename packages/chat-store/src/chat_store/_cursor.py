"""How far somebody has followed the changes of a store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Self, final

from chat_core.errors import UsageError

from chat_store._rows import number_of, time_of


@final
@dataclass(frozen=True, slots=True)
class Cursor:
    """What `ConversationStore.changes()` calls a cursor, which is its text.

    Attributes:
        at: up to when it is known what has become due.
        position: up to where it is known what was changed, in the words of the database; `None` before the first look.
    """

    at: datetime
    position: str | None = None

    def __str__(self) -> str:
        return f"{number_of(self.at)}-{self.position}"

    @classmethod
    def read(cls, text: str) -> Self:
        """Of a text that was a cursor.

        Raises:
            UsageError: it was none.
        """
        at, _, position = text.partition("-")
        try:
            return cls(time_of(int(at)), position)
        except (ValueError, OverflowError):
            raise not_a_cursor(text) from None


def not_a_cursor(text: str) -> UsageError:
    """What a text is told that is no cursor of a store."""
    msg = f"changes() follows a cursor that it gave for this very database, not {text!r}; it begins without one"
    return UsageError(msg)
