"""Cursors: texts that mark a position in the changes of a store or in one of its lists."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Self, TypeAlias, cast, final

from chat_core.errors import UsageError
from chat_core.json import dump_bytes, loads

from chat_store._job_rules import JobFilter
from chat_store.sql.values import from_microseconds, to_microseconds


@final
@dataclass(frozen=True, slots=True)
class Cursor:
    """A position in the changes of a store. `ConversationStore.changes()` accepts and returns it as text.

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
        """Parse the text form of a cursor.

        Raises:
            UsageError: the text is not a cursor.
        """
        at, _, position = text.partition("-")
        try:
            return cls(from_microseconds(int(at)), position)
        except (ValueError, OverflowError):
            raise invalid_cursor_error(text) from None


def invalid_cursor_error(text: str) -> UsageError:
    """Return the error to raise for a text that is not a valid cursor."""
    msg = f"{text!r} is not a cursor of this database: pass one that changes() returned, or None to begin"
    return UsageError(msg)


ListPosition: TypeAlias = Sequence[int | str | None]
"""The sort key of one row in a list."""


def list_cursor(*position: object) -> str:
    """Encode the sort key of a row in a list as a cursor.

    Args:
        *position: the values of the sort key. In a damaged row, they may have any type.
    """
    values = [value if value is None or isinstance(value, int | str) else str(value) for value in position]
    return urlsafe_b64encode(dump_bytes(values)).rstrip(b"=").decode()


def parse_list_cursor(text: str, *types: type[int | str] | None) -> ListPosition:
    """Decode a list cursor to the sort key of the row that it marks.

    Args:
        text: the text form of the cursor.
        *types: the type of each value. None allows a number or None.

    Raises:
        UsageError: the text is not a cursor of this list.
    """
    try:
        parsed = loads(urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4)))
    except ValueError:
        parsed = None
    values = cast("list[object]", parsed) if isinstance(parsed, list) else []
    if len(values) != len(types) or not all(map(_has_type, values, types)):
        msg = f"{text!r} is not a cursor of this list: pass the `cursor` of a listed item, or None to begin"
        raise UsageError(msg)
    return cast("ListPosition", values)


def _has_type(value: object, kind: type[int | str] | None) -> bool:
    return value is None or isinstance(value, int) if kind is None else isinstance(value, kind)


def waiting_position(cursor: str | None) -> dict[str, object]:
    """Return the SQL parameters that select the waiting calls after a cursor, or all calls if it is None."""
    if cursor is None:
        return {"last": None, "moment": None, "key": None, "tool": None, "place": None}
    moment, key, tool, place = parse_list_cursor(cursor, None, int, str, int)
    return {"last": moment is None, "moment": moment or 0, "key": key, "tool": tool, "place": place}


def due_position(cursor: str | None) -> dict[str, object]:
    """Return the SQL parameters that select the due conversations after a cursor, or all of them if it is None."""
    due, key = (None, None) if cursor is None else parse_list_cursor(cursor, int, int)
    return {"due": due, "key": key}


def meta_position(cursor: str | None) -> dict[str, object]:
    """Return the SQL parameters that select the conversations after a cursor, or all of them if it is None."""
    active, key = (None, None) if cursor is None else parse_list_cursor(cursor, int, int)
    return {"active": active, "key": key}


def job_parameters(filters: JobFilter, now: datetime) -> dict[str, object]:
    """Return the SQL parameters of a query that lists jobs. A parameter that is None selects all jobs.

    Args:
        filters: conditions on the jobs, and the cursor after which the list begins.
        now: the current time.
    """
    moment, key = (None, None) if filters.after is None else parse_list_cursor(filters.after, int, int)
    return {
        "moment": moment,
        "key": key,
        "kind": filters.kind,
        "conversation": filters.conversation,
        "state": filters.state,
        "prefix": filters.key_prefix or "",
        "now": to_microseconds(now),
        "limit": filters.limit,
    }
