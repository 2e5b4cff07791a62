from __future__ import annotations

import json
import sys
from typing import Any, cast

import pytest
from chat_completions import API_KEY_VARIABLE, CompletionsBuilder
from chat_core.errors import NetworkError, UsageError
from chat_core.messages import FunctionCall, Messages, Tool, Turn
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS, ChatProvider, EmbeddingsProvider, OutputSchema
from chat_core.testing import MockTransport
from chat_core.transport import Headers

ANSWER = {"id": "c", "model": "m", "choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]}


@pytest.fixture
def transport() -> MockTransport:
    mock = MockTransport()
    mock.answer(body=ANSWER)
    return mock


async def asked(builder: Any, options: ChatOptions | None = None) -> Any:
    provider = builder.build()
    said = Messages.from_system("Be kind.").user("Hi")
    output = OutputSchema("x", {"type": "object", "properties": {}})
    await provider.complete(said, NO_TOOLS, options or ChatOptions(), output)


@pytest.mark.anyio
async def test_a_request_uses_the_configured_url_key_headers_and_model(transport: MockTransport) -> None:
    builder = (
        CompletionsBuilder()
        .with_model("m")
        .with_base_url("http://localhost:8080/v1/")
        .with_api_key(" secret\n")
        .with_headers({"X-Title": "demo"})
        .with_transport(transport)
    )
    await asked(builder)
    request = transport.last.request
    assert request.url == "http://localhost:8080/v1/chat/completions"
    assert Headers(request.headers)["authorization"] == "Bearer secret"
    assert Headers(request.headers)["x-title"] == "demo"
    assert transport.last.json()["model"] == "m"


@pytest.mark.anyio
@pytest.mark.parametrize(
    "base_url", ["http://localhost:8080", "http://10.0.0.7:8080", "https://localhost", "https://h"]
)
async def test_the_scheme_of_the_base_url_is_used_for_every_host(transport: MockTransport, base_url: str) -> None:
    await asked(CompletionsBuilder().with_model("m").with_base_url(base_url).with_transport(transport))
    assert transport.last.request.url == f"{base_url}/chat/completions"


@pytest.mark.anyio
async def test_the_query_of_the_base_url_is_sent_with_every_request(transport: MockTransport) -> None:
    builder = CompletionsBuilder().with_base_url("https://host/openai/deployments/d?api-version=1")
    await asked(builder.with_model("m").with_headers({"api-key": "k"}).with_transport(transport))
    assert transport.last.path == "/openai/deployments/d/chat/completions?api-version=1"
    assert "authorization" not in transport.last.headers


@pytest.mark.anyio
async def test_the_key_from_the_environment_is_sent_only_to_the_default_server(
    transport: MockTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(API_KEY_VARIABLE, "secret")
    builder = CompletionsBuilder().with_model("m").with_transport(transport)
    await asked(builder)
    assert transport.last.url == "https://api.openai.com/v1/chat/completions"
    assert transport.last.headers["authorization"] == "Bearer secret"
    transport.answer(body=ANSWER)
    await asked(builder.with_base_url("https://elsewhere/v1"))
    assert "authorization" not in transport.last.headers


def test_build_raises_if_the_api_key_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(API_KEY_VARIABLE, raising=False)
    with pytest.raises(UsageError, match=API_KEY_VARIABLE):
        CompletionsBuilder().with_model("m").build()


def test_an_authorization_header_replaces_the_api_key(
    transport: MockTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(API_KEY_VARIABLE, "secret")
    builder = CompletionsBuilder().with_model("m").with_headers({"Authorization": "Basic x"}).with_transport(transport)
    assert builder.build().metadata.model == "m"


def test_the_provider_implements_chat_and_embeddings(transport: MockTransport) -> None:
    provider = CompletionsBuilder().with_model("m").with_base_url("http://h").with_transport(transport).build()
    assert isinstance(provider, ChatProvider)
    assert isinstance(provider, EmbeddingsProvider)


def test_the_metadata_contains_the_configured_name_and_description(transport: MockTransport) -> None:
    builder = CompletionsBuilder().with_provider_name("vendor", "a vendor").with_embeddings(dimensions=8, max_batch=16)
    metadata = builder.with_model("m").with_base_url("http://h").with_transport(transport).build().metadata
    assert (metadata.name, metadata.model, metadata.description, metadata.max_embedding_batch) == (
        "vendor",
        "m",
        "a vendor",
        16,
    )
    assert metadata.dimensions == 8


@pytest.mark.anyio
async def test_dialect_settings_of_the_builder_change_the_request(transport: MockTransport) -> None:
    builder = (
        CompletionsBuilder()
        .with_base_url("http://h")
        .with_transport(transport)
        .with_model("m")
        .with_developer_role()
        .with_max_tokens_field("max_completion_tokens")
        .with_reasoning(style="object")
        .with_strict(output=False)
        .without_stream_usage()
    )
    await asked(builder, ChatOptions(max_tokens=5, reasoning=100))
    sent = transport.last.json()
    assert sent["messages"][0]["role"] == "developer"
    assert sent["max_completion_tokens"] == 5
    assert sent["reasoning"] == {"max_tokens": 100}
    assert sent["response_format"]["json_schema"]["strict"] is False


@pytest.mark.anyio
async def test_call_ids_can_be_shortened_and_null_content_omitted(transport: MockTransport) -> None:
    tool = Tool(FunctionCall("f"), call_id="call_0123456789")
    tool.reject()
    messages = Messages.from_user("Hi")
    messages.append("model", Turn([tool]))
    builder = CompletionsBuilder().with_base_url("http://h").with_transport(transport).with_model("m")
    await builder.without_null_content().with_short_call_ids().build().complete(messages, NO_TOOLS, ChatOptions(), None)
    sent = transport.last.json()["messages"]
    assert len(sent[2]["tool_call_id"]) == 9
    assert sent[1]["content"] == ""


@pytest.mark.anyio
async def test_the_max_tokens_field_depends_on_the_base_url(transport: MockTransport) -> None:
    builder = CompletionsBuilder().with_model("m").with_transport(transport).with_api_key("k")
    await asked(builder, ChatOptions(max_tokens=5))
    assert "max_completion_tokens" in transport.last.json()
    transport.answer(body=ANSWER)
    await asked(builder.with_base_url("http://h"), ChatOptions(max_tokens=5))
    assert "max_tokens" in transport.last.json()


@pytest.mark.anyio
async def test_with_reasoning_can_disable_the_replay_of_reasoning(transport: MockTransport) -> None:
    builder = CompletionsBuilder().with_model("m").with_base_url("http://h").with_transport(transport)
    transport.answer(body=ANSWER)
    provider = builder.build()
    messages = Messages.from_user("Hi")
    answer = json.loads(json.dumps(ANSWER))
    answer["choices"][0]["message"]["reasoning"] = "Hm"
    mock = MockTransport()
    mock.answer(body=answer)
    messages.append(
        "model", await builder.with_transport(mock).build().complete(messages, NO_TOOLS, ChatOptions(), None)
    )
    await provider.complete(messages, NO_TOOLS, ChatOptions(), None)
    assert transport.last.json()["messages"][1]["reasoning"] == "Hm"
    await builder.with_reasoning(replay="never").build().complete(messages, NO_TOOLS, ChatOptions(), None)
    assert "reasoning" not in transport.last.json()["messages"][1]


def test_builders_are_immutable(transport: MockTransport) -> None:
    first = CompletionsBuilder()
    second = first.with_base_url("http://h")
    assert first is not second
    ready = second.with_model("m").with_transport(transport)
    assert ready.with_provider_name("q").build().metadata.name == "q"
    assert ready.build().metadata.name == "chat-completions"


@pytest.mark.anyio
async def test_the_default_transport_is_closed_with_the_provider() -> None:
    async with CompletionsBuilder().with_model("m").with_base_url("http://127.0.0.1:9/v1").build() as provider:
        assert provider.metadata.model == "m"
        with pytest.raises(NetworkError):
            await provider.complete(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None)


def test_a_missing_default_transport_is_named_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "chat_transport_httpx", None)
    with pytest.raises(UsageError, match="install chat-transport-httpx"):
        CompletionsBuilder().with_model("m").with_base_url("http://h").build()


# --- Mistakes ------------------------------------------------------------------------------------------


def test_build_without_a_model_raises_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"build\(\) needs a model"):
        cast("Any", CompletionsBuilder()).build()
    with pytest.raises(AttributeError, match="no attribute 'bulid'"):
        cast("Any", CompletionsBuilder()).bulid()


def test_with_model_cannot_be_called_twice() -> None:
    ready = CompletionsBuilder().with_model("m")
    with pytest.raises(AttributeError, match="the model is already set to"):
        cast("Any", ready).with_model("n")
    with pytest.raises(AttributeError, match="no attribute 'bulid'"):
        cast("Any", ready).bulid()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("with_model", None),
        ("with_model", 7),
        ("with_base_url", "localhost:8080"),
        ("with_base_url", None),
        ("with_api_key", ""),
        ("with_api_key", None),
        ("with_transport", "httpx"),
        ("with_provider_name", ""),
    ],
)
def test_an_invalid_setting_raises_an_error_that_names_the_method(name: str, value: object) -> None:
    with pytest.raises(UsageError, match=name):
        getattr(CompletionsBuilder(), name)(value)


@pytest.mark.parametrize(("dimensions", "max_batch"), [(0, 1), (1, 0)])
def test_with_embeddings_rejects_zero_dimensions_and_zero_batches(dimensions: int, max_batch: int) -> None:
    with pytest.raises(UsageError, match="at least 1"):
        CompletionsBuilder().with_embeddings(dimensions=dimensions, max_batch=max_batch)


@pytest.mark.parametrize(
    "url", ["ftp://host/v1", "https://user:secret@host/v1", "https:///v1", "http://h:port", "http://[::1"]
)
def test_build_rejects_a_base_url_that_is_not_http_or_contains_credentials(url: str, transport: MockTransport) -> None:
    builder = CompletionsBuilder().with_model("m").with_base_url(url).with_transport(transport)
    with pytest.raises(UsageError) as error:
        builder.build()
    assert "secret" not in str(error.value)


def test_a_base_url_without_a_scheme_is_reported_without_its_credentials() -> None:
    with pytest.raises(UsageError, match="not 'host/v1'"):
        CompletionsBuilder().with_base_url("user:secret@host/v1")


def test_the_api_key_does_not_appear_in_any_repr(transport: MockTransport) -> None:
    builder = CompletionsBuilder().with_model("m").with_base_url("http://h").with_api_key("hunter2")
    provider = builder.with_transport(transport).build()
    assert "hunter2" not in repr(builder) + repr(provider) + repr(vars(type(provider)))
    assert repr(provider) == "CompletionsProvider(model='m', at Endpoint(http://h))"
