"""Servers that send anything: every message is a `ChatError` or events, and no server keeps a session busy forever."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any

import pytest
from chat_core import ChatBuilder, ChatError, InvalidResponseError, Messages, Metadata, NetworkError, ToolCollection
from chat_core.messages import Tool, Turn
from chat_core.testing import ScriptedProvider
from chat_core.wire.shapes import is_list, is_object
from chat_realtime.sessions import GeminiLive, InputTranscript, OpenAIRealtime, RealtimeModel, ResponseEnded, connect
from chat_realtime.testing import GeminiDialect, OpenAIDialect, ServerPeer, loopback_server

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
WRONG: list[Any] = [
    None, True, 5, -1, 1.5, 10**400, "", "x", "\ud800", "\0", [], {}, [None], ["a"], {"type": ["x"]}, "NaN", CALL,
    {"name": "\ud800", "id": "c2", "args": []},
]  # fmt: skip


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def paths_of(value: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value in a JSON document."""
    yield path
    if is_object(value):
        for key in value:
            yield from paths_of(value[key], (*path, key))
    elif is_list(value):
        for number, item in enumerate(value):
            yield from paths_of(item, (*path, number))


def replaced(value: Any, path: tuple[Any, ...], new: object) -> Any:
    """Return a copy of a JSON document with the value at a path replaced."""
    if not path:
        return new
    copy = deepcopy(value)
    parent = copy
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = new
    return copy


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
    choices = random.Random(7)  # noqa: S311 - no secret
    for _ in range(COUNT):
        codec, history = model.codec(), Messages()
        for message in choices.sample(messages, len(messages)):
            changed = replaced(message, choices.choice([*paths_of(message)]), choices.choice(WRONG))
            try:
                events = codec.read(json.dumps(changed).encode())
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
