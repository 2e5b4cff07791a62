"""Base URLs and credentials from the environment variables that the SDK of each vendor reads, in its order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from chat_claude import ClaudeBuilder
from chat_completions import CEREBRAS, FIREWORKS, GROQ, PERPLEXITY, TOGETHER, CompletionsBuilder, vendor_builder
from chat_core.errors import ChatError, UsageError
from chat_core.messages import Messages
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS
from chat_core.testing import MockTransport
from chat_core.wire.connection import MissingKeyError
from chat_core.wire.endpoint import Endpoint
from chat_gemini import GeminiBuilder
from chat_openai import AzureBuilder, OpenAIBuilder
from chat_responses import ResponsesBuilder

pytestmark = pytest.mark.anyio

BUILDERS: dict[str, Any] = {
    "azure": AzureBuilder,
    "cerebras": lambda: vendor_builder(CEREBRAS),
    "claude": ClaudeBuilder,
    "completions": CompletionsBuilder,
    "fireworks": lambda: vendor_builder(FIREWORKS),
    "gemini": GeminiBuilder,
    "groq": lambda: vendor_builder(GROQ),
    "openai": OpenAIBuilder,
    "perplexity": lambda: vendor_builder(PERPLEXITY),
    "responses": ResponsesBuilder,
    "together": lambda: vendor_builder(TOGETHER),
}

BASE_URLS: list[tuple[str, str, str, str]] = [
    # vendor, variable, its value, the URL of the request
    ("cerebras", "CEREBRAS_BASE_URL", "https://gateway", "https://gateway/v1/chat/completions"),
    ("claude", "ANTHROPIC_BASE_URL", "https://gateway/", "https://gateway/v1/messages"),
    ("claude", "ANTHROPIC_BASE_URL", "https://gateway/v1/?a=b", "https://gateway/v1/messages?a=b"),
    ("completions", "OPENAI_BASE_URL", "https://gateway/v1", "https://gateway/v1/chat/completions"),
    ("fireworks", "FIREWORKS_BASE_URL", "https://gateway", "https://gateway/inference/v1/chat/completions"),
    ("gemini", "GOOGLE_GEMINI_BASE_URL", "https://gateway/", "https://gateway/v1beta/models/m:generateContent"),
    ("groq", "GROQ_BASE_URL", "https://gateway", "https://gateway/openai/v1/chat/completions"),
    ("groq", "GROQ_BASE_URL", "https://gateway/openai/v1/", "https://gateway/openai/v1/chat/completions"),
    ("openai", "OPENAI_BASE_URL", "https://gateway/v1", "https://gateway/v1/responses"),
    ("perplexity", "PERPLEXITY_BASE_URL", "https://gateway/", "https://gateway/chat/completions"),
    ("responses", "OPENAI_BASE_URL", "https://gateway/v1/", "https://gateway/v1/responses"),
    ("together", "TOGETHER_BASE_URL", "https://gateway/v1", "https://gateway/v1/chat/completions"),
]

CREDENTIALS: list[tuple[str, tuple[str, ...], dict[str, str]]] = [
    # vendor, variables in the order of precedence, headers if all of them are set to their names
    ("azure", ("AZURE_OPENAI_AD_TOKEN", "AZURE_OPENAI_API_KEY"), {"authorization": "Bearer AZURE_OPENAI_AD_TOKEN"}),
    ("azure", ("AZURE_OPENAI_API_KEY",), {"api-key": "AZURE_OPENAI_API_KEY"}),
    ("claude", ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"), {"x-api-key": "ANTHROPIC_API_KEY"}),
    ("claude", ("ANTHROPIC_AUTH_TOKEN",), {"authorization": "Bearer ANTHROPIC_AUTH_TOKEN"}),
    ("gemini", ("GOOGLE_API_KEY", "GEMINI_API_KEY"), {"x-goog-api-key": "GOOGLE_API_KEY"}),
    ("gemini", ("GEMINI_API_KEY",), {"x-goog-api-key": "GEMINI_API_KEY"}),
    ("groq", ("GROQ_API_KEY",), {"authorization": "Bearer GROQ_API_KEY"}),
    ("openai", ("OPENAI_API_KEY",), {"authorization": "Bearer OPENAI_API_KEY"}),
]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in {row[1] for row in BASE_URLS} | {name for row in CREDENTIALS for name in row[1]}:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://azure")


def ready(vendor: str) -> Any:
    builder = BUILDERS[vendor]()
    return (builder.with_endpoint() if vendor == "azure" else builder).with_model("m")


async def requested(builder: Any) -> tuple[str, Mapping[str, str]]:
    """Return the URL and the credentials of a request."""
    transport = MockTransport()
    transport.answer(500)
    with pytest.raises(ChatError):
        await (
            builder.with_transport(transport).build().complete(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None)
        )
    names = ("authorization", "api-key", "x-api-key", "x-goog-api-key")
    headers = transport.last.headers
    return transport.last.url, {name: headers[name] for name in names if name in headers}


@pytest.mark.parametrize(("vendor", "variable", "value", "url"), BASE_URLS)
async def test_the_base_url_from_the_environment_receives_the_request_and_the_key(
    vendor: str, variable: str, value: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for names in [row[1] for row in CREDENTIALS]:
        monkeypatch.setenv(names[0], "key")
    monkeypatch.setenv("CEREBRAS_API_KEY", "key")
    monkeypatch.setenv("TOGETHER_API_KEY", "key")
    monkeypatch.setenv("FIREWORKS_API_KEY", "key")
    monkeypatch.setenv("PERPLEXITY_API_KEY", "key")
    monkeypatch.setenv(variable, value)
    found, headers = await requested(ready(vendor))
    assert found == url
    assert headers

    if vendor != "openai":
        # A base URL in the code wins, and its server does not receive the key of the environment.
        found, headers = await requested(BUILDERS[vendor]().with_base_url("https://mine/v1").with_model("m"))
        assert found.startswith("https://mine/v1")
        assert not headers

    monkeypatch.setenv(variable, "no address")
    with pytest.raises(UsageError, match=f"^{variable}: "):
        ready(vendor).with_transport(MockTransport()).build()


@pytest.mark.parametrize(("vendor", "variables", "headers"), CREDENTIALS)
async def test_credentials_are_read_in_the_order_of_the_vendor_sdk(
    vendor: str, variables: tuple[str, ...], headers: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in variables:
        monkeypatch.setenv(name, name)
    assert (await requested(ready(vendor)))[1] == headers


@pytest.mark.parametrize("vendor", [name for name in BUILDERS if name not in {"completions", "responses"}])
def test_a_missing_key_names_the_method_and_the_variables(vendor: str) -> None:
    with pytest.raises(MissingKeyError, match=r"call \.with_api_key\('…'\)") as caught:
        ready(vendor).build()
    assert caught.value.variables
    assert caught.value.variables[0] in str(caught.value)


async def test_gemini_on_vertex_sends_the_token_to_the_base_url_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GOOGLE_VERTEX_BASE_URL", "https://gateway/")
    found, headers = await requested(GeminiBuilder().with_vertex("p", "global").with_token("t").with_model("m"))
    assert found == "https://gateway/v1beta1/projects/p/locations/global/publishers/google/models/m:generateContent"
    assert headers == {"authorization": "Bearer t"}


async def test_a_gateway_in_the_environment_receives_the_token_and_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    # Source: anthropic-sdk-python, `Anthropic.auth_headers` (2026-08-08).
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "https://gateway")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key-of-the-vendor")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token-of-the-gateway")
    _, headers = await requested(ready("claude"))
    assert headers == {"x-api-key": "key-of-the-vendor", "authorization": "Bearer token-of-the-gateway"}


def test_an_endpoint_without_a_valid_url_has_a_repr() -> None:
    assert repr(Endpoint.__new__(Endpoint)) == "Endpoint()"
