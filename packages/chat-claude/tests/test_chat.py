"""Complete chats over the Messages API: tools, pauses, structured output, streams and retries."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from chat_claude import ClaudeBuilder, ClaudeProvider, document
from chat_core import (
    ChatBuilder,
    ChatOptions,
    File,
    Messages,
    Paused,
    RequireApproval,
    Retry,
    ScopedCollection,
    ToolCollection,
)
from chat_core.errors import InvalidResponseError, OverloadedError, RateLimitedError, RefusalError, StreamTruncatedError
from chat_core.events import AttemptReset, Done, ReasoningDelta, StructuredDelta, TextDelta, ToolResult
from chat_core.messages import Completed, Failed
from chat_core.testing import MockTransport
from pydantic import BaseModel

pytestmark = pytest.mark.anyio

NEW, OLD = "claude-opus-5", "claude-sonnet-4-0"
THOUGHT = {"type": "thinking", "thinking": "Which city?", "signature": "sig-1"}


class City(BaseModel):
    name: str
    people: int


def call(id_: str = "toolu_1", tool: str = "weather", /, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id_, "name": tool, "input": arguments}


def answer(*content: dict[str, Any] | str, reason: str = "", **usage: int) -> dict[str, Any]:
    blocks = [{"type": "text", "text": block} if isinstance(block, str) else block for block in content]
    calls = any(block["type"] == "tool_use" for block in blocks)
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": NEW,
        "content": blocks,
        "stop_reason": reason or ("tool_use" if calls else "end_turn"),
        "usage": usage or {"input_tokens": 10, "output_tokens": 5},
    }


def streamed(*content: dict[str, Any] | str, reason: str = "") -> list[str]:
    """Return the same response as a stream with text and calls in pieces."""
    whole = answer(*content, reason=reason)
    events: list[Any] = [{"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}]
    for index, block in enumerate(whole["content"]):
        empty, deltas = dict(block), list[dict[str, Any]]()
        if block["type"] == "text":
            empty["text"] = ""
            deltas = [{"type": "text_delta", "text": piece} for piece in (block["text"][:3], block["text"][3:])]
        elif block["type"] == "thinking":
            empty |= {"thinking": "", "signature": ""}
            deltas = [
                {"type": "thinking_delta", "thinking": block["thinking"]},
                {"type": "signature_delta", "signature": block["signature"]},
            ]
        elif block["type"] == "tool_use":
            empty["input"] = {}
            text = json.dumps(block["input"]) if block["input"] else ""
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", text[:4], text[4:])]
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    events += [
        {"type": "message_delta", "delta": {"stop_reason": whole["stop_reason"]}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]
    return [json.dumps(event) for event in events]


def provider(transport: MockTransport, model: str = NEW) -> ClaudeProvider:
    return ClaudeBuilder().with_model(model).with_api_key("k").with_transport(transport).build()


def weather() -> tuple[ToolCollection[Any], list[str]]:
    tools, asked = ToolCollection(), list[str]()

    @tools.tool
    async def weather(city: str) -> str:
        """Return the weather in a city."""
        asked.append(city)
        return f"sunny in {city}"

    @tools.tool
    async def clock() -> int:
        """Return the time."""
        asked.append("clock")
        return 12

    return tools, asked


# --- Tools ----------------------------------------------------------------------------------------------------


async def test_results_of_parallel_tools_are_sent_after_their_calls() -> None:
    transport = MockTransport()
    transport.answer(body=answer(THOUGHT, "Let me see.", call(city="Rome"), call("toolu_2", "clock")))
    transport.answer(body=answer("It is sunny."))
    tools, asked = weather()
    chat = ChatBuilder().with_model(provider(transport)).with_tools(tools).build()
    messages = Messages.from_user("How is it in Rome?")
    response = await chat.complete(messages)
    assert response.text == "It is sunny."
    assert response.usage.input_tokens == 20
    assert sorted(asked) == ["Rome", "clock"]
    sent = transport.last.json()["messages"]
    assert sent[1]["content"] == [
        THOUGHT,
        {"type": "text", "text": "Let me see."},
        call(city="Rome"),
        call("toolu_2", "clock"),
    ]
    assert sent[2] == {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "sunny in Rome"},
            {"type": "tool_result", "tool_use_id": "toolu_2", "content": "12"},
        ],
    }


async def test_thinking_blocks_are_sent_back_in_place_even_after_storage() -> None:
    transport = MockTransport()
    hidden = {"type": "redacted_thinking", "data": "xyz"}
    transport.events(*streamed(THOUGHT, hidden, "First.", call(city="Rome")))
    transport.events(*streamed({**THOUGHT, "signature": "sig-2"}, call("toolu_2", "clock")))
    transport.events(*streamed("Done."))
    transport.answer(body=answer("Again."))
    tools, _ = weather()
    chat = ChatBuilder().with_model(provider(transport)).with_tools(tools).build()
    messages = Messages.from_user("Go")
    thoughts = list[str]()
    async with chat.stream(messages) as stream:
        async for event in stream:
            if isinstance(event, ReasoningDelta):
                thoughts.append(event.text)
    assert thoughts == ["Which city?", "Which city?"]
    sent = transport.last.json()["messages"]
    assert [block["type"] for block in sent[1]["content"]] == ["thinking", "redacted_thinking", "text", "tool_use"]
    assert [block.get("signature") for block in sent[3]["content"]] == ["sig-2", None]
    stored = Messages.from_json(messages.to_json())
    await chat.complete(stored.user("And again?"))
    assert transport.last.json()["messages"][:4] == sent[:4]


async def test_a_tool_call_of_a_truncated_response_does_not_run() -> None:
    transport = MockTransport()
    transport.events(*streamed(call(city="Rome"), reason="max_tokens"))
    transport.events(*streamed("Sorry."))
    tools, asked = weather()
    chat = ChatBuilder().with_model(provider(transport)).with_tools(tools).build()
    messages = Messages.from_user("Go")
    async with chat.stream(messages) as stream:
        results = [event.tool async for event in stream if isinstance(event, ToolResult)]
    assert asked == []
    assert isinstance(results[0].status, Failed)
    assert transport.last.json()["messages"][2]["content"][0]["is_error"] is True


async def test_a_refused_response_runs_no_tool() -> None:
    transport = MockTransport()
    transport.answer(body=answer("Well", call(city="Rome"), reason="refusal"))
    transport.answer(body=answer("I cannot.", reason="refusal"))
    tools, asked = weather()
    chat = ChatBuilder().with_model(provider(transport)).with_tools(tools).build()
    response = await chat.complete(Messages.from_user("Go"))
    assert asked == []
    assert response.finish_reason == "refusal"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_before_a_fallback_is_neither_run_nor_sent(*, stream: bool) -> None:
    transport = MockTransport()
    fall = {"type": "fallback", "from": {"model": NEW}, "to": {"model": OLD}, "trigger": {"type": "refusal"}}
    said = (call(city="Rome"), fall, "It is sunny.")
    if stream:
        transport.events(*streamed(*said, reason="end_turn"))
    else:
        transport.answer(body=answer(*said, reason="end_turn"))
    transport.answer(body=answer("Yes."))
    tools, asked = weather()
    chat = ChatBuilder().with_model(provider(transport)).with_tools(tools).build()
    messages = Messages.from_user("Go")
    if stream:
        async with chat.stream(messages) as events:
            told = [event async for event in events]
        assert isinstance(told[-1], Done)
    else:
        assert (await chat.complete(messages)).text == "It is sunny."
    assert (asked, len(transport.requests)) == ([], 1)
    await chat.complete(messages.user("Really?"))
    sent = transport.last.json()["messages"]
    assert [block["type"] for block in sent[1]["content"]] == ["fallback", "text"]


async def test_a_pause_turn_response_is_continued_automatically() -> None:
    transport = MockTransport()
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
    transport.answer(body=answer("Searching.", search, reason="pause_turn"))
    transport.answer(body=answer("Found."))
    chat = ChatBuilder().with_model(provider(transport)).build()
    response = await chat.complete(Messages.from_user("Go"))
    assert response.text == "Found."
    sent = transport.last.json()["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant"]
    assert sent[1]["content"][1] == search


async def test_a_paused_run_resumes_in_another_process() -> None:
    transport = MockTransport()
    transport.answer(body=answer(THOUGHT, call(city="Rome"), call("toolu_2", "weather", city="Oslo")))
    transport.answer(body=answer("Done."))
    tools, asked = weather()
    scope = ScopedCollection(tools, lambda call, meta: RequireApproval())
    chat = ChatBuilder().with_model(provider(transport)).with_scoped_tools(scope).build()
    messages = Messages.from_user("Go")
    paused = await chat.complete(messages)
    assert isinstance(paused, Paused)
    assert len(paused.waiting) == 2
    resumed = Messages.from_json(messages.to_json())
    resumed.tool("toolu_1").approve(by="ana")
    resumed.tool("toolu_2").reject("too cold", by="ana")
    response = await chat.complete(resumed)
    assert not isinstance(response, Paused)
    assert response.text == "Done."
    assert asked == ["Rome"]
    sent = transport.last.json()["messages"]
    assert sent[1]["content"][0] == THOUGHT
    assert [block.get("is_error") for block in sent[2]["content"]] == [None, True]


async def test_an_edited_approval_sends_the_original_call_of_the_model() -> None:
    transport = MockTransport()
    transport.answer(body=answer(call(city="Rome")))
    transport.answer(body=answer("Done."))
    tools, asked = weather()
    scope = ScopedCollection(tools, lambda call, meta: RequireApproval())
    chat = ChatBuilder().with_model(provider(transport)).with_scoped_tools(scope).build()
    messages = Messages.from_user("Go")
    await chat.complete(messages)
    messages.tool("toolu_1").approve(arguments={"city": "Oslo"})
    await chat.complete(messages)
    assert asked == ["Oslo"]
    sent = transport.last.json()["messages"]
    assert sent[1]["content"] == [call(city="Rome")]
    assert "Oslo" in sent[2]["content"][0]["content"]


# --- Structured answers ---------------------------------------------------------------------------------------


async def test_invalid_structured_output_is_corrected_by_the_model() -> None:
    transport = MockTransport()
    transport.answer(body=answer('{"name":"Rome","people":"many"}'))
    transport.answer(body=answer('{"name":"Rome","people":2800000}'))
    chat = ChatBuilder().with_model(provider(transport)).with_structured_output(City).build()
    response = await chat.complete(Messages.from_user("Rome?"))
    assert response.value == City(name="Rome", people=2_800_000)
    sent = transport.last.json()
    assert sent["output_config"]["format"]["schema"]["additionalProperties"] is False
    assert [message["role"] for message in sent["messages"]] == ["user", "assistant", "user"]


async def test_structured_output_by_tool_can_be_streamed_alongside_other_tools() -> None:
    transport = MockTransport()
    transport.events(*streamed("Let me look.", call(city="Rome")))
    transport.events(*streamed("Here it is:", call("toolu_9", "City", name="Rome", people=5)))
    tools, asked = weather()
    model = provider(transport, OLD)
    chat = ChatBuilder().with_model(model).with_tools(tools).with_structured_output(City).build()
    messages = Messages.from_user("Rome?")
    said = list[str]()
    async with chat.stream(messages) as stream:
        async for event in stream:
            if isinstance(event, StructuredDelta):
                said.append(event.text)
            if isinstance(event, Done):
                assert event.response.value == City(name="Rome", people=5)
    assert asked == ["Rome"]
    assert "".join(said[-2:]) == '{"name": "Rome", "people": 5}'
    first = transport.requests[0].json()
    assert first["tool_choice"] == {"type": "any"}
    assert [tool["name"] for tool in first["tools"]] == ["weather", "clock", "City"]


async def test_structured_output_with_thinking_does_not_force_a_tool() -> None:
    transport = MockTransport()
    transport.answer(body=answer(THOUGHT, call("toolu_9", "City", name="Rome", people=5)))
    model = provider(transport, OLD)
    options = ChatOptions(reasoning=2000)
    chat = ChatBuilder().with_model(model).with_structured_output(City).with_options(options).build()
    assert (await chat.complete(Messages.from_user("Rome?"))).value.people == 5
    sent = transport.last.json()
    assert sent["thinking"]["budget_tokens"] < sent["max_tokens"]
    assert "tool_choice" not in sent


async def test_a_refusal_instead_of_structured_output_raises_refusal_error() -> None:
    transport = MockTransport()
    transport.answer(body=answer("I cannot.", reason="refusal"))
    chat = ChatBuilder().with_model(provider(transport)).with_structured_output(City).build()
    with pytest.raises(RefusalError, match="I cannot"):
        await chat.complete(Messages.from_user("Rome?"))


# --- Streams and retries --------------------------------------------------------------------------------------


async def test_leaving_a_stream_early_closes_it_and_keeps_the_history_valid() -> None:
    transport = MockTransport()
    never = anyio.Event()
    body = "".join([f"data: {event}\n\n" for event in streamed("A long answer")[:3]]).encode()
    transport.answer(body=[body, never.wait])
    chat = ChatBuilder().with_model(provider(transport)).build()
    messages = Messages.from_user("Go")
    async with chat.stream(messages) as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                break
    assert transport.open_streams == 0
    assert len(messages) == 1
    assert not messages.busy


async def test_retrying_an_overloaded_server_runs_no_tool_twice() -> None:
    transport = MockTransport()
    busy = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    transport.answer(body=answer(call(city="Rome")))
    transport.answer(529, {"retry-after": "0"}, busy)
    transport.answer(body=answer("Done."))
    tools, asked = weather()
    chat = ChatBuilder().with_model(provider(transport)).with_tools(tools).build()
    assert (await chat.complete(Messages.from_user("Go"))).text == "Done."
    assert asked == ["Rome"]
    assert len(transport.requests) == 3


async def test_an_error_event_raises_with_usage_and_leaves_the_history_unchanged() -> None:
    transport = MockTransport()
    failed = json.dumps({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    transport.events(*streamed("Hello there")[:3], failed)
    chat = ChatBuilder().with_model(provider(transport)).build()
    messages, said = Messages.from_user("Go"), list[str]()
    async with chat.stream(messages) as stream:
        with pytest.raises(OverloadedError) as error:
            async for event in stream:
                if isinstance(event, TextDelta):
                    said.append(event.text)
    assert said == ["Hel"]
    assert error.value.usage.input_tokens == 10
    assert len(messages) == 1


async def test_a_truncated_stream_is_retried_if_retries_after_delivery_are_enabled() -> None:
    transport = MockTransport()
    transport.events(*streamed("Hello there")[:3])
    transport.events(*streamed("Hello there"))
    retry = Retry(times=1, after_delivery=True, base=0.001)
    chat = ChatBuilder().with_model(provider(transport)).with_retry(retry).build()
    said = list[str]()
    async with chat.stream(Messages.from_user("Go")) as stream:
        async for event in stream:
            match event:
                case TextDelta(text):
                    said.append(text)
                case AttemptReset():
                    said.clear()
                case _:
                    pass
    assert "".join(said) == "Hello there"


async def test_a_truncated_stream_runs_no_tool() -> None:
    transport = MockTransport()
    transport.events(*streamed(call(city="Rome"))[:-1])
    tools, asked = weather()
    chat = ChatBuilder().with_model(provider(transport)).with_tools(tools).with_retry(0).build()
    messages = Messages.from_user("Go")
    async with chat.stream(messages) as stream:
        with pytest.raises(StreamTruncatedError):
            async for _ in stream:
                pass
    assert asked == []
    assert len(messages) == 1


async def test_a_rate_limit_raises_with_retry_after_without_retries() -> None:
    transport = MockTransport()
    limited = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}
    transport.answer(429, {"retry-after": "9", "request-id": "req_1"}, limited)
    chat = ChatBuilder().with_model(provider(transport)).with_retry(0).build()
    with pytest.raises(RateLimitedError) as error:
        await chat.complete(Messages.from_user("Go"))
    assert (error.value.retry_after, error.value.request_id) == (9.0, "req_1")


async def test_an_html_page_with_status_200_raises_invalid_response() -> None:
    transport = MockTransport()
    transport.answer(200, {"content-type": "text/html"}, b"<html>")
    chat = ChatBuilder().with_model(provider(transport)).build()
    with pytest.raises(InvalidResponseError):
        await chat.complete(Messages.from_user("Go"))


# --- Documents ------------------------------------------------------------------------------------------------


async def test_citations_of_a_document_are_kept_in_the_stored_history() -> None:
    transport = MockTransport()
    note = {"type": "page_location", "cited_text": "42", "document_index": 0, "start_page_number": 1}
    transport.answer(body=answer({"type": "text", "text": "It is 42.", "citations": [note]}))
    transport.answer(body=answer("Yes."))
    chat = ChatBuilder().with_model(provider(transport)).build()
    messages = Messages.from_user(document(File("application/pdf", data=b"%PDF-1.7")), "What is it?")
    await chat.complete(messages)
    await chat.complete(Messages.from_json(messages.to_json()).user("Sure?"))
    sent = transport.last.json()["messages"]
    assert sent[0]["content"][0]["citations"] == {"enabled": True}
    assert sent[1]["content"] == [{"type": "text", "text": "It is 42.", "citations": [note]}]


async def test_a_tool_may_return_an_image() -> None:
    transport = MockTransport()
    transport.answer(body=answer(call("toolu_1", "photo")))
    transport.answer(body=answer("A cat."))
    tools = ToolCollection()

    @tools.tool
    def photo() -> File:
        """Take a photo."""
        return File("image/png", data=b"\x89PNG")

    chat = ChatBuilder().with_model(provider(transport)).with_tools(tools).build()
    messages = Messages.from_user("What is there?")
    assert (await chat.complete(messages)).text == "A cat."
    assert isinstance(messages.tool("toolu_1").status, Completed)
    result = transport.last.json()["messages"][2]["content"][0]
    assert result["content"][-1]["source"]["media_type"] == "image/png"
