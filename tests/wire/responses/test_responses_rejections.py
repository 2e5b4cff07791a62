"""Recorded error responses of this API raise the correct errors: class, retryability and retry delay."""

from __future__ import annotations

import json
import re
from typing import Final, cast

import pytest
from chat_core.errors import (
    AuthenticationError,
    InvalidRequestError,
    NotFoundError,
    ProviderError,
    QuotaExceededError,
    RateLimitedError,
    ServerError,
)
from chat_core.transport.values import Headers
from chat_core.wire.errors import error_from_response
from chat_responses.errors import is_previous_response_missing

from ..exchanges import require_wire
from ..normalise import Object
from ..recordings import suite

require_wire()

RULES: Final[tuple[tuple[str, str, type[ProviderError]], ...]] = (
    ("402", "", QuotaExceededError),
    ("4..", r"insufficient_quota", QuotaExceededError),
    ("429", "", RateLimitedError),
    ("4..", r"Incorrect API key", AuthenticationError),
    ("401", "", AuthenticationError),
    ("404", "", NotFoundError),
    ("400", r"model_not_found", NotFoundError),
    ("4..", "", InvalidRequestError),
    ("5..", "", ServerError),
)
"""Status, words in the body, class; the first that fits holds. Written from the vendors' references."""

ROWS: Final = suite("rejections.jsonl", "responses", "responses-ws")


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
    assert error.retryable is (status in {408, 409, 429} or status >= 500)
    assert error.status == status
    assert error.body == _text(row).encode()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['provider']}-{row['status']}-{row['from']}")
def test_a_recorded_error_has_its_request_id_and_vendor_message(row: Object) -> None:
    error = _error(row)
    headers = cast("dict[str, str]", row["headers"])
    assert error.request_id == headers.get("x-request-id", headers.get("apim-request-id"))
    assert error.retry_after is None
    said = cast("Object", row["error"])
    words = str(said.get("message") or "refused")
    if not words.startswith("{"):  # one recording holds the body as a text in place of the message
        assert " ".join(words.split())[:60] in str(error) or "…" in str(error)
    assert str(row["provider"]) in str(error)
    if isinstance(code := said.get("code"), str):
        assert error.code == code


def test_a_missing_previous_response_is_distinguished_from_other_errors() -> None:
    for row in ROWS:
        assert is_previous_response_missing(_error(row)) is ("previous_response_not_found" in _text(row)), row["from"]
