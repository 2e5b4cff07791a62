from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from chat_core.errors import (
    AuthenticationError,
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
from chat_gemini.errors import error_from_object, error_from_response, find_error

TYPE = "type.googleapis.com/google.rpc."


def status(code: int, name: str, message: str = "No.", *details: object) -> dict[str, object]:
    return {"error": {"code": code, "message": message, "status": name, "details": list(details)}}


def info(reason: str, **metadata: str) -> dict[str, object]:
    return {"@type": f"{TYPE}ErrorInfo", "reason": reason, "domain": "googleapis.com", "metadata": metadata}


def quota(*ids: str) -> dict[str, object]:
    return {"@type": f"{TYPE}QuotaFailure", "violations": [{"quotaId": name} for name in ids]}


def wait(delay: object) -> dict[str, object]:
    return {"@type": f"{TYPE}RetryInfo", "retryDelay": delay}


def refused(code: int, body: object, headers: Mapping[str, str] | None = None) -> ProviderError:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return error_from_response(code, headers or {}, data, "p")


EXHAUSTED = "You exceeded your current quota, please check your plan and billing details."
MINUTE = "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"
DAY = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"


@pytest.mark.parametrize(
    ("code", "body", "kind"),
    [
        (400, status(400, "INVALID_ARGUMENT"), InvalidRequestError),
        (400, status(400, "INVALID_ARGUMENT", "API key not valid.", info("API_KEY_INVALID")), AuthenticationError),
        (400, [status(400, "INVALID_ARGUMENT", "API key expired.", info("API_KEY_INVALID"))], AuthenticationError),
        (
            400,
            status(400, "FAILED_PRECONDITION", "User location is not supported for the API use."),
            PermissionDeniedError,
        ),
        (400, status(400, "FAILED_PRECONDITION", "Enable billing"), InvalidRequestError),
        (
            400,
            status(
                400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number of tokens allowed (8)."
            ),
            ContextLengthError,
        ),
        (401, status(401, "UNAUTHENTICATED", "No token", info("ACCESS_TOKEN_EXPIRED")), AuthenticationError),
        (403, status(403, "PERMISSION_DENIED", "Not enabled", info("SERVICE_DISABLED")), PermissionDeniedError),
        (403, status(403, "PERMISSION_DENIED", "No billing", info("BILLING_DISABLED")), QuotaExceededError),
        (404, status(404, "NOT_FOUND"), NotFoundError),
        (429, status(429, "RESOURCE_EXHAUSTED", EXHAUSTED), RateLimitedError),
        (429, status(429, "RESOURCE_EXHAUSTED", EXHAUSTED, quota(MINUTE)), RateLimitedError),
        (429, status(429, "RESOURCE_EXHAUSTED", EXHAUSTED, quota(MINUTE, DAY)), QuotaExceededError),
        (429, status(429, "RESOURCE_EXHAUSTED", f"{EXHAUSTED} limit: 0, model: x"), QuotaExceededError),
        (429, status(429, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted."), QuotaExceededError),
        (429, status(429, "RESOURCE_EXHAUSTED", "x", info("RATE", quota_limit="RequestsPerDay")), QuotaExceededError),
        (429, status(429, "RESOURCE_EXHAUSTED", "Resource exhausted, please try again later."), RateLimitedError),
        (499, status(499, "CANCELLED"), ServerError),
        (500, status(500, "INTERNAL"), ServerError),
        (503, status(503, "UNAVAILABLE", "The model is overloaded."), OverloadedError),
        (504, status(504, "DEADLINE_EXCEEDED"), ServerError),
        (409, status(409, "ABORTED"), ServerError),
        (502, b"<html>Bad gateway</html>", ServerError),
        (400, b"", InvalidRequestError),
        (400, {"error": "no"}, InvalidRequestError),
        (400, [], InvalidRequestError),
        (400, {"error": {"message": "x", "details": "none"}}, InvalidRequestError),
    ],
)
def test_the_error_class_is_selected_by_status_and_details(code: int, body: object, kind: type[ProviderError]) -> None:
    error = refused(code, body)
    assert type(error) is kind, str(error)
    assert error.status == code
    assert error.retryable is (kind in {RateLimitedError, OverloadedError, ServerError})


def test_an_error_keeps_its_message_code_request_id_and_body() -> None:
    body = status(429, "RESOURCE_EXHAUSTED", EXHAUSTED, quota(DAY))
    error = refused(429, body, {"x-request-id": "r1"})
    assert EXHAUSTED in str(error)
    assert (error.code, error.request_id) == ("RESOURCE_EXHAUSTED", "r1")
    assert json.loads(error.body) == body


@pytest.mark.parametrize(
    ("delay", "seconds"),
    [
        ("34.4s", 34.4),
        ("7s", 7.0),
        ("0s", 0.0),
        ({"seconds": 7}, 7.0),
        ({"seconds": 7, "nanos": 500_000_000}, 7.5),
        ({"seconds": "7"}, 7.0),
        ({"nanos": "x"}, None),
        ("soon", None),
        ("xs", None),
        ("-1s", None),
        ("infs", None),
        ("99999999999s", None),
        (None, None),
        (7, None),
        ({"seconds": "soon", "nanos": 5}, None),
        ({"seconds": [7]}, None),
        ({"nanos": 500_000_000}, 0.5),
    ],
)
def test_retry_after_is_read_from_the_error_details(delay: object, seconds: float | None) -> None:
    assert refused(429, status(429, "RESOURCE_EXHAUSTED", "x", "odd", wait(delay))).retry_after == seconds


def test_retry_after_is_read_from_the_message_if_details_are_missing() -> None:
    assert refused(429, status(429, "RESOURCE_EXHAUSTED", "Please retry in 12.5s.")).retry_after == 12.5


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("Please retry in 573.5ms.", 0.5735),
        ("Please retry in 1m30s.", 90.0),
        ("Please retry in 8h1m2.5s", 28_862.5),
        ("Please retry in 5m.", 300.0),
        ("Please retry after 7 s", 7.0),
        ("Please retry in 2 days", None),
        (f"Please retry in {'9' * 9}s", None),
    ],
)
def test_a_delay_in_the_message_may_contain_hours_and_milliseconds(words: str, seconds: float | None) -> None:
    body = json.dumps(status(429, "RESOURCE_EXHAUSTED", words)).encode()
    assert error_from_response(429, {}, body, "p").retry_after == seconds


def test_an_unavailable_free_tier_raises_permission_denied() -> None:
    message = "Gemini API free tier is not available in your country. Please enable billing."
    body = json.dumps(status(400, "FAILED_PRECONDITION", message)).encode()
    assert type(error_from_response(400, {}, body, "p")) is PermissionDeniedError


def test_the_retry_after_header_overrides_the_error_details() -> None:
    body = status(503, "UNAVAILABLE", "x", wait("34s"))
    assert refused(503, body, {"retry-after": "2"}).retry_after == 2.0


def test_an_error_inside_a_response_uses_its_own_status() -> None:
    error = error_from_object(status(503, "UNAVAILABLE", "busy", wait("3s")), "p")
    assert (type(error), error.status, error.retry_after) == (OverloadedError, 503, 3.0)


def test_find_error_returns_the_error_of_a_response_or_none() -> None:
    error = status(500, "INTERNAL")
    assert find_error(error) == error
    assert find_error([{"candidates": None}, error]) == error
    assert find_error([]) is None
    assert find_error({"candidates": []}) is None
    assert find_error({"error": None}) is None
    assert find_error("error") is None


def test_api_keys_in_error_messages_are_masked() -> None:
    error = refused(
        400, status(400, "INVALID_ARGUMENT", "Invalid key AIzaSyA1234567890abcdef", info("API_KEY_INVALID"))
    )
    assert "AIzaSy" not in str(error)
