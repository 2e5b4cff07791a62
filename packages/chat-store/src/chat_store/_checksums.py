"""Checksums of database rows, and the conversion of rows to values, which finds damaged ones.

A checksum is a CRC-32. It is NULL in rows that a version without checksums wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import cast
from zlib import crc32

from chat_core.errors import InvalidDocumentError
from chat_core.json import dump_bytes

from chat_store._backend import DamagedWait, Head
from chat_store.sql.values import from_microseconds, to_microseconds, wait_from_columns
from chat_store.store import Waiting

_CONVERSION_ERRORS = (LookupError, TypeError, ValueError, OverflowError, AttributeError)


def head_checksum(head: Head) -> int:
    """Return the checksum of the row of a conversation."""
    numbers = (head.entries, head.revision, head.fence, to_microseconds(head.lease_until), to_microseconds(head.due))
    return crc32(dump_bytes([head.id, head.person, head.incarnation, head.holder, *numbers]))


def entry_checksum(entry: bytes) -> int:
    """Return the checksum of an entry."""
    return crc32(entry)


def wait_checksum(tool: str, place: int, kind: str, moment: int | None, wait: bytes) -> int:
    """Return the checksum of the row of a waiting call. The arguments are its columns."""
    return crc32(wait, crc32(dump_bytes([tool, place, kind, moment])))


def head_from_columns(id: str, columns: Sequence[object]) -> Head:  # noqa: A002 - the field's own name
    """Return the row of a conversation.

    Args:
        id: the id of the conversation.
        columns: `person`, `born`, `entries`, `revision`, `fence`, `holder`, `until`, `due` and `crc`.

    Raises:
        InvalidDocumentError: the row is damaged.
    """
    person, born, entries, revision, fence, holder, until, due, checksum = columns
    try:
        head = Head(
            id,
            cast("str | None", person),
            cast("str", born),
            cast("int", entries),
            cast("int", revision),
            cast("int", fence),
            cast("str", holder),
            from_microseconds(cast("int | None", until)),
            from_microseconds(cast("int | None", due)),
        )
        damaged = not isinstance(entries, int) or not isinstance(fence, int)
        damaged |= checksum is not None and checksum != head_checksum(head)
    except _CONVERSION_ERRORS as error:
        msg = f"the row of the conversation {id!r} is damaged: {error}"
        raise InvalidDocumentError(msg) from error
    if damaged:
        msg = f"the row of the conversation {id!r} is damaged: its checksum is wrong"
        raise InvalidDocumentError(msg)
    return head


def entry_from_columns(id: str, number: int, entry: object, checksum: int | None) -> bytes:  # noqa: A002
    """Return an entry.

    Args:
        id: the id of the conversation.
        number: the number of the entry.
        entry: the entry, as JSON.
        checksum: its checksum, None if it was written without one.

    Raises:
        InvalidDocumentError: the row is damaged.
    """
    if isinstance(entry, str):
        # SQLite returns a text if the row was edited by hand.
        entry = entry.encode()
    if not isinstance(entry, bytes) or (checksum is not None and checksum != entry_checksum(entry)):
        msg = f"entry {number} of the conversation {id!r} is damaged: its checksum is wrong"
        raise InvalidDocumentError(msg)
    return entry


def waiting_from_columns(columns: Sequence[object], cursor: str) -> Waiting | DamagedWait:
    """Return a waiting call.

    Args:
        columns: `id` and `person` of the conversation; `tool`, `place`, `kind`, `moment`, `wait` and `crc` of the wait.
        cursor: the position in the list.
    """
    id, person, tool, place, kind, moment, wait, checksum = columns  # noqa: A001 - the field's own name
    try:
        expected = wait_checksum(
            cast("str", tool), cast("int", place), cast("str", kind), cast("int | None", moment), cast("bytes", wait)
        )
        if checksum in (None, expected):
            found = wait_from_columns(cast("str", kind), cast("bytes", wait))
            return Waiting(cast("str", id), cast("str | None", person), found, cursor)
    except _CONVERSION_ERRORS:
        pass
    return DamagedWait(cast("str", id), cast("str | None", person), tool, place, cursor)


def past_time(column: object, now: datetime) -> datetime:
    """Return the time in a column of a list, or `now` if the column is damaged: reading the conversation raises."""
    try:
        return from_microseconds(int(cast("int", column)))
    except _CONVERSION_ERRORS:
        return now
