"""Type guards and checks for parsed JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from typing_extensions import TypeIs

from chat_core.errors import InvalidResponseError
from chat_core.json import loads_limited

Json: TypeAlias = dict[str, Any]
"""A JSON object."""


COUNT_LIMIT: Final = 1 << 53
"""Exclusive upper limit for counts, which also excludes infinity."""


class WrongShapeError(Exception):
    """Error for a JSON field with an unexpected type."""

    def __init__(self, path: str, expected: str) -> None:
        super().__init__(f"{path} is not {expected}")
        self.path = path
        self.expected = expected


def is_object(value: object) -> TypeIs[dict[str, Any]]:
    """Return whether `value` is a JSON object, parsed as a `dict`."""
    return isinstance(value, dict)


def is_mapping(value: object) -> TypeIs[Mapping[str, Any]]:
    """Return whether `value` is a `dict` or another mapping."""
    return isinstance(value, (dict, Mapping))  # `dict` first: the check for `Mapping` is slow


def is_list(value: object) -> TypeIs[list[Any]]:
    """Return whether `value` is a list."""
    return isinstance(value, list)


def mapping(value: object) -> Mapping[str, Any]:
    """Return `value` if it is a mapping, otherwise an empty mapping."""
    return value if value is not None and is_mapping(value) else {}  # `None` first: it is frequent, and quick to see


def whole_numbers(value: object) -> dict[str, int]:
    """Return the fields of an object whose values are counts, converted to integers.

    Some servers send counts as floats. Return an empty dict if `value` is not an object.
    """
    if value is None or not is_mapping(value):
        return {}
    return {name: int(n) for name, n in value.items() if n.__class__ in (int, float) and 0 <= n < COUNT_LIMIT}


def require_text(value: object, path: str) -> str:
    """Return `value` if it is a string.

    Args:
        value: parsed JSON value.
        path: path of the value in the response, for the error message.

    Raises:
        WrongShapeError: the value is not a string.
    """
    if isinstance(value, str):
        return value
    raise WrongShapeError(path, "a string")


def require_list(value: object, path: str) -> list[Any]:
    """Return `value` if it is a list.

    Args:
        value: parsed JSON value.
        path: path of the value in the response, for the error message.

    Raises:
        WrongShapeError: the value is not a list.
    """
    if is_list(value):
        return value
    raise WrongShapeError(path, "a list")


def require_object(value: object, path: str) -> Json:
    """Return `value` if it is an object.

    Args:
        value: parsed JSON value.
        path: path of the value in the response, for the error message.

    Raises:
        WrongShapeError: the value is not an object.
    """
    if is_object(value):
        return value
    raise WrongShapeError(path, "an object")


def parse_body(body: bytes, provider: str) -> object:
    """Parse the body of a response as JSON and return its value.

    Args:
        body: the response body as received.
        provider: name of the provider, for the error message.

    Raises:
        InvalidResponseError: the body is not JSON, or it is nested too deeply.
    """
    try:
        return loads_limited(body)
    except ValueError as error:
        msg = f"{provider}: the response is not JSON"
        raise InvalidResponseError(msg, raw=body) from error


def parse_object(body: bytes, provider: str) -> Json:
    """Parse the body of a response as a JSON object and return its fields.

    Args:
        body: the response body as received.
        provider: name of the provider, for the error message.

    Raises:
        InvalidResponseError: the body is not JSON, it is nested too deeply, or its value is not an object.
    """
    value = parse_body(body, provider)
    if is_object(value):
        return value
    msg = f"{provider}: the response must be a JSON object, but is JSON of another type"
    raise InvalidResponseError(msg, raw=body)


def parse_id(body: bytes, provider: str) -> str:
    """Parse the body of a response as a JSON object and return its field `id`, such as the ID of a new batch.

    Args:
        body: the response body as received.
        provider: provider name for errors.

    Raises:
        InvalidResponseError: the body is not a JSON object, or its `id` is not a string or is empty.
    """
    id_ = parse_object(body, provider).get("id")
    if isinstance(id_, str) and id_:
        return id_
    msg = f"{provider}: `id` of the response must be a string that is not empty, not {id_!r}"
    raise InvalidResponseError(msg, path="id", raw=body)
