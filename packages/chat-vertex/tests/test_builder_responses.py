"""Unusual responses and requests of Vertex AI."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from chat_core import ChatBuilder, Messages, Reasoning, Text, ToolCollection
from chat_core.errors import ChatError, InvalidResponseError, OverloadedError, StreamTruncatedError
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS
from chat_testing import Exchange
from chat_vertex import ServiceAccount, VertexBuilder
from vertex_world import Google, account_json, sent

pytestmark = pytest.mark.anyio

USAGE = {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}


def vertex(google: Google) -> VertexBuilder:
    account = ServiceAccount.from_json(account_json(google.token_uri))
    return VertexBuilder().with_project("my-project", "global").with_base_url(google.url).with_credentials(account)


def event(name: str, **fields: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **fields})}\n\n".encode()


async def stream(provider: Any, google: Google, *chunks: bytes) -> Any:
    google.answer_call = lambda exchange: exchange.events(*chunks)
    async with provider, provider.stream(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None) as open_stream:
        async for _ in open_stream:
            pass
        return open_stream.close()


async def test_thoughts_and_usage_of_a_gemini_stream_are_kept(google: Google) -> None:
    parts = [{"text": "why", "thought": True}, {"text": "Hi"}]
    body = {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}], "usageMetadata": USAGE}
    turn = await stream(vertex(google).with_gemini_model("m").build(), google, f"data: {json.dumps(body)}\n\n".encode())

    assert turn.text == "Hi"
    assert [part.text for part in turn.parts if isinstance(part, Reasoning)] == ["why"]
    assert (turn.usage.input_tokens, turn.usage.output_tokens) == (3, 2)


@pytest.mark.parametrize("reason", ["SAFETY", "RECITATION", "MAX_TOKENS", "A_NEW_REASON"])
async def test_every_finish_reason_ends_a_gemini_stream(google: Google, reason: str) -> None:
    body = {"candidates": [{"content": {"parts": [{"text": "Hi"}]}, "finishReason": reason}]}
    turn = await stream(vertex(google).with_gemini_model("m").build(), google, f"data: {json.dumps(body)}\n\n".encode())

    assert turn.finish_reason != "stop"
    assert turn.metadata.finish_reason == reason


@pytest.mark.parametrize(
    ("reason", "end", "error"),
    [("MALFORMED_FUNCTION_CALL", "\n\n", InvalidResponseError), ("STOP", "", StreamTruncatedError)],
)
async def test_a_malformed_or_truncated_gemini_stream_raises(
    google: Google, reason: str, end: str, error: type[ChatError]
) -> None:
    body = {"candidates": [{"content": {"parts": [{"text": "Hi"}]}, "finishReason": reason}]}

    with pytest.raises(error):
        await stream(vertex(google).with_gemini_model("m").build(), google, f"data: {json.dumps(body)}{end}".encode())


async def test_a_function_result_is_sent_as_an_object(google: Google) -> None:
    messages = Messages.from_user("Hi")
    google.answer_call = lambda exchange: exchange.answer(
        200,
        {"content-type": "application/json"},
        json.dumps(
            {
                "candidates": [
                    {"content": {"parts": [{"functionCall": {"name": "f", "args": {}}}]}, "finishReason": "STOP"}
                ]
            }
            if len(google.calls) == 1
            else {"candidates": [{"content": {"parts": [{"text": "Done"}]}, "finishReason": "STOP"}]}
        ).encode(),
    )
    tools = ToolCollection()
    tools.tool(f)
    chat = ChatBuilder().with_model(vertex(google).with_gemini_model("m").build()).with_tools(tools).build()
    async with chat:
        assert (await chat.complete(messages)).text == "Done"

    [part] = [
        part["functionResponse"]
        for content in sent(google.calls[1])["contents"]
        for part in content["parts"]
        if "functionResponse" in part
    ]
    assert isinstance(part["response"], dict)
    assert "plain text" in str(part["response"])


async def test_a_claude_stream_keeps_its_usage_and_ignores_unknown_blocks(google: Google) -> None:
    turn = await stream(
        vertex(google).with_claude_model("m").build(),
        google,
        event("message_start", message={"id": "m", "content": [], "usage": {"input_tokens": 9, "output_tokens": 1}}),
        event("ping"),
        event("content_block_start", index=0, content_block={"type": "a_new_block", "x": 1}),
        event("content_block_stop", index=0),
        event("content_block_start", index=1, content_block={"type": "text", "text": ""}),
        event("content_block_delta", index=1, delta={"type": "text_delta", "text": "Hi"}),
        event("content_block_stop", index=1),
        event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 7}),
        event("message_stop"),
    )

    assert [part.text for part in turn.parts if isinstance(part, Text)] == ["Hi"]
    assert (turn.usage.input_tokens, turn.usage.output_tokens) == (9, 7)


async def test_an_error_event_in_a_claude_stream_raises(google: Google) -> None:
    provider = vertex(google).with_claude_model("m").build()

    with pytest.raises(OverloadedError, match="too busy"):
        await stream(provider, google, event("error", error={"type": "overloaded_error", "message": "too busy"}))


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (403, "PermissionDeniedError"),
        (404, "NotFoundError"),
        (429, "RateLimitedError"),
        (503, "OverloadedError"),
    ],
)
async def test_an_http_status_selects_the_error_class_for_both_model_families(
    google: Google, status: int, name: str
) -> None:
    def refuse(exchange: Exchange) -> None:
        exchange.answer(status, {"content-type": "application/json"}, b'{"error": {"message": "no"}}')

    google.answer_call = refuse
    for ready in (vertex(google).with_gemini_model("m"), vertex(google).with_claude_model("m")):
        async with ready.build() as provider:
            with pytest.raises(ChatError) as caught:
                await provider.complete(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None)
        assert type(caught.value).__name__ == name


async def test_no_log_contains_a_secret(google: Google, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    google.rejected = {"secret-token-1"}
    async with vertex(google).with_claude_model("m").build() as provider:
        await provider.complete(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None)

    assert len(google.tokens) == 2
    assert caplog.records
    assert "secret" not in caplog.text
    assert google.tokens[0]["assertion"] not in caplog.text


def f() -> str:
    """Return a text."""
    return "plain text"
