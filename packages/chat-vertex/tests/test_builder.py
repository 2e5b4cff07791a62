"""Models on Google Cloud: URLs, bodies, tokens and refusals, with a loopback server."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from chat_core import ChatBuilder, Messages, embedder, model
from chat_core.errors import AuthenticationError, ChatError, InvalidRequestError, UsageError
from chat_core.events import TextDelta
from chat_core.testing import MockTransport
from chat_testing import Exchange
from chat_vertex import (
    ServiceAccount,
    TokenSource,
    VertexBuilder,
    credentials_from_json,
    vertex_claude,
    vertex_embedder,
    vertex_gemini,
)
from vertex_world import GEMINI_ANSWER, JSON, Clock, Google, account_json, sent, user_json

pytestmark = pytest.mark.anyio

GEMINI_PATH = "/v1/projects/my-project/locations/europe-west4/publishers/google/models/gemini-2.5-flash"
CLAUDE_PATH = "/v1/projects/my-project/locations/europe-west4/publishers/anthropic/models/claude-sonnet-4-5@20250929"
CLAUDE_STREAM: list[Any] = [
    {"type": "message_start", "message": {"id": "m", "content": [], "usage": {"input_tokens": 1, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
]


def vertex(google: Google, clock: Clock | None = None) -> VertexBuilder:
    account = ServiceAccount.from_json(account_json(google.token_uri))
    builder = VertexBuilder().with_project("my-project", "europe-west4").with_base_url(f"{google.url}/v1/")
    return builder.with_token(TokenSource(account, clock=clock)) if clock else builder.with_credentials(account)


def ready(google: Google, family: str, clock: Clock | None = None) -> Any:
    builder = vertex(google, clock)
    if family == "claude":
        return builder.with_claude_model("claude-sonnet-4-5@20250929")
    return builder.with_gemini_model("gemini-2.5-flash")


async def ask(provider: Any, text: str = "Hello") -> str:
    async with ChatBuilder().with_model(provider).with_retry(0).build() as chat:
        response = await chat.complete(Messages.from_user(text))
        return str(response.text)


async def listen(provider: Any) -> str:
    async with (
        ChatBuilder().with_model(provider).with_retry(0).build() as chat,
        chat.stream(Messages.from_user("Hello")) as stream,
    ):
        return "".join([event.text async for event in stream if isinstance(event, TextDelta)])


def chunks(events: list[Any]) -> list[bytes]:
    return [f"event: {event.get('type', 'message')}\ndata: {json.dumps(event)}\n\n".encode() for event in events]


# --- Requests -------------------------------------------------------------------------------------------------


async def test_a_gemini_request_matches_the_documentation(google: Google) -> None:
    assert await ask(ready(google, "gemini").build()) == "Hi"

    [call] = google.calls
    assert (call.method, call.path) == ("POST", f"{GEMINI_PATH}:generateContent")
    assert call.headers["authorization"] == "Bearer secret-token-1"
    assert "x-goog-api-key" not in call.headers
    assert sent(call) == {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}


async def test_a_claude_request_matches_the_documentation(google: Google) -> None:
    assert await ask(ready(google, "claude").with_max_tokens(100).build()) == "Hi"

    [call] = google.calls
    assert (call.method, call.path) == ("POST", f"{CLAUDE_PATH}:rawPredict")
    assert call.headers["authorization"] == "Bearer secret-token-1"
    assert "x-api-key" not in call.headers
    assert sent(call) == {
        "anthropic_version": "vertex-2023-10-16",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
    }


async def test_streams_use_the_streaming_endpoints(google: Google) -> None:
    google.answer_call = lambda exchange: exchange.events(
        *chunks(CLAUDE_STREAM if "anthropic" in exchange.path else [GEMINI_ANSWER])
    )

    assert await listen(ready(google, "gemini").build()) == "Hi"
    assert await listen(ready(google, "claude").build()) == "Hi"
    assert [call.path for call in google.calls] == [
        f"{GEMINI_PATH}:streamGenerateContent?alt=sse",
        f"{CLAUDE_PATH}:streamRawPredict",
    ]
    assert sent(google.calls[1])["stream"] is True
    assert "model" not in sent(google.calls[1])


async def test_count_tokens_counts_a_claude_conversation(google: Google) -> None:
    google.answer_call = lambda exchange: exchange.answer(200, JSON, b'{"input_tokens": 7}')
    async with ready(google, "claude").build() as provider:
        assert await provider.count_tokens(Messages.from_user("Hello")) == 7

    [call] = google.calls
    assert call.path == CLAUDE_PATH.rpartition("/")[0] + "/count-tokens:rawPredict"
    assert sent(call)["model"] == "claude-sonnet-4-5@20250929"


async def test_embeddings_send_one_text_per_request(google: Google) -> None:
    def vectors(exchange: Exchange) -> None:
        values = [float(len(sent(exchange)["instances"][0]["content"]))]
        body = {"predictions": [{"embeddings": {"values": values, "statistics": {"token_count": 1}}}]}
        exchange.answer(200, JSON, json.dumps(body).encode())

    google.answer_call = vectors
    builder = vertex(google).with_embedding_model("gemini-embedding-001", task_type="CLUSTERING", dimensions=1)
    async with ChatBuilder().with_model(builder.build()).with_embeddings().build() as chat:
        response = await chat.embed(["a", "bb", "ccc"])

    assert response.vectors == ((1.0,), (2.0,), (3.0,))
    assert {call.path for call in google.calls} == {GEMINI_PATH.rpartition("/")[0] + "/gemini-embedding-001:predict"}
    assert {
        "instances": [{"content": "bb", "task_type": "CLUSTERING"}],
        "parameters": {"outputDimensionality": 1},
    } in [sent(call) for call in google.calls]
    assert len(google.tokens) == 1


async def test_embeddings_send_four_requests_at_once_and_report_failed_texts(google: Google) -> None:
    lock, barrier = threading.Lock(), threading.Barrier(4, timeout=10)
    active: list[int] = [0, 0]

    def vectors(exchange: Exchange) -> None:
        text = sent(exchange)["instances"][0]["content"]
        with lock:
            active[0] += 1
            active[1] = max(active)
        barrier.wait()
        with lock:
            active[0] -= 1
        if text == "bad":
            exchange.answer(400, JSON, json.dumps({"error": {"message": "bad text"}}).encode())
        else:
            prediction = {"embeddings": {"values": [float(text)], "statistics": {"token_count": 1}}}
            exchange.answer(200, JSON, json.dumps({"predictions": [prediction]}).encode())

    google.answer_call = vectors
    provider = vertex(google).with_embedding_model("gemini-embedding-001").build()
    async with ChatBuilder().with_model(provider).with_embeddings().build() as chat:
        response = await chat.embed(["0", "1", "bad", "3", "4", "5", "6", "7"], allow_failures=True)

    assert response.vectors == ((0.0,), (1.0,), (), (3.0,), (4.0,), (5.0,), (6.0,), (7.0,))
    assert [(index, type(error)) for index, error in response.failures.items()] == [(2, InvalidRequestError)]
    assert active[1] == 4


async def test_the_limits_of_embedding_requests_are_settings(google: Google) -> None:
    several = vertex(google).with_embedding_model(
        "text-embedding-005", max_batch=250, max_characters=9_000, concurrency=2
    )
    async with several.build() as provider:
        meta = provider.metadata
    assert (meta.max_embedding_batch, meta.max_embedding_characters, meta.embedding_concurrency) == (250, 9_000, 2)
    async with vertex(google).with_embedding_model("gemini-embedding-001").build() as provider:
        meta = provider.metadata
    assert (meta.max_embedding_batch, meta.max_embedding_characters, meta.embedding_concurrency) == (1, 80_000, 4)
    with pytest.raises(UsageError, match="concurrency must be at least 1, not 0"):
        vertex(google).with_embedding_model("m", concurrency=0)


async def test_the_quota_project_of_user_credentials_is_sent(google: Google) -> None:
    builder = vertex(google).with_credentials(credentials_from_json(user_json(google.token_uri)))
    assert await ask(builder.with_gemini_model("m").build()) == "Hi"
    assert await ask(builder.with_claude_model("m").build()) == "Hi"

    assert [call.headers["x-goog-user-project"] for call in google.calls] == ["billed-project"] * 2
    assert [form["grant_type"] for form in google.tokens] == ["refresh_token"] * 2


async def test_with_metadata_server_requests_the_token_from_it(google: Google, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GCE_METADATA_HOST", google.host)
    assert await ask(vertex(google).with_metadata_server().with_gemini_model("m").build()) == "Hi"

    assert google.tokens[0]["flavor"] == "Google"
    assert google.calls[0].headers["authorization"] == "Bearer secret-token-1"


# --- Tokens ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["gemini", "claude"])
async def test_fifty_concurrent_calls_request_one_token_and_a_second_one_after_expiry(
    google: Google, family: str
) -> None:
    clock = Clock()
    async with ChatBuilder().with_model(ready(google, family, clock).build()).with_retry(0).build() as chat:

        async def call() -> None:
            await chat.complete(Messages.from_user("Hello"))

        for expected in (1, 2):
            async with anyio.create_task_group() as group:
                for _ in range(50):
                    group.start_soon(call)
            assert len(google.tokens) == expected
            clock.move(3600)
    assert len(google.calls) == 100


@pytest.mark.parametrize("family", ["gemini", "claude"])
@pytest.mark.parametrize("how", [ask, listen])
async def test_a_rejected_token_is_renewed_and_the_request_repeated_once(google: Google, family: str, how: Any) -> None:
    google.rejected = {"secret-token-1"}
    if how is listen:
        google.answer_call = lambda exchange: exchange.events(
            *chunks(CLAUDE_STREAM if "anthropic" in exchange.path else [GEMINI_ANSWER])
        )

    assert await how(ready(google, family).build()) == "Hi"
    assert [call.headers["authorization"] for call in google.calls] == [f"Bearer secret-token-{n}" for n in (1, 2)]


@pytest.mark.parametrize("family", ["gemini", "claude"])
async def test_a_second_rejection_raises_without_showing_the_tokens(google: Google, family: str) -> None:
    google.rejected = {"secret-token-1", "secret-token-2"}

    with pytest.raises(AuthenticationError) as caught:
        await ask(ready(google, family).build())
    assert len(google.calls) == 2
    assert "secret-token" not in f"{caught.value} {caught.value!r} {vars(caught.value)}"


async def test_a_failed_token_request_raises_and_sends_no_model_request(google: Google) -> None:
    google.answer_token = lambda exchange: exchange.answer(400, JSON, b'{"error": "invalid_grant"}')

    with pytest.raises(AuthenticationError, match="rejected the credentials with status 400: invalid_grant"):
        await ask(ready(google, "claude").build())
    assert google.calls == []


# --- API keys -------------------------------------------------------------------------------------------------


async def test_an_api_key_is_sent_in_a_header_and_never_in_the_url(google: Google) -> None:
    builder = VertexBuilder().with_api_key("secret-key").with_base_url(google.url)
    assert await ask(builder.with_gemini_model("gemini-2.5-flash").build()) == "Hi"

    [call] = google.calls
    assert call.path == "/v1beta/models/gemini-2.5-flash:generateContent"
    assert call.headers["x-goog-api-key"] == "secret-key"
    assert "authorization" not in call.headers
    assert google.tokens == []


@pytest.mark.parametrize("variable", ["VERTEX_API_KEY", "GEMINI_API_KEY"])
async def test_an_api_key_in_the_environment_overrides_a_service_account(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str
) -> None:
    path = tmp_path / "key.json"
    path.write_text(json.dumps(account_json()))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    monkeypatch.setenv(variable, "secret-key")
    transport = MockTransport()
    transport.answer(body=GEMINI_ANSWER)

    assert await ask(VertexBuilder().with_transport(transport).with_gemini_model("m").build()) == "Hi"
    assert transport.last.url == "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent"
    assert transport.last.headers["x-goog-api-key"] == "secret-key"
    with pytest.raises(UsageError, match=r"accepts no API key.*unset VERTEX_API_KEY or GEMINI_API_KEY"):
        VertexBuilder().with_claude_model("m")
    assert VertexBuilder().with_default_credentials().with_claude_model("m").build().metadata.model == "m"


def test_the_api_key_builder_rejects_claude_models_and_projects() -> None:
    builder: Any = VertexBuilder().with_service_account_json(account_json()).with_api_key("secret-key")

    with pytest.raises(AttributeError, match="Claude on Google Cloud accepts no API key: use a project"):
        builder.with_claude_model("claude-sonnet-4-5")
    with pytest.raises(AttributeError, match=r"with_project\(\) is not available with an API key"):
        builder.with_project("p")
    with pytest.raises(AttributeError, match="'VertexKeyBuilder' object has no attribute 'other'"):
        builder.other()


async def test_embeddings_with_a_key_are_sent_in_batches(google: Google) -> None:
    provider = VertexBuilder().with_api_key("k").with_base_url(google.url).with_embedding_model("e").build()
    async with provider:
        assert provider.metadata.max_embedding_batch == 100


# --- Refused settings and hidden secrets ----------------------------------------------------------------------


def test_missing_credentials_are_reported_with_all_alternatives() -> None:
    with pytest.raises(UsageError, match=r"VERTEX_API_KEY or GEMINI_API_KEY.*GOOGLE_APPLICATION_CREDENTIALS"):
        VertexBuilder().with_gemini_model("m")
    with pytest.raises(UsageError, match="no credentials for Google Cloud"):
        VertexBuilder().with_claude_model("m")


def test_invalid_arguments_are_rejected_immediately(tmp_path: Path) -> None:
    path = tmp_path / "user.json"
    path.write_text(json.dumps(user_json()))
    wrong: Any = "https"
    for refused in (
        lambda: VertexBuilder().with_project("a/b"),
        lambda: VertexBuilder().with_project("p", "a.b"),
        lambda: VertexBuilder().with_base_url("one.example"),
        lambda: VertexBuilder().with_base_url("https://user@one.example"),
        lambda: VertexBuilder().with_transport(wrong),
        lambda: VertexBuilder().with_token(" "),
        lambda: VertexBuilder().with_api_key(""),
        lambda: VertexBuilder().with_service_account_file(path),
        lambda: VertexBuilder().with_service_account_json(user_json()),
        lambda: vertex_gemini("m", region="global"),
    ):
        with pytest.raises(UsageError):
            refused()


def test_builders_are_immutable_and_the_last_credentials_are_used() -> None:
    first = VertexBuilder().with_project("p")
    second = first.with_service_account_json(account_json()).with_token("t")

    assert first.with_claude_model("m").build() is not None
    assert second.with_gemini_model("m").build() is not None


async def test_no_repr_shows_a_secret(google: Google) -> None:
    provider = ready(google, "claude").build()
    await ask(provider)

    assert "secret" not in f"{provider!r} {vertex(google)!r} {ready(google, 'gemini')!r}"


# --- Short forms ----------------------------------------------------------------------------------------------


def test_model_and_embedder_build_vertex_providers_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "key.json"
    path.write_text(json.dumps(account_json()))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))

    built = {
        model("vertex-gemini:gemini-2.5-flash"): vertex_gemini("gemini-2.5-flash"),
        model("vertex-claude:m@1", project="p", region="global"): vertex_claude("m@1", project="p", region="global"),
        embedder("vertex-gemini:e", dimensions=2): vertex_embedder("e", dimensions=2),
    }
    assert [repr(by_name) for by_name in built] == [repr(by_function) for by_function in built.values()]
    assert "europe" not in repr(list(built))
    assert "asia-south1-aiplatform.googleapis.com/v1/projects/file-project/" in repr(next(iter(built)))


async def test_an_error_response_raises_a_chat_error(google: Google) -> None:
    google.answer_call = lambda exchange: exchange.answer(404, JSON, b'{"error": {"code": 404, "message": "no model"}}')

    for family in ("gemini", "claude"):
        with pytest.raises(ChatError, match="no model"):
            await ask(ready(google, family).build())
