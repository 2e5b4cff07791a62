from __future__ import annotations

import json
import sys
from typing import Any, cast

import pytest
from chat_core.errors import UsageError
from chat_core.messages import Messages
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS
from chat_core.testing import MockTransport
from chat_core.transport import Transport
from chat_gemini import (
    CodeExecution,
    GeminiBuilder,
    GeminiEmbeddingsBuilder,
    GoogleMaps,
    GoogleSearch,
    GoogleSearchRetrieval,
    ReadyGeminiBuilder,
    SafetySetting,
    gemini,
)

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def answering(body: object = None) -> MockTransport:
    transport = MockTransport()
    answer = {"candidates": [{"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"}]}
    transport.answer(body=json.dumps(body or answer))
    return transport


async def asked(builder: ReadyGeminiBuilder, options: ChatOptions | None = None) -> MockTransport:
    transport = answering()
    provider = builder.with_transport(transport).build()
    await provider.complete(Messages.from_user("Hi"), NO_TOOLS, options or ChatOptions(), None)
    return transport


def ready(model: str = "gemini-3-flash") -> ReadyGeminiBuilder:
    return GeminiBuilder().with_model(model)


# --- Keys ---------------------------------------------------------------------------------------------------


async def test_the_api_key_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "second")
    assert (await asked(ready())).last.headers["x-goog-api-key"] == "second"
    monkeypatch.setenv("GOOGLE_API_KEY", " first ")
    assert (await asked(ready())).last.headers["x-goog-api-key"] == "first"
    assert (await asked(ready().with_api_key("mine"))).last.headers["x-goog-api-key"] == "mine"


async def test_the_key_from_the_environment_is_sent_only_to_the_default_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "secret")
    elsewhere = await asked(ready().with_base_url("https://proxy.example/gemini"))
    assert "x-goog-api-key" not in elsewhere.last.headers
    vertex = await asked(ready().with_vertex("project", "europe-west4"))
    assert "x-goog-api-key" not in vertex.last.headers


async def test_with_token_and_with_api_key_replace_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "secret")
    headers = (await asked(ready().with_api_key("key").with_token("token"))).last.headers
    assert headers["authorization"] == "Bearer token"
    assert "x-goog-api-key" not in headers
    headers = (await asked(ready().with_token("token").with_api_key("key"))).last.headers
    assert "authorization" not in headers


async def test_an_authorization_header_replaces_the_api_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "secret")
    transport = await asked(ready().with_headers({"Authorization": "Bearer x"}).with_headers({"X-A": "1"}))
    assert "x-goog-api-key" not in transport.last.headers
    assert (transport.last.headers["authorization"], transport.last.headers["x-a"]) == ("Bearer x", "1")


def test_build_raises_if_credentials_are_missing() -> None:
    with pytest.raises(UsageError, match=r"with_api_key\('…'\), set GOOGLE_API_KEY or GEMINI_API_KEY"):
        ready().build()
    with pytest.raises(UsageError, match=r"with_token\('…'\)"):
        ready().with_vertex("project").build()
    with pytest.raises(UsageError, match="with_api_key"):
        GeminiBuilder().with_embedding_model("e").build()


async def test_the_shorthand_creates_a_provider_with_a_given_or_environment_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with gemini("gemini-3-flash", api_key="k") as model:
        assert model.metadata.model == "gemini-3-flash"
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    await gemini("gemini-3-flash").aclose()


@pytest.mark.parametrize("secret", ["", "  ", None])
def test_an_empty_key_or_token_is_rejected(secret: str) -> None:
    with pytest.raises(UsageError, match="environment variable"):
        ready().with_api_key(secret)
    with pytest.raises(UsageError, match="environment variable"):
        ready().with_token(secret)


# --- Addresses ----------------------------------------------------------------------------------------------


async def test_with_vertex_sends_requests_to_the_project_and_location() -> None:
    transport = await asked(ready().with_vertex("my-project", "europe-west4").with_token("t"))
    host, path = "europe-west4-aiplatform.googleapis.com", "projects/my-project/locations/europe-west4"
    url = f"https://{host}/v1beta1/{path}/publishers/google/models/gemini-3-flash:generateContent"
    assert transport.last.url == url
    transport = await asked(ready().with_vertex("my-project").with_token("t"))
    assert transport.last.url.startswith(
        "https://aiplatform.googleapis.com/v1beta1/projects/my-project/locations/global/"
    )
    for location in ("us", "eu"):
        transport = await asked(ready().with_vertex("my-project", location).with_token("t"))
        assert transport.last.url.startswith(
            f"https://aiplatform.{location}.rep.googleapis.com/v1beta1/projects/my-project/locations/{location}/"
        )


async def test_a_model_name_may_contain_its_collection() -> None:
    assert (await asked(ready("models/gemini-3-flash"))).last.path.startswith("/v1beta/models/gemini-3-flash:")
    assert (await asked(ready("tunedModels/mine-1"))).last.path.startswith("/v1beta/tunedModels/mine-1:")


async def test_the_query_of_the_base_url_is_sent_with_every_request() -> None:
    transport = MockTransport()
    transport.events('{"candidates":[{"finishReason":"STOP"}]}')
    provider = ready().with_base_url("https://proxy.example/v1beta?tenant=a").with_transport(transport).build()
    async with provider.stream(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None) as stream:
        async for _ in stream:
            pass
    assert transport.last.path == "/v1beta/models/gemini-3-flash:streamGenerateContent?alt=sse&tenant=a"


@pytest.mark.parametrize("url", ["", "host", None])
def test_an_invalid_base_url_is_rejected(url: str) -> None:
    with pytest.raises(UsageError, match="with_base_url"):
        ready().with_base_url(url)


@pytest.mark.parametrize(
    "model",
    ["../../../evil", "a/../b", "./a", "/a", "a//b", "a/", "a b", "a\0", "a\r\nb", "\ud800"],
)
def test_a_model_name_with_unsafe_path_segments_is_rejected(model: str) -> None:
    builder = GeminiBuilder()
    for method in (builder.with_model, builder.with_embedding_model):
        with pytest.raises(UsageError, match="the model name must be like"):
            method(model)


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("gemini-3?x=1#y", "models/gemini-3%3Fx%3D1%23y"),
        ("%2e%2e/a", "%252e%252e/a"),
        ("gemini@001", "models/gemini@001"),
        ("modèle", "models/mod%C3%A8le"),
    ],
)
async def test_the_model_name_is_quoted_in_the_url(model: str, path: str) -> None:
    assert (await asked(ready(model))).last.path.startswith(f"/v1beta/{path}:")


def test_with_vertex_rejects_an_invalid_project_or_location() -> None:
    for project, location in (("", "a"), ("a", ""), ("../x", "a"), ("a", "evil.example/"), ("a", "a\0")):
        with pytest.raises(UsageError, match="with_vertex"):
            ready().with_vertex(project, location)


# --- States -------------------------------------------------------------------------------------------------


def test_methods_that_need_a_model_are_explained_before_it_is_set() -> None:
    for name in ("build", "with_google_search"):
        with pytest.raises(AttributeError, match=r"with_model\('…'\) first"):
            getattr(GeminiBuilder(), name)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(GeminiBuilder(), "nothing")  # noqa: B009 - what the types forbid


def test_with_model_cannot_be_called_twice() -> None:
    for builder in (ready(), GeminiBuilder().with_embedding_model("e")):
        with pytest.raises(AttributeError, match="already has the model"):
            getattr(builder, "with_model")  # noqa: B009 - what the types forbid
        with pytest.raises(AttributeError, match="no attribute 'nothing'"):
            getattr(builder, "nothing")  # noqa: B009 - what the types forbid


def test_the_embeddings_builder_has_no_chat_settings() -> None:
    builder = GeminiBuilder().with_embedding_model("e")
    assert isinstance(builder, GeminiEmbeddingsBuilder)
    for name in ("with_google_search", "with_thoughts", "with_modalities"):
        with pytest.raises(AttributeError, match="an embedding model"):
            getattr(builder, name)


def test_builders_are_immutable() -> None:
    first = ready()
    second = first.with_google_search().with_thoughts()
    assert first is not second
    assert first.with_transport(MockTransport()).build().metadata.model == "gemini-3-flash"


@pytest.mark.parametrize("model", ["", None, 7])
def test_an_empty_model_name_is_rejected(model: str) -> None:
    with pytest.raises(UsageError, match="name of a model"):
        GeminiBuilder().with_model(model)
    with pytest.raises(UsageError, match="name of a model"):
        GeminiBuilder().with_embedding_model(model)


def test_with_transport_rejects_an_object_that_is_not_a_transport() -> None:
    with pytest.raises(UsageError, match="Transport"):
        ready().with_transport(cast("Transport", object()))


def test_an_empty_provider_name_is_rejected() -> None:
    with pytest.raises(UsageError, match="name"):
        ready().with_provider_name("")
    provider = ready().with_provider_name("mine", "for tests").with_transport(MockTransport()).build()
    assert (provider.metadata.name, provider.metadata.description) == ("mine", "for tests")


def test_a_missing_default_transport_is_named_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "chat_transport_httpx", None)
    with pytest.raises(UsageError, match="install chat-transport-httpx"):
        ready().with_api_key("k").build()


async def test_the_default_transport_is_closed_with_the_provider() -> None:
    async with ready().with_api_key("k").build() as provider:
        assert provider.metadata.model == "gemini-3-flash"


# --- Request settings ---------------------------------------------------------------------------------------


async def test_each_native_tool_is_declared_once() -> None:
    builder = ready().with_google_search().with_google_search(GoogleSearch(exclude=("a.com",))).with_url_context()
    builder = builder.with_code_execution().with_file_search("fileSearchStores/a", top_k=2)
    builder = builder.with_native_tool(GoogleSearchRetrieval())
    assert (await asked(builder)).last.json()["tools"] == [
        {"googleSearch": {"excludeDomains": ["a.com"]}},
        {"urlContext": {}},
        {"codeExecution": {}},
        {"fileSearch": {"fileSearchStoreNames": ["fileSearchStores/a"], "topK": 2}},
        {"googleSearchRetrieval": {}},
    ]


def test_a_native_tool_that_the_server_does_not_support_is_rejected() -> None:
    builder = ready().with_file_search("fileSearchStores/a").with_vertex("project").with_transport(MockTransport())
    with pytest.raises(UsageError, match="not support file search"):
        builder.build()


async def test_the_location_of_google_maps_is_sent_in_the_tool_config() -> None:
    body = (await asked(ready().with_google_maps(GoogleMaps(latitude=1.0, longitude=2.0)))).last.json()
    assert body["tools"] == [{"googleMaps": {}}]
    assert body["toolConfig"] == {"retrievalConfig": {"latLng": {"latitude": 1.0, "longitude": 2.0}}}
    assert "toolConfig" not in (await asked(ready().with_google_maps())).last.json()


async def test_thoughts_modalities_and_safety_settings_are_sent() -> None:
    safety = SafetySetting("HARM_CATEGORY_HARASSMENT", "BLOCK_NONE")
    builder = ready().with_thoughts().with_modalities("TEXT", "IMAGE").with_safety(safety)
    body = (await asked(builder)).last.json()
    assert body["generationConfig"] == {
        "responseModalities": ["TEXT", "IMAGE"],
        "thinkingConfig": {"includeThoughts": True},
    }
    assert body["safetySettings"] == [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}]
    with pytest.raises(UsageError, match="with_modalities"):
        ready().with_modalities()


@pytest.mark.parametrize(
    ("model", "thinking"),
    [
        ("gemini-3-flash", {"thinkingLevel": "low"}),
        ("gemini-flash-latest", {"thinkingLevel": "low"}),
        ("gemini-3.5-pro-preview", {"thinkingLevel": "low"}),
        ("gemini-2.5-flash", {"thinkingBudget": 1024}),
        ("gemini-1.5-pro", {"thinkingBudget": 1024}),
        ("gemini-pro", {"thinkingBudget": 1024}),
        ("gemma-3-27b-it", {"thinkingBudget": 1024}),
    ],
)
async def test_a_reasoning_effort_is_sent_as_the_model_supports_it(model: str, thinking: object) -> None:
    body = (await asked(ready(model), ChatOptions(reasoning="low"))).last.json()
    assert body["generationConfig"]["thinkingConfig"] == thinking


async def test_with_thoughts_can_set_the_thinking_style() -> None:
    builder = ready("my-own").with_thoughts(include=False, style="level")
    body = (await asked(builder, ChatOptions(reasoning="high"))).last.json()
    assert body["generationConfig"]["thinkingConfig"] == {"includeThoughts": False, "thinkingLevel": "high"}


async def test_with_openapi_schemas_sends_tools_in_the_older_schema_fields() -> None:
    transport = MockTransport()
    transport.answer(body={"totalTokens": 1})
    provider = ready().with_openapi_schemas().with_transport(transport).build()
    from chat_core.provider import ToolDeclaration, ToolDeclarations  # noqa: PLC0415 - used once

    schema = {"type": "object", "properties": {"a": {"type": ["string", "null"]}}}
    await provider.count_tokens(Messages.from_user("Hi"), ToolDeclarations([ToolDeclaration("f", "", schema)]))
    (tool,) = transport.last.json()["generateContentRequest"]["tools"]
    parameters = tool["functionDeclarations"][0]["parameters"]
    assert parameters["properties"] == {"a": {"type": "string", "nullable": True}}


# --- Vectors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vertex", "model", "method", "most"),
    [
        (False, "gemini-embedding-001", "batchEmbedContents", 100),
        (True, "text-embedding-005", "predict", 250),
        (True, "gemini-embedding-2", "embedContent", 1),
    ],
)
async def test_embeddings_use_the_method_that_server_and_model_support(
    vertex: bool, model: str, method: str, most: int
) -> None:
    transport = answering({"embedding": {"values": [1]}})
    builder = GeminiBuilder().with_vertex("p").with_token("t") if vertex else GeminiBuilder().with_api_key("k")
    provider = builder.with_embedding_model(model, auto_truncate=True).with_transport(transport).build()
    assert provider.metadata.max_embedding_batch == most
    assert (await provider.embed(["a"], ChatOptions())).vectors == ((1.0,),)
    assert transport.last.path.endswith(f"/models/{model}:{method}")
    sent = transport.last.json()
    place = {"predict": "parameters", "embedContent": "embedContentConfig"}.get(method)
    assert (sent[place] if place else sent["requests"][0])["autoTruncate"] is True


@pytest.mark.parametrize("name", ["dimensions", "max_batch"])
def test_dimensions_and_max_batch_must_be_at_least_one(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} must be at least 1"):
        cast("Any", GeminiBuilder()).with_embedding_model("e", **{name: 0})


def test_the_code_execution_tool_has_an_empty_declaration() -> None:
    assert CodeExecution().declaration() == {"codeExecution": {}}
