from __future__ import annotations

import pytest
from chat_claude import ClaudeBuilder
from chat_claude.usage import extra_usage_fields, merge_usage, read_usage
from chat_core import ChatBuilder, FunctionCall, Messages, Paused, RequireApproval, ScopedCollection, ToolCollection
from chat_core.testing import MockTransport
from chat_core.usage import Usage


def test_cached_tokens_are_included_in_the_input_tokens() -> None:
    counts = {
        "input_tokens": 5,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 20,
        "output_tokens": 7,
        "output_tokens_details": {"thinking_tokens": 3},
    }
    assert read_usage(counts) == Usage(125, 7, 100, 20, 3)


def test_missing_and_invalid_token_counts_are_ignored() -> None:
    assert read_usage(None) == Usage()
    assert read_usage({"input_tokens": 10**400, "output_tokens": 1e300}) == Usage()
    assert read_usage({"input_tokens": None, "output_tokens": "7", "output_tokens_details": []}) == Usage()


def test_later_counts_replace_earlier_ones() -> None:
    first = merge_usage({}, {"input_tokens": 10, "output_tokens": 1})
    last = merge_usage(first, {"output_tokens": 40})
    assert read_usage(last) == Usage(10, 40)
    assert read_usage(merge_usage(last, {"output_tokens": 41, "input_tokens": 12})) == Usage(12, 41)


def test_a_later_input_count_of_zero_is_ignored() -> None:
    first = {"input_tokens": 10, "cache_read_input_tokens": 5}
    known = merge_usage(first, {"input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 2})
    assert known == {**first, "output_tokens": 2}
    assert merge_usage(known, None) == known
    assert merge_usage({}, {"input_tokens": 0, "output_tokens": None}) == {"input_tokens": 0, "output_tokens": None}


def test_counts_of_a_fallback_model_replace_earlier_counts() -> None:
    first = {"input_tokens": 10, "cache_read_input_tokens": 500}
    assert read_usage(merge_usage(first, {"input_tokens": 30, "cache_read_input_tokens": 0})) == Usage(30)


def test_extra_usage_fields_that_are_not_empty_are_kept() -> None:
    usage = {
        "server_tool_use": {"web_search_requests": 2},
        "cache_creation": {"ephemeral_5m_input_tokens": 0},
        "service_tier": "standard",
        "iterations": None,
        "other": 1,
    }
    assert extra_usage_fields(usage) == {"server_tool_use": {"web_search_requests": 2}, "service_tier": "standard"}
    assert extra_usage_fields(None) == {}


def test_a_count_may_be_a_float_with_an_integer_value() -> None:
    assert read_usage({"input_tokens": 5.0, "output_tokens": 1.5}) == Usage(5, 0)


def test_inference_region_and_speed_are_kept() -> None:
    assert extra_usage_fields({"inference_geo": "eu", "speed": "fast"}) == {"speed": "fast", "inference_geo": "eu"}


@pytest.mark.anyio
async def test_messages_with_a_negative_token_count_can_be_stored_and_loaded() -> None:
    tools = ToolCollection()

    @tools.tool
    def pay(cents: int) -> None:
        """Pay an amount."""

    def ask(_call: FunctionCall, _meta: None) -> RequireApproval:
        return RequireApproval()

    transport = MockTransport()
    call = {"type": "tool_use", "id": "toolu_1", "name": "pay", "input": {"cents": 5}}
    usage = {"input_tokens": 10, "output_tokens": -1}
    answer = {"id": "msg_1", "model": "m", "content": [call], "stop_reason": "tool_use", "usage": usage}
    transport.answer(body=answer)
    provider = ClaudeBuilder().with_api_key("k").with_model("m").with_transport(transport).build()
    chat = ChatBuilder().with_model(provider).with_scoped_tools(ScopedCollection(tools, ask)).build()
    messages = Messages.from_user("Pay.")

    assert isinstance(await chat.complete(messages), Paused)

    assert Messages.from_json(messages.to_json()) == messages
    assert messages.usage == Usage(10, 0)
