"""Functions, shared by all providers, that convert error responses and transport errors to the errors of a run.

The class of an error depends on its status; each provider refines it by the error codes and messages in the body. The
wait before a retry, whether to retry, and the request id come from headers that most providers share.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite
from typing import Final, TypeVar

from chat_core.errors import (
    AuthenticationError,
    ChatError,
    ContentFilteredError,
    ContextLengthError,
    InvalidRequestError,
    InvalidResponseError,
    NetworkError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProviderError,
    QuotaExceededError,
    RateLimitedError,
    RequestTimeoutError,
    ServerError,
    StreamTruncatedError,
    TransportError,
)

ErrorT = TypeVar("ErrorT", bound=ChatError | TransportError)
ProviderT = TypeVar("ProviderT", bound=ProviderError)

STATUSES: Final[Mapping[int, type[ProviderError]]] = {
    401: AuthenticationError,
    402: QuotaExceededError,
    403: PermissionDeniedError,
    404: NotFoundError,
    408: ServerError,
    409: ServerError,
    425: ServerError,
    429: RateLimitedError,
    498: OverloadedError,  # Groq: the capacity of this tier is exhausted
    503: OverloadedError,
    529: OverloadedError,
}
"""Error classes by status. Any other 4xx becomes `InvalidRequestError`, 3xx `ProviderError`, the rest `ServerError`."""

_TRY_AGAIN: Final = "try again, or allow more retries with with_retry()"

NEXT_STEPS: Final[Mapping[type[ChatError], str]] = {
    AuthenticationError: "check that the API key is valid and belongs to this server",
    ContentFilteredError: "change the input that the provider rejected",
    ContextLengthError: "shorten the conversation, for example with with_context()",
    InvalidRequestError: "check the options, tools and files against what the model supports",
    InvalidResponseError: "check that the base URL and the model belong to this API",
    NotFoundError: "check the name of the model and the base URL",
    OverloadedError: "try again later, or allow more retries with with_retry()",
    PermissionDeniedError: "check what the API key and its account may use",
    QuotaExceededError: "check the plan and the balance of the account",
    RateLimitedError: "send fewer requests, or allow more retries with with_retry()",
    ServerError: "try again later; if it happens again, give the request id to the provider",
    StreamTruncatedError: _TRY_AGAIN,
}
"""Recommended next step for the caller, by error class."""

_STEPS_OF_KINDS: Final[Mapping[str, str]] = {
    "connect": "check the base URL, the network and the proxy",
    "stream": _TRY_AGAIN,
    "protocol": "check the base URL and the proxy",
}
_OWN_STEP: Final = re.compile(r"; ((?:check|raise) .*|[^;]* sets the limit)$", re.DOTALL)
"""Pattern for the next step that a transport gives itself, because only it knows an option or a setting."""

CHAT_TIMEOUT: Final = "ChatOptions(timeout=…) sets the limit"

# By error code. It replaces the next step of the error class.
_STEPS_OF_CODES: Final[Mapping[str, str]] = {
    "previous_response_not_found": "send the whole conversation, without previous_response_id",  # Responses API
}
_NEXT_STEP: Final = " (next step: "

REQUEST_IDS: Final = (
    "x-request-id",
    "request-id",
    "apim-request-id",
    "mistral-correlation-id",
    "x-amzn-requestid",
    "cf-ray",
)
"""Headers that may contain the id of a request, most specific first."""

# A longer wait is a mistake of the server, or a timestamp in place of a duration.
LONGEST_WAIT: Final = 366 * 86_400.0

LONGEST_LOCATION: Final = 500
_USER: Final = re.compile(r"//[^/]*@")
_REMAINING: Final = "x-ratelimit-remaining"
_DURATION: Final = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+\.?\d*)s)?(?:(\d+\.?\d*)ms)?")
_UNITS: Final = (86_400.0, 3_600.0, 60.0, 1.0, 0.001)


def error_class_for_status(status: int) -> type[ProviderError]:
    """Return the error class for a status that is not 2xx."""
    if (kind := STATUSES.get(status)) is not None:
        return kind
    return {3: ProviderError, 4: InvalidRequestError}.get(status // 100, ServerError)


def describe_redirect(status: int, headers: Mapping[str, str]) -> str | None:
    """Return the description of a redirect, or None for another response (RFC 9110, section 15.4).

    The user, query and fragment of the location are omitted, because they may contain credentials.

    Args:
        status: the status of the response.
        headers: the headers of the response, with lowercase or case-insensitive names.
    """
    location = headers.get("location")
    if status // 100 != 3 or not location:  # noqa: PLR2004 - the statuses of redirects
        return None
    target = _USER.sub("//", re.split(r"[?#]", location, maxsplit=1)[0][:LONGEST_LOCATION])
    return f"a redirect to {target}; redirects are not followed"


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return the number of seconds that the server asks clients to wait before a retry.

    `retry-after-ms` is in milliseconds. `retry-after` is in seconds, or a date (RFC 9110, section 10.2.3).

    Args:
        headers: the headers of the response, with lowercase or case-insensitive names.
        now: the time from which a date is counted; the current time by default.

    Returns:
        The seconds to wait, or None if the headers contain no valid wait.
    """
    value = headers.get("retry-after-ms")
    if value is not None and (seconds := _parse_wait(value, 0.001)):
        return seconds
    value = headers.get("retry-after")
    if value is None:
        return None
    if (seconds := _parse_wait(value, 1.0)) is not None:
        return seconds
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    if moment.utcoffset() is None:
        moment = moment.replace(tzinfo=UTC)
    wait = (moment - (now or datetime.now(UTC))).total_seconds()
    return max(0.0, wait) if wait <= LONGEST_WAIT else None


def _parse_wait(value: str, unit: float) -> float | None:
    try:
        seconds = float(value) * unit
    except ValueError:
        return None
    return seconds if isfinite(seconds) and 0 <= seconds <= LONGEST_WAIT else None


def reset_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return the seconds until all exhausted rate limits are reset.

    Many providers report each limit as a pair of headers: `x-ratelimit-remaining` and `x-ratelimit-reset`, both with
    the same suffix such as `-requests`, or with none. The reset is in seconds, a duration such as `6m0.5s`, a Unix
    timestamp in seconds or milliseconds, or an RFC 3339 date. Prefer `retry_after()` if it returns a wait.

    Args:
        headers: the headers of the response.
        now: the time from which a timestamp or date is counted; the current time by default.

    Returns:
        The longest wait, or None if the headers report no exhausted limit with a reset.
    """
    moment = now or datetime.now(UTC)
    waits = [
        wait
        for name, value in headers.items()
        if name.lower().startswith(_REMAINING)
        and _parse_number(value) == 0
        and (wait := _seconds_until_reset(headers.get(f"x-ratelimit-reset{name[len(_REMAINING) :]}", ""), moment))
        is not None
    ]
    return max(waits, default=None)


def _seconds_until_reset(value: str, now: datetime) -> float | None:
    """Return the seconds until a reset time. Return None for a time in the past or an unknown format."""
    value = value.strip().lower()
    seconds = _parse_number(value)
    if seconds is None and value and (parts := _DURATION.fullmatch(value)):
        seconds = sum([float(part or 0) * unit for part, unit in zip(parts.groups(), _UNITS, strict=True)])
    elif seconds is None:
        try:
            date = datetime.fromisoformat(value.upper())
        except ValueError:
            return None
        seconds = (date - now).total_seconds() if date.utcoffset() is not None else None
    elif seconds > LONGEST_WAIT:
        # A Unix timestamp, in seconds or milliseconds.
        seconds = (seconds / 1000 if seconds > 1e11 else seconds) - now.timestamp()  # noqa: PLR2004 - the year 5138
    return seconds if seconds is not None and 0 <= seconds <= LONGEST_WAIT else None


def _parse_number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if isfinite(number) else None


def should_retry(headers: Mapping[str, str]) -> bool | None:
    """Return whether the server asks for a retry (`x-should-retry`), or None if the header is missing or invalid."""
    return {"true": True, "false": False}.get(headers.get("x-should-retry", "").strip().lower())


def request_id(headers: Mapping[str, str]) -> str | None:
    """Return the request id from the headers, or None. The provider's support uses the id to find a request."""
    return next((headers[name] for name in REQUEST_IDS if headers.get(name)), None)


def provider_error(
    kind: type[ProviderT],
    message: str,
    *,
    status: int | None,
    headers: Mapping[str, str],
    body: bytes = b"",
    code: str | None = None,
) -> ProviderT:
    """Return an error for an error response, with the retry hints and the request id from the headers.

    The next step for the caller is appended to the message.

    Args:
        kind: the class of the error.
        message: the message of the error.
        status: the status of the response; None if the error came within a stream.
        headers: the headers of the response; empty if they are unknown.
        body: the body of the response, or its beginning.
        code: the error code of the provider.
    """
    return kind(
        with_next_step(message, kind, code),
        status=status,
        code=code,
        request_id=request_id(headers),
        body=body,
        retry_after=retry_after(headers),
        retryable=should_retry(headers),
    )


def with_next_step(message: str, kind: type[ChatError], code: str | None = None) -> str:
    """Return an error message that ends with the next step for the error code, or for errors of class `kind`.

    Args:
        message: the message. If it ends with a next step, that step is replaced.
        kind: the class of the error.
        code: the error code of the provider, or None.
    """
    words = message.partition(_NEXT_STEP)[0]
    step = _STEPS_OF_CODES.get(code or "") or NEXT_STEPS.get(kind)
    return words if step is None else f"{words}{_NEXT_STEP}{step})"


def with_details(message: str, details: str) -> str:
    """Return an error message with `details` in parentheses, before the next step.

    Args:
        message: the message. It may end with a next step.
        details: the text to add.
    """
    words, separator, step = message.partition(_NEXT_STEP)
    return f"{words} ({details}){separator}{step}"


def add_address(error: ErrorT, address: str, details: str = "") -> ErrorT:
    """Add the address of a request to the message of an error, in place, and return the error.

    An address that the message contains already is not added again. For an invalid or incomplete response, the next
    step is added as well.

    Args:
        error: the error of the request.
        address: the method and URL of the request, or its URL, without secrets: `describe(request)`.
        details: more text to add after the address.
    """
    message, own_step = str(error), ""
    if isinstance(error, TransportError) and (own := _OWN_STEP.search(message)) is not None:
        message, own_step = message[: own.start()], own[0]
    # A WebSocket transport names the same address with another scheme.
    added = [] if address.partition("://")[2] in message else [address]
    if details:
        added.append(details)
    if added:
        message = with_details(message, "; ".join(added))
    if isinstance(error, (InvalidResponseError, StreamTruncatedError)) and _NEXT_STEP not in message:
        message = with_next_step(message, type(error))
    error.args = (message + own_step,)
    return error


def translate_transport_error(
    error: TransportError, provider: str, timeout_step: str = CHAT_TIMEOUT, hint: str = ""
) -> ChatError:
    """Convert a transport error to the `ChatError` that a run raises for a missing or incomplete response.

    The message ends with the next step for the caller: the one that the transport has given, or else one for the kind.

    Args:
        error: the error of the transport, of any kind except `status`.
        provider: the name of the provider, for the message.
        timeout_step: the next step after a timeout. By default, it names the option of a chat.
        hint: the next step if no connection could be made. By default, a general one.
    """
    msg = f"{provider}: {error}"
    if (own := _OWN_STEP.search(msg)) is not None:
        msg, step = msg[: own.start()], own[1]
    elif hint and error.kind == "connect":
        step = hint
    else:
        step = timeout_step if error.kind == "timeout" else _STEPS_OF_KINDS.get(error.kind, _TRY_AGAIN)
    msg = f"{msg}{_NEXT_STEP}{step})"
    if error.kind == "timeout":
        return RequestTimeoutError(msg)
    if error.kind == "protocol":
        return InvalidResponseError(msg, raw=error.body)
    return NetworkError(msg)
