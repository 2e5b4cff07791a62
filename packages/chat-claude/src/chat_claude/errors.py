"""Exceptions for the error objects of the Messages API.

This module refines the errors that `chat_core.wire.errors` creates for every API.

An error object is `{"type": "error", "error": {"type", "message"}, "request_id"}`. It is the body of a response or an
event of a stream. Other vendors' platforms send `{"message"}`, with the type in a header or in the event type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from chat_core.errors import (
    ContentFilteredError,
    InvalidRequestError,
    OverloadedError,
    ProviderError,
    QuotaExceededError,
    RateLimitedError,
    ServerError,
)
from chat_core.json import loads_limited
from chat_core.transport.provider_errors import reset_after
from chat_core.wire import errors
from chat_core.wire.errors import as_error_class
from chat_core.wire.shapes import is_object, mapping

CREDIT: Final = re.compile(r"credit balance is too low|reached your specified (?:api )?usage limits", re.IGNORECASE)
"""Messages of status 400 that mean an exhausted balance or spending limit."""

FILTERED: Final = re.compile(r"\bblocked by (?:our )?content filter", re.IGNORECASE)
"""Messages of status 400 that mean a blocked prompt or response."""

LIMIT_PREFIX: Final = "anthropic-ratelimit-"

CODE_CLASSES: Final[Mapping[str | None, type[ProviderError]]] = {
    "billing_error": QuotaExceededError,
    "request_too_large": InvalidRequestError,
}
"""Error classes by error type, for types that only this API uses. Needed inside streams, where there is no status."""

BEDROCK_CLASSES: Final[Mapping[str, type[ProviderError]]] = {
    "throttlingexception": RateLimitedError,
    "servicequotaexceededexception": RateLimitedError,
    "serviceunavailableexception": OverloadedError,
    "modelnotreadyexception": OverloadedError,
    "internalserverexception": ServerError,
    "modelstreamerrorexception": ServerError,
    "modeltimeoutexception": ServerError,
    "validationexception": InvalidRequestError,
}
"""Error classes by the type of the event with which Bedrock ends a failed stream."""


def error_from_response(status: int, headers: Mapping[str, str], body: bytes, provider: str) -> ProviderError:
    """Return the error for a response whose status is not 2xx.

    Args:
        status: HTTP status.
        headers: the response headers, which may contain a retry delay.
        body: the response body as received.
        provider: name of the provider, for the error message.
    """
    error = errors.error_from_response(status, headers, body, provider)
    if (error_class := _error_class_by_message(error)) is not None:
        error = as_error_class(error_class, error)
    if error.request_id is None:
        error.request_id = _find_request_id(_parse_json(body))
    if isinstance(error, RateLimitedError) and error.retry_after is None:
        error.retry_after = reset_after(_common_limit_headers(headers))
    return error


def error_from_object(error_object: object, provider: str) -> ProviderError:
    """Return the exception for an error object that was sent with status 200, in a stream or in place of a response.

    Args:
        error_object: the parsed object, as returned by `find_error()`.
        provider: name of the provider, for the error message.
    """
    error = errors.error_from_object(error_object, provider)
    error_class = _error_class_by_event(error_object) or CODE_CLASSES.get(error.code) or _error_class_by_message(error)
    if error_class is not None and type(error) is not error_class:
        error = as_error_class(error_class, error)
    error.request_id = error.request_id or _find_request_id(error_object)
    return error


def find_error(data: object, event: str) -> object:
    """Return the error object that a response or event contains, or `None`.

    Args:
        data: parsed JSON of the response or event.
        event: event type of the stream; empty for a complete response.
    """
    if not is_object(data):
        return None
    if event.lower() in BEDROCK_CLASSES:
        return {**data, "type": event}
    if event == "error" or data.get("type") == "error" or _describes_error(data.get("error")):
        return data
    if any(key.lower() in BEDROCK_CLASSES for key in data):
        return next({**mapping(value), "type": key} for key, value in data.items() if key.lower() in BEDROCK_CLASSES)
    return None


def _describes_error(error: object) -> bool:
    return is_object(error) or (isinstance(error, str) and bool(error.strip()))


def _error_class_by_message(error: ProviderError) -> type[ProviderError] | None:
    """Return a more specific class for an `InvalidRequestError`, based on its message, or `None`."""
    if type(error) is not InvalidRequestError:
        return None
    message = str(error)
    return QuotaExceededError if CREDIT.search(message) else ContentFilteredError if FILTERED.search(message) else None


def _error_class_by_event(error_object: object) -> type[ProviderError] | None:
    return BEDROCK_CLASSES.get(str(mapping(error_object).get("type", "")).lower())


def _common_limit_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the rate limit headers under their common names.

    For example, `anthropic-ratelimit-requests-reset` becomes `x-ratelimit-reset-requests`.
    """
    renamed: dict[str, str] = {}
    for name, value in headers.items():
        lower = name.lower()
        if lower.startswith(LIMIT_PREFIX):
            limit, _, field = lower.removeprefix(LIMIT_PREFIX).rpartition("-")
            renamed[f"x-ratelimit-{field}-{limit}"] = value
    return renamed


def _parse_json(body: bytes) -> object:
    try:
        return loads_limited(body)
    except ValueError:
        return None


def _find_request_id(error_object: object) -> str | None:
    request_id = mapping(error_object).get("request_id")
    return request_id if isinstance(request_id, str) else None
