"""From the refusals of this vendor to the errors of a run.

A refusal is a `google.rpc.Status`: a code, one of few names for it, a message and typed details, at times in a list of
one. `chat_core.wire.errors` reads what every wire has in common; here is what the details and this vendor's habits
add. Its 429 says the same words for a limit of a minute, of a day and of a plan that has no such model; only the
details tell them apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, Final

from chat_core.errors import (
    AuthenticationError,
    OverloadedError,
    PermissionDeniedError,
    ProviderError,
    QuotaExceededError,
    RateLimitedError,
    ServerError,
)
from chat_core.json import loads
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
"""What an `ErrorInfo` says better than the status does."""

NAMES: Final[Mapping[str, type[ProviderError]]] = {
    "CANCELLED": ServerError,  # not by us: we would not listen any more
    "DEADLINE_EXCEEDED": ServerError,
    "ABORTED": ServerError,
    "INTERNAL": ServerError,
    "UNAVAILABLE": OverloadedError,
    "UNAUTHENTICATED": AuthenticationError,
}
"""What the names of `google.rpc.Code` mean that no status of HTTP says as well."""

QUOTA_EXHAUSTED: Final = re.compile(
    r"\blimit: 0\b|per[ _]?day|credits? (?:are|is|have been) (?:depleted|exhausted)|spend(?:ing)? (?:cap|limit)",
    re.IGNORECASE,
)
"""What is used up for today, or was never there: to wait for some seconds does not help."""

LOCATION_BLOCKED: Final = re.compile(r"location is not supported|not available in your country", re.IGNORECASE)

DELAY: Final = re.compile(
    r"retry (?:in|after) (?=\d)(?:(?P<h>\d{1,6})h)?(?:(?P<m>\d{1,6})m(?!s))?(?:(?P<s>\d{1,9}(?:\.\d+)?) ?(?P<ms>m?)s)?",
    re.IGNORECASE,
)
"""A wait in words, as Go writes it: `34.07s`, `573.1ms`, `8h1m2s`."""

TOO_MANY: Final = 429


def error_from_response(status: int, headers: Mapping[str, str], body: bytes, provider: str) -> ProviderError:
    """Return the error for a response whose status is not 2xx."""
    error = errors.error_from_response(status, headers, body, provider)
    try:
        said = loads(body)
    except ValueError:
        return error
    return _refine_error(error, said)


def error_from_object(said: object, provider: str) -> ProviderError:
    """Return the error for an error object sent with status 200: inside a stream, or in place of a response."""
    return _refine_error(errors.error_from_object(said, provider), said)


def find_error(answer: object) -> object:
    """Return the error object in a response with status 200; `None` if it holds none."""
    if is_list(answer):
        return next((said for item in answer if (said := find_error(item)) is not None), None)
    if not is_object(answer) or not answer.get("error"):
        return None
    return answer


# --- What the details add -----------------------------------------------------------------------------------


def _refine_error(error: ProviderError, said: object) -> ProviderError:
    status = _read_status(said)
    details = [item for item in status.get("details") or () if is_mapping(item)] if status else []
    kind = _error_class(error, status, details)
    if kind is not type(error):
        error = as_error_class(kind, error)
    wait = next((wait for item in details if (wait := _parse_duration(item.get("retryDelay"))) is not None), None)
    if wait is None and (words := DELAY.search(str(status.get("message")))):
        wait = _parse_delay(words)
    if wait is not None and error.retry_after is None:
        error.retry_after = wait
    return error


def _read_status(said: object) -> Mapping[str, Any]:
    """The `google.rpc.Status` in what was said."""
    if is_list(said):
        said = next((item for item in said if is_mapping(item)), None)
    inner = mapping(said).get("error", said)
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
    if name == "RESOURCE_EXHAUSTED" or TOO_MANY in (error.status, status.get("code")):
        spent = QUOTA_EXHAUSTED.search(message) or any("perday" in limit.lower() for limit in _limit_names(details))
        return QuotaExceededError if spent else RateLimitedError
    if name == "FAILED_PRECONDITION" and LOCATION_BLOCKED.search(message):
        return PermissionDeniedError
    return NAMES.get(name, type(error))


def _limit_names(details: list[Mapping[str, Any]]) -> Iterator[str]:
    """The names of the limits that were met."""
    for item in details:
        yield str(mapping(item.get("metadata")).get("quota_limit"))
        violations = item.get("violations")
        for violation in violations if is_list(violations) else ():
            yield str(mapping(violation).get("quotaId"))


def _parse_duration(delay: object) -> float | None:
    """A duration of protocol buffers: `34.4s`, or its seconds and nanoseconds."""
    try:
        if is_mapping(delay):
            return _valid_wait(float(delay.get("seconds") or 0) + float(delay.get("nanos") or 0) / 1e9)
        return _valid_wait(float(delay[:-1])) if isinstance(delay, str) and delay.endswith("s") else None
    except (ValueError, TypeError, OverflowError):
        return None


def _parse_delay(words: re.Match[str]) -> float | None:
    """Return the seconds of a wait that a message describes."""
    if words["h"] is words["m"] is words["s"] is None:
        return None
    seconds = float(words["s"] or 0) / (1000 if words["ms"] else 1)
    return _valid_wait(int(words["h"] or 0) * 3600 + int(words["m"] or 0) * 60 + seconds)


def _valid_wait(wait: float) -> float | None:
    return wait if isfinite(wait) and 0 <= wait <= LONGEST_WAIT else None
