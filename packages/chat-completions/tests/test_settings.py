"""Credentials that the builders send: the last call that sets a header wins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import pytest
from chat_completions import CompletionsBuilder, HuggingFaceBuilder, OllamaBuilder, vendor_builder
from chat_completions.presets import API_KEY_VARIABLE
from chat_completions.vendors import GROQ, MISTRAL, TOGETHER, VLLM
from chat_core.messages import Messages
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS
from chat_core.testing import MockTransport

pytestmark = pytest.mark.anyio

ANSWER: dict[str, object] = {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}
Builder: TypeAlias = Any
Calls: TypeAlias = Callable[[Builder], Builder]


async def credentials(builder: Builder) -> dict[str, str]:
    transport = MockTransport()
    transport.answer(body=ANSWER)
    provider = builder.with_model("m").with_transport(transport).build()
    await provider.complete(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None)
    headers = transport.last.headers
    return {name: headers[name] for name in ("authorization", "api-key") if name in headers}


BUILDERS: dict[str, Builder] = {
    "any server": CompletionsBuilder(),
    "another server": CompletionsBuilder().with_base_url("http://h/v1"),
    "without embeddings": vendor_builder(GROQ),
    "sized embeddings": vendor_builder(MISTRAL),
    "fixed embeddings": vendor_builder(TOGETHER),
    "own server": vendor_builder(VLLM),
    "Hugging Face": HuggingFaceBuilder(),
    "Ollama": OllamaBuilder(),
}
CALLS: list[tuple[Calls, str]] = [
    (lambda b: b.with_headers({"Authorization": "OLD"}).with_api_key("NEW"), "Bearer NEW"),
    (lambda b: b.with_api_key("OLD").with_headers({"AUTHORIZATION": "NEW"}), "NEW"),
    (lambda b: b.with_api_key("OLD").with_api_key("NEW").with_headers({"x-title": "t"}), "Bearer NEW"),
]


@pytest.mark.parametrize(("calls", "sent"), CALLS)
@pytest.mark.parametrize("builder", BUILDERS.values(), ids=BUILDERS)
async def test_the_last_call_that_sets_a_header_wins(calls: Calls, sent: str, builder: Builder) -> None:
    assert await credentials(calls(builder)) == {"authorization": sent}


async def test_an_api_key_header_and_with_api_key_replace_each_other() -> None:
    builder: Builder = vendor_builder(replace(MISTRAL, key_header="api-key"))
    assert await credentials(builder.with_headers({"Authorization": "OLD"}).with_api_key("NEW")) == {"api-key": "NEW"}
    assert await credentials(builder.with_api_key("OLD").with_headers({"Api-Key": "NEW"})) == {"api-key": "NEW"}
    assert await credentials(builder.with_api_key("key").with_headers({"Authorization": "for a proxy"})) == {
        "api-key": "key",
        "authorization": "for a proxy",
    }


async def test_the_key_from_the_environment_is_used_only_for_the_default_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(API_KEY_VARIABLE, "key")
    builder = CompletionsBuilder()
    assert await credentials(builder) == {"authorization": "Bearer key"}
    assert await credentials(builder.with_headers({"Authorization": "own"})) == {"authorization": "own"}
    assert await credentials(builder.with_base_url("http://h/v1")) == {}
