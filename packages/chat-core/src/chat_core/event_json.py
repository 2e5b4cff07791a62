"""Base classes that convert events to JSON objects, for front ends, logs and other programs.

`JsonRecord` and `JsonEvent` are base classes of dataclasses. They read the fields of the dataclass, so a new event
needs no code here. `chat_core.events.event_schema()` returns the JSON Schema of the result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from functools import cache
from typing import Any, cast

from pydantic_core import to_jsonable_python

from chat_core.errors import UsageError
from chat_core.messages import Data, File, Tool, Turn, codec
from chat_core.messages._part_codec import write_file
from chat_core.messages._tool_codec import write_data
from chat_core.usage import Usage

OMITTED = frozenset({"text_so_far"})
"""Fields that are omitted because they repeat the contents of earlier events."""


class JsonRecord:
    """Base class for dataclasses that can be converted to a JSON object."""

    __slots__ = ()

    def to_dict(self) -> dict[str, object]:
        """Return the fields as a JSON object. A field whose default is `None` is omitted if its value is `None`.

        Raises:
            UsageError: a value that the application provided cannot be converted to JSON.
        """
        result: dict[str, object] = {}
        for name, is_optional in _written_fields(self):
            value = getattr(self, name)
            if value is not None or not is_optional:
                result[name] = value if type(value) in _PLAIN else _to_json(value, f"{type(self).__name__}.{name}")
        return result


class JsonEvent(JsonRecord):
    """Base class for events. The JSON object of an event has a field `type`, such as `"text_delta"`."""

    __slots__ = ()

    def to_dict(self) -> dict[str, object]:
        """Return the event as a JSON object, described by `chat_core.events.event_schema()`.

        Calls, turns and files are written as in a stored conversation. Fields whose default is `None` are omitted if
        their value is `None`.

        Raises:
            UsageError: a value of the application, such as reported progress, cannot be written as JSON.
        """
        return {"type": event_type(type(self)), **super().to_dict()}


_PLAIN = frozenset({str, int, bool})


def event_type(kind: type) -> str:
    """Return the value of the JSON field `type` for an event class, which is the class name in snake case."""
    return _to_snake_case(kind.__name__)


@cache
def _to_snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


_FIELDS: dict[type[JsonRecord], tuple[tuple[str, bool], ...]] = {}


def _written_fields(record: JsonRecord) -> tuple[tuple[str, bool], ...]:
    """Return the name of each field to write, and whether the field has the default `None`."""
    kind = type(record)
    found = _FIELDS.get(kind)
    if found is None:
        found = tuple(
            [(item.name, item.default is None) for item in fields(cast("Any", record)) if item.name not in OMITTED]
        )
        _FIELDS[kind] = found
    return found


def _to_json(value: object, where: str) -> object:
    """Convert the value of a field to JSON.

    Args:
        value: value of a field, or an item inside the value.
        where: class and field, for the error message.
    """
    converted: object
    match value:
        case JsonRecord() | Usage():
            converted = value.to_dict()
        case Tool():
            converted = codec.tool_to_dict(value)
        case Turn():
            converted = codec.turn_to_dict(value)
        case File():
            converted = write_file(value)
        case Data():
            converted = write_data(value)
        case datetime():
            converted = value.isoformat()
        case tuple() | list():
            converted = [_to_json(item, where) for item in cast("list[object]", value)]
        case Mapping():
            mapping = cast("Mapping[object, object]", value)
            converted = {str(key): _to_json(item, where) for key, item in mapping.items()}
        case _:
            converted = _to_jsonable(value, where)
    return converted


def _to_jsonable(value: object, where: str) -> object:
    try:
        converted: object = to_jsonable_python(value, inf_nan_mode="null")
    except ValueError as error:
        msg = f"{where} has a {type(value).__name__}, which cannot be written as JSON: use JSON values instead"
        raise UsageError(msg) from error
    return converted
