"""What Claude's servers say of errors, beside what is read of them on every wire (`chat_core.wire.errors`).

An error is `{"type": "error", "error": {"type", "message"}, "request_id"}`, with a status or as an event of a stream.
The platforms of other vendors say `{"message"}`, and name it in a header or in the type of the event.
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
from chat_core.json import loads
from chat_core.transport.provider_errors import reset_after
from chat_core.wire import errors
from chat_core.wire.errors import as_error_class
from chat_core.wire.shapes import is_object, mapping

CREDIT: Final = re.compile(r"credit balance is too low|reached your specified (?:api )?usage limits", re.IGNORECASE)
"""A 400 that is about money."""

FILTERED: Final = re.compile(r"\bblocked by (?:our )?content filter", re.IGNORECASE)
"""A 400 that is about what was said, or would have been answered."""

LIMIT: Final = "anthropic-ratelimit-"

NAMED: Final[Mapping[str | None, type[ProviderError]]] = {
    "billing_error": QuotaExceededError,
    "request_too_large": InvalidRequestError,
}
"""Names of errors that say nothing on other wires, for where there is no status to tell them."""

EXCEPTIONS: Final[Mapping[str, type[ProviderError]]] = {
    "throttlingexception": RateLimitedError,
    "servicequotaexceededexception": RateLimitedError,
    "serviceunavailableexception": OverloadedError,
    "modelnotreadyexception": OverloadedError,
    "internalserverexception": ServerError,
    "modelstreamerrorexception": ServerError,
    "modeltimeoutexception": ServerError,
    "validationexception": InvalidRequestError,
}
"""The events by which Bedrock ends a stream that fails."""


def error_from_response(status: int, headers: Mapping[str, str], body: bytes, provider: str) -> ProviderError:
    """Return the error for a response whose status is not 2xx."""
    error = errors.error_from_response(status, headers, body, provider)
    if (better := _class_by_message(error)) is not None:
        error = as_error_class(better, error)
    if error.request_id is None:
        error.request_id = _find_request_id(_parse(body))
    if isinstance(error, RateLimitedError) and error.retry_after is None:
        error.retry_after = reset_after(_common_limit_headers(headers))
    return error


def error_from_object(said: object, provider: str) -> ProviderError:
    """Return the error for an error object sent with status 200: inside a stream, or in place of a response."""
    error = errors.error_from_object(said, provider)
    kind = _exception_class(said) or NAMED.get(error.code) or _class_by_message(error)
    if kind is not None and type(error) is not kind:
        error = as_error_class(kind, error)
    error.request_id = error.request_id or _find_request_id(said)
    return error


def find_error(answer: object, event: str) -> object:
    """Return the error object in a response, or in an event of an unknown type; `None` if there is none."""
    if not is_object(answer):
        return None
    if event.lower() in EXCEPTIONS:
        return {**answer, "type": event}
    if event == "error" or answer.get("type") == "error" or _describes_error(answer.get("error")):
        return answer
    if any(key.lower() in EXCEPTIONS for key in answer):
        return next({**mapping(value), "type": key} for key, value in answer.items() if key.lower() in EXCEPTIONS)
    return None


def _describes_error(error: object) -> bool:
    return is_object(error) or (isinstance(error, str) and bool(error.strip()))


def _class_by_message(error: ProviderError) -> type[ProviderError] | None:
    """Return the class for a 400 whose message names a reason other than the request; `None` for any other error."""
    if type(error) is not InvalidRequestError:
        return None
    words = str(error)
    return QuotaExceededError if CREDIT.search(words) else ContentFilteredError if FILTERED.search(words) else None


def _exception_class(said: object) -> type[ProviderError] | None:
    return EXCEPTIONS.get(str(mapping(said).get("type", "")).lower())


def _common_limit_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The limits in the names that most vendors give them: `anthropic-ratelimit-requests-remaining` and `-reset`."""
    found: dict[str, str] = {}
    for name, value in headers.items():
        lower = name.lower()
        if lower.startswith(LIMIT):
            limit, _, what = lower.removeprefix(LIMIT).rpartition("-")
            found[f"x-ratelimit-{what}-{limit}"] = value
    return found


def _parse(body: bytes) -> object:
    try:
        return loads(body)
    except ValueError:
        return None


def _find_request_id(said: object) -> str | None:
    found = mapping(said).get("request_id")
    return found if isinstance(found, str) else None
