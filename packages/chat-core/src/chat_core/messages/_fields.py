"""Reading the fields of a stored document: each value is checked, and what is wrong is told with the way to it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import TypeVar

ItemT = TypeVar("ItemT")
WordT = TypeVar("WordT", bound=str)

Fields = dict[str, object]

_FOUR_DIGITS = 1000
_TWO = [f"{number:02}" for number in range(60)]
_THREE = [f"{number:03}" for number in range(1000)]


class MalformedError(Exception):
    """Something in a document is not what it must be. Every reader on the way out adds its step to `path`."""

    def __init__(self, message: str, *path: str) -> None:
        super().__init__(message)
        self.message = message
        self.path: list[str] = list(path)

    def within(self, *steps: str) -> MalformedError:
        """The same, seen from further out."""
        self.path[:0] = steps
        return self

    @property
    def where(self) -> str:
        """The way from the document's root, as in `contents[2].turns[0]`."""
        return ".".join(self.path).replace(".[", "[")


# A checker is told to be silent below where a cast would stand elsewhere: a cast is a call, and there are thousands.


def fields(value: object) -> Fields:
    """`value`, which must be an object."""
    if type(value) is dict:
        return value  # pyright: ignore[reportUnknownVariableType] - JSON
    raise MalformedError(expected("an object", value))


def expected(what: str, value: object) -> str:
    """Say that `what` should stand where `value` stands."""
    return f"expected {what}, not {_brief(value)}"


def _brief(value: object) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    text = "null" if value is None else repr(value)
    return text if len(text) <= 40 else f"{text[:37]}…"  # noqa: PLR2004 - one line


def string(data: Fields, key: str) -> str:
    """A text that must be there."""
    value = data.get(key)
    if type(value) is str:
        return value
    raise MalformedError(expected("a string", value) if key in data else "missing", key)


def string_or_none(data: Fields, key: str) -> str | None:
    """A text that may be absent."""
    value = data.get(key)
    if value is None or type(value) is str:
        return value
    raise MalformedError(expected("a string", value), key)


def string_or(data: Fields, key: str, default: str) -> str:
    """A text that may be absent, and is `default` then."""
    value = string_or_none(data, key)
    return default if value is None else value


def integer(data: Fields, key: str, default: int, least: int = 0) -> int:
    """A whole number that may be absent."""
    value = data.get(key, default)
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is int and value >= least:
        return value
    raise MalformedError(expected(f"a whole number from {least}", value), key)


def word(data: Fields, key: str, words: Mapping[str, WordT]) -> WordT:
    """One of a closed set of words, which must be there."""
    value = data.get(key)
    if type(value) is not str:
        value = string(data, key)
    if value in words:
        return words[value]
    raise MalformedError(expected(f"one of {', '.join(words)}", value), key)


def word_or_none(data: Fields, key: str, words: Mapping[str, WordT]) -> WordT | None:
    """One of a closed set of words, which may be absent."""
    return word(data, key, words) if data.get(key) is not None else None


def mapping(data: Fields, key: str) -> Fields:
    """An object that must be there."""
    value = data.get(key)
    if isinstance(value, dict):
        return value  # pyright: ignore[reportUnknownVariableType] - JSON
    raise MalformedError(expected("an object", value) if key in data else "missing", key)


def mapping_or_none(data: Fields, key: str) -> Fields | None:
    """An object that may be absent."""
    value = data.get(key)
    if value is None or type(value) is dict:
        return value  # pyright: ignore[reportUnknownVariableType] - JSON
    return mapping(data, key)


def nested(data: Fields, step: str, read: Callable[[Fields], ItemT]) -> ItemT:
    """Read an object that is the field `step` of another one."""
    try:
        return read(data)
    except MalformedError as error:
        raise error.within(step) from None


def array(data: Fields, key: str) -> list[object]:
    """An array that must be there."""
    value = data.get(key)
    if isinstance(value, list):
        return value  # pyright: ignore[reportUnknownVariableType] - JSON
    raise MalformedError(expected("an array", value) if key in data else "missing", key)


def items(data: Fields, key: str, read: Callable[[object], ItemT]) -> list[ItemT]:
    """An array that must be there, each item read by `read`."""
    values = array(data, key)
    done: list[ItemT] = []
    try:
        for value in values:
            done.append(read(value))  # noqa: PERF401 - `done` tells which item was wrong
    except MalformedError as error:
        raise error.within(key, f"[{len(done)}]") from None
    return done


def items_or_none(data: Fields, key: str, read: Callable[[object], ItemT]) -> list[ItemT]:
    """An array that may be absent, and is empty then."""
    return items(data, key, read) if data.get(key) is not None else []


def moment(data: Fields, key: str) -> datetime:
    """A time with its zone, which must be there."""
    text = data.get(key)
    if type(text) is not str:
        text = string(data, key)
    try:
        value = datetime.fromisoformat(text)
    except ValueError:
        raise MalformedError(expected("a time in ISO 8601", text), key) from None
    if value.tzinfo is None:
        raise MalformedError(expected("a time with its zone", text), key)
    return value


def written(at: datetime) -> str:
    """`at.isoformat()`, in half the time where it is in UTC and to the microsecond, as nearly always."""
    micro = at.microsecond
    if at.tzinfo is not UTC or not micro or (year := at.year) < _FOUR_DIGITS or type(at) is not datetime:
        return at.isoformat()
    return (
        f"{year}-{_TWO[at.month]}-{_TWO[at.day]}T{_TWO[at.hour]}:{_TWO[at.minute]}:{_TWO[at.second]}"
        f".{_THREE[micro // 1000]}{_THREE[micro % 1000]}+00:00"
    )


def moment_or_none(data: Fields, key: str) -> datetime | None:
    """A time with its zone, which may be absent."""
    return moment(data, key) if data.get(key) is not None else None


def rest(data: Fields, known: frozenset[str]) -> Fields | None:
    """The fields that this version does not know; `None` where it knows them all."""
    return None if known.issuperset(data) else {key: value for key, value in data.items() if key not in known}


def keep(data: Fields, extra: Mapping[str, object] | None, known: Collection[str]) -> Fields:
    """`data` with the unknown fields that it was once read with."""
    if extra:
        data.update({key: value for key, value in extra.items() if key not in known})
    return data
