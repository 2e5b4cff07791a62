"""The Gemini provider passes every scenario whose capability it claims."""

from __future__ import annotations

from dataclasses import replace

from chat_core import CompletionProvider, EmbeddingsProvider
from chat_core.transport import Transport
from chat_gemini import GeminiBuilder
from chat_testing import Capabilities, ProviderConformance

from .gemini_tapes import VECTORS, arrays, tapes

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


class TestGemini(ProviderConformance):
    capabilities = CLAIMS
    tapes = tapes()

    def make_provider(self, transport: Transport, /) -> CompletionProvider:
        builder = GeminiBuilder().with_model("gemini-2.5-flash").with_api_key("key-conformance")
        return builder.with_transport(transport).build()


class TestGeminiOnVertex(TestGemini):
    backends = ("asyncio",)

    def make_provider(self, transport: Transport, /) -> CompletionProvider:
        builder = GeminiBuilder().with_vertex("a-project").with_token("token-conformance")
        return builder.with_model("gemini-2.5-flash").with_transport(transport).build()


class TestGeminiWithoutIds(TestGemini):
    """Older models send no ids of calls."""

    backends = ("asyncio",)

    capabilities = replace(CLAIMS, call_ids=False)
    tapes = tapes(ids=False)


class TestGeminiByArray(TestGemini):
    """Streams are one JSON array."""

    backends = ("asyncio",)

    tapes = arrays()

    def make_provider(self, transport: Transport, /) -> CompletionProvider:
        builder = GeminiBuilder().with_model("gemini-2.5-flash").with_api_key("key-conformance")
        return builder.with_json_array_streams().with_transport(transport).build()


class TestGeminiVectors(ProviderConformance):
    capabilities = Capabilities(text=False, embeddings=True, usage=True, waits=True)
    tapes = VECTORS

    def make_provider(self, transport: Transport, /) -> EmbeddingsProvider:
        builder = GeminiBuilder().with_embedding_model("gemini-embedding-001").with_api_key("key-conformance")
        return builder.with_transport(transport).build()
