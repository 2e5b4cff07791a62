"""Credentials that a builder sends: the last call that sets a header wins."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest
from chat_core.messages import Messages
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS
from chat_core.testing import MockTransport
from chat_gemini import API_KEY_VARIABLES, GeminiBuilder

pytestmark = pytest.mark.anyio

ANSWER = {"candidates": [{"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP"}]}


Calls: TypeAlias = Callable[[GeminiBuilder], GeminiBuilder]

CALLS: list[tuple[Calls, dict[str, str]]] = [
    (lambda b: b.with_headers({"X-Goog-Api-Key": "OLD"}).with_api_key("NEW"), {"x-goog-api-key": "NEW"}),
    (lambda b: b.with_headers({"Authorization": "OLD"}).with_api_key("NEW"), {"x-goog-api-key": "NEW"}),
    (lambda b: b.with_api_key("OLD").with_headers({"X-GOOG-API-KEY": "NEW"}), {"x-goog-api-key": "NEW"}),
    (
        lambda b: b.with_api_key("key").with_headers({"Authorization": "for a proxy"}),
        {"x-goog-api-key": "key", "authorization": "for a proxy"},
    ),
    (lambda b: b.with_headers({"authorization": "OLD"}).with_token("NEW"), {"authorization": "Bearer NEW"}),
    (lambda b: b.with_token("OLD").with_headers({"AUTHORIZATION": "NEW"}), {"authorization": "NEW"}),
    (lambda b: b.with_token("OLD").with_api_key("NEW"), {"x-goog-api-key": "NEW"}),
]


async def credentials(builder: GeminiBuilder) -> dict[str, str]:
    transport = MockTransport()
    transport.answer(body=ANSWER)
    provider = builder.with_model("gemini-3-flash").with_transport(transport).build()
    await provider.complete(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None)
    headers = transport.last.headers
    return {name: headers[name] for name in ("x-goog-api-key", "authorization") if name in headers}


@pytest.mark.parametrize(("calls", "sent"), CALLS)
@pytest.mark.parametrize("elsewhere", [False, True])
async def test_the_last_call_that_sets_a_header_wins(calls: Calls, sent: dict[str, str], *, elsewhere: bool) -> None:
    builder = GeminiBuilder()
    assert await credentials(calls(builder.with_base_url("http://proxy/v1beta") if elsewhere else builder)) == sent


async def test_the_key_from_the_environment_is_used_only_for_the_default_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(API_KEY_VARIABLES[0], "key")
    builder = GeminiBuilder()
    assert await credentials(builder) == {"x-goog-api-key": "key"}
    assert await credentials(builder.with_headers({"Authorization": "own"})) == {"authorization": "own"}
    assert await credentials(builder.with_vertex("project")) == {}
    assert await credentials(builder.with_base_url("http://proxy/v1beta")) == {}
