"""Readers for request fields in the OpenAI API format."""

from __future__ import annotations

import base64
from collections.abc import Collection
from typing import Any

from chat_core import ChatOptions
from chat_core.errors import UsageError
from chat_core.messages import File, Part, Text

from chat_streams.errors import ClientInputError
from chat_streams.json_fields import Fields, describe_value, require_list, require_object, require_text

IGNORED = frozenset(
    {
        "include", "metadata", "prompt_cache_key", "prompt_cache_retention", "safety_identifier", "service_tier",
        "truncation", "user",
    }
)  # fmt: skip
"""Fields that are accepted and ignored, because they do not affect the response."""


def refuse_other_fields(fields: Fields, known: Collection[str]) -> None:
    """Raise `ClientInputError` if a request has an unsupported field that would change the response.

    Args:
        fields: the fields of the request.
        known: names of the fields that are read.

    Raises:
        ClientInputError: a field is not supported. The message names the field.
    """
    for name, value in fields.items():
        if name not in known and name not in IGNORED and value is not None:
            raise ClientInputError("invalid_request", f"The field {name!r} is not supported.")


def read_options(fields: Fields, max_tokens: str) -> ChatOptions:
    """Return the options of a request.

    Args:
        fields: the fields of the request.
        max_tokens: name of the field with the maximum number of tokens.

    Raises:
        ClientInputError: an option has a wrong value.
    """
    values: dict[str, Any] = {
        "temperature": fields.get("temperature"),
        "top_p": fields.get("top_p"),
        "max_tokens": fields.get(max_tokens),
    }
    try:
        return ChatOptions(**values)
    except UsageError as error:
        raise ClientInputError("invalid_request", f"The request is invalid: {error}") from error


def read_flag(fields: Fields, name: str) -> bool:
    """Return a boolean field, or False if it is missing. Raise `ClientInputError` for another type.

    Args:
        fields: the fields of an object.
        name: name of the field.
    """
    value = fields.get(name)
    if not isinstance(value, bool | None):
        msg = f"The request is malformed: {name} must be true or false, not {describe_value(value)}."
        raise ClientInputError("invalid_request", msg)
    return value is True


def read_content(content: object) -> list[Part]:
    """Convert the `content` of a user message to parts of a turn.

    Args:
        content: a string, or a list of `input_text`, `input_image` and `input_file` parts.

    Raises:
        ClientInputError: a part is malformed or of another type.
    """
    if isinstance(content, str):
        return [Text(content)]
    return [_read_part(require_object(item, "a part of a message")) for item in require_list(content, "content")]


def _read_part(part: Fields) -> Part:
    kind = part.get("type")
    if kind == "input_text":
        return Text(require_text(part, "text"))
    if kind == "input_image" and "image_url" in part:
        return _read_file(require_text(part, "image_url"), "image/png", None)
    if kind == "input_file":
        name = part.get("filename")
        url = require_text(part, "file_url" if "file_url" in part else "file_data")
        return _read_file(url, "application/pdf", name if isinstance(name, str) else None)
    msg = (
        f"A user message cannot contain a part of type {kind!r}. Allowed: 'input_text', 'input_image' with image_url, "
        "'input_file'."
    )
    raise ClientInputError("invalid_request", msg)


def _read_file(url: str, mime: str, name: str | None) -> File:
    if not url.startswith("data:"):
        return File(mime, url=url, name=name)
    head, _, content = url.removeprefix("data:").partition(";base64,")
    try:
        return File(head or mime, data=base64.b64decode(content, validate=True), name=name)
    except (ValueError, UsageError) as error:
        raise ClientInputError(
            "invalid_request", "A file in the message is not valid. Send base64 or a URL."
        ) from error
