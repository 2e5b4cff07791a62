"""Credentials that the builders send: the last call that sets a header wins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from chat_core.messages import Messages
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS
from chat_core.testing import MockTransport
from chat_openai import AzureBuilder, OpenAIBuilder, OpenRouterBuilder

pytestmark = pytest.mark.anyio

RESPONSE: dict[str, object] = {"id": "r", "status": "completed", "output": []}
COMPLETION: dict[str, object] = {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}
AZURE = AzureBuilder().with_endpoint("https://name.openai.azure.com")
Builder: TypeAlias = Any
Calls: TypeAlias = Callable[[Builder], Builder]

BUILDERS: dict[str, tuple[Builder, Calls, dict[str, object]]] = {
    "OpenAI": (OpenAIBuilder(), lambda b: b.with_model("m"), RESPONSE),
    "OpenAI, completions": (OpenAIBuilder().with_completions(), lambda b: b.with_model("m"), COMPLETION),
    "OpenRouter": (OpenRouterBuilder(), lambda b: b.with_model("m"), RESPONSE),
    "OpenRouter, completions": (OpenRouterBuilder().with_completions(), lambda b: b.with_model("m"), COMPLETION),
    "another server": (OpenAIBuilder(), lambda b: b.with_base_url("http://h/v1").with_model("m"), RESPONSE),
    "another server, completions": (
        OpenAIBuilder().with_completions(),
        lambda b: b.with_base_url("http://h/v1").with_model("m"),
        COMPLETION,
    ),
    "Azure": (AZURE, lambda b: b.with_model("m"), RESPONSE),
    "Azure, completions": (AZURE, lambda b: b.with_model("m").with_completions(), COMPLETION),
}


async def credentials(builder: Builder, answer: dict[str, object]) -> dict[str, str]:
    transport = MockTransport()
    transport.answer(body=answer)
    provider = builder.with_transport(transport).build()
    await provider.complete(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None)
    headers = transport.last.headers
    return {name: headers[name] for name in ("authorization", "api-key") if name in headers}


@pytest.mark.parametrize("name", BUILDERS)
async def test_an_api_key_header_and_with_api_key_replace_each_other(name: str) -> None:
    builder, ready, answer = BUILDERS[name]
    header = "api-key" if name.startswith("Azure") else "authorization"
    key = {header: "NEW" if header == "api-key" else "Bearer NEW"}
    assert await credentials(ready(builder.with_headers({"Authorization": "OLD"}).with_api_key("NEW")), answer) == key
    assert await credentials(ready(builder.with_headers({header.title(): "OLD"}).with_api_key("NEW")), answer) == key
    assert await credentials(ready(builder.with_api_key("OLD").with_api_key("NEW")), answer) == key
    later = builder.with_api_key("OLD").with_headers({header.upper(): "NEW"})
    assert await credentials(ready(later), answer) == {header: "NEW"}


async def test_an_azure_token_and_an_api_key_replace_each_other() -> None:
    deployment, answer = AZURE.with_model("m"), RESPONSE
    token = {"authorization": "Bearer NEW"}
    assert await credentials(deployment.with_api_key("OLD").with_bearer_token("NEW"), answer) == token
    assert await credentials(deployment.with_headers({"api-key": "OLD"}).with_bearer_token("NEW"), answer) == token
    assert await credentials(deployment.with_bearer_token("OLD").with_api_key("NEW"), answer) == {"api-key": "NEW"}
    with_proxy = deployment.with_api_key("key").with_headers({"Authorization": "for a proxy"})
    assert await credentials(with_proxy, answer) == {"api-key": "key", "authorization": "for a proxy"}
