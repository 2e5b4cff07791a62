"""Checks of strings, numbers and other simple arguments of store methods."""

from __future__ import annotations

import os
import reprlib
from typing import Final, cast, get_args

from chat_core import arguments
from chat_core.errors import UsageError

MOST_WHOLE: Final = 2**63 - 1
"""The largest integer that every database can store."""
MOST_SECONDS: Final = 36525 * 24 * 60 * 60
"""The longest time in seconds: 100 years."""


def require_text(**texts: object) -> None:
    """Raise an error unless each argument is a string that every database can store.

    Raises:
        UsageError: an argument is not a string, or has a null character or an unpaired surrogate.
    """
    for name, text in texts.items():
        if not isinstance(text, str):
            raise type_error(name, "a string", text)
        if not _is_storable(text):
            msg = f"{name} {text!r} cannot be stored: remove null characters and unpaired surrogates"
            raise UsageError(msg)


def require_optional_text(**texts: object) -> None:
    """Raise an error unless each argument is None or a string that every database can store.

    Raises:
        UsageError: an argument is not a string, or has a null character or an unpaired surrogate.
    """
    for name, text in texts.items():
        if text is not None:
            if not isinstance(text, str):
                raise type_error(name, "a string or None", text)
            require_text(**{name: text})


def require_choice(name: str, value: object, choices: object) -> None:
    """Raise an error unless an argument is None or one of the strings of a `Literal` type.

    Raises:
        UsageError: the argument has another value.
    """
    allowed = cast("tuple[str, ...]", get_args(choices))
    if value is not None and value not in allowed:
        raise type_error(name, f"{', '.join(map(repr, allowed))} or None", value)


def require_page(limit: object, after: object) -> None:
    """Raise an error unless the limit and the cursor of a list request are valid.

    Raises:
        UsageError: the limit is not a number of items, or the cursor is not a string.
    """
    if limit is not None:
        require_whole("limit", limit)
    if after is not None and not isinstance(after, str):
        raise type_error("after", "the cursor of an item of this list, or None", after)


def require_whole(name: str, value: object, least: int = 0) -> None:
    """Raise an error unless an argument is an integer of at least `least` that every database can store.

    Raises:
        UsageError: the argument is not an integer, or is out of range.
    """
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not least <= cast("int", value) <= MOST_WHOLE:
        raise type_error(name, f"a whole number from {least} to 2**63 - 1", value)


def require_seconds(name: str, value: object, *, zero: bool = True) -> None:
    """Raise an error unless an argument is a number of seconds.

    Args:
        name: the name of the argument.
        value: the value that was passed.
        zero: whether 0 is allowed.

    Raises:
        UsageError: the argument is not a number, is negative or more than 100 years, or is 0 although `zero` is false.
    """
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0 <= cast("float", value) <= MOST_SECONDS or (value == 0 and not zero):
        least = "0 or more" if zero else "positive"
        raise type_error(name, f"{least} and at most 100 years, in seconds", value)


def require_path(path: object) -> None:
    """Raise an error unless an argument is the path of a database file.

    Raises:
        UsageError: the argument is not a valid path, or it names a database in memory.
    """
    arguments.require_path("path", path)
    if os.fspath(cast("str | os.PathLike[str]", path)) in ("", ":memory:"):
        msg = f"SqliteStore() requires the path of a file, not {path!r}: use MemoryStore() for a store in memory"
        raise UsageError(msg)


def _is_storable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def type_error(name: str, expected: str, value: object) -> UsageError:
    """Return an error for an argument of a wrong type or value.

    Args:
        name: the name of the argument.
        expected: a description of the allowed values.
        value: the value that was passed.
    """
    return UsageError(f"{name} must be {expected}, not {_describe_value(value)}")


def _describe_value(value: object) -> str:
    """Return a short representation of a wrong argument, without the content of a conversation."""
    if value is None or isinstance(value, (str, bytes, int, float)):
        return reprlib.repr(cast("object", value))
    return f"an object of type {type(value).__name__}"
