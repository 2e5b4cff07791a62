"""Gemini and Claude on Google Cloud pass every scenario that the providers of their own packages pass."""

from __future__ import annotations

from dataclasses import replace

from chat_core import CompletionProvider, EmbeddingsProvider
from chat_core.transport import Transport
from chat_testing import Capabilities, ProviderConformance
from chat_vertex import VertexBuilder

from .claude_tapes import TAPES as CLAUDE_TAPES
from .gemini_tapes import VECTORS
from .gemini_tapes import tapes as gemini_tapes

VERTEX = VertexBuilder().with_project("a-project", "europe-west4").with_token("token-conformance")
CLAIMS = Capabilities(
    stream=True,
    tools=True,
    parallel_tools=True,
    call_ids=True,
    failure_marks=True,
    structured=True,
    reasoning=True,
    reasoning_replay=True,
    files=True,
    usage=True,
    waits=True,
    stream_errors=True,
)


class TestGeminiOnGoogleCloud(ProviderConformance):
    backends = ("asyncio",)
    capabilities = CLAIMS
    tapes = gemini_tapes()

    def make_provider(self, transport: Transport, /) -> CompletionProvider:
        return VERTEX.with_transport(transport).with_gemini_model("gemini-2.5-flash").build()


class TestClaudeOnGoogleCloud(ProviderConformance):
    backends = ("asyncio",)
    capabilities = replace(CLAIMS, argument_text=True, request_ids=True)
    tapes = CLAUDE_TAPES

    def make_provider(self, transport: Transport, /) -> CompletionProvider:
        return VERTEX.with_transport(transport).with_claude_model("claude-sonnet-4-5").build()


class TestEmbeddingsOnGoogleCloud(ProviderConformance):
    backends = ("asyncio",)
    capabilities = Capabilities(text=False, embeddings=True, usage=True, waits=True)
    tapes = VECTORS

    def make_provider(self, transport: Transport, /) -> EmbeddingsProvider:
        builder = VertexBuilder().with_api_key("key-conformance").with_transport(transport)
        return builder.with_embedding_model("gemini-embedding-001").build()
