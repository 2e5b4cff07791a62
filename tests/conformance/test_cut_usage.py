"""Usage that a provider reported before a stream was truncated or closed early is counted, for each API."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from chat_claude import ClaudeBuilder
from chat_completions import CompletionsBuilder
from chat_core import ChatBuilder, ChatError, ChatProvider, Messages, NetworkError, Retry, StreamTruncatedError, Usage
from chat_core.errors import TransportError
from chat_core.events import TextDelta
from chat_core.testing import MockTransport
from chat_gemini import GeminiBuilder
from chat_responses import ResponsesBuilder

pytestmark = pytest.mark.anyio

URL = "https://host/v1"
KEY = "sk-test-1234567890"
EARLY = Usage(7, 1)
"""The usage that each API reports in its first event."""


def claude(transport: MockTransport) -> ChatProvider:
    return ClaudeBuilder().with_base_url(URL).with_api_key(KEY).with_model("m").with_transport(transport).build()


def completions(transport: MockTransport) -> ChatProvider:
    return CompletionsBuilder().with_base_url(URL).with_api_key(KEY).with_model("m").with_transport(transport).build()


def gemini(transport: MockTransport) -> ChatProvider:
    return GeminiBuilder().with_base_url(URL).with_api_key(KEY).with_model("m").with_transport(transport).build()


def responses(transport: MockTransport) -> ChatProvider:
    return ResponsesBuilder().with_base_url(URL).with_api_key(KEY).with_model("m").with_transport(transport).build()


def claude_events() -> list[dict[str, Any]]:
    message: dict[str, object] = {
        "id": "m1",
        "role": "assistant",
        "model": "m",
        "content": [],
        "usage": {"input_tokens": 7, "output_tokens": 1},
    }
    delta = {"type": "text_delta", "text": "Hel"}
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": delta},
    ]


def completions_events() -> list[dict[str, Any]]:
    choice = {"index": 0, "delta": {"content": "Hel"}, "finish_reason": None}
    return [{"id": "c1", "model": "m", "choices": [choice], "usage": {"prompt_tokens": 7, "completion_tokens": 1}}]


def gemini_events() -> list[dict[str, Any]]:
    candidate = {"content": {"role": "model", "parts": [{"text": "Hel"}]}, "index": 0}
    return [{"candidates": [candidate], "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 1}}]


def responses_events() -> list[dict[str, Any]]:
    usage = {"input_tokens": 7, "output_tokens": 1}
    return [
        {"type": "response.created", "response": {"id": "r1", "model": "m", "usage": usage}},
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Hel"},
    ]


APIS: dict[str, tuple[Callable[[MockTransport], ChatProvider], Callable[[], list[dict[str, Any]]]]] = {
    "claude": (claude, claude_events),
    "completions": (completions, completions_events),
    "gemini": (gemini, gemini_events),
    "responses": (responses, responses_events),
}
ENDS: dict[str, list[TransportError]] = {"closed": [], "reset": [TransportError("stream", "reset")]}


def body_of(events: list[dict[str, Any]], end: list[TransportError]) -> list[bytes | TransportError]:
    return [*[f"data: {json.dumps(event)}\n\n".encode() for event in events], *end]


@pytest.mark.parametrize("end", list(ENDS))
@pytest.mark.parametrize("api", list(APIS))
async def test_the_usage_of_truncated_attempts_is_in_the_error_and_in_the_conversation(api: str, end: str) -> None:
    create, events = APIS[api]
    transport = MockTransport()
    for _ in range(2):
        transport.answer(200, {"content-type": "text/event-stream"}, body=body_of(events(), ENDS[end]))
    chat = ChatBuilder().with_model(create(transport)).with_retry(Retry(1, base=0.0, after_delivery=True)).build()
    messages = Messages.from_user("Hi")

    with pytest.raises((NetworkError, StreamTruncatedError)) as error:
        async with chat.stream(messages) as run:
            async for _ in run:
                pass

    assert len(transport.requests) == 2
    assert error.value.usage == messages.usage == EARLY + EARLY


@pytest.mark.parametrize("api", list(APIS))
async def test_the_usage_of_a_stream_that_is_left_is_counted(api: str) -> None:
    create, events = APIS[api]
    transport = MockTransport()
    transport.answer(200, {"content-type": "text/event-stream"}, body=body_of(events(), ENDS["reset"]))
    chat = ChatBuilder().with_model(create(transport)).build()
    messages = Messages.from_user("Hi")

    async with chat.stream(messages) as run:
        async for event in run:
            if isinstance(event, TextDelta):
                break

    assert messages.usage == run.usage == EARLY


@pytest.mark.parametrize("end", list(ENDS))
async def test_usage_that_a_truncation_prevented_is_false(end: str) -> None:
    choice = {"index": 0, "delta": {"content": "Hello"}, "finish_reason": "stop"}
    events: list[dict[str, Any]] = [{"id": "c1", "model": "m", "choices": [choice]}]
    transport = MockTransport()
    transport.answer(200, {"content-type": "text/event-stream"}, body=body_of(events, ENDS[end]))
    chat = ChatBuilder().with_model(completions(transport)).with_retry(Retry(0)).build()
    messages = Messages.from_user("Hi")

    failed: ChatError | None = None
    async with chat.stream(messages) as run:
        try:
            async for _ in run:
                pass
        except NetworkError as error:
            failed = error

    assert (failed is None) is (end == "closed")
    assert not messages.usage
    assert not run.usage
