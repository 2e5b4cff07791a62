"""Recorded error responses of this API raise the correct errors: class, retryability and retry delay."""

from __future__ import annotations

import json
import re
from typing import Final, cast

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
from chat_core.transport.values import Headers
from chat_gemini.errors import error_from_response

from ..exchanges import require_wire
from ..normalise import Object
from ..recordings import suite
from .decoding import VENDORS

require_wire()

RULES: Final[tuple[tuple[str, str, type[ProviderError]], ...]] = (
    ("4..", r"API_KEY_INVALID|API_KEY_EXPIRED", AuthenticationError),
    ("429", r"PerDay|limit: 0\b", QuotaExceededError),
    ("429", "", RateLimitedError),
    ("401", "", AuthenticationError),
    ("402", "", QuotaExceededError),
    ("403", "", PermissionDeniedError),
    ("404", "", NotFoundError),
    ("400", r"input token count|exceeds the maximum number of tokens", ContextLengthError),
    ("400", r"PROHIBITED_CONTENT|blocked by safety", ContentFilteredError),
    ("503|529", "", OverloadedError),
    ("408|409|425|499|5..", "", ServerError),
    ("4..", "", InvalidRequestError),
)
"""Status, words in the body, class; the first that fits holds. Written from the vendor's references."""

ROWS: Final = [
    row
    for row in suite("rejections.jsonl", "generate-content", "embeddings", "count-tokens", "models")
    if row["provider"] in VENDORS
]


def _text(row: Object) -> str:
    body = row["body"]
    return body if isinstance(body, str) else json.dumps(body)


def _error(row: Object) -> ProviderError:
    headers = Headers(cast("dict[str, str]", row["headers"]))
    status = cast("int", row["status"])
    return error_from_response(status, headers, _text(row).encode(), str(row["provider"]))


def _expected(status: int, text: str) -> type[ProviderError]:
    return next(
        kind for statuses, words, kind in RULES if re.fullmatch(statuses, str(status)) and re.search(words, text)
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['provider']}-{row['status']}-{row['from']}")
def test_a_recorded_error_has_the_class_for_its_status_and_details(row: Object) -> None:
    error = _error(row)
    status = cast("int", row["status"])
    wanted = _expected(status, _text(row))
    assert type(error) is wanted, str(error)
    assert error.retryable is (wanted in {RateLimitedError, OverloadedError, ServerError})
    assert error.status == status
    assert error.body == _text(row).encode()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['provider']}-{row['status']}-{row['from']}")
def test_a_recorded_error_has_its_retry_delay_and_vendor_message(row: Object) -> None:
    error = _error(row)
    headers = cast("dict[str, str]", row["headers"])
    delay = re.search(r'"retryDelay": "([\d.]+)s"', _text(row))
    seconds = headers.get("retry-after")
    assert error.retry_after == (float(seconds) if seconds else float(delay[1]) if delay else None)
    said = cast("Object", json.loads(_text(row)))
    status = cast("Object", said["error"])
    assert " ".join(str(status["message"]).split())[:60] in str(error)
    assert error.code == status["status"]


def test_all_recorded_errors_are_present() -> None:
    assert len(ROWS) >= 34
