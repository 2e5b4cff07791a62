"""Conversion of a tool's return value into the JSON and files that the history stores."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from pydantic import BaseModel
from pydantic_core import from_json, to_json, to_jsonable_python

from chat_core import model_texts
from chat_core.messages import File, Text

_BYTES = (bytes, bytearray, memoryview)
_ARRAYS: tuple[type[Any], ...] = (list, tuple, set, frozenset)
_OBJECTS: tuple[type[Any], ...] = (dict,)


def to_result(value: object, /) -> tuple[object, tuple[File, ...]]:
    """Return `value` as JSON, and the files in it.

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
        return _jsonable(plain), tuple(files)
    except RecursionError as error:
        raise TypeError(model_texts.RESULT_TOO_DEEP) from error
    except ValueError as error:
        raise TypeError(model_texts.result_not_json(type(value).__name__, error)) from error


def _jsonable(value: object) -> object:
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
    if isinstance(value, _BYTES):
        raise TypeError(model_texts.RESULT_IN_BYTES)
    if isinstance(value, _ARRAYS) and not hasattr(value, "_fields"):  # a named tuple is a record
        return [_extract_files(item, files) for item in value]
    if isinstance(value, _OBJECTS):
        return {key: _extract_files(item, files) for key, item in value.items()}
    _refuse_files_inside(value)
    return value


def _refuse_files_inside(value: object) -> None:
    """Raise if a field of a model or dataclass contains a file, because its serializer cannot leave the file out."""
    for name, item in _fields(value).items():
        if _contains_file(item):
            raise TypeError(model_texts.file_inside(type(value).__name__, name))


def _fields(value: object) -> dict[str, object]:
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
    members = value if isinstance(value, _OBJECTS) else _fields(value)
    return any(_contains_file(item) for item in members.values())
