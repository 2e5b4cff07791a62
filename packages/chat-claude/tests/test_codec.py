from __future__ import annotations

import json
from typing import Any

import pytest
from chat_claude import Dialect
from chat_claude.codec import StreamDecoder, decode, decode_count, encode_turns, on_bedrock, on_vertex
from chat_core.errors import InvalidResponseError, NotFoundError
from chat_core.messages import Messages, Turn
from chat_core.transport import Event

BLOCKS: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "Hm", "signature": "s1"},
    {"type": "redacted_thinking", "data": "x"},
    {"type": "text", "text": "a", "citations": [{"type": "web_search_result_location", "url": "u", "title": None}]},
    {
        "type": "server_tool_use",
        "id": "s1",
        "name": "web_search",
        "input": {"query": "x"},
        "caller": {"type": "direct"},
    },
    {
        "type": "web_search_tool_result",
        "tool_use_id": "s1",
        "content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"},
    },
    {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"encrypted_content": "e", "page_age": None}]},
    {
        "type": "web_fetch_tool_result",
        "tool_use_id": "s2",
        "content": {
            "type": "web_fetch_result",
            "url": "u",
            "retrieved_at": None,
            "content": {"type": "document", "title": None, "citations": {"enabled": True}, "source": {"type": "text"}},
        },
    },
    {
        "type": "code_execution_tool_result",
        "tool_use_id": "s3",
        "content": {"type": "code_execution_result", "return_code": 0, "content": [{"file_id": "file_1"}]},
    },
    {"type": "bash_code_execution_tool_result", "tool_use_id": "s4", "content": {"error_code": "unavailable"}},
    {"type": "text_editor_code_execution_tool_result", "tool_use_id": "s5", "content": {"lines": None}},
    {"type": "tool_search_tool_result", "tool_use_id": "s6", "content": {"tool_references": [{"tool_name": "f"}]}},
    {"type": "mcp_tool_use", "id": "m1", "name": "n", "server_name": "s", "input": {}},
    {"type": "mcp_tool_result", "tool_use_id": "m1", "is_error": True, "content": [{"type": "text", "text": "no"}]},
    {"type": "mcp_tool_listing", "mcp_server_name": "s", "tools": []},
    {"type": "advisor_tool_result", "tool_use_id": "s7", "content": {"encrypted_content": "e"}},
    {"type": "container_upload", "file_id": "file_1"},
    {"type": "compaction", "content": "Said before.", "encrypted_content": None},
    {"type": "thinking", "thinking": "", "signature": "s2"},
    {"type": "text", "text": "b"},
]
"""Every type of block that the API documents, except calls of the caller's tools."""


def sent_back(turn: Turn) -> Any:
    messages = Messages.from_user("Hi")
    messages.append("model", turn)
    stored = Messages.from_json(messages.to_json())
    return json.loads(b"[" + encode_turns(stored.view(), Dialect.of("m"))[1] + b"]")[1]["content"]


def test_every_documented_block_is_sent_back_unchanged_even_after_storage() -> None:
    whole = decode(json.dumps({"content": BLOCKS, "stop_reason": "end_turn"}).encode(), "claude")
    assert sent_back(whole) == BLOCKS
    chunks: list[dict[str, Any]] = [{"type": "message_start", "message": {"id": "m", "content": []}}]
    for index, block in enumerate(BLOCKS):
        chunks.append({"type": "content_block_start", "index": index, "content_block": block})
        chunks.append({"type": "content_block_stop", "index": index})
    chunks.append({"type": "message_stop"})
    decoder = StreamDecoder("claude")
    decoder.feed([Event(chunk["type"], json.dumps(chunk).encode()) for chunk in chunks])
    assert sent_back(decoder.close()) == BLOCKS


def test_decode_count_returns_the_input_tokens() -> None:
    assert decode_count(b' {"input_tokens": 12} ', "claude") == 12


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b'{"input_tokens": "12"}'])
def test_a_body_without_a_token_count_raises_invalid_response(body: bytes) -> None:
    with pytest.raises(InvalidResponseError, match="claude"):
        decode_count(body, "claude")


def test_an_error_object_instead_of_a_token_count_is_raised() -> None:
    with pytest.raises(NotFoundError):
        decode_count(b'{"type":"error","error":{"type":"not_found_error","message":"model: x"}}', "claude")


def test_platform_dialects_derive_abilities_from_platform_model_names() -> None:
    assert on_vertex("claude-sonnet-4-5@20250929").adaptive is False
    bedrock = on_bedrock("us.anthropic.claude-opus-4-8", provider="bedrock")
    assert (bedrock.adaptive, bedrock.budget, bedrock.provider) == (True, False, "bedrock")
