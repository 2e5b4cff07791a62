"""What Claude's servers say of errors, beside what is read of them on every wire (`chat_core.wire.refusals`).

An error is `{"type": "error", "error": {"type", "message"}, "request_id"}`, with a status or as an event of a stream.
The platforms of other vendors say `{"message"}`, and name it in a header or in the type of the event.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from chat_core.errors import (
    ChatError,
    ContentFilteredError,
    InvalidRequestError,
    OverloadedError,
    ProviderError,
    QuotaExceededError,
    RateLimitedError,
    ServerError,
    TransportError,
)
from chat_core.json import loads
from chat_core.transport.provider_errors import reset_after, unreachable
from chat_core.wire import refusals
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


def refusal(status: int, headers: Mapping[str, str], body: bytes, provider: str) -> ProviderError:
    """The error for an answer whose status is not 2xx."""
    error = refusals.refusal(status, headers, body, provider)
    if (better := _by_words(error)) is not None:
        error = _as(better, error)
    if error.request_id is None:
        error.request_id = _request_id(_read(body))
    if isinstance(error, RateLimitedError) and error.retry_after is None:
        error.retry_after = reset_after(_limits(headers))
    return error


def failure_in_body(said: object, provider: str) -> ProviderError:
    """The error for one that came with status 200: in the middle of a stream, or in the place of an answer."""
    error = refusals.failure_in_body(said, provider)
    kind = _exception(said) or NAMED.get(error.code) or _by_words(error)
    if kind is not None and type(error) is not kind:
        error = _as(kind, error)
    error.request_id = error.request_id or _request_id(said)
    return error


def told(answer: object, event: str) -> object:
    """What an answer, or an event of no known type, says of an error; `None` where it says nothing of one."""
    if not is_object(answer):
        return None
    if event.lower() in EXCEPTIONS:
        return {**answer, "type": event}
    if event == "error" or answer.get("type") == "error" or _says(answer.get("error")):
        return answer
    if any(key.lower() in EXCEPTIONS for key in answer):
        return next({**mapping(value), "type": key} for key, value in answer.items() if key.lower() in EXCEPTIONS)
    return None


def _says(error: object) -> bool:
    return is_object(error) or (isinstance(error, str) and bool(error.strip()))


def translate(error: TransportError, provider: str) -> ChatError:
    """The error of a run for what the transport met."""
    if error.kind == "status" and error.status is not None:
        return refusal(error.status, error.headers, error.body, provider)
    return unreachable(error, provider)


def _by_words(error: ProviderError) -> type[ProviderError] | None:
    """What a request is refused for, where the words alone say that it is not the request."""
    if type(error) is not InvalidRequestError:
        return None
    words = str(error)
    return QuotaExceededError if CREDIT.search(words) else ContentFilteredError if FILTERED.search(words) else None


def _exception(said: object) -> type[ProviderError] | None:
    return EXCEPTIONS.get(str(mapping(said).get("type", "")).lower())


def _as(kind: type[ProviderError], error: ProviderError) -> ProviderError:
    """The same error, of another class."""
    return kind(
        str(error),
        status=error.status,
        code=error.code,
        request_id=error.request_id,
        body=error.body,
        retry_after=error.retry_after,
    )


def _limits(headers: Mapping[str, str]) -> dict[str, str]:
    """The limits in the names that most vendors give them: `anthropic-ratelimit-requests-remaining` and `-reset`."""
    found: dict[str, str] = {}
    for name, value in headers.items():
        lower = name.lower()
        if lower.startswith(LIMIT):
            limit, _, what = lower.removeprefix(LIMIT).rpartition("-")
            found[f"x-ratelimit-{what}-{limit}"] = value
    return found


def _read(body: bytes) -> object:
    try:
        return loads(body)
    except ValueError:
        return None


def _request_id(said: object) -> str | None:
    found = mapping(said).get("request_id")
    return found if isinstance(found, str) else None
