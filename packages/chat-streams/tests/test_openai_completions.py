"""Chat Completions over chats that never pause."""

from __future__ import annotations

import json
from typing import Any

import pytest
from chat_core import (
    AttemptReset,
    ChatBuilder,
    Paused,
    StreamTruncatedError,
    StructuredPart,
    ToolCollection,
)
from chat_core.testing import Answer, ScriptedProvider
from chat_streams import ClientInputError
from chat_streams.openai import CompletionsEncoder, CompletionsRequest, read_completions_request
from stream_world import BALANCE, bank

pytestmark = pytest.mark.anyio


def request(**fields: object) -> CompletionsRequest:
    body = {"model": "m", "messages": [{"role": "user", "content": "How much?"}], **fields}
    return read_completions_request(json.dumps(body).encode())


def accountant(*script: object) -> Any:
    tools = ToolCollection()

    @tools.tool
    def balance() -> str:
        """Return the balance."""
        return "12 euros"

    model = ScriptedProvider(*script)  # type: ignore[arg-type]  # answers of several types
    return ChatBuilder().with_model(model).with_tools(tools).build()


def chunks(data: bytes) -> list[Any]:
    *events, done, rest = data.decode().split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    return [json.loads(event.removeprefix("data: ")) for event in events]


async def test_a_streamed_completion_equals_the_whole_completion() -> None:
    script = [["I look.", BALANCE], "12 euros."]
    read, streamed = request(), request(stream_options={"include_usage": True})
    whole_chat, stream_chat = accountant(*script), accountant(*script)
    encoder = CompletionsEncoder(whole_chat, read, clock=lambda: 7.5)
    whole = json.loads(encoder.whole(await whole_chat.complete(read.messages)))
    encoder = CompletionsEncoder(stream_chat, streamed)
    async with stream_chat.stream(streamed.messages) as stream:
        sent = b"".join([encoder.start(), *[encoder.encode(event) async for event in stream]])
    *pieces, last, usage = chunks(sent)

    assert (whole["object"], whole["model"], whole["created"]) == ("chat.completion", "m", 7)
    assert whole["choices"][0]["message"]["content"] == "I look.12 euros."
    assert "".join([piece["choices"][0]["delta"]["content"] for piece in pieces]) == "I look.12 euros."
    assert last["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"] == "stop"
    assert usage["usage"] == whole["usage"]
    assert whole["usage"]["total_tokens"] == 30


async def test_a_truncated_answer_has_the_finish_reason_length() -> None:
    chat, read = accountant(Answer(["12"], finish_reason="length")), request()
    body = json.loads(CompletionsEncoder(chat, read).whole(await chat.complete(read.messages)))

    assert body["choices"][0]["finish_reason"] == "length"


def test_client_tools_are_refused_before_the_run() -> None:
    with pytest.raises(ClientInputError, match="/v1/responses"):
        request(tools=[{"type": "function", "function": {"name": "locate"}}])


def test_a_chat_with_tools_that_always_pause_is_refused_before_the_run() -> None:
    chat: Any = bank()
    with pytest.raises(ClientInputError, match="/v1/responses"):
        CompletionsEncoder(chat, request())


def test_a_paused_run_is_refused() -> None:
    with pytest.raises(ClientInputError, match="/v1/responses"):
        CompletionsEncoder(accountant(), request()).encode(Paused(()))


def test_an_attempt_reset_raises_stream_truncated() -> None:
    with pytest.raises(StreamTruncatedError):
        CompletionsEncoder(accountant(), request()).encode(AttemptReset(2, "cut"))


def test_a_structured_value_is_sent_as_json() -> None:
    assert b'{\\"rain\\":true}' in CompletionsEncoder(accountant(), request()).encode(StructuredPart({"rain": True}))


@pytest.mark.parametrize(
    "messages",
    [
        list[object](),
        "Hi.",
        [{"role": "user", "content": [{"type": [1]}]}],
        [{"role": "system", "content": "Obey."}],
        [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hi."}],
        [
            {"role": "user", "content": "Pay."},
            {
                "role": "assistant",
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "pay", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "c", "content": "paid"},
            {"role": "user", "content": "Thanks."},
        ],
    ],
)
def test_an_unsupported_message_history_is_refused(messages: object) -> None:
    with pytest.raises(ClientInputError):
        request(messages=messages)


def test_the_posted_messages_are_the_conversation() -> None:
    history = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi."}]

    assert [content.role for content in request(messages=history).messages] == ["system", "user"]
