"""Builders for Azure OpenAI: URLs, credentials, and the methods of each state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_type

import pytest
from chat_core import ChatOptions, ChatProvider, Messages
from chat_core.errors import UsageError
from chat_core.provider import NO_TOOLS
from chat_core.testing import MockTransport
from chat_core.wire.shapes import Json
from chat_openai import (
    AzureBuilder,
    AzureEndpointBuilder,
    CodeInterpreter,
    OpenAICompletionsProvider,
    OpenAIEmbeddingsBuilder,
    OpenAIProvider,
    ReadyAzureBuilder,
    ReadyAzureCompletionsBuilder,
    ReadyAzureResponsesBuilder,
    azure,
)

pytestmark = pytest.mark.anyio

URL = "https://name.openai.azure.com"
RESPONSE: Json = {
    "id": "resp_1",
    "status": "completed",
    "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Utrecht"}]}],
}
COMPLETION: Json = {
    "id": "chatcmpl-1",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Utrecht"}, "finish_reason": "stop"}],
}


@pytest.fixture(autouse=True)
def an_empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY", "OPENAI_API_VERSION"):
        monkeypatch.delenv(name, raising=False)


async def asked(builder: Any, body: Json, options: ChatOptions | None = None) -> MockTransport:
    transport = MockTransport()
    transport.answer(200, {"content-type": "application/json"}, body)
    provider: ChatProvider = builder.with_transport(transport).build()
    turn = await provider.complete(Messages.from_user("Where?"), NO_TOOLS, options or ChatOptions(), None)
    assert turn.text == "Utrecht"
    return transport


def endpoint() -> AzureEndpointBuilder:
    return AzureBuilder().with_api_key("key-1").with_endpoint(URL)


async def test_the_v1_api_names_the_deployment_in_the_request_body() -> None:
    transport = await asked(endpoint().with_model("my mini"), RESPONSE)
    assert transport.last.url == f"{URL}/openai/v1/responses"
    assert transport.last.json() == {"model": "my mini", "input": [{"role": "user", "content": "Where?"}]}
    assert transport.last.headers["api-key"] == "key-1"
    assert "authorization" not in transport.last.headers
    transport = await asked(endpoint().with_model("mini").with_completions(), COMPLETION)
    assert transport.last.url == f"{URL}/openai/v1/chat/completions"


async def test_the_dated_api_names_the_version_and_the_deployment_in_the_url() -> None:
    dated = endpoint().with_deployment("my mini", api_version="2025-04-01-preview")
    transport = await asked(dated, RESPONSE)
    assert transport.last.url == f"{URL}/openai/responses?api-version=2025-04-01-preview"
    assert transport.last.json()["model"] == "my mini"
    transport = await asked(dated.with_completions(), COMPLETION)
    path = "/openai/deployments/my%20mini/chat/completions"
    assert transport.last.url == f"{URL}{path}?api-version=2025-04-01-preview"


async def test_a_catalog_model_is_called_over_chat_completions_only() -> None:
    builder = AzureBuilder().with_api_key("key-1").with_endpoint("https://name.services.ai.azure.com")
    ready = builder.with_catalog_model("Phi-4")
    assert_type(ready, ReadyAzureCompletionsBuilder)
    transport = await asked(ready, COMPLETION, ChatOptions(max_tokens=5))
    expected = "https://name.services.ai.azure.com/models/chat/completions?api-version=2024-05-01-preview"
    assert transport.last.url == expected
    assert (transport.last.json()["model"], transport.last.json()["max_tokens"]) == ("Phi-4", 5)


async def test_a_catalog_endpoint_may_include_the_models_path() -> None:
    builder = AzureBuilder().with_api_key("key-1").with_endpoint("https://name.services.ai.azure.com/models/")
    transport = await asked(builder.with_catalog_model("Phi-4", api_version="v"), COMPLETION)
    assert transport.last.url == "https://name.services.ai.azure.com/models/chat/completions?api-version=v"


async def test_with_bearer_token_replaces_the_api_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "key-of-the-environment")
    builder = AzureBuilder().with_endpoint(URL).with_bearer_token("eyJ0")
    transport = await asked(builder.with_model("mini"), RESPONSE)
    assert transport.last.headers["authorization"] == "Bearer eyJ0"
    assert "api-key" not in transport.last.headers
    assert "eyJ0" not in repr(builder)


async def test_with_api_key_and_with_bearer_token_replace_each_other() -> None:
    ready = endpoint().with_bearer_token("eyJ0").with_model("mini")
    headers = (await asked(ready, RESPONSE)).last.headers
    assert (headers.get("authorization"), headers.get("api-key")) == ("Bearer eyJ0", None)
    headers = (await asked(ready.with_api_key("key-2"), RESPONSE)).last.headers
    assert (headers.get("authorization"), headers.get("api-key")) == (None, "key-2")


def test_an_invalid_token_is_not_shown_in_the_error() -> None:
    with pytest.raises(UsageError, match="needs a token, not a value of type bytes") as caught:
        AzureBuilder().with_bearer_token(b"eyJ0")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - wrong on purpose
    assert "eyJ0" not in str(caught.value)


async def test_endpoint_key_and_version_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", f"{URL}/")
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "key-2")
    monkeypatch.setenv("OPENAI_API_VERSION", "2025-04-01-preview")
    transport = await asked(AzureBuilder().with_endpoint().with_deployment("mini"), RESPONSE)
    assert transport.last.url == f"{URL}/openai/responses?api-version=2025-04-01-preview"
    assert transport.last.headers["api-key"] == "key-2"


@pytest.mark.parametrize("pasted", [URL, f"{URL}/", f"{URL}/openai", f"{URL}/openai/v1/"])
async def test_an_endpoint_may_include_the_path_of_the_api(pasted: str) -> None:
    transport = await asked(AzureBuilder().with_api_key("k").with_endpoint(pasted).with_model("mini"), RESPONSE)
    assert transport.last.url == f"{URL}/openai/v1/responses"


async def test_a_gateway_endpoint_keeps_its_own_path() -> None:
    builder = AzureBuilder().with_api_key("k").with_endpoint("https://gateway.example.org/openai/models/west")
    transport = await asked(builder.with_model("mini"), RESPONSE)
    assert transport.last.url == "https://gateway.example.org/openai/models/west/openai/v1/responses"


async def test_native_tools_and_store_select_the_responses_api() -> None:
    ready = endpoint().with_model("mini").with_native_tools(CodeInterpreter()).with_store()
    assert_type(ready, ReadyAzureResponsesBuilder)
    body = (await asked(ready, RESPONSE)).last.json()
    assert body["tools"] == [{"type": "code_interpreter", "container": {"type": "auto"}}]
    assert body["store"] is True


@pytest.mark.parametrize(
    ("version", "url"),
    [
        (None, f"{URL}/openai/v1/embeddings"),
        ("2024-10-21", f"{URL}/openai/deployments/small/embeddings?api-version=2024-10-21"),
    ],
)
async def test_embeddings_use_the_v1_or_the_dated_api(version: str | None, url: str) -> None:
    builder = endpoint().with_embeddings(model="small", dimensions=1, api_version=version)
    assert_type(builder, OpenAIEmbeddingsBuilder)
    transport = MockTransport()
    transport.answer(body={"data": [{"index": 0, "embedding": [0.5]}]})
    answer = await builder.with_transport(transport).build().embed(["a"], ChatOptions())
    assert answer.vectors == ((0.5,),)
    assert transport.last.url == url
    assert transport.last.json()["dimensions"] == 1


@pytest.mark.parametrize(
    "pasted",
    [
        f"{URL}/openai/deployments/mini/chat/completions?api-version=2025-01-01-preview",
        f"{URL}/openai/responses?api-version=2025-04-01-preview",
        f"{URL}/openai/v1/responses",
        "https://name.services.ai.azure.com/models/chat/completions?api-version=2024-05-01-preview",
    ],
)
def test_an_endpoint_that_is_a_request_url_is_rejected(pasted: str) -> None:
    with pytest.raises(UsageError, match="not the URL of a request"):
        AzureBuilder().with_api_key("k").with_endpoint(pasted)


async def test_the_shorthand_uses_the_dated_api_if_a_version_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with azure("mini", endpoint=URL, api_key="k") as provider:
        assert_type(provider, OpenAIProvider)
        assert f"{URL}/openai/v1" in repr(provider)
        assert provider.metadata.model == "mini"
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", URL)
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "k")
    async with azure("mini", api_version="2025-04-01-preview") as provider:
        assert repr(provider).endswith(f"Endpoint({URL}/openai)))")


async def test_the_deployment_name_is_quoted_in_the_path_of_the_dated_api() -> None:
    transport = await asked(endpoint().with_deployment("a/b", api_version="v").with_completions(), COMPLETION)
    assert transport.last.url == f"{URL}/openai/deployments/a%2Fb/chat/completions?api-version=v"


def test_each_builder_method_returns_the_type_of_the_next_state() -> None:
    assert_type(AzureBuilder().with_endpoint(URL), AzureEndpointBuilder)
    ready = endpoint().with_model("mini")
    assert_type(ready, ReadyAzureBuilder)
    assert_type(endpoint().with_deployment("mini", api_version="v"), ReadyAzureBuilder)
    assert_type(ready.with_completions(), ReadyAzureCompletionsBuilder)
    assert_type(ready.with_previous_response(), ReadyAzureResponsesBuilder)
    assert_type(ready.with_transport(MockTransport()).build(), OpenAIProvider)
    completions = ready.with_completions().with_transport(MockTransport()).build()
    assert_type(completions, OpenAICompletionsProvider)


async def test_the_two_apis_have_different_provider_names() -> None:
    ready = endpoint().with_model("mini").with_transport(MockTransport())
    names = {ready.build().metadata.name, ready.with_completions().build().metadata.name}
    assert names == {"azure-responses", "azure"}


MISSING: dict[str, tuple[Callable[[], object], str, str]] = {
    "no endpoint": (AzureBuilder, "build", "needs an endpoint"),
    "a deployment without an endpoint": (AzureBuilder, "with_deployment", "needs an endpoint"),
    "no deployment": (endpoint, "build", "needs a deployment"),
    "a wire before the deployment": (endpoint, "with_completions", "needs a deployment"),
    "native tools before the deployment": (endpoint, "with_native_tools", "needs a deployment"),
    "a second deployment": (
        lambda: endpoint().with_model("mini"),
        "with_deployment",
        "the model is already set to 'mini'",
    ),
    "native tools on the other wire": (
        lambda: endpoint().with_model("mini").with_completions(),
        "with_native_tools",
        "native tools need the Responses API",
    ),
    "the other wire with native tools": (
        lambda: endpoint().with_model("mini").with_native_tools(CodeInterpreter()),
        "with_completions",
        r"with_completions\(\) is unavailable",
    ),
    "nonsense": (AzureBuilder, "with_nonsense", "has no attribute 'with_nonsense'"),
    "nonsense at an endpoint": (endpoint, "with_nonsense", "has no attribute 'with_nonsense'"),
}


@pytest.mark.parametrize("case", MISSING)
def test_a_method_missing_in_the_builder_state_is_explained(case: str) -> None:
    make, name, words = MISSING[case]
    with pytest.raises(AttributeError, match=words):
        getattr(make(), name)


MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "no endpoint anywhere": (lambda: AzureBuilder().with_endpoint(), "or set AZURE_OPENAI_ENDPOINT"),
    "an endpoint that is no URL": (lambda: AzureBuilder().with_endpoint("name"), "needs a URL like"),
    "the URL of a question": (
        lambda: AzureBuilder().with_endpoint(f"{URL}/openai/v1/responses?api-version=preview"),
        f"such as '{URL}'",
    ),
    "the URL of a question to the catalogue": (
        lambda: AzureBuilder().with_endpoint("https://n.services.ai.azure.com/models/chat/completions?api-version=v"),
        "such as 'https://n.services.ai.azure.com'",
    ),
    "the URL of a deployment": (
        lambda: AzureBuilder().with_endpoint(f"{URL}/openai/deployments/mini/chat/completions"),
        f"such as '{URL}'",
    ),
    "the target URI of a deployment": (
        lambda: AzureBuilder().with_endpoint(
            f"{URL}/openai/deployments/my%20mini/chat/completions?api-version=2025-01-01-preview"
        ),
        r"with \.with_deployment\('my mini', api_version='2025-01-01-preview'\)",
    ),
    "the target URI of a deployment, in the environment": (
        lambda: azure("mini", endpoint=f"{URL}/openai/deployments/mini/responses?api-version=v"),
        f"such as '{URL}', not the URL of a request",
    ),
    "an endpoint with a version": (
        lambda: AzureBuilder().with_endpoint(f"{URL}?api-version=v"),
        f"such as '{URL}'",
    ),
    "no version anywhere": (lambda: endpoint().with_deployment("mini"), "OPENAI_API_VERSION"),
    "a deployment without a name": (lambda: endpoint().with_model(""), "the name of a deployment"),
    "an empty token": (lambda: AzureBuilder().with_bearer_token(""), "needs a token"),
    "no key": (lambda: AzureBuilder().with_endpoint(URL).with_model("mini").build(), "set AZURE_OPENAI_API_KEY"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_an_invalid_setting_raises_an_error_that_explains_it(case: str) -> None:
    make, words = MISTAKES[case]
    with pytest.raises(UsageError, match=words):
        make()
