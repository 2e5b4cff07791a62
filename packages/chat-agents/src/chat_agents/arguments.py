"""Run-time checks of arguments, for callers who do not use a type checker."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import cast

from chat_core import UsageError


def argument_error(name: str, expected: str, value: object) -> UsageError:
    """Return an error for an argument of a wrong type.

    Args:
        name: name of the argument.
        expected: description of the allowed values, with an example.
        value: the value that was passed.
    """
    return UsageError(f"{name} must be {expected}, not {reprlib.repr(value)}")


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


def require_items(name: str, value: object, kind: type, expected: str) -> None:
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
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise argument_error(name, f"a whole number of at least {least}", value)


def require_name(name: str, value: object) -> None:
    """Raise `UsageError` unless an argument is a text that contains more than spaces.

    Args:
        name: name of the argument.
        value: the value that was passed.
    """
    if not isinstance(value, str) or not value.strip():
        raise argument_error(name, "a text that is not empty", value)
