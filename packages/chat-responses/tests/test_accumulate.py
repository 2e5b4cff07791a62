from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest
from chat_core.wire.shapes import WrongShapeError
from chat_responses.accumulate import MAX_TEXTS, PartialItem, PartialItems, received_length


def grown(*pieces: tuple[str, int, str], **item: Any) -> PartialItem:
    growing = PartialItem(0)
    growing.item = item
    growing.done = True
    for name, index, text in pieces:
        growing.pieces.setdefault((name, index), []).append(text)
    return growing


# --- Items -----------------------------------------------------------------------------------------------------


def test_missing_item_fields_are_filled_from_the_deltas() -> None:
    message = grown(("text", 1, "c"), ("text", 0, "a"), ("text", 0, "b"), type="message", id="m")
    message.annotations[1] = ["note"]
    assert message.to_dict() == {
        "type": "message",
        "id": "m",
        "content": [
            {"type": "output_text", "text": "ab"},
            {"type": "output_text", "text": "c", "annotations": ["note"]},
        ],
    }
    assert grown(("refusal", 0, "No."), type="message").to_dict()["content"] == [{"type": "refusal", "refusal": "No."}]
    assert grown(("arguments", 0, "{}"), type="function_call").to_dict()["arguments"] == "{}"
    assert grown(("arguments", 0, "x"), type="custom_tool_call").to_dict()["input"] == "x"
    thought = grown(("summary", 0, "a"), ("content", 0, "b"), type="reasoning").to_dict()
    assert thought["summary"] == [{"type": "summary_text", "text": "a"}]
    assert thought["content"] == [{"type": "reasoning_text", "text": "b"}]


def test_complete_item_fields_take_precedence_over_the_deltas() -> None:
    content = [{"type": "output_text", "text": "whole"}]
    assert grown(("text", 0, "piece"), type="message", content=content).to_dict()["content"] == content
    assert grown(("arguments", 0, "{"), type="function_call", arguments="{}").to_dict()["arguments"] == "{}"
    assert grown(("summary", 0, "a"), type="reasoning", summary=[{"text": "b"}]).to_dict()["summary"] == [{"text": "b"}]
    assert "arguments" not in grown(type="web_search_call").to_dict()
    approval = grown(("arguments", 0, "shown"), type="mcp_approval_request", arguments=None)
    assert approval.to_dict()["arguments"] is None


def test_deltas_take_precedence_while_an_item_is_incomplete() -> None:
    call = grown(("arguments", 0, '{"x":1}'), type="function_call", arguments="{}")
    call.done = False
    assert call.to_dict()["arguments"] == '{"x":1}'
    message = grown(("text", 0, "Hi"), type="message", content=[{"type": "output_text", "text": ""}])
    message.done = False
    assert message.to_dict()["content"] == [{"type": "output_text", "text": "Hi"}]


@pytest.mark.parametrize(
    ("name", "kind"),
    [("text", "message"), ("refusal", "message"), ("summary", "reasoning"), ("arguments", "function_call")],
)
def test_an_item_without_an_added_event_gets_its_type_from_its_deltas(name: str, kind: str) -> None:
    assert grown((name, 0, "x")).to_dict()["type"] == kind


# --- Which item an event belongs to ------------------------------------------------------------------------------


def test_events_are_assigned_to_items_by_output_index_before_item_id() -> None:
    items = PartialItems()
    first = items.begin({"output_index": 0}, {"id": "a", "type": "message"})
    second = items.begin({"output_index": 1}, {"id": "b", "type": "message"})
    assert items.at({"output_index": 0, "item_id": "b"}) is first
    assert items.finish({"output_index": 1}, {"id": "z", "type": "message"}) is second


def test_events_without_output_index_are_assigned_by_id_or_to_the_last_item() -> None:
    items = PartialItems()
    first = items.begin({}, {"id": "a", "type": "message"})
    second = items.begin({}, {"id": "b", "type": "message"})
    assert items.at({"item_id": "a"}) is first
    assert items.at({"item_id": "unknown"}) is items.at({}) is second
    assert items.finish({}, {"id": "a", "type": "message"}) is first
    assert items.finish({}, {"id": "c", "type": "message"}) is second, "the first of its kind that has not ended"
    third = items.finish({}, {"id": "d", "type": "reasoning"})
    assert items.found == [first, second, third]


def test_a_delta_for_an_unknown_item_creates_the_item() -> None:
    items = PartialItems()
    growing = items.at({"output_index": 3, "item_id": "a"})
    assert items.at({"output_index": 3}) is items.at({"item_id": "a"}) is growing
    assert PartialItems().at({}) is not None


def test_a_new_item_at_a_used_output_index_receives_the_following_deltas() -> None:
    items = PartialItems()
    items.begin({"output_index": 0}, {"id": "a", "type": "message"})
    second = items.begin({"output_index": 0}, {"id": "b", "type": "message"})
    assert items.at({"output_index": 0}) is second
    assert len(items.in_order()) == 2


def test_items_are_sorted_by_output_index_if_all_of_them_have_one() -> None:
    items = PartialItems()
    second = items.begin({"output_index": 1}, {"id": "b"})
    first = items.begin({"output_index": 0}, {"id": "a"})
    assert items.in_order() == [first, second]
    third = items.begin({}, {"id": "c"})
    assert items.in_order() == [second, first, third]


# --- The end of a response ---------------------------------------------------------------------------------------


def listed(items: PartialItems, *output: dict[str, Any]) -> list[dict[str, Any]]:
    return [growing.to_dict() for growing in items.final_items(output)]


def test_a_response_without_output_lists_the_streamed_items() -> None:
    items = PartialItems()
    items.finish({"output_index": 0}, {"type": "message", "id": "a"})
    items.begin({"output_index": 1}, {"type": "message", "id": "b"})
    assert [item["id"] for item in listed(items)] == ["a", "b"]


def test_the_output_of_the_response_replaces_the_streamed_items() -> None:
    items = PartialItems()
    items.finish({"output_index": 0}, {"type": "message", "id": "a", "old": True})
    assert listed(items, {"type": "message", "id": "a"}, {"type": "reasoning", "id": "b"}) == [
        {"type": "message", "id": "a", "content": []},
        {"type": "reasoning", "id": "b"},
    ]


def test_streamed_items_missing_in_the_response_are_kept() -> None:
    items = PartialItems()
    items.finish({"output_index": 0}, {"type": "message", "id": "a"})
    items.finish({"output_index": 1}, {"type": "function_call", "id": "b"})
    assert [item["id"] for item in listed(items, {"type": "message", "id": "a"})] == ["a", "b"]


def test_an_item_whose_id_changes_is_matched_by_output_index() -> None:
    items = PartialItems()
    items.at({"output_index": 0, "item_id": "a"}).pieces["text", 0] = ["Hi"]
    (item,) = listed(items, {"type": "message", "id": "z"})
    assert item["content"] == [{"type": "output_text", "text": "Hi"}]


def test_an_item_without_output_index_is_matched_by_type() -> None:
    items = PartialItems()
    items.begin({}, {"type": "reasoning", "id": "r"}).pieces["summary", 0] = ["Hm"]
    items.begin({}, {"type": "message", "id": "a"}).pieces["text", 0] = ["Hi"]
    message, thought = listed(items, {"type": "message", "id": "y"}, {"type": "reasoning", "id": "z"})
    assert message["content"] == [{"type": "output_text", "text": "Hi"}]
    assert thought["summary"] == [{"type": "summary_text", "text": "Hm"}]


def test_an_item_whose_index_and_id_change_is_matched_by_type() -> None:
    items = PartialItems()
    items.finish({"output_index": 0}, {"type": "reasoning", "id": "r"})
    items.at({"output_index": 1, "item_id": "a"}).pieces["text", 0] = ["Hi"]
    (item,) = listed(items, {"type": "message", "id": "z"})
    assert item["content"] == [{"type": "output_text", "text": "Hi"}]


def test_items_with_the_same_output_index_are_matched_by_type() -> None:
    items = PartialItems()
    items.begin({"output_index": 0}, {"type": "reasoning", "id": "r"}).pieces["summary", 0] = ["Hm"]
    items.begin({"output_index": 0}, {"type": "message", "id": "a"}).pieces["text", 0] = ["Hi"]
    thought, message = listed(items, {"type": "reasoning", "id": "y"}, {"type": "message", "id": "z"})
    assert thought["summary"] == [{"type": "summary_text", "text": "Hm"}]
    assert message["content"] == [{"type": "output_text", "text": "Hi"}]


def test_an_unmatched_item_does_not_receive_the_deltas_of_another_item() -> None:
    items = PartialItems()
    items.at({"output_index": 1, "item_id": "a"}).pieces["text", 0] = ["Hi"]
    first, second = listed(items, {"type": "message", "id": "y"}, {"type": "message", "id": "z"})
    assert (first["content"], second["content"]) == ([], [{"type": "output_text", "text": "Hi"}])


def test_two_items_with_the_same_id_are_both_kept() -> None:
    items = PartialItems()
    items.finish({"output_index": 0}, {"type": "reasoning", "id": "a", "summary": [{"text": "Hm"}]})
    first: dict[str, Any] = {"type": "reasoning", "id": "a", "summary": [{"text": "Hm"}]}
    assert [item.get("summary") for item in listed(items, first, {"type": "reasoning", "id": "a"})] == [
        [{"text": "Hm"}],
        None,
    ]


# --- Cost --------------------------------------------------------------------------------------------------------


def steps_to_match(count: int) -> int:
    """Return the number of executed lines that match announced items with finished and with listed items."""
    lines = 0

    def count_lines(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return count_lines

    items = PartialItems()
    before = sys.gettrace()
    sys.settrace(count_lines)
    try:
        for _ in range(count):
            items.begin({}, {"type": "message"})
        for _ in range(count):
            items.finish({}, {"type": "message"})
        for index in range(count):
            items.begin({"output_index": index}, {"type": "reasoning"})
        items.final_items([{"type": "web_search_call"}] * count + [{"type": "message"}] * count)
    finally:
        sys.settrace(before)
    assert len(items.found) == 2 * count
    return lines


def test_matching_items_takes_linear_time() -> None:
    assert steps_to_match(400) < 5 * steps_to_match(100)


def test_an_item_with_too_many_texts_raises_a_shape_error() -> None:
    item = PartialItem(0)
    for index in range(MAX_TEXTS):
        item.pieces_of(("text", index))
    item.pieces_of(("text", 0)).append("more of a text that is there")
    with pytest.raises(WrongShapeError, match="1000 texts"):
        item.pieces_of(("text", MAX_TEXTS))


@pytest.mark.parametrize(
    ("pieces", "length"),
    [([], 0), (["a"], 1), (["a", "b"], 2), (["ab", "c"], 3), (["b"], None), (["abc", "d"], None), (["abcd"], None)],
)
def test_received_length_is_known_only_if_the_text_starts_with_the_deltas(
    pieces: list[str], length: int | None
) -> None:
    assert received_length(pieces, "abc") == length
