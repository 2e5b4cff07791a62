"""The OpenAI, Azure and OpenRouter providers pass every scenario whose capability they claim, with both APIs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import anyio
import pytest
from chat_core import CompletionProvider, EmbeddingsProvider
from chat_core.transport import Transport
from chat_openai import AzureBuilder, OpenAIBuilder, OpenRouterBuilder
from chat_testing import Capabilities, ProviderConformance, ProviderTapes, Subject, Tape, conformance_report

from . import completions_tapes, responses_tapes
from .test_responses import CLAIMS

KEY = "sk-conformance"


class TestOpenAI(ProviderConformance):
    capabilities = CLAIMS
    tapes = responses_tapes.tapes()

    def make_provider(self, transport: Transport, /) -> CompletionProvider:
        return OpenAIBuilder().with_model("gpt-5-mini").with_api_key(KEY).with_transport(transport).build()


class TestOpenAIVectors(ProviderConformance):
    capabilities = Capabilities(text=False, embeddings=True, usage=True, waits=True, request_ids=True)
    tapes = responses_tapes.VECTORS

    def make_provider(self, transport: Transport, /) -> EmbeddingsProvider:
        builder = OpenAIBuilder().with_embeddings(model="text-embedding-3-small").with_api_key(KEY)
        return builder.with_transport(transport).build()


def stored(transport: Transport) -> CompletionProvider:
    builder = OpenAIBuilder().with_model("gpt-5-mini").with_api_key(KEY).with_previous_response()
    return builder.with_transport(transport).build()


def completions(transport: Transport) -> CompletionProvider:
    builder = OpenAIBuilder().with_completions().with_model("gpt-5-mini").with_api_key(KEY)
    return builder.with_transport(transport).build()


def azure(transport: Transport) -> CompletionProvider:
    builder = AzureBuilder().with_endpoint("https://us.azure.example").with_model("a-deployment").with_api_key(KEY)
    return builder.with_transport(transport).build()


def azure_completions(transport: Transport) -> CompletionProvider:
    builder = AzureBuilder().with_endpoint("https://us.azure.example").with_model("a-deployment").with_api_key(KEY)
    return builder.with_completions().with_transport(transport).build()


def openrouter(transport: Transport) -> CompletionProvider:
    return OpenRouterBuilder().with_model("a/model").with_api_key(KEY).with_transport(transport).build()


def openrouter_completions(transport: Transport) -> CompletionProvider:
    builder = OpenRouterBuilder().with_completions().with_model("a/model").with_api_key(KEY)
    return builder.with_transport(transport).build()


ON_RESPONSES = responses_tapes.tapes()
# The server stores the reasoning, and the request names its response.
STORED = replace(ON_RESPONSES, reasoning=replace(ON_RESPONSES.reasoning or Tape(), echo=("resp_1",)))
ON_COMPLETIONS = completions_tapes.tapes(embeddings=None)
MAKERS: dict[Callable[[Transport], CompletionProvider], ProviderTapes] = {
    stored: STORED,
    completions: ON_COMPLETIONS,
    azure: ON_RESPONSES,
    azure_completions: ON_COMPLETIONS,
    openrouter: ON_RESPONSES,
    openrouter_completions: ON_COMPLETIONS,
}


@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__name__)
def test_every_openai_provider_passes_the_scenarios_of_its_claims(
    maker: Callable[[Transport], CompletionProvider],
) -> None:
    report = anyio.run(conformance_report, Subject(maker, CLAIMS, MAKERS[maker]))

    assert dict(report.broken) == {}
