"""Conversion of times, names and waits to database columns and back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import cast, get_args, overload

from chat_core.json import dump_bytes, loads
from chat_core.response import Wait, WaitKind

WAIT_KINDS: frozenset[str] = frozenset(get_args(WaitKind))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@overload
def to_microseconds(time: datetime) -> int: ...
@overload
def to_microseconds(time: datetime | None) -> int | None: ...
def to_microseconds(time: datetime | None) -> int | None:
    """Convert a time to microseconds since 1970-01-01 UTC. Return None for None."""
    return None if time is None else (time - _EPOCH) // _MICROSECOND


@overload
def from_microseconds(number: int) -> datetime: ...
@overload
def from_microseconds(number: int | None) -> datetime | None: ...
def from_microseconds(number: int | None) -> datetime | None:
    """Convert microseconds since 1970-01-01 UTC to a time. Return None for None."""
    return None if number is None else _EPOCH + number * _MICROSECOND


def call_id_to_column(name: str) -> str:
    """Encode a call id as JSON, so that every database can store any id."""
    return dump_bytes(name).decode()


def wait_to_column(wait: Wait) -> bytes:
    """Encode a wait as JSON, without its kind, conversation and owner, which are stored in separate columns."""
    return dump_bytes(
        {
            "path": wait.path,
            "name": wait.name,
            "arguments": dict(wait.arguments),
            "expires_at": to_microseconds(wait.expires_at),
            "at": to_microseconds(wait.at),
            "error": wait.error,
            **({} if wait.of is None else {"of": wait.of}),
            **({} if wait.revision is None else {"revision": wait.revision}),
        }
    )


def wait_from_columns(kind: str, data: bytes, conversation: str, owner: str | None) -> Wait:
    """Parse the wait that is stored in a row.

    Args:
        kind: the column with the kind.
        data: the column with the other fields, from `wait_to_column()`.
        conversation: the id of the conversation.
        owner: the user who owns the conversation, if any.

    Raises:
        ValueError, TypeError, LookupError: the columns were not written by `wait_to_column()`.
    """
    wait = cast("dict[str, object]", loads(data))
    path = tuple(cast("list[str]", wait["path"]))
    if kind not in WAIT_KINDS or not isinstance(wait["arguments"], dict):
        msg = f"the row does not describe a waiting call: kind {kind!r}, arguments {wait['arguments']!r}"
        raise ValueError(msg)
    return Wait(
        cast("WaitKind", kind),
        path[-1],
        path,
        cast("str", wait["name"]),
        cast("dict[str, object]", wait["arguments"]),
        from_microseconds(cast("int | None", wait["expires_at"])),
        from_microseconds(cast("int | None", wait["at"])),
        cast("str | None", wait["error"]),
        cast("str | None", wait.get("of")),
        conversation,
        owner,
        cast("int | None", wait.get("revision")),
    )
