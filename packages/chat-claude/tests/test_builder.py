from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, cast

import pytest
from chat_claude import ClaudeBuilder, McpServer, ToolSearch, WebSearch, claude
from chat_claude.settings import API_KEY_VARIABLE, TOKEN_VARIABLE
from chat_core.errors import UsageError
from chat_core.messages import Messages
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS, OutputSchema, ToolDeclaration, ToolDeclarations
from chat_core.testing import MockTransport

ANSWER = {"id": "m", "content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn"}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.fixture
def transport() -> MockTransport:
    mock = MockTransport()
    mock.answer(body=ANSWER)
    return mock


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(API_KEY_VARIABLE, raising=False)
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)


async def asked(builder: Any, messages: Messages | None = None, output: OutputSchema | None = None) -> Any:
    tools = ToolDeclarations([ToolDeclaration("f", "", SCHEMA)]) if output is None else NO_TOOLS
    await builder.build().complete(messages or Messages.from_user("Hi"), tools, ChatOptions(), output)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("url", "asked_at"),
    [
        ("https://gateway.example/anthropic/", "https://gateway.example/anthropic/v1/messages"),
        ("http://localhost:4000/v1", "http://localhost:4000/v1/messages"),
        ("https://h/v1/?tenant=1", "https://h/v1/messages?tenant=1"),
    ],
)
async def test_a_request_uses_the_configured_url_token_and_headers(
    transport: MockTransport, url: str, asked_at: str
) -> None:
    builder = ClaudeBuilder().with_base_url(url).with_model("m").with_bearer_token(" secret\n")
    await asked(builder.with_headers({"X-Title": "demo"}).with_transport(transport))
    assert transport.last.request.url == asked_at
    assert transport.last.headers["authorization"] == "Bearer secret"
    assert transport.last.headers["x-title"] == "demo"
    assert "x-api-key" not in transport.last.headers
    transport.answer(body=ANSWER)
    await asked(ClaudeBuilder().with_model("m").with_base_url(url).with_transport(transport))
    assert transport.last.request.url == asked_at


VERTEX = "https://europe-west1-aiplatform.googleapis.com/v1/projects/p/locations/europe-west1/publishers/anthropic"


@pytest.mark.anyio
async def test_a_vertex_request_names_the_model_in_the_path_and_not_in_the_body(transport: MockTransport) -> None:
    builder = ClaudeBuilder().with_vertex(VERTEX).with_model("claude-sonnet-4-5@20250929").with_bearer_token("t")
    await asked(builder.with_transport(transport))

    assert transport.last.request.url == f"{VERTEX}/models/claude-sonnet-4-5@20250929:rawPredict"
    assert transport.last.headers["authorization"] == "Bearer t"
    body = transport.last.json()
    assert "model" not in body
    assert "stream" not in body
    assert body["anthropic_version"] == "vertex-2023-10-16"


@pytest.mark.anyio
async def test_a_vertex_token_count_request_names_the_model_in_the_body() -> None:
    transport = MockTransport()
    transport.answer(body={"input_tokens": 12})
    provider = ClaudeBuilder().with_vertex(VERTEX).with_model("claude-sonnet-4-5").with_bearer_token("t")

    assert await provider.with_transport(transport).build().count_tokens(Messages.from_user("Hi")) == 12
    assert transport.last.request.url == f"{VERTEX}/models/count-tokens:rawPredict"
    assert transport.last.json()["model"] == "claude-sonnet-4-5"


def test_vertex_rejects_api_keys_and_requires_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(API_KEY_VARIABLE, "a-key-of-anthropic")
    builder = ClaudeBuilder().with_vertex(VERTEX).with_model("m")

    async def key() -> str:
        return "k"

    for with_key in (builder.with_api_key("k"), builder.with_api_key(key)):
        with pytest.raises(UsageError, match="accepts no API key for Claude"):
            with_key.build()
    with pytest.raises(UsageError, match=r"the token is missing: call \.with_bearer_token"):
        builder.build()


@pytest.mark.anyio
async def test_with_api_key_and_with_bearer_token_replace_each_other(transport: MockTransport) -> None:
    builder = ClaudeBuilder().with_model("m").with_transport(transport).with_bearer_token("t").with_api_key("k")
    await asked(builder)
    assert transport.last.headers["x-api-key"] == "k"
    assert "authorization" not in transport.last.headers


@pytest.mark.anyio
async def test_credentials_from_the_environment_are_sent_only_to_the_anthropic_api(
    transport: MockTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "token")
    builder = ClaudeBuilder().with_model("m").with_transport(transport)
    await asked(builder)
    assert transport.last.headers["authorization"] == "Bearer token"
    monkeypatch.setenv(API_KEY_VARIABLE, "secret")
    transport.answer(body=ANSWER)
    await asked(builder)
    assert transport.last.headers["x-api-key"] == "secret"
    assert "authorization" not in transport.last.headers
    transport.answer(body=ANSWER)
    await asked(builder.with_base_url("https://elsewhere"))
    assert not {"x-api-key", "authorization"} & set(transport.last.headers)
    transport.answer(body=ANSWER)
    await asked(builder.with_headers({"X-Api-Key": "own"}))
    assert transport.last.headers["x-api-key"] == "own"


@pytest.mark.anyio
async def test_the_shorthand_reads_its_key_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(API_KEY_VARIABLE, "secret")
    async with claude("claude-opus-5") as provider:
        assert "secret" not in repr(provider)
        assert "claude-opus-5" in repr(provider)


@pytest.mark.anyio
async def test_settings_of_the_builder_appear_in_the_request_and_the_metadata(transport: MockTransport) -> None:
    builder = (
        ClaudeBuilder()
        .with_model("claude-opus-4-8")
        .with_max_tokens(77)
        .with_strict_tools()
        .with_system_in_place()
        .with_provider_name("mine", "for tests")
        .with_transport(transport)
    )
    await asked(builder, Messages.from_user("Hi").system("Be brief.").user("Well?"))
    body = transport.last.json()
    assert body["max_tokens"] == 77
    assert body["tools"][0]["strict"] is True
    assert [message["role"] for message in body["messages"]] == ["user", "system", "user"]
    metadata = builder.build().metadata
    assert (metadata.name, metadata.description) == ("mine", "for tests")


@pytest.mark.anyio
async def test_with_structured_output_by_tool_forces_the_output_tool(transport: MockTransport) -> None:
    builder = ClaudeBuilder().with_model("claude-opus-5").with_transport(transport)
    await asked(builder.with_structured_output_by_tool(), output=OutputSchema("x", SCHEMA))
    assert transport.last.json()["tool_choice"] == {"type": "tool", "name": "x"}
    transport.answer(body=ANSWER)
    await asked(builder, output=OutputSchema("x", SCHEMA))
    assert "tool_choice" not in transport.last.json()


@pytest.mark.anyio
async def test_native_tools_and_mcp_servers_are_sent_with_every_request(transport: MockTransport) -> None:
    ready = ClaudeBuilder().with_model("m").with_transport(transport)
    server = McpServer(name="s", url="https://h")
    await asked(ready.with_native_tools(WebSearch(), ToolSearch()).with_mcp_servers(server))
    body = transport.last.json()
    assert [tool.get("name") for tool in body["tools"]] == ["f", "web_search", "tool_search_tool_bm25", None]
    assert body["mcp_servers"] == [{"type": "url", "name": "s", "url": "https://h"}]
    transport.answer(body=ANSWER)
    await asked(ready.with_mcp_servers(server))
    assert len(transport.last.json()["tools"]) == 2


def test_builders_are_immutable() -> None:
    builder = ClaudeBuilder()
    builder.with_api_key("k")
    with pytest.raises(UsageError, match="the API key is missing"):
        builder.with_model("m").build()


def test_methods_that_need_a_model_are_explained_before_it_is_set() -> None:
    for builder in (ClaudeBuilder(), ClaudeBuilder().with_base_url("https://h")):
        with pytest.raises(AttributeError, match=r"\.with_model"):
            cast("Any", builder).build()
        with pytest.raises(AttributeError, match=r"\.with_model"):
            cast("Any", builder).with_native_tools(WebSearch())
        with pytest.raises(AttributeError, match="no attribute 'other'"):
            cast("Any", builder).other()


def test_a_method_missing_in_the_builder_state_is_explained() -> None:
    ready = ClaudeBuilder().with_model("m")
    with pytest.raises(AttributeError, match="already has the model 'm'"):
        cast("Any", ready).with_model("n")
    with pytest.raises(AttributeError, match="only available for the Anthropic API: for https://h"):
        cast("Any", ready.with_base_url("https://h")).with_native_tools(WebSearch())
    with pytest.raises(AttributeError, match="must be called before server-side tools"):
        cast("Any", ready.with_native_tools(WebSearch())).with_base_url("https://h")
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        cast("Any", ready).other()


MISTAKES: list[tuple[str, Callable[[Any], object]]] = [
    ("name of a model", lambda builder: builder.with_model("")),
    ("a URL like", lambda builder: builder.with_base_url("localhost")),
    ("needs a key", lambda builder: builder.with_api_key(" ")),
    ("needs a token", lambda builder: builder.with_bearer_token("")),
    ("needs a Transport", lambda builder: builder.with_transport(None)),
    ("needs a name", lambda builder: builder.with_provider_name("")),
    ("at least 1", lambda builder: builder.with_max_tokens(0)),
    ("at least one beta feature", lambda builder: builder.with_betas()),
    (r"WebSearch\(\)", lambda builder: builder.with_model("m").with_native_tools({"type": "web_search"})),
    ("McpServer", lambda builder: builder.with_model("m").with_mcp_servers("https://h")),
    ("base URL", lambda builder: builder.with_base_url("ftp://h").with_model("m").with_api_key("k").build()),
]


@pytest.mark.parametrize(("why", "wrong"), MISTAKES, ids=[why for why, _ in MISTAKES])
def test_an_invalid_setting_raises_an_error_that_explains_it(why: str, wrong: Callable[[Any], object]) -> None:
    with pytest.raises(UsageError, match=why):
        wrong(ClaudeBuilder())


def test_a_missing_default_transport_is_named_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "chat_transport_httpx", None)
    with pytest.raises(UsageError, match="install chat-transport-httpx"):
        ClaudeBuilder().with_model("m").with_api_key("k").build()


def test_error_messages_of_the_builder_do_not_contain_secrets() -> None:
    ready: Any = ClaudeBuilder().with_model("m")
    with pytest.raises(UsageError, match="not a dict") as error:
        ready.with_mcp_servers({"name": "s", "authorization_token": "s3cret"})
    assert "s3cret" not in str(error.value)
    gateway: Any = ready.with_base_url("https://user:s3cret@h/x?key=s3cret")
    with pytest.raises(AttributeError, match="for h/x use") as odd:
        gateway.with_native_tools()
    assert "s3cret" not in str(odd.value)


@pytest.mark.anyio
async def test_with_finish_reasons_maps_the_stop_reasons_of_a_gateway() -> None:
    transport = MockTransport()
    transport.answer(body={**ANSWER, "stop_reason": "length"})
    builder = ClaudeBuilder().with_model("claude-opus-5").with_transport(transport)
    provider = builder.with_finish_reasons({"Length": "length"}).build()
    turn = await provider.complete(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None)
    assert turn.finish_reason == "length"
