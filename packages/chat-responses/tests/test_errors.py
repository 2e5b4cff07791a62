from __future__ import annotations

import json
from typing import Any

import pytest
from chat_core.errors import (
    ContentFilteredError,
    InvalidRequestError,
    NetworkError,
    ProviderError,
    QuotaExceededError,
    RateLimitedError,
    ServerError,
)
from chat_core.wire.errors import error_from_response
from chat_responses.errors import error_from_object, find_error, is_previous_response_missing


@pytest.mark.parametrize(
    ("code", "kind", "retryable"),
    [
        ("server_error", ServerError, True),
        ("rate_limit_exceeded", RateLimitedError, True),
        ("insufficient_quota", QuotaExceededError, False),
        ("vector_store_timeout", ServerError, True),
        ("invalid_prompt", InvalidRequestError, False),
        ("failed_to_download_image", InvalidRequestError, False),
        ("image_content_policy_violation", ContentFilteredError, False),
        ("previous_response_not_found", InvalidRequestError, False),
    ],
)
def test_the_error_class_is_selected_by_the_error_code(code: str, kind: type[ProviderError], retryable: bool) -> None:
    error = error_from_object({"code": code, "message": "Sorry, no."}, "vendor")
    assert (type(error), error.code, error.retryable) == (kind, code, retryable)
    assert "vendor" in str(error)
    assert "Sorry, no." in str(error)
    assert code in error.body.decode()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ([], None),
        ({"output": [], "status": "completed", "error": None}, None),
        ({"output": [], "error": {"code": "x"}, "status": "completed"}, None),
        ({"output": [], "error": {"code": "x"}, "status": "failed"}, {"code": "x"}),
        ({"output": [], "status": "failed"}, {"output": [], "status": "failed"}),
        ({"error": {"code": "x"}}, {"code": "x"}),
        ({"error": "x"}, {"error": "x"}),
        ({"status": "cancelled"}, {"status": "cancelled"}),
        ({"detail": "x"}, {"detail": "x"}),
        ({}, None),
    ],
)
def test_find_error_returns_the_error_object_of_a_response_or_none(answer: Any, error: object) -> None:
    assert find_error(answer) == error


def test_a_missing_previous_response_is_recognized_by_code_or_message() -> None:
    gone = {"error": {"message": "no", "code": "previous_response_not_found"}}
    said = {"error": {"message": "Previous response with id 'resp_1' not found."}}
    for body, is_it in ((gone, True), (said, True), ({"error": {"message": "Not found."}}, False)):
        assert is_previous_response_missing(error_from_response(400, {}, json.dumps(body).encode(), "p")) is is_it
        assert is_previous_response_missing(error_from_object(body, "p")) is is_it
    assert not is_previous_response_missing(NetworkError("previous response not found"))
