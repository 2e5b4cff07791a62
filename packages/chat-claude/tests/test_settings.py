"""Credentials that a builder sends: the last call that sets them wins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import pytest
from chat_claude import ClaudeBuilder
from chat_claude.builder import GatewayClaudeBuilder, ReadyClaudeBuilder
from chat_claude.settings import API_KEY_VARIABLE, TOKEN_VARIABLE
from chat_core.messages import Messages
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS
from chat_core.testing import MockTransport

pytestmark = pytest.mark.anyio

ANSWER = {"id": "m", "content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn"}


Calls: TypeAlias = Callable[[ClaudeBuilder | GatewayClaudeBuilder], ClaudeBuilder | GatewayClaudeBuilder]

CALLS: list[tuple[Calls, dict[str, str]]] = [
    (lambda b: b.with_headers({"X-Api-Key": "OLD"}).with_api_key("NEW"), {"x-api-key": "NEW"}),
    (lambda b: b.with_headers({"Authorization": "OLD"}).with_api_key("NEW"), {"x-api-key": "NEW"}),
    (lambda b: b.with_api_key("OLD").with_headers({"X-API-KEY": "NEW"}), {"x-api-key": "NEW"}),
    (lambda b: b.with_api_key("OLD").with_headers({"Authorization": "NEW"}), {"authorization": "NEW"}),
    (lambda b: b.with_headers({"authorization": "OLD"}).with_bearer_token("NEW"), {"authorization": "Bearer NEW"}),
    (lambda b: b.with_bearer_token("OLD").with_headers({"AUTHORIZATION": "NEW"}), {"authorization": "NEW"}),
    (lambda b: b.with_bearer_token("OLD").with_api_key("NEW"), {"x-api-key": "NEW"}),
    (lambda b: b.with_api_key("NEW").with_headers({"x-title": "t"}), {"x-api-key": "NEW"}),
]


async def credentials(builder: ClaudeBuilder | GatewayClaudeBuilder | ReadyClaudeBuilder) -> Mapping[str, str]:
    transport = MockTransport()
    transport.answer(body=ANSWER)
    ready = builder if isinstance(builder, ReadyClaudeBuilder) else builder.with_model("m")
    await ready.with_transport(transport).build().complete(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None)
    headers = transport.last.headers
    return {name: headers[name] for name in ("x-api-key", "authorization") if name in headers}


@pytest.mark.parametrize(("calls", "sent"), CALLS)
@pytest.mark.parametrize("elsewhere", [False, True])
async def test_the_last_call_that_sets_credentials_wins(
    calls: Calls,
    sent: dict[str, str],
    *,
    elsewhere: bool,
) -> None:
    builder = ClaudeBuilder()
    assert await credentials(calls(builder.with_base_url("http://gateway") if elsewhere else builder)) == sent


async def test_credentials_from_the_environment_are_used_only_for_the_anthropic_api(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(API_KEY_VARIABLE, "key")
    monkeypatch.setenv(TOKEN_VARIABLE, "token")
    builder = ClaudeBuilder()
    assert await credentials(builder) == {"x-api-key": "key"}
    assert await credentials(builder.with_headers({"Authorization": "own"})) == {"authorization": "own"}
    assert await credentials(builder.with_base_url("http://gateway")) == {}
