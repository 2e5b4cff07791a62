"""Functions that read and validate request values. They raise `HTTPError` if a value is invalid."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, cast

from chat_inbox.http_errors import HTTPError
from chat_inbox.security import read_body
from chat_streams.json_fields import describe_value
from starlette.requests import Request

from chat_service.settings import ServiceSettings

_MAX_DIGITS = 9
_MAX_KEY = 255
_JSON_TYPES: Final[dict[type, str]] = {
    list: "an array", str: "a string", int: "a number", float: "a number", bool: "a boolean", type(None): "null"
}  # fmt: skip
MAX_TITLE: Final = 200
"""Number of characters that the title of a session may have."""


async def read_object(request: Request, settings: ServiceSettings) -> tuple[bytes, Mapping[str, object]]:
    """Return the body of a request, both as bytes and as a parsed JSON object.

    Args:
        request: the request.
        settings: limits of the service.

    Raises:
        HTTPError: 413 if the body is too large, 415 if it is not declared as JSON, 400 if it is not a JSON object.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPError(415, "The body must be JSON: send it with content-type: application/json.")
    body = await read_body(request, settings.max_body_bytes)
    try:
        value: object = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise HTTPError(400, "The body is not JSON in UTF-8.") from None
    if not isinstance(value, dict):
        # The value is not quoted: the body of a sign-in contains a token.
        raise HTTPError(400, f"The body must be a JSON object, not {_JSON_TYPES[type(value)]}.")
    return body, cast("dict[str, object]", value)


def _refuse_constant(text: str) -> object:
    raise ValueError(text)


def read_message(fields: Mapping[str, object], settings: ServiceSettings) -> str:
    """Return the field `message` of a body.

    Args:
        fields: the parsed body.
        settings: limits of the service.

    Raises:
        HTTPError: the message is not a string, is blank or is too long.
    """
    message = fields.get("message")
    if not isinstance(message, str):
        raise HTTPError(400, f"The field message must be a string, not {describe_value(message)}.")
    try:
        size = len(message.encode())
    except UnicodeEncodeError:
        raise HTTPError(400, "The message contains an unpaired surrogate, which UTF-8 cannot encode.") from None
    if size > settings.max_message_bytes:
        raise HTTPError(400, f"The message has {size} bytes; the limit is {settings.max_message_bytes}.")
    if not message.strip():
        raise HTTPError(400, "The field message must not be blank.")
    return message


def read_text(fields: Mapping[str, object], name: str) -> str | None:
    """Return an optional string of a body.

    Args:
        fields: the parsed body.
        name: name of the field.

    Raises:
        HTTPError: the field is neither a string nor null.
    """
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise HTTPError(400, f"The field {name} must be a string or null, not {describe_value(value)}.")
    return value


def read_title(fields: Mapping[str, object]) -> str | None:
    """Return the optional field `title` of a body.

    Args:
        fields: the body.

    Raises:
        HTTPError: the field is neither a string nor null, or has more than `MAX_TITLE` characters.
    """
    title = read_text(fields, "title")
    if title is not None and len(title) > MAX_TITLE:
        raise HTTPError(400, f"The title has {len(title)} characters; the limit is {MAX_TITLE}.")
    return title


def read_metadata(fields: Mapping[str, object]) -> Mapping[str, object] | None:
    """Return the optional field `metadata` of a body.

    Args:
        fields: the parsed body.

    Raises:
        HTTPError: the field is neither an object nor null.
    """
    value = fields.get("metadata")
    if value is not None and not isinstance(value, dict):
        raise HTTPError(400, f"The field metadata must be an object or null, not {describe_value(value)}.")
    return cast("Mapping[str, object] | None", value)


def read_number(request: Request, name: str, default: int, least: int, most: int) -> int:
    """Return an integer query parameter.

    Args:
        request: the request.
        name: name of the parameter.
        default: value if the parameter is missing.
        least: smallest valid value.
        most: largest valid value.

    Raises:
        HTTPError: the parameter is not an integer in this range.
    """
    text = request.query_params.get(name)
    if text is None:
        return default
    is_number = text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
    if not is_number or not least <= int(text) <= most:
        raise HTTPError(400, f"{name} must be an integer from {least} to {most}, not {text!r}.")
    return int(text)


def read_choice(request: Request, name: str, *choices: str) -> str:
    """Return a query parameter that must have one of several values. The first value is the default.

    Args:
        request: the request.
        name: name of the parameter.
        *choices: the valid values.

    Raises:
        HTTPError: the parameter has another value.
    """
    text = request.query_params.get(name, choices[0])
    if text not in choices:
        raise HTTPError(400, f"{name} must be {' or '.join(choices)}, not {text!r:.60}.")
    return text


def read_flag(request: Request, name: str) -> bool:
    """Return whether a query parameter is `true`. A missing parameter is false.

    Args:
        request: the request.
        name: name of the parameter.

    Raises:
        HTTPError: the parameter is neither `true` nor `false`.
    """
    return read_choice(request, name, "false", "true") == "true"


def read_key(request: Request) -> str | None:
    """Return the header `Idempotency-Key` of a request, or `None`.

    Args:
        request: the request.

    Raises:
        HTTPError: the key is empty or too long.
    """
    key = request.headers.get("idempotency-key")
    if key is not None and not 0 < len(key) <= _MAX_KEY:
        raise HTTPError(400, f"Idempotency-Key must have 1 to {_MAX_KEY} characters.")
    return key
