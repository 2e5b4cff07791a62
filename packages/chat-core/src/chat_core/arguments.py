"""Run-time checks of arguments, for callers who do not use a type checker. All packages use them."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import cast

from chat_core.errors import UsageError


def argument_error(name: str, expected: str, value: object) -> UsageError:
    """Return an error for an argument of a wrong type.

    Args:
        name: name of the argument.
        expected: description of the allowed values, with an example.
        value: the value that was passed.
    """
    try:
        shown = reprlib.repr(value)
    except ValueError:  # an integer with more digits than Python converts to text
        shown = f"a value of the type {type(value).__name__} that is too long to show"
    return UsageError(f"{name} must be {expected}, not {shown}")


def require_type(name: str, value: object, kind: type | tuple[type, ...], expected: str) -> None:
    """Raise `UsageError` unless an argument is an instance of a class.

    Args:
        name: name of the argument.
        value: the value that was passed.
        kind: the allowed classes.
        expected: description of the allowed values, with an example.
    """
    if not isinstance(value, kind):
        raise argument_error(name, expected, value)


def require_items(name: str, value: object, kind: type | tuple[type, ...], expected: str) -> None:
    """Raise `UsageError` unless an argument is a sequence of instances of a class. A string is not a sequence here.

    Args:
        name: name of the argument.
        value: the value that was passed.
        kind: class of the items.
        expected: description of the allowed values, with an example.
    """
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise argument_error(name, expected, value)
    if not all(isinstance(item, kind) for item in cast("Sequence[object]", value)):
        raise argument_error(name, expected, cast("object", value))


def require_text_fields(name: str, value: object) -> None:
    """Raise `UsageError` unless an argument is a mapping of strings to strings. The error does not contain the values.

    Args:
        name: name of the argument.
        value: the value that was passed, such as headers, which may contain secrets.
    """
    if not isinstance(value, Mapping):
        msg = f"{name} must be a mapping of strings to strings, not {type(value).__name__}"
        raise UsageError(msg)
    for key, item in cast("Mapping[object, object]", value).items():
        if not isinstance(key, str) or not isinstance(item, str):
            msg = f"{name} must be a mapping of strings to strings, but {reprlib.repr(key)} is {type(item).__name__}"
            raise UsageError(msg)


def require_path(name: str, value: object) -> None:
    """Raise `UsageError` unless an argument is a path without null characters and unpaired surrogates.

    Args:
        name: name of the argument.
        value: the value that was passed.
    """
    if not isinstance(value, (str, os.PathLike)):
        raise argument_error(name, "a string or a Path", value)
    path = os.fspath(cast("str | os.PathLike[str]", value))
    try:
        is_valid = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        is_valid = False
    if not is_valid:
        raise argument_error(name, "a path without null characters and unpaired surrogates", path)


def require_callable(name: str, value: object, expected: str) -> None:
    """Raise `UsageError` unless an argument can be called.

    Args:
        name: name of the argument.
        value: the value that was passed.
        expected: description of the allowed values, with an example.
    """
    if not callable(value):
        raise argument_error(name, expected, value)


def require_whole(name: str, value: object, least: int) -> None:
    """Raise `UsageError` unless an argument is a whole number of at least `least`.

    Args:
        name: name of the argument.
        value: the value that was passed.
        least: the smallest allowed number.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise argument_error(name, f"a whole number of at least {least}", value)
    if value < least:
        raise argument_error(name, f"at least {least}", value)


def require_number(name: str, value: object) -> None:
    """Raise `UsageError` unless an argument is an integer or a floating-point number.

    Args:
        name: name of the argument.
        value: the value that was passed.
    """
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise argument_error(name, "a number", value)


def require_name(name: str, value: object) -> None:
    """Raise `UsageError` unless an argument is a string that contains more than spaces.

    Args:
        name: name of the argument.
        value: the value that was passed.
    """
    if not isinstance(value, str) or not value.strip():
        raise argument_error(name, "a string that is not empty", value)


def require_text(**texts: object) -> None:
    """Raise `UsageError` unless each argument is a string."""
    for name, text in texts.items():
        if not isinstance(text, str):
            raise argument_error(name, "a string", text)


def require_optional_text(**texts: object) -> None:
    """Raise `UsageError` unless each argument is a string or `None`."""
    for name, text in texts.items():
        if text is not None and not isinstance(text, str):
            raise argument_error(name, "a string or None", text)


def require_time(name: str, at: object) -> None:
    """Raise `UsageError` unless an argument is a time with a time zone.

    Args:
        name: name of the argument.
        at: the value that was passed.
    """
    if not isinstance(at, datetime):
        raise argument_error(name, "a datetime with a time zone, such as datetime.now(timezone.utc)", at)
    if at.utcoffset() is None:
        msg = f"{name}={at!r} has no time zone: pass datetime(…, tzinfo=timezone.utc)"
        raise UsageError(msg)
