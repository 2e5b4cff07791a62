"""Exceptions for errors that a response reports in its body or in its finish reason.

For every API, `chat_core.wire.errors` creates the exceptions for errors with an HTTP status. Error messages that only
one vendor uses are listed in the vendor's preset.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from chat_core.errors import (
    ChatError,
    OverloadedError,
    ProviderError,
    RateLimitedError,
    ServerError,
    TransportError,
)
from chat_core.json import loads_limited
from chat_core.transport.provider_errors import (
    CHAT_TIMEOUT,
    provider_error,
    reset_after,
    retry_after,
    translate_transport_error,
)
from chat_core.transport.values import Headers
from chat_core.wire import errors
from chat_core.wire.errors import MESSAGES, error_from_object, error_name
from chat_core.wire.shapes import is_list, is_object, mapping

__all__ = [
    "FAILED_FINISH",
    "SUCCESS_CODES",
    "ErrorPatterns",
    "error_from_finish_reason",
    "error_from_object",
    "error_from_response",
    "error_without_response",
    "find_error",
]

ErrorPatterns: TypeAlias = tuple[tuple[re.Pattern[str], type[ProviderError]], ...]
"""Error classes by body: pairs of a regular expression, for the body of an error response, and the class to raise."""


def error_from_response(
    status: int, headers: Mapping[str, str], body: bytes, provider: str, error_patterns: ErrorPatterns = ()
) -> ProviderError:
    """Return the error for a response whose status is not 2xx.

    Args:
        status: the HTTP status.
        headers: the response headers, which may contain a retry delay.
        body: the response body as received.
        provider: name of the provider, for the error message.
        error_patterns: the error patterns of the vendor.
    """
    error = errors.error_from_response(status, headers, body, provider)
    text = body[: errors.LONGEST_SEARCH].decode(errors="replace")
    for pattern, kind in error_patterns:
        if pattern.search(text):
            error = provider_error(kind, str(error), status=status, headers=headers, body=body, code=error.code)
            break
    if isinstance(error, RateLimitedError) and error.retry_after is None:
        error.retry_after = _retry_delay_in_body(body)
    return error


def _retry_delay_in_body(body: bytes) -> float | None:
    """Return the retry delay in seconds from the upstream headers that OpenRouter puts in the body, or None."""
    try:
        fields = mapping(mapping(loads_limited(body)).get("error"))
    except ValueError:
        return None
    upstream = mapping(mapping(fields.get("metadata")).get("headers"))
    headers = Headers({name: value for name, value in upstream.items() if isinstance(value, str)})
    wait = retry_after(headers)
    return reset_after(headers) if wait is None else wait


def error_without_response(
    error: TransportError,
    provider: str,
    hint: str = "",
    error_patterns: ErrorPatterns = (),
    timeout_step: str = CHAT_TIMEOUT,
) -> ChatError:
    """Return the `ChatError` for a request whose transport failed.

    Args:
        error: the error of the transport.
        provider: name of the provider, for the error message.
        hint: the next step if no connection could be made.
        error_patterns: the error patterns of the vendor, used if `error` carries an HTTP status.
        timeout_step: the next step after a timeout.
    """
    if error.kind == "status" and error.status is not None:
        return error_from_response(error.status, error.headers, error.body, provider, error_patterns)
    return translate_transport_error(error, provider, timeout_step, hint)


def find_error(answer: object, *, kind: str = "message") -> object:
    """Return the error object that a response with status 200 contains, or None.

    Args:
        answer: the decoded JSON of a response body or an event.
        kind: the type of the event that contained `answer`.
    """
    if is_list(answer):
        return find_error(answer[0], kind="error") if answer else None
    if not is_object(answer):
        return None
    if error := answer.get("error"):
        return error if is_object(error) else answer
    # MiniMax reports errors in a field of its own, with or without choices.
    if mapping(answer.get("base_resp")).get("status_code"):
        return answer
    if "choices" in answer:
        return None
    bare = kind == "error" or "error" in (answer.get("object"), answer.get("type")) or _is_bare_error(answer)
    return answer if bare else None


def _is_bare_error(answer: dict[str, Any]) -> bool:
    """Return whether `answer` itself is an error object: it has a message, and a code or details."""
    named = any(
        error_name(answer.get(name)) not in SUCCESS_CODES
        for name in ("code", "error_code", "status_code", "statusCode")
    )
    if named or answer.get("detail") or answer.get("errors"):
        return any(answer.get(name) for name in MESSAGES)
    return False


SUCCESS_CODES: Final = frozenset({"", "0", "200"})
"""Error codes that mean success."""

FAILED_FINISH: Final[Mapping[str, type[ProviderError]]] = {
    "error": ServerError,
    "network_error": ServerError,
    "abort": ServerError,
    "insufficient_system_resource": OverloadedError,
}
"""Finish reasons that report a failure of the server, and the error class for each of them."""


def error_from_finish_reason(finish: str | None, provider: str) -> ProviderError | None:
    """Return the error for a finish reason that reports a failure of the server, or None.

    Args:
        finish: the finish reason of the response.
        provider: name of the provider, for the error message.
    """
    kind = FAILED_FINISH.get((finish or "").lower())
    if kind is None:
        return None
    return kind(f"{provider} aborted the response with the finish reason {finish!r}", code=finish)
