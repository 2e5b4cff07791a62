"""Credentials that a builder sends: the last call that sets a header wins."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest
from chat_core.messages import Messages
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS
from chat_core.testing import MockTransport
from chat_responses import API_KEY_VARIABLE, ResponsesBuilder

pytestmark = pytest.mark.anyio

ANSWER: dict[str, object] = {"id": "r", "status": "completed", "output": []}


Calls: TypeAlias = Callable[[ResponsesBuilder], ResponsesBuilder]

CALLS: list[tuple[Calls, str]] = [
    (lambda b: b.with_headers({"Authorization": "OLD"}).with_api_key("NEW"), "Bearer NEW"),
    (lambda b: b.with_api_key("OLD").with_headers({"AUTHORIZATION": "NEW"}), "NEW"),
    (lambda b: b.with_api_key("OLD").with_api_key("NEW").with_headers({"x-title": "t"}), "Bearer NEW"),
]


async def authorization(builder: ResponsesBuilder) -> str | None:
    transport = MockTransport()
    transport.answer(body=ANSWER)
    provider = builder.with_model("m").with_transport(transport).build()
    await provider.complete(Messages.from_user("Hi"), NO_TOOLS, ChatOptions(), None)
    return transport.last.headers.get("authorization")


@pytest.mark.parametrize(("calls", "sent"), CALLS)
@pytest.mark.parametrize("elsewhere", [False, True])
async def test_the_last_call_that_sets_a_header_wins(calls: Calls, sent: str, *, elsewhere: bool) -> None:
    builder = ResponsesBuilder()
    assert await authorization(calls(builder.with_base_url("http://h/v1") if elsewhere else builder)) == sent


async def test_the_key_from_the_environment_is_used_only_for_the_default_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(API_KEY_VARIABLE, "key")
    builder = ResponsesBuilder()
    assert await authorization(builder) == "Bearer key"
    assert await authorization(builder.with_headers({"Authorization": "own"})) == "own"
    assert await authorization(builder.with_base_url("http://h/v1")) is None
