"""Signatures, encrypted reasoning and ids that version 57cd8b0 stored are sent to their provider."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import chat_completions as completions
import pytest
from chat_claude import ClaudeBuilder
from chat_core import ChatBuilder, CompletionProvider, Messages, RequireApproval, ScopedCollection, ToolCollection
from chat_core.errors import ChatError
from chat_core.testing import MockTransport
from chat_gemini import GeminiBuilder
from chat_openai import AzureBuilder, OpenAIBuilder, OpenRouterBuilder
from chat_responses import ResponsesBuilder

from .shop import LATER, STORED

pytestmark = pytest.mark.anyio

Make = Callable[[MockTransport], CompletionProvider]
BASE = "https://model.example/v1"
ENDPOINT = "https://us.azure.example"


def azure_completions(transport: MockTransport) -> CompletionProvider:
    builder = AzureBuilder().with_endpoint(ENDPOINT).with_model("m").with_completions()
    return builder.with_api_key("k").with_transport(transport).build()


def openai_completions(transport: MockTransport) -> CompletionProvider:
    builder = OpenAIBuilder().with_completions().with_model("m")
    return builder.with_api_key("k").with_transport(transport).build()


def openrouter_completions(transport: MockTransport) -> CompletionProvider:
    builder = OpenRouterBuilder().with_completions().with_model("m")
    return builder.with_api_key("k").with_transport(transport).build()


def any_server(transport: MockTransport) -> CompletionProvider:
    return completions.CompletionsBuilder().with_model("m").with_base_url(BASE).with_transport(transport).build()


def vendor(preset: completions.Preset[Any]) -> Make:
    def make(transport: MockTransport) -> CompletionProvider:
        builder = completions.vendor_builder(preset).with_model("m")
        provider: CompletionProvider = builder.with_api_key("k").with_transport(transport).build()
        return provider

    return make


def azure(transport: MockTransport) -> CompletionProvider:
    builder = AzureBuilder().with_endpoint(ENDPOINT).with_model("m")
    return builder.with_api_key("k").with_transport(transport).build()


PROVIDERS: dict[str, Make] = {
    "azure": azure,
    "azure_completions": azure_completions,
    "cerebras": vendor(completions.CEREBRAS),
    "claude": lambda to: ClaudeBuilder().with_model("m").with_api_key("k").with_transport(to).build(),
    "completions": any_server,
    # One package had these vendors on their wire, and another one has them on both.
    "completions_azure": azure_completions,
    "completions_openai": openai_completions,
    "completions_openrouter": openrouter_completions,
    "deepseek": vendor(completions.DEEPSEEK),
    "fireworks": vendor(completions.FIREWORKS),
    "gemini": lambda to: GeminiBuilder().with_model("m").with_api_key("k").with_transport(to).build(),
    "groq": vendor(completions.GROQ),
    "huggingface": lambda to: (
        completions.HuggingFaceBuilder().with_model("m").with_api_key("k").with_transport(to).build()
    ),
    "mistral": vendor(completions.MISTRAL),
    "ollama": lambda to: completions.OllamaBuilder().with_model("m").with_transport(to).build(),
    "openai": lambda to: OpenAIBuilder().with_model("m").with_api_key("k").with_transport(to).build(),
    "openai_completions": openai_completions,
    "openrouter": lambda to: OpenRouterBuilder().with_model("m").with_api_key("k").with_transport(to).build(),
    "openrouter_completions": openrouter_completions,
    "responses": lambda to: ResponsesBuilder().with_model("m").with_base_url(BASE).with_transport(to).build(),
    "together": vendor(completions.TOGETHER),
    "xai": vendor(completions.XAI),
}
FILES: dict[str, dict[str, Any]] = {
    path.stem: json.loads(path.read_bytes()) for path in (STORED / "providers").glob("*.json")
}


def test_there_is_a_conversation_of_each_provider() -> None:
    assert set(FILES) == set(PROVIDERS)


@pytest.mark.parametrize("name", sorted(FILES))
async def test_a_paused_conversation_is_sent_back_as_it_was(name: str) -> None:
    found = FILES[name]
    tools, transport, paid = ToolCollection(), MockTransport(), list[int]()

    @tools.tool
    async def pay(cents: int, to: str = "landlord") -> str:
        paid.append(cents)
        return f"paid {cents} to {to}"

    messages = Messages.from_json(json.dumps(found["document"]))
    assert json.loads(messages.to_json()) == found["document"]
    messages.tool(found["call"]).approve(by="ben", at=LATER)
    transport.answer(500, {}, "{}")
    scope = ScopedCollection(tools, lambda _call, _meta: RequireApproval())
    chat = ChatBuilder().with_model(PROVIDERS[name](transport)).with_scoped_tools(scope).with_retry(0).build()
    with pytest.raises(ChatError):
        await chat.complete(messages)

    assert paid == [700]
    assert transport.last.json()[found["key"]] == found["sent"]
