from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from chat_claude.errors import error_from_object, error_from_response, find_error
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


def said(kind: str, message: str = "no", **fields: Any) -> bytes:
    return json.dumps({"type": "error", "error": {"type": kind, "message": message}, **fields}).encode()


def refused(status: int, body: bytes, **headers: str) -> ProviderError:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return error_from_response(status, Headers(fields), body, "claude")


@pytest.mark.parametrize(
    ("status", "kind", "error", "retryable"),
    [
        (400, "invalid_request_error", InvalidRequestError, False),
        (401, "authentication_error", AuthenticationError, False),
        (402, "billing_error", QuotaExceededError, False),
        (403, "permission_error", PermissionDeniedError, False),
        (404, "not_found_error", NotFoundError, False),
        (413, "request_too_large", InvalidRequestError, False),
        (429, "rate_limit_error", RateLimitedError, True),
        (500, "api_error", ServerError, True),
        (504, "timeout_error", ServerError, True),
        (529, "overloaded_error", OverloadedError, True),
    ],
)
def test_every_documented_error_raises_its_class(
    status: int, kind: str, error: type[ProviderError], retryable: bool
) -> None:
    found = refused(status, said(kind))
    assert type(found) is error
    assert found.retryable is retryable
    assert (found.status, found.code) == (status, kind)


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("overloaded_error", OverloadedError),
        ("rate_limit_error", RateLimitedError),
        ("api_error", ServerError),
        ("billing_error", QuotaExceededError),
        ("request_too_large", InvalidRequestError),
        ("invalid_request_error", InvalidRequestError),
        ("something_new", ServerError),
    ],
)
def test_an_error_without_a_status_is_classified_by_its_type(kind: str, error: type[ProviderError]) -> None:
    found = error_from_object(json.loads(said(kind, request_id="req_1")), "claude")
    assert type(found) is error
    assert found.request_id == "req_1"


def test_a_prompt_that_is_too_long_raises_context_length_error() -> None:
    words = "prompt is too long: 208310 tokens > 200000 maximum"
    assert type(refused(400, said("invalid_request_error", words))) is ContextLengthError
    words = "input length and `max_tokens` exceed context limit: 190000 + 16000 > 200000"
    assert type(refused(400, said("invalid_request_error", words))) is ContextLengthError


def test_an_exhausted_credit_balance_raises_quota_exceeded() -> None:
    words = "Your credit balance is too low to access the Anthropic API."
    error = refused(400, said("invalid_request_error", words), request_id="req_1")
    assert type(error) is QuotaExceededError
    assert (error.status, error.request_id, error.retryable) == (400, "req_1", False)
    assert "credit balance" in str(error)


def test_output_blocked_by_the_content_filter_raises_content_filtered() -> None:
    body = said("invalid_request_error", "Output blocked by content filtering policy")
    assert type(refused(400, body)) is ContentFilteredError
    assert type(error_from_object(json.loads(body), "claude")) is ContentFilteredError
    assert not refused(400, body).retryable
    assert type(refused(500, said("api_error", "blocked by content filtering policy"))) is ServerError


def test_the_request_id_is_read_from_the_header_or_the_body() -> None:
    body = said("not_found_error", request_id="req_body")
    assert refused(404, body, request_id="req_head").request_id == "req_head"
    assert refused(404, body).request_id == "req_body"
    assert refused(502, b"<html>").request_id is None
    assert refused(404, said("not_found_error", request_id=None)).request_id is None


def test_retry_after_and_should_retry_headers_are_respected() -> None:
    assert refused(429, said("rate_limit_error"), retry_after="7").retry_after == 7.0
    assert refused(529, said("overloaded_error"), x_should_retry="false").retryable is False


def test_retry_after_is_derived_from_the_reset_time_of_the_exhausted_limit() -> None:
    soon = (datetime.now(UTC) + timedelta(seconds=60)).isoformat().replace("+00:00", "Z")
    far = (datetime.now(UTC) + timedelta(seconds=900)).isoformat().replace("+00:00", "Z")
    headers = {
        "anthropic_organization_id": "o",
        "server": "s",
        "anthropic_ratelimit_requests_remaining": "0",
        "anthropic_ratelimit_requests_reset": soon,
        "anthropic_ratelimit_input_tokens_remaining": "100",
        "anthropic_ratelimit_input_tokens_reset": far,
    }
    wait = refused(429, said("rate_limit_error"), **headers).retry_after
    assert wait is not None
    assert 50 < wait <= 60
    assert refused(429, said("rate_limit_error"), **headers, retry_after="3").retry_after == 3.0
    assert refused(429, said("rate_limit_error")).retry_after is None


@pytest.mark.parametrize(
    ("event", "error"),
    [
        ("throttlingException", RateLimitedError),
        ("serviceUnavailableException", OverloadedError),
        ("modelStreamErrorException", ServerError),
        ("validationException", InvalidRequestError),
    ],
)
def test_bedrock_exception_events_raise_their_error_class(event: str, error: type[ProviderError]) -> None:
    for found in (find_error({"message": "no"}, event), find_error({event: {"message": "no"}}, "message")):
        assert type(error_from_object(found, "claude")) is error


def test_find_error_returns_none_for_events_without_an_error() -> None:
    assert find_error([], "message") is None
    assert find_error({"type": "new_thing"}, "new_thing") is None
    assert find_error({"message": "x"}, "error") == {"message": "x"}
    assert find_error({"error": {"message": "x"}}, "message") is not None


def test_api_keys_in_error_messages_are_masked() -> None:
    assert "sk-ant" not in str(refused(401, said("authentication_error", "invalid sk-ant-api03-abcdef123456")))


def test_an_error_field_that_is_a_string_is_recognized() -> None:
    assert find_error({"error": "Overloaded"}, "message") == {"error": "Overloaded"}
    assert find_error({"error": " "}, "message") is None
    assert find_error({"error": None}, "message") is None
    assert type(error_from_object({"error": "Overloaded"}, "claude")) is OverloadedError
