"""Recorded error responses of this API raise the correct errors: class, retryability and retry delay."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Final, cast

import pytest
from chat_completions.errors import error_from_response
from chat_core.errors import (
    AuthenticationError,
    ContentFilteredError,
    ContextLengthError,
    InvalidRequestError,
    NotFoundError,
    OverloadedError,
    PermissionDeniedError,
    ProviderError,
    QuotaExceededError,
    RateLimitedError,
    ServerError,
)
from chat_core.transport.values import Headers

from .exchanges import require_wire, rows
from .normalise import Json, Object

require_wire()

RULES: Final[tuple[tuple[str, str, type[ProviderError]], ...]] = (
    # The credit is used up, so a retry cannot succeed. The status does not matter.
    ("402", "", QuotaExceededError),
    ("429|403|400", r"insufficient_quota|insufficient balance|billing_hard_limit", QuotaExceededError),
    ("429", "", RateLimitedError),
    # Who asks.
    ("401", "", AuthenticationError),
    # What is asked: the content, before the permission that some gateways name in its place.
    ("400|403", r"content_filter|violates usage guidelines|content management policy", ContentFilteredError),
    ("403", "", PermissionDeniedError),
    ("404", "", NotFoundError),
    (
        "400|413|422",
        r"context (length|size|window)|exceed_context_size|prompt too long|too many tokens",
        ContextLengthError,
    ),
    ("503|529", "", OverloadedError),
    ("408|409|425|5..", "", ServerError),
    ("4..", "", InvalidRequestError),
)
"""Status, words in the body, class; the first that fits holds. Written from the vendors' references."""

WORTH_ANOTHER_TRY: Final = frozenset({408, 409, 425, 429}) | frozenset(range(500, 600))


def _speaks(row: Object) -> bool:
    """Return whether a row belongs to this API. Several vendors have an embeddings API of their own."""
    path = str(row["url_path"])
    return path == "None" or path.endswith(("/chat/completions", "/embeddings"))


ROWS: Final = [row for row in rows("rejections.jsonl") if _speaks(row)]


def _text(row: Object) -> str:
    body = row["body"]
    return body if isinstance(body, str) else json.dumps(body)


def _error(row: Object) -> ProviderError:
    headers = Headers(cast("dict[str, str]", row["headers"]))
    status = cast("int", row["status"])
    return error_from_response(status, headers, _text(row).encode(), str(row["provider"]))


def _expected(status: int, text: str) -> type[ProviderError]:
    return next(
        kind
        for statuses, words, kind in RULES
        if re.fullmatch(statuses, str(status)) and re.search(words, text, re.IGNORECASE)
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['provider']}-{row['status']}-{row['from']}")
def test_a_recorded_error_has_the_class_for_its_status_and_body(row: Object) -> None:
    error = _error(row)
    status = cast("int", row["status"])
    assert type(error) is _expected(status, _text(row)), str(error)
    # Groq reports a call that the model wrote wrong as 400.
    assert error.retryable is (status in WORTH_ANOTHER_TRY or error.code == "tool_use_failed")
    assert error.status == status


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['provider']}-{row['status']}-{row['from']}")
def test_a_recorded_error_has_its_retry_delay_and_request_id(row: Object) -> None:
    error = _error(row)
    headers = cast("dict[str, str]", row["headers"])
    milliseconds, seconds = headers.get("retry-after-ms"), headers.get("retry-after")
    wait = float(milliseconds or 0) / 1000 or (float(seconds) if seconds else None)
    assert error.retry_after == wait
    names = ("x-request-id", "request-id", "apim-request-id", "mistral-correlation-id")
    assert error.request_id == next((headers[name] for name in names if name in headers), None)
    assert error.body == _text(row).encode()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['provider']}-{row['status']}-{row['from']}")
def test_a_recorded_error_quotes_the_message_of_its_vendor(row: Object) -> None:
    error = _error(row)
    said: Json = json.loads(_text(row) or "{}")
    if isinstance(said, dict):
        said = said.get("error", said)
    if not isinstance(said, dict):
        said = {"message": said}
    words = said.get("message")
    if isinstance(words, str):
        assert " ".join(words.split())[:60] in str(error) or "…" in str(error)
    assert str(row["provider"]) in str(error)
    code = said.get("code")
    if isinstance(code, str) and not code.isdigit():
        assert error.code == code


def _made(status: int, body: object, headers: dict[str, str] | None = None) -> ProviderError:
    text = body if isinstance(body, str) else json.dumps(body)
    return error_from_response(status, Headers(headers or {}), text.encode(), "vendor")


def _openai(code: str, kind: str = "invalid_request_error", message: str = "No.") -> Object:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


AZURE_FILTER: Final = {
    "error": {
        "message": "The response was filtered due to the prompt triggering the content management policy.",
        "code": "content_filter",
        "status": 400,
        "innererror": {"code": "ResponsibleAIPolicyViolation"},
    }
}

DOCUMENTED: Final[tuple[tuple[str, int, object, type[ProviderError]], ...]] = (
    ("no quota left", 429, _openai("insufficient_quota", "insufficient_quota"), QuotaExceededError),
    ("a rate limit by code", 429, _openai("rate_limit_exceeded", "requests"), RateLimitedError),
    (
        "no balance",
        402,
        {"error": {"message": "Insufficient Balance", "code": "invalid_request_error"}},
        QuotaExceededError,
    ),
    ("no credits", 402, {"error": {"code": 402, "message": "This request requires more credits"}}, QuotaExceededError),
    ("too long by code", 400, _openai("context_length_exceeded"), ContextLengthError),
    ("too long by words", 400, {"message": "This model's maximum context length is 8192 tokens."}, ContextLengthError),
    ("too long for a text", 400, _openai("string_above_max_length"), ContextLengthError),
    ("a filtered prompt", 400, AZURE_FILTER, ContentFilteredError),
    ("a policy against the prompt", 400, _openai("content_policy_violation"), ContentFilteredError),
    ("a country", 403, _openai("unsupported_country_region_territory", "request_forbidden"), PermissionDeniedError),
    ("a model that was never there", 404, _openai("model_not_found"), NotFoundError),
    ("a schema of fields", 422, {"detail": [{"loc": ["body", "n"], "msg": "not a number"}]}, InvalidRequestError),
    ("a conflict", 409, {"error": {"message": "Conflict"}}, ServerError),
    ("a slow server", 408, {"error": {"message": "Timeout", "code": "Timeout"}}, ServerError),
    ("a bad gateway in HTML", 502, "<html><title>502</title></html>", ServerError),
    ("no room", 503, {"error": {"message": "The engine is currently overloaded"}}, OverloadedError),
    (
        "no room by another status",
        529,
        {"error": {"type": "overloaded_error", "message": "Overloaded"}},
        OverloadedError,
    ),
    ("a failure of the server", 500, {"error": {"type": "server_error", "message": "Sorry"}}, ServerError),
    ("nothing said", 400, "", InvalidRequestError),
    ("no JSON", 400, "{", InvalidRequestError),
    ("a list", 400, [{"error": {"code": 400, "message": "No."}}], InvalidRequestError),
)


@pytest.mark.parametrize(("name", "status", "body", "kind"), DOCUMENTED, ids=[row[0] for row in DOCUMENTED])
def test_a_documented_error_has_its_class(name: str, status: int, body: object, kind: type[ProviderError]) -> None:
    error = _made(status, body)
    assert type(error) is kind, name
    assert error.retryable is (kind in {RateLimitedError, OverloadedError, ServerError})


def test_an_exhausted_quota_is_not_retryable() -> None:
    assert not _made(429, _openai("insufficient_quota"), {"retry-after": "1"}).retryable


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"Retry-After": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_from_the_response_headers(headers: dict[str, str], wait: float | None) -> None:
    assert _made(429, _openai("rate_limit_exceeded"), headers).retry_after == wait


def test_retry_after_may_be_a_date() -> None:
    moment = datetime.now(UTC) + timedelta(minutes=2)
    wait = _made(503, "", {"retry-after": format_datetime(moment, usegmt=True)}).retry_after
    assert wait is not None
    assert 110 < wait <= 120


def test_x_should_retry_decides_whether_an_error_is_retryable() -> None:
    assert not _made(500, "", {"x-should-retry": "false"}).retryable
    assert _made(400, "", {"x-should-retry": "true"}).retryable


def test_an_api_key_quoted_by_the_server_is_not_in_the_error() -> None:
    error = _made(401, _openai("invalid_api_key", message="Incorrect API key provided: sk-proj-abcdefgh12345678."))
    assert "abcdefgh12345678" not in str(error)
    assert "abcdefgh12345678" not in repr(error)
