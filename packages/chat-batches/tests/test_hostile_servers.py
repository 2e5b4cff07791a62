"""Servers that send anything: each response is an error of this library, and no list of batches is read forever."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

import chat_claude.batches
import chat_gemini.batches
import chat_openai.batches
import pytest
from chat_claude import ClaudeBuilder
from chat_core import ChatError, InvalidResponseError, Turn
from chat_core.batches import Batch, BatchProvider
from chat_core.wire.errors import error_from_response
from chat_gemini import GeminiBuilder
from chat_openai import OpenAIBuilder
from chat_testing import Exchange, LoopbackServer
from chat_testing.conformance.mutations import mutate_response

pytestmark = pytest.mark.anyio

COUNT = 1_500
SINCE = datetime(2026, 1, 1, tzinfo=UTC)
BATCH = Batch("b", "name")
CANDIDATE = {"candidates": [{"content": {"parts": [{"text": "Hi."}]}, "finishReason": "STOP"}]}


def same(error: Any, **_: object) -> Any:
    return error


def decode_nothing(_: bytes) -> Turn:
    return Turn([])


def refuse(status: int, headers: Any, body: Any) -> Any:
    return error_from_response(status, headers, body, "p")


READERS: dict[str, tuple[Callable[[bytes], Any], dict[str, Any]]] = {
    "openai_status": (
        partial(chat_openai.batches.decode_status, provider="p"),
        {"status": "failed", "request_counts": {"completed": 1}, "errors": {"data": [{"line": 1, "code": "c"}]}},
    ),
    "openai_list": (
        partial(chat_openai.batches.decode_list, provider="p"),
        {"data": [{"id": "b", "metadata": {"name": "n"}}], "has_more": True},
    ),
    "openai_item": (
        partial(
            chat_openai.batches.decode_item, redact=same, provider="p", decode=decode_nothing, response_error=refuse
        ),
        {"custom_id": "n-0", "response": {"status_code": 429, "body": {"error": {"message": "no"}}}, "error": None},
    ),
    "claude_status": (
        partial(chat_claude.batches.decode_status, provider="p"),
        {"processing_status": "ended", "request_counts": {"succeeded": 1, "expired": 1}},
    ),
    "gemini_status": (
        partial(chat_gemini.batches.decode_status, provider="p"),
        {"metadata": {"state": "BATCH_STATE_FAILED"}, "error": {"code": 3, "message": "no"}},
    ),
    "gemini_list": (
        partial(chat_gemini.batches.decode_list, provider="p"),
        {"operations": [{"name": "b", "metadata": {"displayName": "n"}}], "nextPageToken": "t"},
    ),
    "gemini_output": (
        partial(chat_gemini.batches.decode_output, batch=BATCH, provider="p"),
        {"response": {"inlinedResponses": {"inlinedResponses": [{"response": CANDIDATE, "metadata": {"key": "k"}}]}}},
    ),
    "gemini_item": (
        partial(chat_gemini.batches.decode_item, redact=same, batch=BATCH, provider="p"),
        {"key": "k", "response": CANDIDATE},
    ),
}
LISTED: dict[str, Any] = {
    "data": [
        {"id": "b", "created_at": "2026-11-01T00:00:00Z", "request_counts": {"succeeded": 1}, "processing_status": "x"}
    ],
    "has_more": False,
}


@pytest.mark.parametrize("reader", READERS)
def test_a_changed_response_raises_a_chat_error_or_is_read(reader: str) -> None:
    read, document = READERS[reader]
    choices = random.Random(7)
    sent = json.dumps(document).encode()
    read(sent)
    for _ in range(COUNT):
        body = mutate_response(sent, choices)
        with suppress(ChatError):
            read(body)


async def test_a_changed_list_of_claude_raises_a_chat_error_or_is_searched() -> None:
    choices = random.Random(7)

    def answer(exchange: Exchange) -> None:
        exchange.answer(
            200, {"content-type": "application/json"}, mutate_response(json.dumps(LISTED).encode(), choices)
        )

    with LoopbackServer(answer) as server:
        model = ClaudeBuilder().with_base_url(f"http://{server.host}").with_model("m").with_api_key("k").build()
        for _ in range(200):
            with suppress(ChatError):
                await model.find_batch([], name="n", size=9, since=SINCE)


@pytest.mark.parametrize("vendor", ["claude", "gemini", "openai"])
async def test_a_list_of_batches_that_repeats_a_page_is_an_error(vendor: str) -> None:
    echoed = {"id": "sk-secret", "last_id": "sk-secret"}
    page: Any = {"operations": [], "nextPageToken": "sk-secret"}
    if vendor != "gemini":
        page = {"data": [LISTED["data"][0] | echoed], "has_more": True, "last_id": "sk-secret"}

    requests = 0

    def answer(exchange: Exchange) -> None:
        nonlocal requests
        requests += 1
        status = 200 if requests < 9 else 404  # a list that is read forever ends the test
        exchange.answer(status, {"content-type": "application/json"}, json.dumps(page).encode())

    with LoopbackServer(answer) as server:
        url = f"http://{server.host}"
        models: dict[str, BatchProvider] = {
            "claude": ClaudeBuilder().with_base_url(url).with_model("m").with_api_key("k").build(),
            "gemini": GeminiBuilder().with_base_url(url).with_model("m").with_api_key("k").build(),
            "openai": OpenAIBuilder().with_gateway(url).with_model("m").with_api_key("k").build(),
        }
        with pytest.raises(InvalidResponseError, match="the list of batches does not end") as caught:
            await models[vendor].find_batch([], name="n", size=9, since=SINCE)
        assert "sk-secret" not in repr(caught.value)
