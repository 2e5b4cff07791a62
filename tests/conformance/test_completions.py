"""The Chat Completions provider and its vendor presets pass every scenario whose capability they claim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from chat_completions import (
    PRESETS,
    CompletionsBuilder,
    HuggingFaceBuilder,
    NoEmbeddings,
    OllamaBuilder,
    vendor_builder,
)
from chat_core import CompletionProvider
from chat_core.transport import Transport
from chat_testing import Capabilities, ProviderConformance, Subject, conformance_report

from .completions_tapes import EMBEDDINGS, tapes

EVERYTHING = Capabilities(
    stream=True,
    tools=True,
    parallel_tools=True,
    call_ids=True,
    argument_text=True,
    structured=True,
    reasoning=True,
    reasoning_replay=True,
    files=True,
    usage=True,
    waits=True,
    request_ids=True,
    stream_errors=True,
    embeddings=True,
)


class TestCompletions(ProviderConformance):
    capabilities = EVERYTHING
    tapes = tapes()

    def make_provider(self, transport: Transport, /) -> CompletionProvider:
        builder = CompletionsBuilder().with_model("a-model").with_api_key("sk-conformance").with_transport(transport)
        return builder.build()


class TestCompletionsWithReasoningByAnotherName(TestCompletions):
    """Several servers name the field for reasoning `reasoning`."""

    backends = ("asyncio",)
    tapes = tapes(reasoning_field="reasoning")


OWN_BUILDERS: dict[str, Any] = {"huggingface": HuggingFaceBuilder, "ollama": OllamaBuilder}


def maker(name: str) -> Callable[[Transport], CompletionProvider]:
    def make(transport: Transport) -> CompletionProvider:
        preset = PRESETS[name]
        builder: Any = OWN_BUILDERS[name]() if preset.own_builder else vendor_builder(preset)
        ready = builder.with_model("a-model").with_api_key("sk-conformance")
        provider: CompletionProvider = ready.with_transport(transport).build()
        return provider

    return make


def subject(name: str) -> Subject:
    """Return the subject for a vendor, with the abilities of its preset."""
    preset = PRESETS[name]
    tools, kinds = preset.dialect.tools, preset.dialect.files
    # The scenario sends an image by its URL.
    images = (kinds is None or "image" in kinds) and "image" in preset.dialect.url_files
    claims = {
        **dict.fromkeys(EVERYTHING.claimed, True),
        **dict.fromkeys(("tools", "parallel_tools", "call_ids", "argument_text"), tools),
        "files": images,
        "embeddings": preset.embeddings != NoEmbeddings(),
    }
    played = tapes(
        tools=tools,
        images=images,
        embeddings=EMBEDDINGS if preset.embeddings != NoEmbeddings() else None,
    )
    return Subject(maker(name), Capabilities(**claims), played)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_passes_the_scenarios_of_its_claims(name: str) -> None:
    report = anyio.run(conformance_report, subject(name))

    assert dict(report.broken) == {}


def test_presets_do_not_claim_missing_capabilities() -> None:
    missing = {name: set(subject(name).capabilities.claimed ^ EVERYTHING.claimed) for name in PRESETS}

    assert missing["mistral"] == set()
    assert missing["deepseek"] == {"files", "embeddings"}
    assert missing["perplexity"] == {"tools", "parallel_tools", "call_ids", "argument_text", "embeddings"}
