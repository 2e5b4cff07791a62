"""What rows of a database are made of: numbers and bytes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import cast, overload

from chat_core.json import dump_bytes, loads
from chat_core.response import Wait, WaitKind

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@overload
def number_of(time: datetime) -> int: ...
@overload
def number_of(time: datetime | None) -> int | None: ...
def number_of(time: datetime | None) -> int | None:
    """A time in microseconds since 1970, in UTC."""
    return None if time is None else (time - _EPOCH) // _MICROSECOND


@overload
def time_of(number: int) -> datetime: ...
@overload
def time_of(number: int | None) -> datetime | None: ...
def time_of(number: int | None) -> datetime | None:
    """The time that a number stands for."""
    return None if number is None else _EPOCH + number * _MICROSECOND


def name_to_text(name: str) -> str:
    """An id as a text that every database keeps, whatever the id holds."""
    return dump_bytes(name).decode()


def wait_to_bytes(wait: Wait) -> bytes:
    """What waits, but for its kind."""
    return dump_bytes(
        {
            "path": wait.path,
            "name": wait.name,
            "arguments": dict(wait.arguments),
            "expires_at": number_of(wait.expires_at),
            "at": number_of(wait.at),
            "error": wait.error,
        }
    )


def wait_from_bytes(kind: str, data: bytes) -> Wait:
    """What waits."""
    wait = cast("dict[str, object]", loads(data))
    path = tuple(cast("list[str]", wait["path"]))
    return Wait(
        cast("WaitKind", kind),
        path[-1],
        path,
        cast("str", wait["name"]),
        cast("dict[str, object]", wait["arguments"]),
        time_of(cast("int | None", wait["expires_at"])),
        time_of(cast("int | None", wait["at"])),
        cast("str | None", wait["error"]),
    )
