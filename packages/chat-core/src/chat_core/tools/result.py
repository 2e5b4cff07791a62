"""`ToolOutput`, and functions that convert return values of tools to the JSON and files that the history stores."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast, final

from pydantic_core import from_json, to_json, to_jsonable_python

from chat_core import model_texts
from chat_core.arguments import argument_error
from chat_core.json import dump_bytes, dumps, is_deeper
from chat_core.messages import Data, File, Text

MAX_KEPT_DATA: Final = 64 * 1024
"""Default limit on the data that is stored with one call, in bytes of JSON."""

_MAX_LIMITED_DEPTH: Final = 50
"""Maximum nesting of a limited result that is sent as JSON. Providers may refuse a request with a deeper one."""
_HEAD_PERCENT: Final = 65
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_BYTES = (bytes, bytearray, memoryview)
_ARRAYS: tuple[type[Any], ...] = (list, tuple, set, frozenset)
_OBJECTS: tuple[type[Any], ...] = (dict,)
_SCALARS = (str, int, float, type(None))


@final
@dataclasses.dataclass(frozen=True, slots=True, init=False)
class ToolOutput:
    """Return value of a tool that has data for the application, or changes the state of the conversation.

    A call that fails has no effect on the state and sends no data.

    Attributes:
        content: the result that the model receives: any value that a tool can return.
        data: data for the application, in order. Each is sent as a `ToolData` event after the result is stored.
        state: JSON object that is merged key by key into the state of the conversation, or `None`. A value replaces
            the earlier value of its key.
    """

    content: object
    data: tuple[Data, ...]
    state: Mapping[str, object] | None

    def __init__(
        self, content: object, *, data: Data | Iterable[Data] = (), state: Mapping[str, object] | None = None
    ) -> None:
        put = object.__setattr__
        put(self, "content", content)
        try:
            put(self, "data", (data,) if isinstance(data, Data) else tuple(data))
        except TypeError as error:
            raise argument_error("data", "a Data object or a list of them", data) from error
        put(self, "state", state)


def convert_data(items: Iterable[Data], max_kept: int, /) -> tuple[Data, ...]:
    """Convert the payload of each item to JSON, except a payload that is a `File`, and return the items.

    Args:
        items: data that a tool returned.
        max_kept: maximum total size of the payloads to store, as JSON in bytes. Files are not counted.

    Raises:
        TypeError: an item is not `Data`, a payload is not JSON, or the kept payloads are too large.
    """
    converted = tuple([_convert_data(item) for item in items])
    kept = [item.payload for item in converted if item.keep and not isinstance(item.payload, File)]
    size = sum([len(dump_bytes(payload)) for payload in kept])
    if size > max_kept:
        raise TypeError(model_texts.kept_data_too_large(size, max_kept))
    return converted


def _convert_data(item: object) -> Data:
    if not isinstance(item, Data):
        raise TypeError(model_texts.not_data(type(item).__name__))
    if isinstance(item.payload, File):
        return item
    payload, files = to_result(item.payload)
    if files:
        raise TypeError(model_texts.file_in_data(item.type))
    return dataclasses.replace(item, payload=payload)


def convert_state(state: Mapping[str, object] | None, /) -> Mapping[str, object] | None:
    """Convert the state change that a tool returned to a JSON object. Return None for None.

    Raises:
        TypeError: the change is not a JSON object, or it contains a file.
    """
    if state is None:
        return None
    value, files = to_result(state)
    if files or not isinstance(value, dict):
        raise TypeError(model_texts.state_not_json(type(state).__name__))
    return cast("dict[str, object]", value)


def to_result(value: object, /) -> tuple[object, tuple[File, ...]]:
    """Convert a tool's return value, and return it as JSON together with the files in it.

    Strings are kept and a `Text` becomes its string. Models, dataclasses, dates, decimals, enums and other values that
    pydantic can serialize become JSON. A `File`, alone or nested in lists and dicts, is extracted and replaced by a
    short note. Infinity and NaN become strings.

    Raises:
        TypeError: the value contains bytes, a file in a model or dataclass, or a value that is not JSON.
    """
    if value is None or type(value) is str:
        return value, ()
    files: list[File] = []
    try:
        plain = _extract_files(value, files)
        return _to_json_value(plain), tuple(files)
    except RecursionError as error:
        raise TypeError(model_texts.RESULT_TOO_DEEP) from error
    except ValueError as error:
        raise TypeError(model_texts.result_not_json(type(value).__name__, error)) from error


def _to_json_value(value: object) -> object:
    written = to_jsonable_python(value)
    try:
        json.dumps(written, allow_nan=False)
    except ValueError:
        return from_json(to_json(written, inf_nan_mode="strings"))
    return written


def _extract_files(value: Any, files: list[File]) -> Any:  # noqa: ANN401 - a tool may return anything
    """Return `value` with its files replaced by notes, and append the files to `files`."""
    if isinstance(value, File):
        files.append(value)
        return model_texts.file_note(value.name, value.mime)
    if isinstance(value, Text):
        return value.text
    if isinstance(value, (ToolOutput, Data)):
        raise TypeError(model_texts.output_inside(type(value).__name__))
    if isinstance(value, _BYTES):
        raise TypeError(model_texts.RESULT_IN_BYTES)
    if isinstance(value, _ARRAYS) and not hasattr(value, "_fields"):  # a named tuple is a record
        return [_extract_files(item, files) for item in value]
    if isinstance(value, _OBJECTS):
        return {key: _extract_files(item, files) for key, item in value.items()}
    _refuse_files_inside(value)
    return value


def _refuse_files_inside(value: object) -> None:
    """Raise `TypeError` if a field of a model or dataclass contains a file, because the serializer cannot omit it."""
    for name, item in _fields_of_model(value).items():
        if _contains_file(item):
            raise TypeError(model_texts.file_inside(type(value).__name__, name))


def _fields_of_model(value: object) -> dict[str, object]:
    if isinstance(value, _SCALARS):
        return {}
    from pydantic import BaseModel  # noqa: PLC0415 - most results need no pydantic

    if isinstance(value, BaseModel):
        return dict(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: getattr(value, item.name, None) for item in dataclasses.fields(value)}
    return {}


def _contains_file(value: Any) -> bool:  # noqa: ANN401 - a tool may return anything
    if isinstance(value, File):
        return True
    if isinstance(value, _ARRAYS):
        return any(_contains_file(item) for item in value)
    members = value if isinstance(value, _OBJECTS) else _fields_of_model(value)
    return any(_contains_file(item) for item in members.values())


def limit_result(value: object, max_bytes: int | None) -> object:
    """Return a converted result without control characters and within a limit of size.

    A result that is too large, or nested more than 50 levels deep, becomes a text: its JSON, shortened if necessary.

    Args:
        value: the result, as JSON.
        max_bytes: maximum size of the result as text in UTF-8, or `None` to return `value` unchanged.
    """
    if max_bytes is None:
        return value
    value = _remove_control_characters(value)
    if isinstance(value, str):
        return _shorten_text(value, max_bytes)
    text = dumps(value)
    shortened = _shorten_text(text, max_bytes)
    return value if shortened == text and not is_deeper(value, _MAX_LIMITED_DEPTH) else shortened


def limit_text(text: str, max_bytes: int | None) -> str:
    """Return an error text without control characters and within a limit of size.

    Args:
        text: the text.
        max_bytes: maximum size in UTF-8, or `None` to return `text` unchanged.
    """
    return text if max_bytes is None else _shorten_text(_CONTROL_CHARACTERS.sub("", text), max_bytes)


def _remove_control_characters(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return JSON without control characters in its strings, except tabs and line ends."""
    if isinstance(value, str):
        return _CONTROL_CHARACTERS.sub("", value)
    if isinstance(value, _ARRAYS):
        return [_remove_control_characters(item) for item in value]
    if isinstance(value, _OBJECTS):
        return {_CONTROL_CHARACTERS.sub("", key): _remove_control_characters(item) for key, item in value.items()}
    return value


def _shorten_text(text: str, max_bytes: int) -> str:
    """Return the beginning and the end of a text, with the number of omitted characters, if it is too large."""
    if len(text) * 4 <= max_bytes:
        return text
    encoded = text.encode("utf-8", "surrogatepass")
    if len(encoded) <= max_bytes:
        return text
    room = max(max_bytes - len(model_texts.elided("", len(text), "")), 0)
    end = room * _HEAD_PERCENT // 100
    start = len(encoded) - (room - end)
    # A character at a cut is omitted as a whole.
    while _continues_character(encoded, end):
        end -= 1
    while _continues_character(encoded, start):
        start += 1
    head, omitted, tail = [
        part.decode("utf-8", "surrogatepass") for part in (encoded[:end], encoded[end:start], encoded[start:])
    ]
    return model_texts.elided(head, len(omitted), tail)


def _continues_character(encoded: bytes, index: int) -> bool:
    return index < len(encoded) and encoded[index] & 0xC0 == 0x80  # noqa: PLR2004 - the second or a later byte
