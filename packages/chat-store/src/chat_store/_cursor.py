"""The cursors of `ConversationStore.changes()`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Self, final

from chat_core.errors import UsageError

from chat_store.sql.values import from_microseconds, to_microseconds


@final
@dataclass(frozen=True, slots=True)
class Cursor:
    """A position among the changes of a store, in the form that `ConversationStore.changes()` takes and returns.

    Attributes:
        at: the time up to which due conversations have been reported.
        position: the position up to which changes have been reported, in the format of the backend. None before the
            first poll.
    """

    at: datetime
    position: str | None = None

    def __str__(self) -> str:
        return f"{to_microseconds(self.at)}-{self.position}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a cursor.

        Raises:
            UsageError: the text is not a cursor.
        """
        at, _, position = text.partition("-")
        try:
            return cls(from_microseconds(int(at)), position)
        except (ValueError, OverflowError):
            raise invalid_cursor_error(text) from None


def invalid_cursor_error(text: str) -> UsageError:
    """Return the error for a text that is not a cursor of a store."""
    msg = f"{text!r} is not a cursor of this database: pass one that changes() returned, or none to begin"
    return UsageError(msg)
