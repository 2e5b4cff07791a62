"""Claude on Amazon Bedrock: signed requests, frames, errors and counts, over HTTP."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import pytest
from chat_claude import ClaudeBuilder
from chat_claude.decode import StreamDecoder
from chat_core import ChatBuilder, ChatOptions, Messages, TextDelta
from chat_core.errors import (
    InvalidResponseError,
    PermissionDeniedError,
    RateLimitedError,
    StreamTruncatedError,
    UsageError,
)
from chat_core.messages import Text
from chat_core.provider import NO_TOOLS
from chat_core.testing import MockTransport
from chat_core.transport import AwsEvents
from chat_core.transport.values import Event
from chat_core.wire.surrogates import SurrogateBuffer
from chat_testing import Exchange, LoopbackServer

pytestmark = pytest.mark.anyio

# botocore has no types.
SigV4Auth: Any = import_module("botocore.auth").SigV4Auth
AWSRequest: Any = import_module("botocore.awsrequest").AWSRequest
Credentials: Any = import_module("botocore.credentials").Credentials

MODEL = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
KEY, SECRET, TOKEN = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "session-token-0123456789"
ANSWER = {"id": "msg_1", "role": "assistant", "content": [{"type": "text", "text": "Hi!"}], "stop_reason": "end_turn"}
EVENTS: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"id": "msg_1", "content": []}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi!"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
    {"type": "message_stop"},
]


def frame(kind: str, name: str, payload: dict[str, Any] | bytes) -> bytes:
    headers = b""
    for key, value in ((":message-type", kind), (f":{kind}-type", name)):
        headers += bytes([len(key)]) + key.encode() + b"\7" + struct.pack(">H", len(value)) + value.encode()
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    head = struct.pack(">II", 16 + len(headers) + len(data), len(headers))
    body = head + struct.pack(">I", zlib.crc32(head)) + headers + data
    return body + struct.pack(">I", zlib.crc32(body))


def chunk(event: dict[str, Any]) -> bytes:
    return frame("event", "chunk", {"bytes": base64.b64encode(json.dumps(event).encode()).decode(), "p": "abc"})


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_BEARER_TOKEN_BEDROCK", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("ANTHROPIC_BEDROCK_BASE_URL", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)


def signature_of(exchange: Exchange, host: str) -> str:
    """Compute the authorization that the request must have, from what the server received."""
    request = AWSRequest("POST", f"http://{host}{exchange.path}", {"content-type": "application/json"}, exchange.body)
    date = datetime.strptime(exchange.headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    request.context["timestamp"] = date.strftime("%Y%m%dT%H%M%SZ")
    auth = SigV4Auth(Credentials(KEY, SECRET, TOKEN), "bedrock", "eu-west-1")
    request.headers["X-Amz-Date"] = request.context["timestamp"]
    request.headers["X-Amz-Security-Token"] = TOKEN
    canonical = auth.canonical_request(request)
    signature = auth.signature(auth.string_to_sign(request, canonical), request)
    signed = auth.signed_headers(auth.headers_to_sign(request))
    return f"AWS4-HMAC-SHA256 Credential={auth.scope(request)}, SignedHeaders={signed}, Signature={signature}"


@pytest.fixture
def received() -> list[Exchange]:
    return []


@pytest.fixture
def server(received: list[Exchange]) -> Iterator[LoopbackServer]:
    def serve(exchange: Exchange) -> None:
        received.append(exchange)
        if exchange.path.endswith("/invoke"):
            exchange.answer(200, {"content-type": "application/json"}, json.dumps(ANSWER).encode())
        elif exchange.path.endswith("/count-tokens"):
            exchange.answer(200, {"content-type": "application/json"}, b'{"inputTokens": 12}')
        else:
            exchange.head(200, {"content-type": "application/vnd.amazon.eventstream"})
            for event in EVENTS:
                exchange.chunk(chunk(event))
            exchange.end()

    with LoopbackServer(serve) as running:
        yield running


async def test_bedrock_requests_are_signed_and_streams_are_decoded(
    server: LoopbackServer, received: list[Exchange]
) -> None:
    builder = ClaudeBuilder().with_bedrock("eu-west-1", url=f"http://{server.host}")
    async with builder.with_model(MODEL).build() as model:
        chat = ChatBuilder().with_model(model).build()
        assert (await chat.complete(Messages.from_user("Hi"))).text == "Hi!"
        async with chat.stream(Messages.from_user("Hi")) as stream:
            assert [event.text async for event in stream if isinstance(event, TextDelta)] == ["Hi!"]
        assert await model.count_tokens(Messages.from_user("Hi")) == 12

    assert [exchange.path.rpartition("/")[2] for exchange in received] == [
        "invoke",
        "invoke-with-response-stream",
        "count-tokens",
    ]
    for exchange in received:
        assert exchange.path.startswith("/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/")
        assert exchange.headers["authorization"] == signature_of(exchange, server.host)
        assert exchange.headers["x-amz-security-token"] == TOKEN
    body = json.loads(received[1].body)
    assert body["anthropic_version"] == "bedrock-2023-05-31"
    assert not {"model", "stream"} & body.keys()
    counted = json.loads(received[2].body)["input"]["invokeModel"]["body"]
    assert json.loads(base64.b64decode(counted)) == json.loads(received[0].body)


async def test_an_exception_in_a_stream_is_an_error_of_its_kind() -> None:
    transport = MockTransport()
    failure = frame("exception", "throttlingException", {"message": "Too many requests."})
    transport.answer(200, {}, chunk(EVENTS[0]) + failure)
    transport.answer(200, {}, b"".join(map(chunk, EVENTS[:-1])))
    model = ClaudeBuilder().with_bedrock("eu-west-1").with_model(MODEL).with_transport(transport).build()
    for kind in (RateLimitedError, StreamTruncatedError):
        with pytest.raises(kind):
            async with model.stream(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None) as stream:
                async for _ in stream:
                    pass
                stream.close()


@pytest.mark.parametrize("payload", [b'{"bytes":"!!!"}', b'{"bytes":"AAA"}', b'{"bytes":"\xc3\xa9"}', b"{"])
async def test_a_malformed_chunk_of_a_stream_is_an_invalid_response(payload: bytes) -> None:
    transport = MockTransport()
    events = [chunk(event) for event in EVENTS]
    transport.answer(200, {}, b"".join([*events[:2], frame("event", "chunk", payload), *events[2:]]))
    model = ClaudeBuilder().with_bedrock("eu-west-1").with_model(MODEL).with_transport(transport).build()
    chat = ChatBuilder().with_model(model).with_retry(0).build()
    with pytest.raises(InvalidResponseError):
        async with chat.stream(Messages.from_user("Hi")) as stream:
            async for _ in stream:
                pass


async def test_a_character_that_is_split_between_two_chunks_is_joined() -> None:
    halves = [{"type": "text_delta", "text": text} for text in ("a \ud83d", "\ude00 b")]
    deltas = [{"type": "content_block_delta", "index": 0, "delta": delta} for delta in halves]
    start = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    decoder = StreamDecoder("claude")
    events = AwsEvents().feed(b"".join(map(chunk, [EVENTS[0], start, *deltas])))

    assert decoder.feed(events) == [TextDelta("a "), TextDelta("\U0001f600 b")]
    assert decoder.partial().text == "a \U0001f600 b"


@pytest.mark.parametrize("is_wrapped", [True, False], ids=["chunks", "events"])
def test_half_a_character_at_the_end_of_a_block_does_not_move_to_the_next_block(is_wrapped: bool) -> None:
    events: list[dict[str, Any]] = [EVENTS[0]]
    for index, text in enumerate(("end \ud83d", "B")):
        events += [
            {"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}},
            {"type": "content_block_stop", "index": index},
        ]
    decoder = StreamDecoder("claude")
    wrapped = AwsEvents().feed(b"".join(map(chunk, events)))
    plain = [Event(event["type"], json.dumps(event).encode()) for event in events]

    assert decoder.feed(wrapped if is_wrapped else plain) == [TextDelta("end "), TextDelta("B")]
    assert decoder.partial().parts == (Text("end "), Text("B"))


def test_an_event_is_searched_for_split_characters_only_if_it_may_have_one(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[object] = []
    feed = SurrogateBuffer.feed

    def search(buffer: SurrogateBuffer, event: object) -> object:
        searched.append(event)
        return feed(buffer, event)

    monkeypatch.setattr(SurrogateBuffer, "feed", search)
    halves = ["word", "\U0001f600", "a \ud83d", "\ude00 b", "word"]
    deltas = [{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": t}} for t in halves]
    decoder = StreamDecoder("claude")
    decoder.feed(AwsEvents().feed(b"".join(map(chunk, [EVENTS[0], *deltas]))))

    assert [event for event in searched if isinstance(event, dict) and "delta" in event] == deltas[2:4]
    assert decoder.partial().text == "word\U0001f600a \U0001f600 bword"


async def test_credentials_that_bedrock_quotes_are_redacted() -> None:
    transport = MockTransport()
    words = f"The security token {TOKEN} of {KEY}/20261123 is expired"
    transport.answer(403, {"x-amzn-errortype": "ExpiredTokenException"}, {"message": words})
    model = ClaudeBuilder().with_bedrock("eu-west-1").with_model(MODEL).with_transport(transport).build()
    with pytest.raises(PermissionDeniedError) as caught:
        await model.complete(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None)
    shown = f"{caught.value!r} {caught.value.body!r}"
    assert TOKEN not in shown
    assert KEY not in shown


async def test_a_bearer_token_replaces_the_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    transport = MockTransport()
    for _ in range(2):
        transport.answer(200, {}, ANSWER)
    builder = ClaudeBuilder().with_bedrock().with_model(MODEL).with_transport(transport)
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "bedrock-api-key-1")
    for model, token in (
        (builder.build(), "bedrock-api-key-1"),
        (builder.with_bearer_token("bedrock-api-key-2").build(), "bedrock-api-key-2"),
    ):
        await model.complete(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None)
        assert transport.last.headers["authorization"] == f"Bearer {token}"
        assert transport.last.url.startswith("https://bedrock-runtime.us-west-2.amazonaws.com/model/us.anthropic")
        assert "x-amz-date" not in transport.last.headers


async def test_the_base_url_from_the_environment_receives_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_BEDROCK_BASE_URL", "https://gateway/aws")
    transport = MockTransport()
    transport.answer(200, {}, ANSWER)
    model = ClaudeBuilder().with_bedrock("eu-west-1").with_model("m").with_transport(transport).build()
    await model.complete(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None)
    assert transport.last.url == "https://gateway/aws/model/m/invoke"


async def test_missing_credentials_raise_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    transport = MockTransport()
    model = ClaudeBuilder().with_bedrock("eu-west-1").with_model(MODEL).with_transport(transport).build()
    with pytest.raises(UsageError, match="there are no AWS credentials: set AWS_ACCESS_KEY_ID"):
        await model.complete(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None)
    assert not transport.requests


def test_models_of_one_profile_and_region_have_equal_keys() -> None:
    def key(region: str) -> object:
        return ClaudeBuilder().with_bedrock(region).with_model(MODEL).build().endpoint.key

    assert (key("eu-west-1"), hash(key("eu-west-1"))) == (key("eu-west-1"), hash(key("eu-west-1")))
    assert key("eu-west-1") != key("us-east-1")


def test_a_bearer_token_uses_the_default_region_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "bedrock-api-key-1")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-north-1")
    builder = ClaudeBuilder().with_bedrock().with_model(MODEL)
    assert builder.build().endpoint.host == "bedrock-runtime.eu-north-1.amazonaws.com"
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    assert builder.build().endpoint.host == "bedrock-runtime.us-west-2.amazonaws.com"


def test_a_missing_region_profile_or_wrong_key_raises_when_the_provider_is_built() -> None:
    with pytest.raises(UsageError, match=r"call \.with_bedrock\('us-east-1'\), set AWS_REGION or AWS_DEFAULT_REGION"):
        ClaudeBuilder().with_bedrock().with_model(MODEL).build()
    with pytest.raises(UsageError, match=r"the AWS region cannot be read: .*nobody"):
        ClaudeBuilder().with_bedrock(profile="nobody").with_model(MODEL).build()
    with pytest.raises(UsageError, match="instead of with_api_key"):
        ClaudeBuilder().with_bedrock("eu-west-1").with_model(MODEL).with_api_key("k").build()
