"""Errors for invalid base URLs contain no key from the query of the URL, neither in messages nor in stack frames."""

from __future__ import annotations

from collections.abc import Callable
from traceback import walk_tb
from typing import Any

import pytest
from chat_claude import ClaudeBuilder
from chat_completions import MISTRAL, CompletionsBuilder, HuggingFaceBuilder, OllamaBuilder, vendor_builder
from chat_core.errors import UsageError
from chat_gemini import GeminiBuilder
from chat_openai import AzureBuilder, OpenAIBuilder, OpenRouterBuilder
from chat_realtime.sessions import GeminiLive, OpenAIRealtime
from chat_responses import ResponsesBuilder
from chat_vertex import VertexBuilder

SECRET = "key-in-no-frame"
BUILDERS: dict[str, Callable[[str], Any]] = {
    "azure": lambda url: AzureBuilder().with_endpoint(url).with_model("m").with_api_key(SECRET).build(),
    "claude": lambda url: ClaudeBuilder().with_base_url(url).with_model("m").with_api_key(SECRET).build(),
    "completions": lambda url: CompletionsBuilder().with_base_url(url).with_model("m").with_api_key(SECRET).build(),
    "gemini": lambda url: GeminiBuilder().with_base_url(url).with_model("m").with_api_key(SECRET).build(),
    "gemini live": lambda url: GeminiLive("m", api_key=SECRET, base_url=url),
    "huggingface": lambda url: HuggingFaceBuilder().with_base_url(url).with_model("m").with_api_key(SECRET).build(),
    "mistral": lambda url: vendor_builder(MISTRAL).with_base_url(url).with_model("m").with_api_key(SECRET).build(),
    "ollama": lambda url: OllamaBuilder().with_host(url).with_model("m").build(),
    "openai": lambda url: OpenAIBuilder().with_gateway(url).with_model("m").with_api_key(SECRET).build(),
    "openai completions": lambda url: (
        OpenAIBuilder().with_completions().with_gateway(url).with_model("m").with_api_key(SECRET).build()
    ),
    "openai realtime": lambda url: OpenAIRealtime("m", api_key=SECRET, base_url=url),
    "openrouter": lambda url: OpenRouterBuilder().with_gateway(url).with_model("m").with_api_key(SECRET).build(),
    "responses": lambda url: ResponsesBuilder().with_base_url(url).with_model("m").with_api_key(SECRET).build(),
    "vertex": lambda url: (
        VertexBuilder().with_base_url(url).with_project("p", "r").with_token(SECRET).with_gemini_model("m").build()
    ),
}


@pytest.mark.parametrize("name", BUILDERS)
@pytest.mark.parametrize("address", ["https://host:port/v1", "https://user:password@host/v1", "ftp://host/v1", "/v1"])
def test_an_invalid_base_url_does_not_leak_the_key_in_its_query(name: str, address: str) -> None:
    with pytest.raises(UsageError) as caught:
        BUILDERS[name](f"{address}?key={SECRET}")
    assert SECRET not in str(caught.value)
    error: BaseException | None = caught.value
    while error is not None:
        for frame, _ in walk_tb(error.__traceback__):
            if frame.f_globals["__name__"] != __name__:
                assert SECRET not in repr(frame.f_locals), frame.f_code.co_qualname
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("kind", [GeminiLive, OpenAIRealtime])
def test_a_realtime_model_with_an_invalid_argument_has_a_repr(kind: type[GeminiLive | OpenAIRealtime]) -> None:
    # A debugger or error tracker shows the object although its constructor raised.
    assert repr(kind.__new__(kind)) == f"{kind.__name__}()"
