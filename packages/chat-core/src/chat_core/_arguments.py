"""Run-time checks of arguments, for callers who do not use a type checker."""

from __future__ import annotations

import reprlib
from datetime import datetime

from chat_core.errors import UsageError


def argument_error(name: str, expected: str, value: object) -> UsageError:
    """Return an error for an argument of a wrong type.

    Args:
        name: name of the argument.
        expected: description of the allowed values, with an example.
        value: the value that was passed.
    """
    return UsageError(f"{name} must be {expected}, not {reprlib.repr(value)}")


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
    """Raise `UsageError` unless an argument is a time with a time zone."""
    if not isinstance(at, datetime):
        raise argument_error(name, "a datetime with a time zone, such as datetime.now(timezone.utc)", at)
    if at.utcoffset() is None:
        msg = f"{name}={at!r} has no time zone: pass datetime(…, tzinfo=timezone.utc)"
        raise UsageError(msg)
