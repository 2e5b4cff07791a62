"""Functions that compute checksums of database rows, parse rows, and detect damaged rows.

A checksum is a CRC-32. It is NULL in rows that a version without checksums wrote. A trigger sets it to NULL if such a
version changes a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import cast
from zlib import crc32

from chat_core.errors import InvalidDocumentError
from chat_core.json import dump_bytes, loads

from chat_store._backend import DamagedWait, Head
from chat_store._job_rules import job_from_dict, job_to_dict
from chat_store.jobs import StoredJob
from chat_store.meta import ConversationMeta, StoredMeta
from chat_store.results import Waiting
from chat_store.sql.values import from_microseconds, to_microseconds, wait_from_columns

_CONVERSION_ERRORS = (LookupError, TypeError, ValueError, OverflowError, AttributeError)


def head_checksum(head: Head) -> int:
    """Return the checksum of a conversation's row. It does not cover the columns of the description."""
    numbers = (head.entries, head.revision, head.fence, to_microseconds(head.lease_until), to_microseconds(head.due))
    return crc32(dump_bytes([head.id, head.person, head.incarnation, head.holder, *numbers]))


META_COLUMNS = ("owner", "title", "flow", "data", "created", "active", "closed", "meta_crc")


def meta_to_columns(id: str, meta: StoredMeta) -> tuple[str | bytes | int | None, ...]:
    """Convert the description of a conversation to column values, in the order of `META_COLUMNS`.

    The last value is a separate checksum of the description. Processes of an earlier version, which do not know these
    columns, can therefore still write the row.
    """
    times = [to_microseconds(time) for time in (meta.created_at, meta.last_active, meta.closed_at)]
    checksum = crc32(meta.data, crc32(dump_bytes([id, meta.owner, meta.title, meta.flow, *times])))
    return (meta.owner, meta.title, meta.flow, meta.data, *times, checksum)


def meta_from_columns(id: str, columns: Sequence[object]) -> StoredMeta:
    """Parse the description of a conversation from its columns, and verify the checksum.

    Args:
        id: the id of the conversation.
        columns: the values of `META_COLUMNS`.

    Raises:
        InvalidDocumentError: the row is damaged.
    """
    owner, title, flow, data, created, active, closed, checksum = columns
    if checksum is None:
        # A version without these columns stored the conversation.
        return StoredMeta()
    try:
        meta = StoredMeta(
            cast("str | None", owner),
            cast("str | None", title),
            cast("str | None", flow),
            cast("bytes", data),
            from_microseconds(cast("int | None", created)),
            from_microseconds(cast("int | None", active)),
            from_microseconds(cast("int | None", closed)),
        )
        damaged = meta_to_columns(id, meta)[-1] != checksum
    except _CONVERSION_ERRORS as error:
        msg = f"the row of the conversation {id!r} is damaged: {error}"
        raise InvalidDocumentError(msg) from error
    if damaged:
        msg = (
            f"the row of the conversation {id!r} is damaged: the checksum of its description is wrong; restore a backup"
        )
        raise InvalidDocumentError(msg)
    return meta


def describe(id: str, person: str | None, columns: Sequence[object], cursor: str = "") -> ConversationMeta:
    """Return the public description of a listed conversation, parsed from its columns.

    Args:
        id: the id of the conversation.
        person: the user in charge.
        columns: the values of `META_COLUMNS`.
        cursor: the position of the conversation in the list.

    Raises:
        InvalidDocumentError: the row is damaged.
    """
    return meta_from_columns(id, columns).describe(id, person, cursor)


def entry_checksum(entry: bytes) -> int:
    """Return the checksum of a log entry."""
    return crc32(entry)


def wait_checksum(tool: str, place: int, kind: str, moment: int | None, wait: bytes) -> int:
    """Return the checksum of a waiting call's row, given the columns of the row."""
    return crc32(wait, crc32(dump_bytes([tool, place, kind, moment])))


def head_from_columns(id: str, columns: Sequence[object]) -> Head:
    """Parse the row of a conversation from its columns, and verify the checksum.

    Args:
        id: the id of the conversation.
        columns: `person`, `born`, `entries`, `revision`, `fence`, `holder`, `until`, `due`, `crc`, and the values of
            `META_COLUMNS`.

    Raises:
        InvalidDocumentError: the row is damaged.
    """
    person, born, entries, revision, fence, holder, until, due, checksum, *meta = columns
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
            meta_from_columns(id, meta),
        )
        damaged = not isinstance(entries, int) or not isinstance(fence, int)
        damaged |= checksum is not None and checksum != head_checksum(head)
    except _CONVERSION_ERRORS as error:
        msg = f"the row of the conversation {id!r} is damaged: {error}"
        raise InvalidDocumentError(msg) from error
    if damaged:
        msg = f"the row of the conversation {id!r} is damaged: its checksum is wrong; restore a backup"
        raise InvalidDocumentError(msg)
    return head


def entry_from_columns(id: str, number: int, entry: object, checksum: int | None) -> bytes:
    """Return the JSON of a log entry, after verifying its checksum.

    Args:
        id: the id of the conversation.
        number: the number of the entry.
        entry: the entry, as JSON.
        checksum: its checksum, None if it was written without a checksum.

    Raises:
        InvalidDocumentError: the row is damaged.
    """
    if isinstance(entry, str):
        # SQLite returns a text if the row was edited by hand.
        entry = entry.encode()
    if not isinstance(entry, bytes) or (checksum is not None and checksum != entry_checksum(entry)):
        msg = f"entry {number} of the conversation {id!r} is damaged: its checksum is wrong; restore a backup"
        raise InvalidDocumentError(msg)
    return entry


def waiting_from_columns(columns: Sequence[object], cursor: str) -> Waiting | DamagedWait:
    """Parse the row of a waiting call. If it is damaged, return a `DamagedWait`.

    Args:
        columns: `id` and `person` of the conversation; `tool`, `place`, `kind`, `moment`, `wait` and `crc` of the wait;
            `owner` of the conversation.
        cursor: the position of the row in the list.
    """
    id, person, tool, place, kind, moment, wait, checksum, owner = columns
    try:
        expected = wait_checksum(
            cast("str", tool), cast("int", place), cast("str", kind), cast("int | None", moment), cast("bytes", wait)
        )
        if checksum in (None, expected):
            found = wait_from_columns(
                cast("str", kind), cast("bytes", wait), cast("str", id), cast("str | None", owner)
            )
            return Waiting(cast("str", id), cast("str | None", person), found, cursor)
    except _CONVERSION_ERRORS:
        pass
    return DamagedWait(cast("str", id), cast("str | None", person), tool, place, cursor)


def past_time(column: object, now: datetime) -> datetime:
    """Parse a time column. Return `now` if the column is damaged, so that lists still contain the row."""
    try:
        return from_microseconds(int(cast("int", column)))
    except _CONVERSION_ERRORS:
        return now


def job_to_columns(job: StoredJob) -> tuple[str, str, str, int, int | None, bytes, int]:
    """Convert a job to the columns `kind`, `name`, `state`, `moment`, `until`, `job` and `crc`.

    A queued job whose last attempt has begun gets the state `last`, because it cannot be taken again.
    """
    state = "last" if job.state == "queued" and job.attempts >= job.max_attempts else job.state
    columns = (job.kind, job.key, state, to_microseconds(job.at), to_microseconds(job.lease_until))
    data = dump_bytes(job_to_dict(job))
    return (*columns, data, crc32(data, crc32(dump_bytes(columns))))


def job_from_columns(columns: Sequence[object]) -> StoredJob:
    """Parse the row of a job, and verify its checksum.

    Args:
        columns: the values that `job_to_columns()` returned.

    Raises:
        InvalidDocumentError: the row is damaged.
    """
    try:
        job = job_from_dict(cast("dict[str, object]", loads(cast("bytes", columns[5]))))
        damaged = job_to_columns(job) != tuple(columns)
    except _CONVERSION_ERRORS as error:
        msg = f"the row of the job {columns[0]!r} {columns[1]!r} is damaged: {error}"
        raise InvalidDocumentError(msg) from error
    if damaged:
        msg = f"the row of the job {columns[0]!r} {columns[1]!r} is damaged: its checksum is wrong; restore a backup"
        raise InvalidDocumentError(msg)
    return job
