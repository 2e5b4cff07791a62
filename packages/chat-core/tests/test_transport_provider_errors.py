from __future__ import annotations

from datetime import UTC, datetime

import pytest
from chat_core.errors import (
    AuthenticationError,
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
from chat_core.transport.provider_errors import (
    add_address,
    describe_redirect,
    error_class_for_status,
    provider_error,
    request_id,
    reset_after,
    retry_after,
    should_retry,
    translate_transport_error,
)
from chat_core.transport.values import Headers

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidRequestError),
        (401, AuthenticationError),
        (402, QuotaExceededError),
        (403, PermissionDeniedError),
        (404, NotFoundError),
        (408, ServerError),
        (409, ServerError),
        (422, InvalidRequestError),
        (429, RateLimitedError),
        (498, OverloadedError),
        (500, ServerError),
        (502, ServerError),
        (503, OverloadedError),
        (504, ServerError),
        (529, OverloadedError),
        (302, ProviderError),
        (304, ProviderError),
        (103, ServerError),
    ],
)
def test_error_class_is_determined_by_the_status(status: int, kind: type[ProviderError]) -> None:
    assert error_class_for_status(status) is kind


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"Retry-After": " 0.5 "}, 0.5),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after-ms": "0", "retry-after": "2"}, 2.0),
        ({"retry-after-ms": "soon", "retry-after": "2"}, 2.0),
        ({"retry-after": "Thu, 01 Jan 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Thu, 01 Jan 2026 11:59:00 GMT"}, 0.0),
        ({"retry-after": "Thu, 01 Jan 2026 13:00:30 +0100"}, 30.0),
        ({"retry-after": "Thu, 01 Jan 2026 12:00:30"}, 30.0),
        ({"retry-after": "Thu, 01 Jan 2099 12:00:30 GMT"}, None),
        ({"retry-after": "in a while"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1e12"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_as_seconds_milliseconds_or_a_date(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(Headers(headers), NOW) == seconds


def test_retry_after_compares_a_date_with_the_current_time() -> None:
    assert retry_after({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}) == 0.0


def limits(**resets: str) -> Headers:
    """Return rate limit headers with exhausted limits and their reset times."""
    used = {f"X-RateLimit-Remaining-{name}": "0" for name in resets}
    return Headers({**used, **{f"X-RateLimit-Reset-{name}": value for name, value in resets.items()}})


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        ("7.5", 7.5),
        ("7s", 7.0),
        ("250ms", 0.25),
        ("6m0s", 360.0),
        ("2m59.56s", 179.56),
        ("1h2m3s", 3723.0),
        ("1d", 86_400.0),
        ("0s", 0.0),
        (str(int(NOW.timestamp()) + 30), 30.0),
        (str((int(NOW.timestamp()) + 30) * 1000), 30.0),
        ("2026-01-01T12:00:30Z", 30.0),
        ("2026-01-01t12:00:30+00:00", 30.0),
        ("2026-01-01T12:00:30", None),
        ("2020-01-01T12:00:30Z", None),
        (str(int(NOW.timestamp()) - 30), None),
        ("-1", None),
        ("inf", None),
        ("soon", None),
        ("1.2.3s", None),
        ("", None),
    ],
)
def test_reset_after_reads_a_duration_or_a_time(value: str, seconds: float | None) -> None:
    assert reset_after(limits(requests=value), NOW) == pytest.approx(seconds)


def test_reset_after_waits_for_every_exhausted_limit() -> None:
    assert reset_after(limits(requests="7s", tokens="9s", day="nobody knows"), NOW) == 9.0
    assert reset_after({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "3"}) == 3.0


def test_reset_after_is_none_if_no_limit_is_exhausted() -> None:
    assert reset_after({"x-ratelimit-remaining": "1", "x-ratelimit-reset": "3"}, NOW) is None
    assert reset_after({"x-ratelimit-remaining": "many", "x-ratelimit-reset": "3"}, NOW) is None
    assert reset_after({"x-ratelimit-remaining": "0"}, NOW) is None
    assert reset_after({}, NOW) is None


@pytest.mark.parametrize(("value", "answer"), [("true", True), ("False", False), ("maybe", None), ("", None)])
def test_should_retry_returns_the_value_of_its_header(value: str, answer: bool | None) -> None:
    assert should_retry({"x-should-retry": value}) is answer


def test_request_id_is_read_from_one_of_several_headers() -> None:
    assert request_id({"cf-ray": "b", "x-request-id": "a"}) == "a"
    assert request_id({"cf-ray": "b"}) == "b"
    assert request_id({}) is None


def test_provider_error_contains_the_values_of_the_response_headers() -> None:
    headers = {"retry-after": "3", "x-request-id": "a", "x-should-retry": "false"}
    error = provider_error(RateLimitedError, "slow down", status=429, headers=headers, body=b"{}", code="c")
    assert (error.status, error.code, error.request_id, error.retry_after) == (429, "c", "a", 3.0)
    assert error.body == b"{}"
    assert not error.retryable
    assert provider_error(RateLimitedError, "slow down", status=429, headers={}).retryable


@pytest.mark.parametrize(
    ("kind", "error", "step"),
    [
        ("connect", NetworkError, "check the base URL, the network and the proxy"),
        ("stream", NetworkError, "try again, or allow more retries with with_retry()"),
        ("timeout", RequestTimeoutError, "ChatOptions(timeout=…) sets the limit"),
        ("protocol", InvalidResponseError, "check the base URL and the proxy"),
    ],
)
def test_transport_error_is_translated_by_its_kind_with_a_next_step(
    kind: str, error: type[Exception], step: str
) -> None:
    failure = translate_transport_error(TransportError(kind, "no route"), "p")
    assert type(failure) is error
    assert str(failure) == f"p: no route (next step: {step})"


@pytest.mark.parametrize(
    ("words", "step"), [("too long", "raise max_body_bytes"), ("no pong", "T(ping_timeout=…) sets the limit")]
)
def test_the_next_step_of_a_transport_is_kept(words: str, step: str) -> None:
    error = TransportError("timeout", f"{words}; {step}")
    assert str(translate_transport_error(error, "p")) == f"p: {words} (next step: {step})"
    assert str(translate_transport_error(add_address(error, "GET http://h"), "p")) == (
        f"p: {words} (GET http://h) (next step: {step})"
    )


def test_an_address_is_added_once() -> None:
    error = NetworkError("p: wss://h/v1: no route")
    assert str(add_address(error, "GET https://h/v1")) == "p: wss://h/v1: no route"
    assert str(add_address(error, "GET https://h/v1", "page")) == "p: wss://h/v1: no route (page)"


@pytest.mark.parametrize(
    ("status", "location", "description"),
    [
        (302, "https://ana:secret@other.example/v1//a?key=secret#secret", "https://other.example/v1//a"),
        (301, "/v2/chat", "/v2/chat"),
        (307, "//secret@other.example", "//other.example"),
        (308, f"https://other.example/{'a' * 1000}", f"https://other.example/{'a' * 478}"),
    ],
)
def test_describe_redirect_omits_credentials_and_query(status: int, location: str, description: str) -> None:
    described = describe_redirect(status, {"location": location})
    assert described == f"a redirect to {description}; redirects are not followed"


def test_describe_redirect_is_none_for_other_responses() -> None:
    assert describe_redirect(302, {}) is None
    assert describe_redirect(201, {"location": "/created"}) is None
