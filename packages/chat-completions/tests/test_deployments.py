from __future__ import annotations

from typing import Any, cast

import pytest
from chat_completions import AzureBuilder, ReadyAzureBuilder
from chat_completions.deployments import API_VERSION
from chat_core.errors import UsageError
from chat_core.messages import Messages
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS
from chat_core.testing import MockTransport

pytestmark = pytest.mark.anyio

ENDPOINT = "https://name.openai.azure.com"
ANSWER = {"id": "c", "choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]}


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT", "OPENAI_API_VERSION", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


async def asked(builder: ReadyAzureBuilder) -> MockTransport:
    transport = MockTransport()
    transport.answer(body=ANSWER)
    provider = builder.with_transport(transport).build()
    turn = await provider.complete(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(max_tokens=5), None)
    assert turn.text == "Hi"
    assert provider.metadata.name == "azure"
    return transport


async def test_a_deployment_stands_in_the_path_and_the_version_in_the_query() -> None:
    builder = AzureBuilder().with_endpoint(f"{ENDPOINT}/").with_deployment("my model", api_version="2025-01-01-preview")
    sent = (await asked(builder.with_api_key("k"))).last
    path = "/openai/deployments/my%20model/chat/completions?api-version=2025-01-01-preview"
    assert sent.url == f"{ENDPOINT}{path}"
    assert sent.headers["api-key"] == "k"
    assert "authorization" not in sent.headers
    assert sent.json()["max_completion_tokens"] == 5


async def test_the_newer_api_names_the_deployment_in_the_request() -> None:
    sent = (await asked(AzureBuilder().with_endpoint(ENDPOINT).with_model("d").with_api_key("k"))).last
    assert sent.url == f"{ENDPOINT}/openai/v1/chat/completions"
    assert sent.json()["model"] == "d"


async def test_the_environment_says_endpoint_version_and_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://other.openai.azure.com/")
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "secret")
    monkeypatch.setenv("OPENAI_API_KEY", "another's")
    assert f"api-version={API_VERSION}" in (await asked(AzureBuilder().with_endpoint().with_deployment("d"))).last.url
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-06-01")
    sent = (await asked(AzureBuilder().with_endpoint().with_deployment("d"))).last
    assert sent.url.startswith("https://other.openai.azure.com/openai/deployments/d/")
    assert sent.url.endswith("?api-version=2024-06-01")
    assert sent.headers["api-key"] == "secret"


async def test_a_token_is_sent_in_the_place_of_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "secret")
    builder = AzureBuilder().with_api_key("k").with_bearer_token(" t ")
    sent = (await asked(builder.with_endpoint(ENDPOINT).with_deployment("d"))).last
    assert sent.headers["authorization"] == "Bearer t"
    assert "api-key" not in sent.headers


async def test_vectors_come_from_a_deployment_too() -> None:
    transport = MockTransport()
    transport.answer(body={"data": [{"embedding": [0.5]}]})
    builder = AzureBuilder().with_endpoint(ENDPOINT).with_embeddings(dimensions=8).with_deployment("d")
    response = await builder.with_transport(transport).build().embed(["a"], ChatOptions())
    assert response.vectors == ((0.5,),)
    assert transport.last.path == f"/openai/deployments/d/embeddings?api-version={API_VERSION}"
    assert transport.last.json()["dimensions"] == 8


@pytest.mark.parametrize("end", ["/openai/v1/", "/openai/v1", "/openai", "/"])
async def test_an_endpoint_may_be_said_with_the_api_that_azure_shows_behind_it(end: str) -> None:
    sent = (await asked(AzureBuilder().with_endpoint(ENDPOINT + end).with_model("d").with_api_key("k"))).last
    assert sent.url == f"{ENDPOINT}/openai/v1/chat/completions"


def test_a_missing_key_is_told_by_its_variable() -> None:
    with pytest.raises(UsageError, match="AZURE_OPENAI_API_KEY") as error:
        AzureBuilder().with_endpoint(ENDPOINT).with_deployment("d").build()
    assert "with_base_url" not in str(error.value), "it has none"


def test_what_is_missing_is_told_in_words() -> None:
    with pytest.raises(UsageError, match="AZURE_OPENAI_ENDPOINT"):
        AzureBuilder().with_endpoint()
    with pytest.raises(UsageError, match="with_endpoint"):
        AzureBuilder().with_endpoint("name.openai.azure.com")
    with pytest.raises(UsageError, match=r"with_deployment\(\) needs the name of a deployment"):
        AzureBuilder().with_endpoint(ENDPOINT).with_deployment("")
    with pytest.raises(UsageError, match=r"with_model\(\) needs the name of a deployment"):
        AzureBuilder().with_endpoint(ENDPOINT).with_model("")
    with pytest.raises(UsageError, match="with_bearer_token"):
        AzureBuilder().with_bearer_token(" ")


@pytest.mark.parametrize("name", ["build", "with_deployment", "with_model"])
def test_without_an_endpoint_there_is_no_deployment(name: str) -> None:
    with pytest.raises(AttributeError, match=rf"{name}\(\) needs an endpoint"):
        getattr(AzureBuilder(), name)


def test_without_a_deployment_there_is_nothing_to_build() -> None:
    builder = cast("Any", AzureBuilder().with_endpoint(ENDPOINT))
    with pytest.raises(AttributeError, match="needs a deployment"):
        builder.build()
    with pytest.raises(AttributeError, match="no attribute 'with_base_url'"):
        builder.with_base_url("https://elsewhere")
    with pytest.raises(AttributeError, match="no attribute 'with_base_url'"):
        cast("Any", AzureBuilder()).with_base_url("https://elsewhere")
    with pytest.raises(AttributeError, match="it has its model, 'd'"):
        builder.with_deployment("d").with_model("e")
