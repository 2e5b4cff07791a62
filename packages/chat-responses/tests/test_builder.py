from __future__ import annotations

import sys
from typing import Any, cast

import pytest
from chat_core.errors import UsageError
from chat_core.messages import Messages
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS, ChatProvider, ToolDeclaration, ToolDeclarations
from chat_core.testing import MockTransport
from chat_core.transport import Headers
from chat_responses import API_KEY_VARIABLE, DEFAULT_BASE_URL, ReadyResponsesBuilder, ResponsesBuilder

ANSWER: dict[str, object] = {"id": "r", "model": "m", "status": "completed", "output": []}
TOOL = ToolDeclaration("f", "", {"type": "object", "properties": {"x": {"type": "string", "minLength": 1}}})


@pytest.fixture
def transport() -> MockTransport:
    mock = MockTransport()
    mock.answer(body=ANSWER)
    return mock


def local(transport: MockTransport) -> ReadyResponsesBuilder:
    return ResponsesBuilder().with_model("m").with_base_url("http://h").with_transport(transport)


async def asked(
    builder: ReadyResponsesBuilder, options: ChatOptions | None = None, tools: ToolDeclarations = NO_TOOLS
) -> None:
    said = Messages.from_system("Be kind.").user("Hi")
    await builder.build().complete(said.system("Be brief."), tools, options or ChatOptions(), None)


@pytest.mark.anyio
async def test_a_request_uses_the_configured_url_key_headers_and_model(transport: MockTransport) -> None:
    builder = (
        ResponsesBuilder()
        .with_model("m")
        .with_base_url("http://localhost:8080/v1/")
        .with_api_key(" secret\n")
        .with_headers({"X-Title": "demo"})
        .with_headers({"x-title": "another"})
        .with_transport(transport)
    )
    await asked(builder)
    request = transport.last.request
    assert request.url == "http://localhost:8080/v1/responses"
    assert Headers(request.headers)["authorization"] == "Bearer secret"
    assert Headers(request.headers)["x-title"] == "another"
    assert transport.last.json()["model"] == "m"


@pytest.mark.anyio
async def test_the_query_of_the_base_url_is_sent_with_every_request(transport: MockTransport) -> None:
    builder = local(transport).with_base_url("https://host/openai/v1?api-version=preview")
    await asked(builder.with_headers({"api-key": "k"}))
    assert transport.last.path == "/openai/v1/responses?api-version=preview"
    assert "authorization" not in transport.last.headers


@pytest.mark.anyio
async def test_the_key_from_the_environment_is_sent_only_to_the_default_server(
    transport: MockTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(API_KEY_VARIABLE, "secret")
    builder = ResponsesBuilder().with_model("m").with_transport(transport)
    await asked(builder)
    assert transport.last.url == f"{DEFAULT_BASE_URL}/responses"
    assert transport.last.headers["authorization"] == "Bearer secret"
    transport.answer(body=ANSWER)
    await asked(builder.with_base_url("https://elsewhere/v1"))
    assert "authorization" not in transport.last.headers


def test_build_raises_if_the_api_key_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(API_KEY_VARIABLE, raising=False)
    with pytest.raises(UsageError, match=API_KEY_VARIABLE):
        ResponsesBuilder().with_model("m").build()


def test_an_authorization_header_replaces_the_api_key(
    transport: MockTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(API_KEY_VARIABLE, "secret")
    builder = ResponsesBuilder().with_model("m").with_headers({"Authorization": "Basic x"}).with_transport(transport)
    provider = builder.build()
    assert isinstance(provider, ChatProvider)
    assert repr(provider) == "ResponsesProvider(model='m', at Endpoint(https://api.openai.com/v1))"


def test_the_metadata_contains_the_configured_name_and_description(transport: MockTransport) -> None:
    metadata = local(transport).with_provider_name("vendor", "a vendor").build().metadata
    assert (metadata.name, metadata.model, metadata.description) == ("vendor", "m", "a vendor")


@pytest.mark.anyio
async def test_dialect_settings_of_the_builder_change_the_request(transport: MockTransport) -> None:
    builder = (
        local(transport)
        .with_system_messages("developer")
        .with_store(store=False)
        .with_reasoning(encrypted=True, replay="never", budget=True)
        .with_strict(output=False, tools=False, rewrite=False, say=False)
        .without_item_ids()
    )
    await asked(builder, ChatOptions(reasoning=100), ToolDeclarations([TOOL]))
    sent = transport.last.json()
    assert [item["role"] for item in sent["input"]] == ["developer", "user", "developer"]
    assert (sent["store"], sent["include"]) == (False, ["reasoning.encrypted_content"])
    assert sent["reasoning"] == {"max_tokens": 100}
    assert sent["tools"] == [{"type": "function", "name": "f", "parameters": TOOL.parameters}]


@pytest.mark.anyio
async def test_with_developer_role_applies_to_later_system_messages(transport: MockTransport) -> None:
    await asked(local(transport).with_developer_role().with_store())
    sent = transport.last.json()
    assert sent["instructions"] == "Be kind."
    assert sent["input"][-1] == {"role": "developer", "content": "Be brief."}
    assert sent["store"] is True


def test_previous_response_without_stored_responses_is_rejected_over_http(transport: MockTransport) -> None:
    builder = local(transport).with_previous_response()
    assert builder.build()
    with pytest.raises(UsageError, match="stored"):
        builder.with_store(store=False).build()
    assert builder.with_store(store=False).with_websocket().build()


@pytest.mark.anyio
async def test_a_request_over_a_websocket_does_not_ask_for_a_stream() -> None:
    transport = MockTransport()
    transport.events('{"type": "response.completed", "response": {"output": []}}')
    provider = local(transport).with_websocket().build()
    async with provider.stream(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None) as stream:
        async for _ in stream:
            pass
    assert set(transport.last.json()) == {"model", "input"}


def test_with_websocket_needs_its_package_or_a_transport(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "chat_transport_websockets", None)
    builder = ResponsesBuilder().with_model("m").with_base_url("http://h").with_websocket()
    with pytest.raises(UsageError, match="install chat-transport-websockets"):
        builder.build()
    assert builder.with_transport(MockTransport()).build()


def test_builders_are_immutable(transport: MockTransport) -> None:
    first = local(transport)
    second = first.with_store(store=False)
    assert first is not second
    assert isinstance(second, ReadyResponsesBuilder)
    assert ResponsesBuilder().with_api_key("k") is not ResponsesBuilder()


def test_a_method_missing_in_the_builder_state_is_explained(transport: MockTransport) -> None:
    begun = cast("Any", ResponsesBuilder())
    ready = cast("Any", local(transport))
    with pytest.raises(AttributeError, match="with_model"):
        begun.build()
    with pytest.raises(AttributeError, match="the model is already 'm'"):
        ready.with_model("n")
    for builder in (begun, ready):
        with pytest.raises(AttributeError, match="no attribute 'nothing'"):
            _ = builder.nothing


@pytest.mark.parametrize(
    ("method", "argument", "words"),
    [
        ("with_model", "", "the name of a model"),
        ("with_base_url", "localhost", "a URL like"),
        ("with_api_key", " ", "needs a key"),
        ("with_transport", object(), "needs a Transport"),
        ("with_provider_name", "", "needs a name"),
    ],
)
def test_an_invalid_setting_raises_an_error_that_explains_the_value(method: str, argument: object, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        getattr(ResponsesBuilder(), method)(argument)


def test_a_base_url_with_credentials_is_rejected(transport: MockTransport) -> None:
    with pytest.raises(UsageError, match="without a user"):
        local(transport).with_base_url("https://me:secret@host/v1").build()


def test_the_default_transport_is_used_if_none_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = ResponsesBuilder().with_model("m").with_base_url("http://h")
    assert builder.build()
    monkeypatch.setitem(sys.modules, "chat_transport_httpx", None)
    with pytest.raises(UsageError, match="install chat-transport-httpx"):
        builder.build()
