from __future__ import annotations

from collections.abc import Callable

import chat_completions
import pytest
from chat_completions import (
    PRESETS,
    CompletionsChatProvider,
    CompletionsProvider,
    NoEmbeddings,
    litellm,
    ollama,
    shorthand,
)
from chat_core.errors import UsageError

ProviderError = CompletionsProvider | CompletionsChatProvider
pytestmark = pytest.mark.anyio

NAMES = {"llamacpp": "llamacpp_server", "ollama-cloud": "ollama_cloud"}
OWN = {"ollama"}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for preset in PRESETS.values():
        for name in preset.key_variables:
            monkeypatch.setenv(name, "secret")
        if preset.base_url_variable:
            monkeypatch.delenv(preset.base_url_variable, raising=False)


@pytest.mark.parametrize("name", [name for name in PRESETS if name not in OWN])
async def test_every_preset_has_a_shorthand_function(name: str) -> None:
    short: Callable[..., ProviderError] = getattr(shorthand, NAMES.get(name, name))
    for provider in (short("m"), short("m", api_key="k")):
        async with provider:
            assert (provider.metadata.name, provider.metadata.model) == (name, "m")
            assert isinstance(provider, CompletionsProvider) is (PRESETS[name].embeddings != NoEmbeddings())
            assert str(PRESETS[name].base_url) in repr(provider)


async def test_base_url_replaces_the_default_of_a_self_hosted_server() -> None:
    async with litellm("m", base_url="https://proxy.example.org", api_key="k") as provider:
        assert "https://proxy.example.org" in repr(provider)
    async with chat_completions.vllm("m", base_url="http://gpu:8000/v1") as provider:
        assert "http://gpu:8000/v1" in repr(provider)
    async with chat_completions.llamacpp_server("m", base_url="http://gpu:8080/v1") as provider:
        assert "http://gpu:8080/v1" in repr(provider)


def test_an_invalid_base_url_in_the_environment_is_reported_with_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITELLM_PROXY_API_BASE", "localhost:4000")
    with pytest.raises(UsageError, match="LITELLM_PROXY_API_BASE: the base URL must be"):
        litellm("m")


async def test_the_ollama_shorthand_accepts_a_host() -> None:
    async with ollama("m") as provider:
        assert "http://localhost:11434/v1" in repr(provider)
    async with ollama("m", host="gpu") as provider:
        assert "http://gpu:11434/v1" in repr(provider)


def test_every_shorthand_is_exported_by_the_package() -> None:
    assert {NAMES.get(name, name) for name in PRESETS} <= set(chat_completions.__all__)
