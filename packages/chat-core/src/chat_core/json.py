"""JSON parsing and writing for providers, transports and stores.

`pydantic_core.from_json` parses bytes three times faster than the standard library, but refuses lone surrogate escapes,
which servers produce when they split a stream inside an emoji. `json.loads` accepts them and is the fallback.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Final, TypeAlias, cast

from pydantic_core import from_json

JsonValue: TypeAlias = dict[str, "JsonValue"] | list["JsonValue"] | str | int | float | bool | None
"""Any JSON value."""

parse = from_json
"""The fast parser without the fallback."""
MAX_DEPTH: Final = 201
"""Maximum nesting depth of data from a server: the limit of `parse()`.

A stored conversation nests the data further, and it must stay below the limits of all serializers and parsers.
"""
_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def loads(data: bytes | str) -> object:
    """Parse one JSON document.

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
    """Parse one JSON document of a server or a model. Its nesting depth is at most `MAX_DEPTH`.

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
    """Serialize `value` as compact JSON. Non-ASCII text is not escaped and keys keep their order.

    Raises:
        TypeError: `value` is not made of JSON's types.
    """
    return _compact(value)


def dump_bytes(value: object) -> bytes:
    """Serialize `value` as compact JSON in UTF-8. Text with lone surrogates is escaped, because UTF-8 has none."""
    text = _compact(value)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def is_finite(value: object) -> bool:
    """Return whether every number in a parsed document is finite.

    JSON has no `NaN` or infinity, but parsers accept `NaN` and read `1e999` as infinity.
    """
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, float):
            if not math.isfinite(item):
                return False
        elif isinstance(item, dict):
            pending.extend(cast("dict[str, object]", item).values())
        elif isinstance(item, list):
            pending.extend(cast("list[object]", item))
    return True


def is_deeper(value: object, depth: int) -> bool:
    """Return whether a parsed document has more than `depth` levels of objects and arrays.

    Args:
        value: a value as `json.loads()` returns it.
        depth: the number of allowed levels. A string or number has none, an empty array has one.
    """
    level: list[object] = [value]
    for _ in range(depth + 1):
        level = [item for item in level if isinstance(item, (dict, list))]
        if not level:
            return False
        level = [child for item in level for child in _children(item)]
    return True


def _children(value: object) -> Iterable[object]:
    return cast("dict[str, object]", value).values() if isinstance(value, dict) else cast("list[object]", value)
