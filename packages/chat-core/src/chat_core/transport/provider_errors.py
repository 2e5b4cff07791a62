"""From what a transport met to the errors of a run: what holds for every provider.

A status tells a class of its own; the words in the body tell it better, and each provider has a table of its words.
How long to wait, whether to try again and the request's id stand in headers that most providers share.
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
    TransportError,
)

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
    498: OverloadedError,  # Groq: no capacity left for this tier
    503: OverloadedError,
    529: OverloadedError,
}
"""What a status says by itself. Any other 4xx is `InvalidRequestError`, anything else `ServerError`."""

REQUEST_IDS: Final = (
    "x-request-id",
    "request-id",
    "apim-request-id",
    "mistral-correlation-id",
    "x-amzn-requestid",
    "cf-ray",
)
"""Where providers say the id of a request, the best place first."""

# A wait that is longer than this is a mistake, or a moment given where a duration was meant.
LONGEST_WAIT: Final = 366 * 86_400.0

_REMAINING: Final = "x-ratelimit-remaining"
_DURATION: Final = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+\.?\d*)s)?(?:(\d+\.?\d*)ms)?")
_UNITS: Final = (86_400.0, 3_600.0, 60.0, 1.0, 0.001)


def class_of(status: int) -> type[ProviderError]:
    """The class of an answer that is not 2xx, by its status alone."""
    if (kind := STATUSES.get(status)) is not None:
        return kind
    return InvalidRequestError if 400 <= status < 500 else ServerError  # noqa: PLR2004 - RFC 9110, section 15.5


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds that the server asks to wait; `None` where it does not ask, or in words that nobody can follow.

    `retry-after-ms` is in milliseconds, `retry-after` in seconds or a date (RFC 9110, section 10.2.3).
    """
    value = headers.get("retry-after-ms")
    if value is not None and (seconds := _seconds(value, 0.001)):
        return seconds
    value = headers.get("retry-after")
    if value is None:
        return None
    if (seconds := _seconds(value, 1.0)) is not None:
        return seconds
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    if moment.utcoffset() is None:
        moment = moment.replace(tzinfo=UTC)
    wait = (moment - (now or datetime.now(UTC))).total_seconds()
    return max(0.0, wait) if wait <= LONGEST_WAIT else None


def _seconds(value: str, unit: float) -> float | None:
    try:
        seconds = float(value) * unit
    except ValueError:
        return None
    return seconds if isfinite(seconds) and 0 <= seconds <= LONGEST_WAIT else None


def reset_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds until every limit that is used up is renewed; `None` where the headers do not tell.

    Many providers send, for each of their limits, what remains of it and when it is renewed: `x-ratelimit-remaining`
    and `x-ratelimit-reset`, or both with a suffix such as `-requests`. The moment is given in seconds, as a duration
    (`6m0.5s`), as seconds or milliseconds since 1970, or as a date of RFC 3339. Where a provider also says how long to
    wait, that is what counts.
    """
    moment = now or datetime.now(UTC)
    waits = [
        wait
        for name, value in headers.items()
        if name.lower().startswith(_REMAINING)
        and _number(value) == 0
        and (wait := _until(headers.get(f"x-ratelimit-reset{name[len(_REMAINING) :]}", ""), moment)) is not None
    ]
    return max(waits, default=None)


def _until(value: str, now: datetime) -> float | None:
    """Seconds until a moment, or the length of a duration; `None` where it is over, or nothing that is known."""
    value = value.strip().lower()
    seconds = _number(value)
    if seconds is None and value and (parts := _DURATION.fullmatch(value)):
        seconds = sum([float(part or 0) * unit for part, unit in zip(parts.groups(), _UNITS, strict=True)])
    elif seconds is None:
        try:
            date = datetime.fromisoformat(value.upper())
        except ValueError:
            return None
        seconds = (date - now).total_seconds() if date.utcoffset() is not None else None
    elif seconds > LONGEST_WAIT:
        # As long ago as 1970, or a thousand times as long.
        seconds = (seconds / 1000 if seconds > 1e11 else seconds) - now.timestamp()  # noqa: PLR2004 - the year 5138
    return seconds if seconds is not None and 0 <= seconds <= LONGEST_WAIT else None


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if isfinite(number) else None


def should_retry(headers: Mapping[str, str]) -> bool | None:
    """What the server itself says about trying again (`x-should-retry`); `None` where it says nothing."""
    return {"true": True, "false": False}.get(headers.get("x-should-retry", "").strip().lower())


def request_id(headers: Mapping[str, str]) -> str | None:
    """The id by which the provider's support finds the request."""
    return next((headers[name] for name in REQUEST_IDS if headers.get(name)), None)


def refused(
    kind: type[ProviderT],
    message: str,
    *,
    status: int | None,
    headers: Mapping[str, str],
    body: bytes = b"",
    code: str | None = None,
) -> ProviderT:
    """An error for an answer that is not what was asked for, with what its headers say."""
    return kind(
        message,
        status=status,
        code=code,
        request_id=request_id(headers),
        body=body,
        retry_after=retry_after(headers),
        retryable=should_retry(headers),
    )


def unreachable(error: TransportError, provider: str) -> ChatError:
    """An error for a call that got no answer, or half of one. Use it for every kind but `status`."""
    msg = f"{provider}: {error}"
    if error.kind == "timeout":
        return RequestTimeoutError(msg)
    if error.kind == "protocol":
        return InvalidResponseError(msg, raw=error.body)
    return NetworkError(msg)
