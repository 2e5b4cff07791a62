from __future__ import annotations

import json

import pytest
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
from chat_core.wire.errors import as_error_class, error_from_object, error_from_response, read_error_body


def refuse(status: int, body: object, headers: dict[str, str] | None = None) -> ProviderError:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return error_from_response(status, headers or {}, raw, "p")


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, {"error": {"message": "bad", "type": "invalid_request_error"}}, InvalidRequestError),
        (400, {"error": {"message": "long", "code": "context_length_exceeded"}}, ContextLengthError),
        (400, {"error": {"message": "This model's maximum context length is 4 tokens."}}, ContextLengthError),
        (400, {"error": {"message": "the request exceeds the available context size"}}, ContextLengthError),
        (400, {"error": {"message": "filtered", "code": "content_filter"}}, ContentFilteredError),
        (
            400,
            {"error": {"message": "x", "innererror": {"code": "ResponsibleAIPolicyViolation"}}},
            ContentFilteredError,
        ),
        (400, {"error": {"message": "API key not valid. Please pass a valid API key."}}, AuthenticationError),
        (401, {"error": {"message": "no", "code": "invalid_api_key"}}, AuthenticationError),
        (401, {"detail": "Unauthorized"}, AuthenticationError),
        (402, {"error": {"message": "Insufficient Balance"}}, QuotaExceededError),
        (403, {"error": {"message": "not for you"}}, PermissionDeniedError),
        (403, {"error": {"message": "Insufficient credits"}}, QuotaExceededError),
        (404, {"error": {"message": "no such model", "code": "model_not_found"}}, NotFoundError),
        (408, {}, ServerError),
        (409, {}, ServerError),
        (413, {}, InvalidRequestError),
        (422, {"detail": [{"loc": ["body", "model"], "msg": "field required"}]}, InvalidRequestError),
        (429, {"error": {"message": "slow down", "type": "rate_limit_error"}}, RateLimitedError),
        (429, {"error": {"message": "pay", "code": "insufficient_quota"}}, QuotaExceededError),
        (429, {"error": {"message": "You exceeded your current quota, please check your plan"}}, QuotaExceededError),
        (500, {"error": {"message": "oops", "type": "server_error"}}, ServerError),
        (500, {"error": {"message": "busy", "type": "overloaded_error"}}, OverloadedError),
        (502, b"<html>bad gateway</html>", ServerError),
        (503, b"", OverloadedError),
        (529, {"error": "overloaded"}, OverloadedError),
        (400, {"error": {"message": "x", "type": "server_error"}}, InvalidRequestError),
    ],
)
def test_error_class_is_determined_by_code_words_and_status(
    status: int, body: object, kind: type[ProviderError]
) -> None:
    error = refuse(status, body)
    assert type(error) is kind
    assert error.status == status


@pytest.mark.parametrize(
    ("body", "message", "code"),
    [
        ({"error": {"message": "no", "type": "t", "code": "c"}}, "no", "c"),
        ({"error": {"message": "no", "type": "t", "code": 400}}, "no", "t"),
        ({"error": {"message": "no", "type": None, "code": 400}}, "no", "400"),
        ({"error": "plain"}, "plain", None),
        ({"message": "flat", "type": "t"}, "flat", "t"),
        ({"detail": "told"}, "told", None),
        ([{"error": {"message": "listed"}}], "listed", None),
        ({"error": {"message": "outer", "metadata": {"raw": "inner"}}}, "outer (inner)", None),
        ({"what": 1}, '{"what":1}', None),
        ("text", "text", None),
        (7, "7", None),
    ],
)
def test_error_body_is_read_in_every_known_shape(body: object, message: str, code: str | None) -> None:
    said = read_error_body(json.dumps(body).encode())
    assert said.message == message
    assert said.code == code


def test_error_contains_next_step_retry_delay_request_id_and_body() -> None:
    headers = {"retry-after": "7", "x-request-id": "req_1"}
    error = refuse(429, {"error": {"message": "slow  down\n", "code": "rate_limit_exceeded"}}, headers)
    step = "(next step: send fewer requests, or allow more retries with with_retry())"
    assert str(error) == f"p refused the request with status 429: slow down {step}"
    assert (error.retryable, error.retry_after, error.request_id) == (True, 7.0, "req_1")
    assert error.body == b'{"error": {"message": "slow  down\\n", "code": "rate_limit_exceeded"}}'


def test_x_should_retry_header_decides_whether_an_error_is_retryable() -> None:
    assert not refuse(500, {}, {"x-should-retry": "false"}).retryable
    assert refuse(400, {}, {"x-should-retry": "true"}).retryable


def test_invalid_tool_call_of_the_model_is_retryable() -> None:
    said = {"message": "Failed to call a function.", "type": "invalid_request_error", "code": "tool_use_failed"}
    assert refuse(400, {"error": said}).retryable
    assert error_from_object(said, "groq").retryable


def test_empty_error_body_is_mentioned_in_the_message() -> None:
    assert str(refuse(500, b"")).startswith("p refused the request with status 500: it said nothing (next step: ")


def test_as_error_class_adds_the_next_step_of_the_new_class() -> None:
    error = as_error_class(QuotaExceededError, refuse(400, {"error": {"message": "No credit."}}))
    assert str(error) == (
        "p refused the request with status 400: No credit. (next step: check the plan and the balance of the account)"
    )


def test_key_quoted_by_a_server_is_removed_from_the_message() -> None:
    error = refuse(401, {"error": {"message": "Incorrect API key provided: sk-proj-abcdef123456."}})
    assert "abcdef" not in str(error)


@pytest.mark.parametrize("key", ["AIzaSyAbcdef123456", "AQ.Abcdef123456", "ya29.a0Abcdef123456", "gsk_Abcdef123456"])
def test_key_with_a_known_prefix_is_removed_anywhere_in_the_message(key: str) -> None:
    assert "bcdef" not in str(refuse(403, {"error": {"message": f"The caller {key} may not do this."}}))


def test_long_error_body_is_truncated_in_the_message() -> None:
    assert len(str(refuse(502, b"x" * 100_000))) < 800


def test_error_in_a_response_with_status_200_is_classified_by_its_own_status() -> None:
    assert type(error_from_object({"message": "no", "code": 429}, "p")) is RateLimitedError
    assert type(error_from_object({"message": "no", "code": "400"}, "p")) is InvalidRequestError
    assert (
        type(error_from_object({"message": "no", "status_code": 400, "code": "tool_use_failed"}, "p"))
        is InvalidRequestError
    )
    assert type(error_from_object("just words", "p")) is ServerError


@pytest.mark.parametrize("key", ["0123456789abcdef0123456789abcdef", "abcdefgh-1234-5678-9abc-def012345678"])
@pytest.mark.parametrize("words", ["Incorrect API key provided: {}.", "Invalid api_key='{}'", "no such key: Bearer {}"])
def test_an_api_key_that_a_server_quotes_is_removed_in_any_form(words: str, key: str) -> None:
    said = read_error_body(json.dumps({"error": {"message": words.format(key)}}).encode())
    assert said.message.startswith(words.partition("{")[0])
    assert key[:12] not in said.message


def test_words_about_keys_are_kept_in_the_message() -> None:
    words = "Incorrect API key provided. You can find your api-key in the settings of your organization-2025."
    assert read_error_body(json.dumps({"message": words}).encode()).message == words


@pytest.mark.parametrize("depth", [150, 400, 800, 940, 5000])
@pytest.mark.parametrize(
    "start", ["", '{"error": {"message": ', '{"error": {"code": "x", "metadata": {"raw": ', '{"detail": ']
)
def test_deeply_nested_error_body_becomes_a_server_error(depth: int, start: str) -> None:
    end = "}" * start.count("{")
    body = (start + "[" * depth + "]" * depth + end).encode()
    assert isinstance(error_from_response(500, {}, body, "vendor"), ServerError)
    error: object = {"message": json.loads("[" * min(depth, 800) + "]" * min(depth, 800))}
    assert isinstance(error_from_object(error, "vendor"), ServerError)


def test_message_nested_too_deeply_is_replaced_with_a_note() -> None:
    deep: object = "x"
    for _ in range(5000):
        deep = [deep]
    assert "nested too deeply to be shown" in str(error_from_object({"message": deep}, "vendor"))
