"""Servers that send anything: every message is a `ChatError` or events, and no server keeps a session busy forever."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Sequence
from typing import Any

import pytest
from chat_core import ChatBuilder, ChatError, InvalidResponseError, Messages, Metadata, NetworkError, ToolCollection
from chat_core.messages import Tool, Turn
from chat_core.testing import ScriptedProvider
from chat_realtime.sessions import GeminiLive, InputTranscript, OpenAIRealtime, RealtimeModel, ResponseEnded, connect
from chat_realtime.testing import GeminiDialect, OpenAIDialect, ServerPeer, loopback_server
from chat_testing.conformance.mutations import mutate_response

pytestmark = pytest.mark.anyio

COUNT = 2_000
AUDIO = base64.b64encode(bytes(480)).decode()
CALL: dict[str, Any] = {"type": "function_call", "name": "pay", "call_id": "c1", "arguments": "{}"}
OPENAI: Sequence[dict[str, Any]] = [
    {"type": "input_audio_buffer.speech_started"},
    {"type": "input_audio_buffer.committed", "item_id": "i1"},
    {"type": "conversation.item.input_audio_transcription.completed", "item_id": "i1", "transcript": "Hello."},
    {"type": "response.created", "response": {"id": "r1"}},
    {"type": "response.output_audio.delta", "delta": AUDIO, "item_id": "m1"},
    {"type": "response.output_audio_transcript.delta", "delta": "Hi.", "item_id": "m1"},
    {"type": "response.output_text.delta", "delta": "Hi."},
    {
        "type": "response.done",
        "response": {
            "id": "r1",
            "status": "completed",
            "output": [CALL],
            "usage": {"input_tokens": 3, "input_token_details": {"cached_tokens_details": {"text_tokens": 1}}},
        },
    },
    {"type": "response.done", "response": {"status": "failed", "status_details": {"error": {"message": "no"}}}},
    {"type": "session.updated"},
    {"type": "error", "error": {"message": "no", "code": "c"}},
]
GEMINI: Sequence[dict[str, Any]] = [
    {"setupComplete": {}},
    {"serverContent": {"inputTranscription": {"text": "Hello."}}},
    {
        "serverContent": {
            "outputTranscription": {"text": "Hi."},
            "modelTurn": {"parts": [{"text": "Hi."}, {"inlineData": {"mimeType": "audio/pcm", "data": AUDIO}}]},
        }
    },
    {"serverContent": {"turnComplete": True, "turnCompleteReason": "STOP"}, "usageMetadata": {"promptTokenCount": 3}},
    {
        "toolCall": {"functionCalls": [{"name": "pay", "id": "c1", "args": {"a": 1}}]},
        "usageMetadata": {"responseTokensDetails": [{"modality": "AUDIO", "tokenCount": 3}]},
    },
    {"toolCallCancellation": {"ids": ["c1"]}},
    {"goAway": {"timeLeft": "9.5s"}},
    {"sessionResumptionUpdate": {"resumable": True, "newHandle": "h"}},
    {"serverContent": {"interrupted": True}},
]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize(
    ("model", "messages"),
    [
        pytest.param(OpenAIRealtime(api_key="k"), OPENAI, id="openai"),
        pytest.param(GeminiLive("m", api_key="k"), GEMINI, id="gemini"),
    ],
)
def test_a_changed_message_raises_a_chat_error_or_has_events_that_can_be_stored(
    model: RealtimeModel, messages: Sequence[dict[str, Any]]
) -> None:
    choices = random.Random(7)
    for _ in range(COUNT):
        codec, history = model.codec(), Messages()
        for message in choices.sample(messages, len(messages)):
            try:
                events = codec.read(mutate_response(json.dumps(message).encode(), choices))
                for event in events:
                    if isinstance(event, InputTranscript):
                        history.user(event.text or "nothing")
                    elif isinstance(event, ResponseEnded):
                        tools = [Tool(call, call_id=call_id or None) for call_id, call in event.calls]
                        extra = {"modalities": event.modalities.to_dict()}
                        metadata = Metadata("p", event.model, event.id or None, event.reason, event.usage, extra)
                        history.append("model", Turn(tools, metadata=metadata))
            except ChatError:
                continue
        assert Messages.from_json(history.to_json()) == history


async def test_a_response_with_more_calls_than_allowed_ends_the_session_and_runs_none() -> None:
    paid: list[int] = []
    tools = ToolCollection()

    @tools.tool
    def pay(cents: int = 1) -> None:
        paid.append(cents)

    async def script(peer: ServerPeer) -> None:
        await OpenAIDialect().start(peer)
        await peer.send({"type": "response.created", "response": {"id": "r1"}})
        calls = [CALL | {"call_id": f"c{number}"} for number in range(4)]
        await peer.send({"type": "response.done", "response": {"id": "r1", "status": "completed", "output": calls}})
        await peer.close()

    chat = ChatBuilder().with_model(ScriptedProvider()).with_tools(tools).with_max_calls(3).build()
    async with loopback_server(script) as url:
        model = OpenAIRealtime(api_key="k", base_url=f"{url}/v1")
        async with connect(model, chat, messages := Messages()) as session:
            with pytest.raises(InvalidResponseError, match="more than 3 tool calls; none was run"):
                _ = [event async for event in session]
    assert paid == []
    assert not messages.pending()


async def test_a_server_that_only_sends_handles_ends_the_session_after_the_reconnects() -> None:
    connections = 0

    async def script(peer: ServerPeer) -> None:
        nonlocal connections
        connections += 1
        await GeminiDialect().start(peer, handle="h" if connections > 1 else None)
        await peer.send({"sessionResumptionUpdate": {"resumable": True, "newHandle": "h"}})
        await peer.close(1011)

    chat = ChatBuilder().with_model(ScriptedProvider()).build()
    async with loopback_server(*[script] * 4) as url:
        model = GeminiLive("m", api_key="k", base_url=url)
        with pytest.raises(NetworkError):
            async with connect(model, chat, Messages(), max_reconnects=3) as session:
                _ = [event async for event in session]
    assert connections == 4
