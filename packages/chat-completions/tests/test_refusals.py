"""Documented error responses of vendors: error class, retryability and retry delay."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from chat_completions.errors import error_from_object, error_from_response
from chat_core import errors
from chat_core.errors import ProviderError, ServerError
from chat_core.transport.values import Headers


def refuse(status: int, body: object, headers: dict[str, str] | None = None) -> ProviderError:
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    return error_from_response(status, Headers(headers or {}), raw, "p")


def said(message: str, code: object = None, kind: str | None = "invalid_request_error", **more: object) -> object:
    return {"error": {"message": message, "type": kind, "param": None, "code": code, **more}}


def flat(**fields: object) -> object:
    return fields


ROWS: Final = tomllib.loads((Path(__file__).parent / "refusals.toml").read_text(encoding="utf-8"))["refusal"]
RETRYABLE: Final = frozenset({"RateLimitedError", "OverloadedError", "ServerError"})


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['status']}-{row['from'][:60]}")
def test_a_documented_error_response_raises_its_error_class(row: Mapping[str, Any]) -> None:
    error = refuse(row["status"], row["body"])
    assert type(error) is getattr(errors, row["error"]), str(error)
    assert error.status == row["status"]
    assert error.retryable is (row["error"] in RETRYABLE or error.code == "tool_use_failed")


# --- Retry delays --------------------------------------------------------------------------------------

WAITS: Final[tuple[tuple[dict[str, str], float | None], ...]] = (
    ({"retry-after": "432"}, 432.0),
    ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
    ({"retry-after": "3", "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "9s"}, 3.0),
    ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, 360.0),
    ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "17ms"}, 0.017),
    ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "12"}, 12.0),
    ({"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "9s"}, None),
    ({"x-ratelimit-reset-requests": "9s"}, None),
)


@pytest.mark.parametrize(("headers", "wait"), WAITS, ids=str)
def test_retry_after_is_read_from_the_rate_limit_headers(headers: dict[str, str], wait: float | None) -> None:
    assert refuse(429, said("slow down", "rate_limit_exceeded"), headers).retry_after == wait


def test_rate_limit_headers_are_ignored_for_other_errors() -> None:
    headers = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "9s"}
    assert refuse(500, "", headers).retry_after is None
    assert refuse(429, said("no", "insufficient_quota"), headers).retry_after is None


def test_the_should_retry_header_overrides_retryable() -> None:
    assert refuse(429, said("no", "rate_limit_exceeded"), {"x-should-retry": "false"}).retryable is False
    assert refuse(400, said("no"), {"x-should-retry": "true"}).retryable is True


# --- Messages of errors --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "words", "code"),
    [
        (flat(success=False, errors=[{"code": 7003, "message": "No route"}]), "No route", "7003"),
        (flat(errors=["No route"]), "No route", None),
        (flat(detail=[{"msg": "not a number"}]), '[{"msg":"not a number"}]', None),
        (flat(detail={"error": {"message": "deep", "code": "c"}}), "deep", "c"),
        (flat(error="words", code="c", type="t"), "words", "c"),
        (flat(error={"error": {"message": "deeper", "type": "t"}}), "deeper", "t"),
        (flat(base_resp={"status_code": 1004, "status_msg": "login fail"}), "login fail", "1004"),
        (flat(status=404, title="Not Found"), "Not Found", "404"),
        (flat(error_code="BAD_REQUEST", message="no"), "no", "BAD_REQUEST"),
        (said("outer", 400, None, metadata={"raw": {"message": "inner"}}), 'outer ({"message":"inner"})', "400"),
        ({}, "it said nothing", None),
        ([], "[]", None),
        (None, "null", None),
        (flat(error={"message": "", "code": 1.5}), '{"message":"","code":1.5}', None),
    ],
)
def test_message_and_code_are_found_in_every_error_format(body: object, words: str, code: str | None) -> None:
    error = refuse(400, body)
    assert str(error).startswith(f"p refused the request with status 400: {words} (next step: ")
    assert error.code == code


@pytest.mark.parametrize("status", ["²", "9" * 5000, "٤٠٠", "200", "600", "4000"])
def test_an_invalid_status_in_the_body_is_ignored(status: str) -> None:
    assert type(error_from_object({"message": "no", "status": status}, "p")) is ServerError


def test_nested_error_objects_are_unwrapped_to_a_limited_depth() -> None:
    body: object = {"message": "deep"}
    for _ in range(50):
        body = {"error": body}
    assert "deep" in str(refuse(400, body))


@pytest.mark.parametrize(
    "key",
    [
        "sk-proj-abcdef123456", "gsk_a1b2c3d4e5", "xai-AbC123xyz", "nvapi-1234567890", "AIzaSyA-1234567890",
        "ghp_a1b2c3d4e5f6", "github_pat_11ABCDEF0", "hf_a1b2c3d4", "dapi0123456789ab", "sk-abc***xyz",
        "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl",
    ],
)  # fmt: skip
def test_api_keys_in_error_messages_are_masked(key: str) -> None:
    assert key not in str(refuse(401, said(f"Incorrect API key provided: {key}.")))


@pytest.mark.parametrize("word", ["key_metrics", "sk-learn-things", "key-value-store", "pa-rallel"])
def test_words_that_resemble_keys_are_not_masked(word: str) -> None:
    assert word in str(refuse(400, said(f"unknown field {word} here")))
