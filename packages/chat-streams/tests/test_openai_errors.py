"""Errors in the format of OpenAI's API."""

from __future__ import annotations

import json

import pytest
from chat_core import ConflictError, OverloadedError, RateLimitedError
from chat_streams import ClientInputError
from chat_streams.openai import error_body, error_status


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (ClientInputError("invalid_request", "Send a text."), 400, "invalid_request_error"),
        (ClientInputError("forbidden", "You may not."), 403, "permission_error"),
        (ClientInputError("conflict", "It has changed."), 409, "conflict_error"),
        (ConflictError("lease of worker 7"), 409, "conflict_error"),
        (RateLimitedError("key s3cret"), 429, "rate_limit_error"),
        (OverloadedError("key s3cret"), 500, "server_error"),
        (ValueError("/etc/s3cret"), 500, "server_error"),
    ],
)
def test_an_exception_has_the_status_and_type_of_the_api(error: Exception, status: int, kind: str) -> None:
    body = json.loads(error_body(error))

    assert (error_status(error), body["error"]["type"]) == (status, kind)
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}


def test_only_client_errors_show_their_message() -> None:
    assert "Send a text." in error_body(ClientInputError("invalid_request", "Send a text.")).decode()
    assert b"s3cret" not in error_body(OverloadedError("key s3cret"))
    assert b"worker" not in error_body(ConflictError("lease of worker 7"))
