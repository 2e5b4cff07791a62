"""Functions that read and validate fields of a stored JSON document. Errors contain the path of the value."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from math import inf
from typing import TypeVar

ItemT = TypeVar("ItemT")
ChoiceT = TypeVar("ChoiceT", bound=str)

Fields = dict[str, object]

_FOUR_DIGITS = 1000
_TWO = [f"{number:02}" for number in range(60)]
_THREE = [f"{number:03}" for number in range(1000)]


class MalformedError(Exception):
    """Error for a malformed value in a stored document. Each enclosing reader prepends its step to `path`."""

    def __init__(self, message: str, *path: str) -> None:
        super().__init__(message)
        self.message = message
        self.path: list[str] = list(path)

    def within(self, *steps: str) -> MalformedError:
        """Prepend `steps` to `path` and return this error."""
        self.path[:0] = steps
        return self

    @property
    def where(self) -> str:
        """Path of the malformed value from the document's root, such as `contents[2].turns[0]`."""
        return ".".join(self.path).replace(".[", "[")


# The readers below use ignore comments for the type checker instead of `cast()`, which is a call at run time.


def require_object(value: object) -> Fields:
    """Return `value` if it is a dict. Otherwise, raise `MalformedError`."""
    if type(value) is dict:
        return value  # pyright: ignore[reportUnknownVariableType] - JSON
    raise MalformedError(describe_mismatch("an object", value))


def describe_mismatch(expected: str, value: object) -> str:
    """Return the error message for a value that is not of the expected kind."""
    return f"expected {expected}, not {_abbreviate_value(value)}"


def _abbreviate_value(value: object) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    text = "null" if value is None else repr(value)
    return text if len(text) <= 40 else f"{text[:37]}…"  # noqa: PLR2004 - one line


def read_string(data: Fields, key: str) -> str:
    """Return the string in the required field `key`."""
    value = data.get(key)
    if type(value) is str:
        return value
    raise MalformedError(describe_mismatch("a string", value) if key in data else "missing", key)


def read_optional_string(data: Fields, key: str) -> str | None:
    """Return the string in the field `key`, or None if the field is absent or null."""
    value = data.get(key)
    if value is None or type(value) is str:
        return value
    raise MalformedError(describe_mismatch("a string", value), key)


def read_string_or(data: Fields, key: str, default: str) -> str:
    """Return the string in the field `key`, or `default` if the field is absent or null."""
    value = read_optional_string(data, key)
    return default if value is None else value


def read_integer(data: Fields, key: str, default: int, least: int = 0) -> int:
    """Return the integer in the field `key`, or `default` if the field is absent. The minimum is `least`."""
    value = data.get(key, default)
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is int and value >= least:
        return value
    raise MalformedError(describe_mismatch(f"a whole number of at least {least}", value), key)


def read_optional_seconds(data: Fields, key: str) -> float | None:
    """Return the non-negative number in the field `key`, or None if the field is absent or null."""
    value = data.get(key)
    if value is None:
        return None
    if (type(value) is float or type(value) is int) and 0 <= value < inf:
        return value
    raise MalformedError(describe_mismatch("a number of at least 0", value), key)


def read_boolean(data: Fields, key: str) -> bool:
    """Return the boolean in the field `key`, or False if the field is absent or null."""
    value = data.get(key)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise MalformedError(describe_mismatch("true or false", value), key)


def read_choice(data: Fields, key: str, choices: Mapping[str, ChoiceT]) -> ChoiceT:
    """Return the string in the required field `key`, which must be one of `choices`."""
    value = data.get(key)
    if type(value) is not str:
        value = read_string(data, key)
    if value in choices:
        return choices[value]
    raise MalformedError(describe_mismatch(f"one of {', '.join(choices)}", value), key)


def read_optional_choice(data: Fields, key: str, choices: Mapping[str, ChoiceT]) -> ChoiceT | None:
    """Return the string in the field `key`, which must be one of `choices`, or None if it is absent or null."""
    return read_choice(data, key, choices) if data.get(key) is not None else None


def read_object(data: Fields, key: str) -> Fields:
    """Return the JSON object in the required field `key`."""
    value = data.get(key)
    if isinstance(value, dict):
        return value  # pyright: ignore[reportUnknownVariableType] - JSON
    raise MalformedError(describe_mismatch("an object", value) if key in data else "missing", key)


def read_optional_object(data: Fields, key: str) -> Fields | None:
    """Return the JSON object in the field `key`, or None if the field is absent or null."""
    value = data.get(key)
    if value is None or type(value) is dict:
        return value  # pyright: ignore[reportUnknownVariableType] - JSON
    return read_object(data, key)


def read_nested(data: Fields, key: str, read: Callable[[Fields], ItemT]) -> ItemT:
    """Return `read(data)`. If it raises a `MalformedError`, prepend `key` to the path in the error."""
    try:
        return read(data)
    except MalformedError as error:
        raise error.within(key) from None


def read_array(data: Fields, key: str) -> list[object]:
    """Return the list in the required field `key`."""
    value = data.get(key)
    if isinstance(value, list):
        return value  # pyright: ignore[reportUnknownVariableType] - JSON
    raise MalformedError(describe_mismatch("an array", value) if key in data else "missing", key)


def read_items(data: Fields, key: str, read: Callable[[object], ItemT]) -> list[ItemT]:
    """Return the items of the list in the required field `key`, each converted by `read`."""
    values = read_array(data, key)
    items: list[ItemT] = []
    try:
        for value in values:
            items.append(read(value))  # noqa: PERF401 - its length is the index of a malformed item
    except MalformedError as error:
        raise error.within(key, f"[{len(items)}]") from None
    return items


def read_optional_items(data: Fields, key: str, read: Callable[[object], ItemT]) -> list[ItemT]:
    """Return the items of the list in the field `key`, each converted by `read`. An absent field is an empty list."""
    return read_items(data, key, read) if data.get(key) is not None else []


def read_time(data: Fields, key: str) -> datetime:
    """Return the ISO 8601 time in the required field `key`. The time must have a time zone."""
    text = data.get(key)
    if type(text) is not str:
        text = read_string(data, key)
    try:
        value = datetime.fromisoformat(text)
    except ValueError:
        raise MalformedError(describe_mismatch("a time in ISO 8601", text), key) from None
    if value.tzinfo is None:
        raise MalformedError(describe_mismatch("a time with a time zone", text), key)
    return value


def format_time(at: datetime) -> str:
    """Return `at.isoformat()`, computed in half the time for the usual case: UTC with microseconds."""
    micro = at.microsecond
    if at.tzinfo is not UTC or not micro or (year := at.year) < _FOUR_DIGITS or type(at) is not datetime:
        return at.isoformat()
    return (
        f"{year}-{_TWO[at.month]}-{_TWO[at.day]}T{_TWO[at.hour]}:{_TWO[at.minute]}:{_TWO[at.second]}"
        f".{_THREE[micro // 1000]}{_THREE[micro % 1000]}+00:00"
    )


def read_optional_time(data: Fields, key: str) -> datetime | None:
    """Return the ISO 8601 time in the field `key`, or None if the field is absent or null."""
    return read_time(data, key) if data.get(key) is not None else None


def unknown_fields(data: Fields, known: frozenset[str]) -> Fields | None:
    """Return the fields of `data` whose names are not in `known`, or None if all names are known."""
    return None if known.issuperset(data) else {key: value for key, value in data.items() if key not in known}


def merge_unknown_fields(data: Fields, extra: Mapping[str, object] | None, known: Collection[str]) -> Fields:
    """Add the fields in `extra` whose names are not in `known` to `data`, in place, and return `data`."""
    if extra:
        data.update({key: value for key, value in extra.items() if key not in known})
    return data
