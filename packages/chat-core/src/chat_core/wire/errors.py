"""Translation of error responses to exceptions.

Error bodies have one of these formats: `{"error": {"message", "type", "code"}}`, `{"error": "…"}`,
`{"message", "type", "code"}`, `{"detail": …}`, `{"errors": […]}`, a list of one of these, or text that is not JSON.

The code of an error determines its class. If the code is unknown, the type determines the class, and otherwise the
status. The message decides only for errors that many servers report in no other way. The tables are in
`error_names.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from chat_core.errors import (
    AuthenticationError,
    ContextLengthError,
    InvalidRequestError,
    NotFoundError,
    OverloadedError,
    ProviderError,
    QuotaExceededError,
    RateLimitedError,
    ServerError,
)
from chat_core.json import MAX_DEPTH, dumps, is_deeper, loads_limited
from chat_core.transport.provider_errors import (
    describe_redirect,
    error_class_for_status,
    provider_error,
    reset_after,
    with_next_step,
)
from chat_core.wire.error_names import ELSEWHERE, FAILED_GENERATIONS, MEANINGS, WORDS, normalize_name
from chat_core.wire.shapes import is_list, is_object, mapping

ErrorT = TypeVar("ErrorT", bound=ProviderError)

SPECIFIC_STATUSES: Final[Mapping[int, tuple[type[ProviderError], ...]]] = {
    401: (AuthenticationError, QuotaExceededError),
    402: (QuotaExceededError,),
    404: (NotFoundError,),
}
"""Error classes that an error name may select for these statuses. Other names are ignored."""

API_KEY: Final = (
    r"\b(?:(?:sk|pk|gsk|key|xai|hf|r8|csk|pplx|nvapi|fw|ghp|gho|ghu|tgp|pa|jina|or)[-_](?=[\w.…-]*[\d*…])[\w*.…-]{6,}"
    r"|github_pat_\w{8,}|AIza[\w-]{8,}|AQ\.[\w-]{8,}|ya29\.[\w.-]{8,}|dapi[0-9a-f]{8,}|eyJ[\w-]{8,}\.[\w.-]{8,})"
)
"""Pattern for API keys. A key that a server quotes in an error message must not reach a log."""

QUOTED: Final = r"(?i)\b((?:api[ _-]?key|bearer)(?: provided)?[ :='\"]{1,4})(?=[\w.-]{0,64}\d)[\w.-]{16,}"
"""Pattern for a value in any format that the message itself calls a key."""

LONGEST_MESSAGE: Final = 600
LONGEST_SEARCH: Final = 4_000


@dataclass(frozen=True, slots=True)
class ErrorBody:
    """The contents of an error response: the message, and error names with the most specific name first."""

    message: str
    names: tuple[str, ...] = ()
    status: int | None = None

    @property
    def code(self) -> str | None:
        """The most specific error name, or None if the server sent no name."""
        return self.names[0] if self.names else None

    @property
    def summary(self) -> str:
        """The error message, truncated to a length suitable for a log."""
        if len(self.message) <= LONGEST_MESSAGE:
            return self.message or "it said nothing"
        return f"{self.message[:LONGEST_MESSAGE]}…"


def error_from_response(status: int, headers: Mapping[str, str], body: bytes, provider: str) -> ProviderError:
    """Create the error for a response with a status other than 2xx.

    Args:
        status: HTTP status of the response.
        headers: the response headers, which may contain a retry delay.
        body: body of the response, possibly truncated.
        provider: name of the provider, for the message.
    """
    reported = read_error_body(body)
    kind = _error_class(reported, status)
    redirect = describe_redirect(status, headers)
    summary = reported.summary if redirect is None else f"{_redact(redirect)}: check the base URL"
    msg = f"{provider} refused the request with status {status}: {summary}"
    error = provider_error(kind, msg, status=status, headers=headers, body=body, code=reported.code)
    if kind is RateLimitedError and error.retry_after is None:
        error.retry_after = reset_after(headers)
    return _mark_failed_generation(error)


def error_from_object(error: object, provider: str) -> ProviderError:
    """Create the error for an error object received in a stream or in a response with status 200.

    Args:
        error: the error object, parsed from JSON.
        provider: name of the provider, for the message.
    """
    reported = read_error(error)
    msg = f"{provider} reported an error in its response: {reported.summary}"
    body = _to_text(error).encode(errors="replace")
    return _mark_failed_generation(
        provider_error(
            _error_class(reported, reported.status),
            msg,
            status=reported.status,
            headers={},
            body=body,
            code=reported.code,
        )
    )


def _mark_failed_generation(error: ErrorT) -> ErrorT:
    """Make an error retryable if its cause is the model's output, and return the error."""
    if error.code is not None and normalize_name(error.code) in FAILED_GENERATIONS:
        error.retryable = True
    return error


def as_error_class(kind: type[ErrorT], error: ProviderError) -> ErrorT:
    """Convert an error to class `kind`, with the message and attributes of `error`."""
    return kind(
        with_next_step(str(error), kind),
        status=error.status,
        code=error.code,
        request_id=error.request_id,
        body=error.body,
        retry_after=error.retry_after,
    )


# --- Selecting the error class ---------------------------------------------------------------------------------------


def _error_class(reported: ErrorBody, status: int | None) -> type[ProviderError]:
    named = [MEANINGS[name] for name in map(normalize_name, reported.names) if name in MEANINGS]
    kind = next((kind for kind in named if _may_override_status(kind, status)), None)
    if kind is ContextLengthError and re.search(ELSEWHERE, reported.message):
        return InvalidRequestError
    if kind not in (None, InvalidRequestError):
        return kind
    place = kind or (None if status is None else error_class_for_status(status))
    if status not in SPECIFIC_STATUSES:
        for words, better, places in WORDS:
            if place in places and re.search(words, reported.message, re.IGNORECASE):
                return better
    return place or ServerError


def _may_override_status(kind: type[ProviderError], status: int | None) -> bool:
    """Return whether the error class `kind`, derived from an error name, may override the status."""
    if status is None:
        return True
    if 300 <= status < 400:  # noqa: PLR2004 - RFC 9110, section 15.4
        return False  # the body of a redirect is a web page for users
    if status in SPECIFIC_STATUSES:
        return kind in SPECIFIC_STATUSES[status]
    if kind in (ServerError, InvalidRequestError):
        return False  # the status distinguishes client and server errors more reliably
    # A request that is too large stays too large, so an error that allows retries must not replace the status.
    return not (status == 413 and kind in (RateLimitedError, OverloadedError))  # noqa: PLR2004 - RFC 9110, section 15.5.14


# --- Parsing error bodies --------------------------------------------------------------------------------------

CODES: Final = ("code", "type", "status", "error_code", "error_type", "errorCode", "status_code", "reason")
"""JSON fields that may contain the name of an error."""

STATUSES: Final = ("status_code", "statusCode", "status", "code")
"""JSON fields that may repeat the HTTP status."""

REFUSED: Final = re.compile(r"[45][0-9]{2}")

MESSAGES: Final = (
    "message", "detail", "error", "errors", "msg", "status_msg", "error_message", "errorMessage", "error_description",
    "title", "description",
)  # fmt: skip
"""JSON fields that may contain the message, in order of preference."""

WRAPPERS: Final = ("error", "errors", "detail", "base_resp")
"""JSON fields that may contain the error object."""

MAX_WRAPPERS: Final = 4


def read_error_body(body: bytes) -> ErrorBody:
    """Parse the body of an error response, which may be JSON or plain text."""
    try:
        value = loads_limited(body)
    except ValueError:
        return ErrorBody(_redact(body.decode(errors="replace")))
    return read_error(value)


def read_error(error: object) -> ErrorBody:
    """Parse a JSON error value, usually an object, into an `ErrorBody`."""
    fields = _unwrap_error(error)
    if not is_object(fields):
        return ErrorBody(_redact(fields if isinstance(fields, str) else _to_text(fields)))
    names = list(dict.fromkeys([error_name(fields[name]) for name in CODES if fields.get(name)]))
    names.sort(key=str.isdigit)  # a number repeats the status or is specific to a vendor
    if inner := mapping(fields.get("innererror")).get("code"):
        names.append(error_name(inner))
    statuses = [error_name(fields[name]) for name in STATUSES if fields.get(name)]
    status = next((int(item) for item in statuses if REFUSED.fullmatch(item)), None)
    return ErrorBody(_redact(_find_message(fields)), tuple([name for name in names if name]), status)


def _unwrap_error(value: object) -> object:
    for _ in range(MAX_WRAPPERS):
        if is_list(value) and len(value) > 0:
            value = value[0]
        if not is_object(value):
            break
        inner = next((item for name in WRAPPERS if _is_wrapper(name, item := value.get(name))), None)
        if inner is None:
            break
        value = inner
    return value


def _is_wrapper(name: str, item: object) -> bool:
    # FastAPI lists all validation errors in `detail`. Together they are the message.
    return (is_object(item) and bool(item)) or (name == "errors" and is_list(item) and bool(item))


def error_name(value: object) -> str:
    """Convert an error name or number to a string. Return an empty string for other values."""
    return value if isinstance(value, str) else str(value) if isinstance(value, int) else ""


def _find_message(fields: dict[str, Any]) -> str:
    """Return the message of an error object. A gateway's error also includes the message of the vendor."""
    for name in MESSAGES:
        if value := fields.get(name):
            text = value if isinstance(value, str) else _to_text(value)
            break
    else:
        return _to_text(fields) if fields else ""
    raw = mapping(fields.get("metadata")).get("raw")
    return f"{text} ({raw if isinstance(raw, str) else _to_text(raw)})" if raw else text


def _to_text(value: object) -> str:
    if is_deeper(value, MAX_DEPTH):
        return "JSON that is nested too deeply to be shown"
    return dumps(value)


def _redact(text: str) -> str:
    """Return the text as one paragraph, with everything that looks like a key redacted."""
    return re.sub(QUOTED, r"\1…", re.sub(API_KEY, "…", " ".join(text[:LONGEST_SEARCH].split())))
