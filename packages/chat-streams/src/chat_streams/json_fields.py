"""Readers for the fields of a JSON request. A field of the wrong type raises `ClientInputError`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeAlias, cast

from chat_core.arguments import require_type
from chat_core.json import loads_limited

from chat_streams.errors import ClientInputError

Fields: TypeAlias = Mapping[str, object]


def read_body(body: bytes | str, /) -> Fields:
    """Return the fields of a request.

    Args:
        body: the body, JSON in UTF-8.

    Raises:
        ClientInputError: the body is not a JSON object.
    """
    require_type("body", body, (str, bytes), "a string or bytes")
    try:
        value = loads_limited(body)
    except ValueError as error:
        raise ClientInputError("invalid_request", "The request body is not valid JSON.") from error
    return require_object(value, "the body")


def require_object(value: object, what: str, /) -> Fields:
    """Return a value as an object, or raise `ClientInputError`.

    Args:
        value: the value of a field, as decoded from JSON.
        what: the name of the value in the error message.
    """
    if not isinstance(value, dict):
        msg = f"The request is malformed: {what} must be an object, not {describe_value(value)}."
        raise ClientInputError("invalid_request", msg)
    return cast("Fields", value)


def require_list(value: object, what: str, /) -> list[object]:
    """Return a value as a list, or raise `ClientInputError`.

    Args:
        value: the value of a field, as decoded from JSON.
        what: the name of the value in the error message.
    """
    if not isinstance(value, list):
        msg = f"The request is malformed: {what} must be an array, not {describe_value(value)}."
        raise ClientInputError("invalid_request", msg)
    return cast("list[object]", value)


def require_text(fields: Fields, name: str, /) -> str:
    """Return a field that must be a string, or raise `ClientInputError`.

    Args:
        fields: the fields of an object.
        name: name of the field.
    """
    value = fields.get(name)
    if not isinstance(value, str):
        msg = f"The request is malformed: {name} must be a string, not {describe_value(value)}."
        raise ClientInputError("invalid_request", msg)
    return value


def describe_value(value: object, /) -> str:
    """Return the JSON text of a value for an error message, at most 60 characters.

    Args:
        value: the value of a field, as decoded from JSON. None for a missing field.
    """
    return f"{json.dumps(value):.60}"
