"""JSON parser and writer for providers, transports and stores.

`pydantic_core.from_json` parses bytes three times faster than the standard library, but rejects lone surrogate escapes,
which servers produce when they split a stream inside an emoji. `json.loads` accepts such escapes and is the fallback.
"""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Iterable
from typing import Any, Final, TypeAlias, cast

from pydantic_core import from_json, to_json

JsonValue: TypeAlias = dict[str, "JsonValue"] | list["JsonValue"] | str | int | float | bool | None
"""Any JSON value."""

parse = from_json
"""Fast JSON parser without the fallback for lone surrogate escapes."""
MAX_DEPTH: Final = 201
"""Maximum nesting depth of data from a server: the limit of `parse()`.

A stored conversation nests the data further, and it must stay below the limits of all serializers and parsers.
"""
MAX_NESTING: Final = 100_000
"""Maximum nesting depth of any value. Only an object that contains itself exceeds this depth."""
MAX_DIGITS: Final = 4300
"""Maximum number of digits of an integer: the limit of `parse()` and of the standard library."""
_MAX_INTEGER: Final = 10**MAX_DIGITS - 1
_MIN_INTEGER: Final = -_MAX_INTEGER
_TEXT_TYPES: Final = (str, type(None))
_TEXT_KEYS: Final = frozenset({str})
FLAT_TYPES: Final = frozenset({str, bool, int, type(None)})
"""Types of parsed JSON that contain no other values and are finite."""
_PLAIN_TYPES: Final = frozenset({str, bool, type(None)})
_MANY: Final = 10_000
_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def loads(data: bytes | str) -> object:
    """Parse a JSON document and return its value.

    Raises:
        ValueError: `data` is not JSON.
    """
    try:
        return from_json(data)
    except (ValueError, TypeError):  # TypeError: a str with a lone surrogate
        try:
            return json.loads(data)
        except RecursionError as error:
            msg = "the JSON is nested too deeply"
            raise ValueError(msg) from error


def loads_limited(data: bytes | str) -> object:
    """Parse a JSON document from a server or a model, with a nesting depth of at most `MAX_DEPTH`.

    Raises:
        ValueError: `data` is not JSON, or it is nested too deeply.
    """
    try:
        return from_json(data)
    except (ValueError, TypeError):
        value = loads(data)
        if is_deeper(value, MAX_DEPTH):
            msg = f"the JSON is nested too deeply: the limit is {MAX_DEPTH} levels"
            raise ValueError(msg) from None
        return value


def dumps(value: object) -> str:
    """Serialize `value` as compact JSON. Non-ASCII text is not escaped, and the order of keys is preserved.

    Raises:
        TypeError: `value` contains a type that JSON cannot represent.
    """
    return _compact(value)


def dump_bytes(value: object) -> bytes:
    """Serialize `value` as compact JSON in UTF-8.

    If a string contains lone surrogates, which UTF-8 cannot encode, all non-ASCII text is escaped.
    """
    text = _compact(value)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def dump_checked(value: object) -> bytes:
    """Serialize a value that contains only JSON types, such as an encoded turn. Faster than `dump_bytes()`.

    The bytes are those of `dump_bytes()`, except for how floats are written: `1e-05` may become `0.00001`. An object
    of another type may be converted instead of raising an error.
    """
    try:
        return to_json(value, inf_nan_mode="constants")
    except ValueError:  # a lone surrogate, or a value that is nested deeply
        return dump_bytes(value)


def is_finite(value: object) -> bool:
    """Return whether every number in a parsed JSON document is finite.

    JSON has no `NaN` and no infinity, but parsers accept `NaN` and read `1e999` as infinity.
    """
    pending: list[Any] = [value]
    for item in pending:
        if isinstance(item, float):
            if not math.isfinite(item):
                return False
        elif isinstance(item, (dict, list)):
            members: Any = item.values() if isinstance(item, dict) else item  # pyright: ignore[reportUnknownVariableType] - JSON
            if not FLAT_TYPES.issuperset(map(type, members)):
                pending.extend(members)
    return True


def find_fault(value: object, max_depth: int = MAX_NESTING) -> str | None:
    """Return a description of the first value that JSON cannot represent exactly, or None.

    A value has a fault if it would change when it is written as JSON and read again.

    Args:
        value: the value to check. Tuples count as arrays.
        max_depth: maximum nesting depth of objects and arrays.

    Returns:
        The path of the value and the fault, such as `.scores[3] is nan`, or None.
    """
    root: Any = value
    if not isinstance(root, (dict, list, tuple)):
        return None if _append_containers([value], []) else _describe_fault(value)
    inner: list[Any] = []
    if max_depth and _append_containers(root, inner) and not inner:
        return None  # the usual value, which is flat
    level: list[Any] = [value]
    for _ in range(max_depth):
        inner = []
        for container in level:
            if not _append_containers(container, inner):
                return _describe_fault(value)
        if not inner:
            return None
        # A value that contains itself twice would double the level each time.
        level = inner if len(inner) < _MANY else [*{id(item): item for item in inner}.values()]
    return f" is nested more than {max_depth} levels deep"


def _append_containers(container: Any, inner: list[Any]) -> bool:  # noqa: ANN401 - JSON
    """Append the arrays and objects in a container to `inner`. Return whether its keys and values are JSON."""
    members, values = container, container
    if isinstance(container, dict):
        if not _TEXT_KEYS.issuperset(map(type, members)) and not all(isinstance(key, str) for key in members):
            return False
        values = members.values()
    if _PLAIN_TYPES.issuperset(map(type, values)):
        return True
    for item in values:
        if type(item) is str:
            continue
        if isinstance(item, (dict, list, tuple)):
            inner.append(item)
        elif isinstance(item, (int, float)):
            if not _MIN_INTEGER <= item <= _MAX_INTEGER:  # false for infinity and NaN, too
                return False
        elif not isinstance(item, _TEXT_TYPES):
            return False
    return True


def _describe_fault(value: object) -> str:
    pending: list[tuple[str, Any]] = [("", value)]
    seen: set[int] = set()
    for path, item in pending:
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, dict):
            members = cast("dict[object, Any]", item)
            if wrong_keys := [key for key in members if not isinstance(key, str)]:
                return f"{path} has the key {reprlib.repr(wrong_keys[0])}"
            pending += [(f"{path}.{key}", member) for key, member in members.items()]
        elif isinstance(item, (list, tuple)):
            pending += [(f"{path}[{index}]", member) for index, member in enumerate(cast("list[Any]", item))]
        elif isinstance(item, int) and not _MIN_INTEGER <= item <= _MAX_INTEGER:
            return f"{path} has more than {MAX_DIGITS} digits"
        elif not _append_containers([item], []):
            return f"{path} is {reprlib.repr(item)}"
    return " is not JSON"


def is_deeper(value: object, depth: int) -> bool:
    """Return whether a parsed JSON document has more than `depth` levels of objects and arrays.

    Args:
        value: a value returned by `json.loads()`.
        depth: maximum number of levels. A string or a number has no level, and an empty array has one level.
    """
    level: list[object] = [value]
    for _ in range(depth + 1):
        level = [item for item in level if isinstance(item, (dict, list))]
        if not level:
            return False
        level = [child for item in level for child in _member_values(item)]
    return True


def _member_values(value: object) -> Iterable[object]:
    return cast("dict[str, object]", value).values() if isinstance(value, dict) else cast("list[object]", value)
