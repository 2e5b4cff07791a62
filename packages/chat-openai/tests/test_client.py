"""Providers of this package: options of every request, and a conversation with tools, pauses and retries."""

from __future__ import annotations

import json

import pytest
from chat_completions import CompletionsOptions
from chat_core import (
    ChatBuilder,
    ChatOptions,
    ChatProvider,
    Execute,
    FunctionCall,
    Messages,
    Paused,
    Reject,
    RequireApproval,
    ScopedCollection,
    ToolCollection,
)
from chat_core.errors import OverloadedError, StreamTruncatedError
from chat_core.provider import NO_TOOLS, Attempt
from chat_core.testing import MockTransport
from chat_core.wire.shapes import Json
from chat_openai import OpenAIBuilder, OpenAICompletionsProvider, OpenAIEmbeddings, OpenAIProvider, WebSearch
from chat_openai.client import merge_extras
from chat_responses import ResponsesOptions

pytestmark = pytest.mark.anyio

CITY: Json = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "rain",
    "arguments": '{"city": "Utrecht"}',
    "status": "completed",
}
SEARCHED: Json = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "rain"},
}


def said(text: str) -> Json:
    content: Json = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [content]}


def response(number: int, *output: Json) -> Json:
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    return {"id": f"resp_{number}", "status": "completed", "output": list(output), "usage": usage}


def model(transport: MockTransport) -> OpenAIProvider:
    return OpenAIBuilder().with_model("gpt-5-mini").with_native_tools(WebSearch()).with_transport(transport).build()


def rains() -> ToolCollection[None]:
    tools = ToolCollection()

    @tools.tool
    def rain(city: str) -> str:
        """Return whether it rains."""
        return f"It rains in {city}."

    return tools


async def test_declared_and_native_tools_are_used_in_one_conversation() -> None:
    transport = MockTransport()
    transport.answer(body=response(1, SEARCHED, CITY, {**CITY, "id": "fc_2", "call_id": "call_2"}))
    transport.answer(body=response(2, said("It rains.")))
    chat = ChatBuilder().with_model(model(transport)).with_tools(rains()).build()
    answer = await chat.complete(Messages.from_user("Does it rain?"))
    assert answer.text == "It rains."
    assert answer.usage.output_tokens == 10
    body = transport.last.json()
    assert [tool["type"] for tool in body["tools"]] == ["function", "web_search"]
    kinds = [item.get("type") for item in body["input"]]
    assert kinds == [None, "web_search_call", "function_call", "function_call"] + ["function_call_output"] * 2
    assert body["input"][1] == SEARCHED


async def test_token_counts_include_the_native_tools() -> None:
    transport = MockTransport()
    transport.answer(body={"object": "response.input_tokens", "input_tokens": 42})
    assert await model(transport).count_tokens(Messages.from_user("Does it rain?")) == 42
    assert transport.last.path == "/v1/responses/input_tokens"
    assert transport.last.json()["tools"] == [{"type": "web_search"}]


async def test_a_paused_run_resumes_from_stored_messages() -> None:
    def policy(call: FunctionCall, meta: None) -> RequireApproval | Reject:
        return RequireApproval() if call.arguments["city"] == "Utrecht" else Reject("nowhere else")

    transport = MockTransport()
    transport.answer(body=response(1, CITY))
    transport.answer(body=response(2, said("It rains.")))
    chat = ChatBuilder().with_model(model(transport)).with_scoped_tools(ScopedCollection(rains(), policy)).build()
    messages = Messages.from_user("Does it rain?")
    paused = await chat.complete(messages)
    assert isinstance(paused, Paused)
    resumed = Messages.from_json(messages.to_json())
    resumed.tool(paused.waiting[0].tool_id).approve(by="ana@example.com")
    answer = await chat.complete(resumed)
    assert not isinstance(answer, Paused)
    assert answer.text == "It rains."
    assert transport.last.json()["input"][-1]["output"] == "It rains in Utrecht."


async def test_a_rate_limited_request_is_retried() -> None:
    transport = MockTransport()
    transport.answer(429, {"retry-after-ms": "1"}, {"error": {"message": "slow down", "code": "rate_limit_exceeded"}})
    transport.answer(body=response(1, said("Hi")))
    answer = await ChatBuilder().with_model(model(transport)).build().complete(Messages.from_user("Hi"))
    assert answer.text == "Hi"


async def test_a_truncated_stream_raises_and_runs_no_tool() -> None:
    ran: list[str] = []

    def policy(call: FunctionCall, meta: None) -> Execute:
        ran.append(call.name)
        return Execute()

    transport = MockTransport()
    transport.events(json.dumps({"type": "response.output_item.done", "output_index": 0, "item": CITY}))
    chat = ChatBuilder().with_model(model(transport)).with_scoped_tools(ScopedCollection(rains(), policy)).build()
    with pytest.raises(StreamTruncatedError):
        async with chat.stream(Messages.from_user("Does it rain?")) as stream:
            async for _ in stream:
                pass
    assert ran == []


async def test_the_provider_closes_only_a_transport_of_its_own() -> None:
    transport = MockTransport()
    async with model(transport) as provider:
        assert isinstance(provider, ChatProvider)
    assert not transport.closed
    async with OpenAIBuilder().with_api_key("sk-mine").with_model("gpt-5-mini").build() as own:
        assert own.metadata.model == "gpt-5-mini"
    await own.aclose()


def test_extras_of_a_run_are_merged_with_those_of_the_builder() -> None:
    search: Json = {"type": "web_search"}
    usual = ResponsesOptions(tools=(search,), include=("a",), extra_body={"x": 1, "y": 1}, user="u", provider="p")
    (joined,) = merge_extras((), usual)
    assert joined is usual
    mine = ResponsesOptions(tools=({"type": "mcp"}, search), include=("a", "b"), extra_body={"y": 2}, truncation="auto")
    (joined,) = merge_extras((mine,), usual)
    assert joined == ResponsesOptions(
        tools=(search, {"type": "mcp"}),
        include=("a", "b"),
        extra_body={"x": 1, "y": 2},
        user="u",
        truncation="auto",
    )
    other = CompletionsOptions(user="v")
    assert merge_extras((other,), usual) == (other, usual)


async def test_a_builder_without_settings_leaves_the_options_unchanged() -> None:
    transport = MockTransport()
    transport.answer(body=response(1, said("Hi")))
    provider = OpenAIBuilder().with_model("gpt-5-mini").with_transport(transport).build()
    chat = ChatBuilder().with_model(provider).with_options(ChatOptions(temperature=0)).build()
    await chat.complete(Messages.from_user("Hi"))
    assert transport.last.json() == {
        "model": "gpt-5-mini",
        "input": [{"role": "user", "content": "Hi"}],
        "temperature": 0,
    }


@pytest.mark.parametrize("wire", ["responses", "completions", "embeddings"])
def test_a_provider_takes_metadata_and_another_name(wire: str) -> None:
    builder = OpenAIBuilder().with_api_key("sk-test")
    providers: dict[str, OpenAIProvider | OpenAICompletionsProvider | OpenAIEmbeddings] = {
        "responses": builder.with_model("gpt").build(),
        "completions": builder.with_completions().with_model("gpt").build(),
        "embeddings": builder.with_embeddings(model="gpt").build(),
    }
    provider = providers[wire]
    other = provider.with_metadata(data={"price": 3}).with_provider_name("openai-eu")

    assert type(other) is type(provider)
    assert (other.metadata.name, other.metadata.data) == ("openai-eu", {"price": 3})
    assert other.endpoint is provider.endpoint
    assert provider.metadata.name != "openai-eu"


async def test_a_background_response_is_cancelled() -> None:
    transport = MockTransport()
    transport.answer(200, {}, {"id": "resp_1", "status": "cancelled"})
    model = OpenAIBuilder().with_model("m").with_transport(transport).build()
    await model.cancel_response("resp_1")
    assert (transport.last.request.method, transport.last.path) == ("POST", "/v1/responses/resp_1/cancel")


async def test_a_retry_waits_for_the_background_response(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chat_responses.background.FIRST_DELAY", 0.0)
    transport = MockTransport()
    transport.answer(200, {}, {"id": "resp_1", "status": "queued"})
    for _ in range(6):
        transport.answer(503, {}, {"error": {"message": "Busy."}})
    transport.answer(200, {}, {"id": "resp_1", "status": "completed", "output": []})
    model = OpenAIBuilder().with_model("m").with_transport(transport).build()
    options = ChatOptions(extras=(ResponsesOptions(background=True),))
    with pytest.raises(OverloadedError) as caught:
        await model.complete(Messages.from_user("Hi"), NO_TOOLS, options, None)
    await model.with_attempt(Attempt(2, (caught.value,))).complete(Messages.from_user("Hi"), NO_TOOLS, options, None)
    assert [recorded.request.method for recorded in transport.requests] == ["POST", *["GET"] * 7]
