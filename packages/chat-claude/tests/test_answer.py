from __future__ import annotations

from typing import Any

import pytest
from chat_claude.answer import CallBlock, OtherBlock, OutputBlock, TextBlock, ThinkingBlock
from chat_core.events import ReasoningDelta, TextDelta, ToolCallDelta
from chat_core.messages import Opaque, ProviderPart, Reasoning, Text, Tool
from chat_core.provider import Delta
from chat_core.wire.shapes import WrongShapeError

P = "claude"


def grown(block: Any, *deltas: dict[str, Any]) -> list[Delta]:
    out: list[Delta] = []
    for delta in deltas:
        block.add_delta(delta, out)
    block.end(out)
    return out


def test_a_quiet_text_block_emits_no_deltas_but_keeps_its_text() -> None:
    out: list[Delta] = []
    block = TextBlock({"type": "text", "text": "a"}, out, quiet=True)
    assert grown(block, {"text": "b"}) == out == []
    assert block.text == "ab"
    assert block.part(P) == Text("ab")


def test_the_initial_text_of_a_text_block_is_emitted() -> None:
    out: list[Delta] = []
    TextBlock({"type": "text", "text": "a"}, out, quiet=False)
    assert out == [TextDelta("a")]


def test_a_thinking_block_keeps_unknown_fields_as_opaque_data() -> None:
    out: list[Delta] = []
    block = ThinkingBlock({"type": "thinking", "thinking": "a", "signature": "s", "new": 1}, out)
    assert grown(block, {"thinking": "b"}) == [ReasoningDelta("b")]
    assert out == [ReasoningDelta("a")]
    assert block.part(P) == Reasoning("ab", "s", Opaque(P, {"new": 1}))


def test_streamed_arguments_replace_the_initial_input_of_a_call() -> None:
    out: list[Delta] = []
    block = CallBlock({"id": "t", "name": "f", "input": {"a": 1}}, 2, "x", out)
    assert grown(block, {"partial_json": '{"a":2}'}) == [ToolCallDelta('{"a":2}', 2)]
    part = block.part(P)
    assert isinstance(part, Tool)
    assert dict(part.call.arguments) == {"a": 2}


def test_a_call_without_an_id_gets_a_generated_id() -> None:
    part = CallBlock({"name": "f"}, 0, "x", []).part(P)
    assert isinstance(part, Tool)
    assert part.call_id is None
    assert part.id


def test_the_streamed_input_of_the_output_tool_becomes_text() -> None:
    block = OutputBlock({"name": "f", "input": {}}, "x")
    assert grown(block, {"partial_json": '{"a"'}, {"partial_json": ""}, {"partial_json": ":1}"}) == [
        TextDelta('{"a"'),
        TextDelta(":1}"),
    ]
    assert block.part(P) == Text('{"a":1}')


def test_an_output_tool_input_that_is_not_an_object_raises_a_shape_error() -> None:
    with pytest.raises(WrongShapeError, match=r"content\[0\]\.input is not an object"):
        OutputBlock({"name": "f", "input": "x"}, "content[0]")


def test_blank_input_fragments_do_not_replace_the_input_of_a_server_tool() -> None:
    block = OtherBlock({"type": "server_tool_use", "input": {"a": 1}})
    grown(block, {"type": "input_json_delta", "partial_json": " "})
    assert block.part(P) == ProviderPart(P, "server_tool_use", {"type": "server_tool_use", "input": {"a": 1}})
