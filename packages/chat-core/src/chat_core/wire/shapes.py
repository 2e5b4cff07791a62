"""What JSON is, for the type checkers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from typing_extensions import TypeIs

Json: TypeAlias = dict[str, Any]
"""An object that was read, or is to be written."""


COUNT_LIMIT: Final = 1 << 53
"""The smallest number that is too large for a count. It excludes infinity."""


class WrongShapeError(Exception):
    """A known field has a wrong shape."""

    def __init__(self, path: str, expected: str) -> None:
        super().__init__(f"{path} is not {expected}")
        self.path = path
        self.expected = expected


def is_object(value: object) -> TypeIs[dict[str, Any]]:
    """Whether it is an object."""
    return isinstance(value, dict)


def is_mapping(value: object) -> TypeIs[Mapping[str, Any]]:
    """Whether it is an object, or a mapping that a caller gave for one."""
    return isinstance(value, (dict, Mapping))  # what JSON has first: asking the other one is slow


def is_list(value: object) -> TypeIs[list[Any]]:
    """Whether it is a list."""
    return isinstance(value, list)


def mapping(value: object) -> Mapping[str, Any]:
    """The mapping, or an empty one in the place of anything else."""
    return value if is_mapping(value) else {}


def whole_numbers(value: object) -> dict[str, int]:
    """Return the counts in an object, empty for anything else. Some servers write them as floats."""
    if not is_mapping(value):
        return {}
    return {name: int(n) for name, n in value.items() if n.__class__ in (int, float) and 0 <= n < COUNT_LIMIT}


def require_text(value: object, path: str) -> str:
    """The text at `path`.

    Raises:
        WrongShapeError: it is none.
    """
    if isinstance(value, str):
        return value
    raise WrongShapeError(path, "a text")


def require_list(value: object, path: str) -> list[Any]:
    """The list at `path`.

    Raises:
        WrongShapeError: it is none.
    """
    if is_list(value):
        return value
    raise WrongShapeError(path, "a list")


def require_object(value: object, path: str) -> Json:
    """The object at `path`.

    Raises:
        WrongShapeError: it is none.
    """
    if is_object(value):
        return value
    raise WrongShapeError(path, "an object")
