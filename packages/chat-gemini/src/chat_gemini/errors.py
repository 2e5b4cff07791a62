"""Exceptions for `google.rpc.Status` objects, which describe the errors of this API.

This module refines the errors that `chat_core.wire.errors` creates for every API. A status has a code, its name, a
message and typed details. Some servers wrap the status in a list of one item. Status 429 has the same message for
limits per minute, limits per day and models that the plan excludes. Only the details differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, Final

from chat_core.errors import (
    AuthenticationError,
    InvalidResponseError,
    OverloadedError,
    PermissionDeniedError,
    ProviderError,
    QuotaExceededError,
    RateLimitedError,
    ServerError,
)
from chat_core.json import loads_limited
from chat_core.transport.provider_errors import LONGEST_WAIT
from chat_core.wire import errors
from chat_core.wire.errors import as_error_class
from chat_core.wire.shapes import is_list, is_mapping, is_object, mapping

REASONS: Final[Mapping[str, type[ProviderError]]] = {
    "API_KEY_INVALID": AuthenticationError,
    "API_KEY_EXPIRED": AuthenticationError,
    "API_KEY_MISSING": AuthenticationError,
    "CREDENTIALS_MISSING": AuthenticationError,
    "ACCESS_TOKEN_EXPIRED": AuthenticationError,
    "ACCESS_TOKEN_TYPE_UNSUPPORTED": AuthenticationError,
    "BILLING_DISABLED": QuotaExceededError,
}
"""Error classes by the reason of an `ErrorInfo`, for reasons that are more specific than the status."""

NAMES: Final[Mapping[str, type[ProviderError]]] = {
    "CANCELLED": ServerError,  # canceled by the server; if the client cancels, no response is read
    "DEADLINE_EXCEEDED": ServerError,
    "ABORTED": ServerError,
    "INTERNAL": ServerError,
    "UNAVAILABLE": OverloadedError,
    "UNAUTHENTICATED": AuthenticationError,
}
"""Error classes by the name of the `google.rpc.Code`, for names that are more specific than the HTTP status."""

FAILED_GENERATIONS: Final[Mapping[str, tuple[str, str, bool]]] = {
    "MALFORMED_FUNCTION_CALL": (
        "the model wrote a call that cannot be parsed",
        "try again, and simplify the tools if it happens often",
        True,
    ),
    "MALFORMED_RESPONSE": ("the model wrote a response that cannot be parsed", "try again", True),
    "UNEXPECTED_TOOL_CALL": (
        "the model called a tool that the request does not declare",
        "try again, or declare the tool",
        True,
    ),
    "TOO_MANY_TOOL_CALLS": (
        "the model called too many server-side tools in a row",
        "split the task into smaller requests",
        False,
    ),
    "MISSING_THOUGHT_SIGNATURE": (
        "a call in the history has lost its signature",
        "send the turns as received",
        False,
    ),
}
"""Finish reasons of failed responses: an explanation, the next step, and whether the same request may succeed later.

Source: `FinishReason` of Google's Gen AI SDK (googleapis.github.io/kotlin-genai, 2026-11-22), and recorded traffic for
`UNEXPECTED_TOOL_CALL`. A failure of the model is retryable, a failure that the request causes is not.
"""

MAX_DETAIL: Final = 500
"""Maximum number of characters that an error message quotes from the server's message."""

QUOTA_EXHAUSTED: Final = re.compile(
    r"\blimit: 0\b|per[ _]?day|credits? (?:are|is|have been) (?:depleted|exhausted)|spend(?:ing)? (?:cap|limit)",
    re.IGNORECASE,
)
"""Error messages that mean an exhausted daily quota or a quota of zero, for which a short wait does not help."""

LOCATION_BLOCKED: Final = re.compile(r"location is not supported|not available in your country", re.IGNORECASE)

DELAY: Final = re.compile(
    r"retry (?:in|after) (?=\d)(?:(?P<h>\d{1,6})h)?(?:(?P<m>\d{1,6})m(?!s))?(?:(?P<s>\d{1,9}(?:\.\d+)?) ?(?P<ms>m?)s)?",
    re.IGNORECASE,
)
"""Retry delay in an error message, in the duration format of Go: `34.07s`, `573.1ms`, `8h1m2s`."""

TOO_MANY_REQUESTS: Final = 429


def error_from_response(status: int, headers: Mapping[str, str], body: bytes, provider: str) -> ProviderError:
    """Return the error for a response whose status is not 2xx.

    Args:
        status: HTTP status.
        headers: the response headers, which may contain a retry delay.
        body: the response body as received.
        provider: name of the provider, for the error message.
    """
    error = errors.error_from_response(status, headers, body, provider)
    try:
        error_object = loads_limited(body)
    except ValueError:
        return error
    return _refine_error(error, error_object)


def error_from_object(error_object: object, provider: str) -> ProviderError:
    """Return the exception for an error object that was sent with status 200, in a stream or in place of a response.

    Args:
        error_object: the parsed object, as returned by `find_error()`.
        provider: name of the provider, for the error message.
    """
    return _refine_error(errors.error_from_object(error_object, provider), error_object)


def find_error(data: object) -> object:
    """Return the error object that a response with status 200 contains, or `None`."""
    chunks = data if is_list(data) else [data]
    return next((chunk for chunk in chunks if is_object(chunk) and chunk.get("error")), None)


def failed_generation(reason: str | None, detail: object, provider: str) -> InvalidResponseError | None:
    """Return the error for a finish reason that means a failed response, or `None` for any other reason.

    Args:
        reason: the finish reason.
        detail: value of `finishMessage`.
        provider: name of the provider, for the error message.
    """
    if reason is None or reason not in FAILED_GENERATIONS:
        return None
    explanation, step, retryable = FAILED_GENERATIONS[reason]
    server_message = f" ({detail[:MAX_DETAIL]})" if isinstance(detail, str) and detail else ""
    msg = f"{provider} ended the response with {reason}{server_message}: {explanation} (next step: {step})"
    error = InvalidResponseError(msg, path="candidates[0].finishReason", raw=reason)
    error.retryable = retryable
    return error


# --- Details ------------------------------------------------------------------------------------------------


def _refine_error(error: ProviderError, error_object: object) -> ProviderError:
    """Return `error` with a more specific class and retry delay, if the status in `error_object` specifies them."""
    status = _read_status(error_object)
    details = [item for item in status.get("details") or () if is_mapping(item)] if status else []
    kind = _error_class(error, status, details)
    if kind is not type(error):
        error = as_error_class(kind, error)
    wait = next((wait for item in details if (wait := _parse_duration(item.get("retryDelay"))) is not None), None)
    if wait is None and (match := DELAY.search(str(status.get("message")))):
        wait = _parse_delay(match)
    if wait is not None and error.retry_after is None:
        error.retry_after = wait
    return error


def _read_status(error_object: object) -> Mapping[str, Any]:
    """Return the `google.rpc.Status` that an error object contains. Invalid details are replaced by an empty list."""
    if is_list(error_object):
        error_object = next((item for item in error_object if is_mapping(item)), None)
    inner = mapping(error_object).get("error", error_object)
    status = mapping(inner)
    return status if is_list(status.get("details") or []) else {**status, "details": []}


def _error_class(
    error: ProviderError, status: Mapping[str, Any], details: list[Mapping[str, Any]]
) -> type[ProviderError]:
    for item in details:
        if (kind := REASONS.get(str(item.get("reason")))) is not None:
            return kind
    name = str(status.get("status"))
    message = str(status.get("message"))
    if name == "RESOURCE_EXHAUSTED" or TOO_MANY_REQUESTS in (error.status, status.get("code")):
        spent = QUOTA_EXHAUSTED.search(message) or any("perday" in limit.lower() for limit in _limit_names(details))
        return QuotaExceededError if spent else RateLimitedError
    if name == "FAILED_PRECONDITION" and LOCATION_BLOCKED.search(message):
        return PermissionDeniedError
    return NAMES.get(name, type(error))


def _limit_names(details: list[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the names of the exceeded limits from the details of a status."""
    for item in details:
        yield str(mapping(item.get("metadata")).get("quota_limit"))
        violations = item.get("violations")
        for violation in violations if is_list(violations) else ():
            yield str(mapping(violation).get("quotaId"))


def _parse_duration(delay: object) -> float | None:
    """Return a protocol buffer duration in seconds, or `None` if it is invalid.

    The duration is a string such as `34.4s`, or an object with seconds and nanoseconds.
    """
    try:
        if is_mapping(delay):
            return _valid_wait_or_none(float(delay.get("seconds") or 0) + float(delay.get("nanos") or 0) / 1e9)
        return _valid_wait_or_none(float(delay[:-1])) if isinstance(delay, str) and delay.endswith("s") else None
    except (ValueError, TypeError, OverflowError):
        return None


def _parse_delay(match: re.Match[str]) -> float | None:
    """Return the retry delay in seconds from a match of `DELAY`, or `None` if the match has no valid delay."""
    if match["h"] is match["m"] is match["s"] is None:
        return None
    seconds = float(match["s"] or 0) / (1000 if match["ms"] else 1)
    return _valid_wait_or_none(int(match["h"] or 0) * 3600 + int(match["m"] or 0) * 60 + seconds)


def _valid_wait_or_none(wait: float) -> float | None:
    return wait if isfinite(wait) and 0 <= wait <= LONGEST_WAIT else None
