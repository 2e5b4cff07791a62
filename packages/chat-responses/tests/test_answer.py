from __future__ import annotations

import base64
from typing import Any

import pytest
from chat_core.events import FilePart, ReasoningDelta, TextDelta, ToolCallDelta
from chat_core.messages import File, Opaque
from chat_core.provider import Delta
from chat_core.wire.shapes import WrongShapeError
from chat_responses.answer import EVENTS, Answer

PNG = base64.b64encode(b"\x89PNG").decode()


def heard(*events: dict[str, Any], output: list[dict[str, Any]] | None = None) -> list[Delta]:
    """What a listener hears of events, whose types are told without `response.`, and then of the whole response."""
    answer, out = Answer("p"), list[Delta]()
    for event in events:
        EVENTS[f"response.{event['type']}"](answer, event, out)
    if output is not None:
        answer.ended(output, out)
    return out


def message(*texts: str) -> dict[str, Any]:
    return {"type": "message", "content": [{"type": "output_text", "text": text} for text in texts]}


def call(arguments: str, **fields: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": "a", "name": "f", "arguments": arguments, **fields}


def added(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "output_item.added", "item": item}


def done(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "output_item.done", "item": item}


def delta(of: str, text: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"{of}.delta", "delta": text, **fields}


# --- Text --------------------------------------------------------------------------------------------------------


def test_text_is_heard_once_however_often_it_is_said() -> None:
    events = (
        added({"type": "message"}),
        delta("output_text", "He"),
        delta("output_text", ""),
        delta("output_text", "llo"),
        {"type": "output_text.done", "text": "Hello"},
        done(message("Hello")),
    )
    assert heard(*events, output=[message("Hello")]) == [TextDelta("He"), TextDelta("llo")]


@pytest.mark.parametrize(
    "events",
    [
        [{"type": "output_text.done", "text": "Hello"}],
        [done(message("Hello"))],
        [delta("output_text", "Hel"), done(message("Hello"))],
        [],
    ],
)
def test_what_was_not_said_in_pieces_is_heard_when_it_is_said(events: list[dict[str, Any]]) -> None:
    out = heard(*events, output=[message("Hello")])
    assert "".join([piece.text for piece in out if isinstance(piece, TextDelta)]) == "Hello"


def test_a_refusal_beside_a_text_is_not_heard() -> None:
    item = {"type": "message", "content": [{"type": "refusal", "refusal": "No."}, {"type": "output_text", "text": "a"}]}
    assert heard(done(item)) == [TextDelta("a")]


def test_a_text_that_ends_otherwise_than_its_pieces_is_not_heard_again() -> None:
    assert heard(delta("output_text", "Help"), done(message("Hello"))) == [TextDelta("Help")]


def test_two_texts_of_a_message_are_two() -> None:
    events = (delta("output_text", "a", content_index=0), delta("output_text", "b", content_index=1))
    assert heard(*events, done(message("a", "bc"))) == [TextDelta("a"), TextDelta("b"), TextDelta("c")]


@pytest.mark.parametrize("ends", ["text", "part", "item"])
def test_text_is_delivered_once_when_content_index_continues_from_item_to_item(ends: str) -> None:
    # vLLM (gpt-oss) and Bedrock count the content parts of the response, not of the item.
    place = {"output_index": 1, "content_index": 1}
    reasoning = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm"}]}
    events = [
        delta("reasoning_text", "Hm", output_index=0, content_index=0),
        {**done(reasoning), "output_index": 0},
        {**added({"type": "message", "content": []}), "output_index": 1},
        delta("output_text", "Hel", **place),
        delta("output_text", "lo", **place),
    ]
    if ends == "text":
        events.append({"type": "output_text.done", "text": "Hello", **place})
    if ends == "part":
        events.append({"type": "content_part.done", "part": {"type": "output_text", "text": "Hello"}, **place})
    events.append({**done(message("Hello")), "output_index": 1})
    assert heard(*events, output=[reasoning, message("Hello")]) == [
        ReasoningDelta("Hm"),
        TextDelta("Hel"),
        TextDelta("lo"),
    ]


@pytest.mark.parametrize("first", [0, 3])
def test_the_missing_end_of_two_texts_is_delivered_wherever_their_indexes_begin(first: int) -> None:
    events = (delta("output_text", "a", content_index=first), delta("output_text", "b", content_index=first + 1))
    assert heard(*events, done(message("a", "bc")), output=[message("a", "bcd")]) == [
        TextDelta("a"),
        TextDelta("b"),
        TextDelta("c"),
        TextDelta("d"),
    ]


def test_a_text_whose_end_has_another_index_than_its_deltas_is_delivered_once() -> None:
    events = (delta("output_text", "Hel", content_index=2), {"type": "output_text.done", "text": "Hello"})
    assert heard(*events, done(message("Hello"))) == [TextDelta("Hel"), TextDelta("lo")]


def test_equal_texts_of_a_message_that_come_without_deltas_are_all_delivered() -> None:
    ends: list[dict[str, Any]] = [{"type": "output_text.done", "text": "a", "content_index": index} for index in (0, 1)]
    assert heard(*ends, done(message("a", "a")), output=[message("a", "a")]) == [TextDelta("a"), TextDelta("a")]


def test_a_reasoning_summary_whose_index_continues_is_delivered_once() -> None:
    item = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm"}]}
    assert heard(delta("reasoning_summary_text", "Hm", summary_index=4), done(item), output=[item]) == [
        ReasoningDelta("Hm")
    ]


@pytest.mark.parametrize("index", ["0", [0], {}, 0.5])
def test_an_index_that_is_not_an_integer_is_a_wrong_shape(index: object) -> None:
    with pytest.raises(WrongShapeError, match="content_index"):
        heard(delta("output_text", "a", content_index=index))


def test_a_refusal_and_a_citation_are_not_heard() -> None:
    events = (
        delta("refusal", "N"),
        delta("refusal", "o"),
        {"type": "refusal.done", "refusal": "No."},
        {"type": "output_text.annotation.added", "annotation": {"type": "url_citation"}},
        done({"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}),
        done({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}),
    )
    assert heard(*events) == []


# --- Reasoning ---------------------------------------------------------------------------------------------------


def test_reasoning_is_heard_once() -> None:
    events = (
        delta("reasoning_summary_text", "a", summary_index=0),
        delta("reasoning_summary_text", "", summary_index=0),
        {"type": "reasoning_summary_text.done", "text": "ab", "summary_index": 0},
        delta("reasoning_text", "c"),
        {"type": "reasoning_text.done", "text": "cd"},
    )
    item = {"type": "reasoning", "summary": [{"text": "ab"}], "content": [{"text": "cd"}]}
    assert heard(*events, done(item), output=[item]) == [
        ReasoningDelta("a"),
        ReasoningDelta("b"),
        ReasoningDelta("c"),
        ReasoningDelta("d"),
    ]


# --- Calls -------------------------------------------------------------------------------------------------------


def test_a_call_is_heard_by_its_name_and_then_by_its_arguments() -> None:
    events = (
        added(call("")),
        delta("function_call_arguments", '{"x"'),
        delta("function_call_arguments", ""),
        {"type": "function_call_arguments.done", "arguments": '{"x":1}'},
        done(call('{"x":1}')),
    )
    assert heard(*events) == [
        ToolCallDelta("", 0, "f", "a"),
        ToolCallDelta('{"x"', 0),
        ToolCallDelta(":1}", 0),
    ]


def test_a_call_that_begins_with_an_empty_object_has_the_arguments_that_follow() -> None:
    events = (added(call("{}")), delta("function_call_arguments", '{"x":1}'))
    assert heard(*events) == [ToolCallDelta("", 0, "f", "a"), ToolCallDelta('{"x":1}', 0)]


def test_a_call_that_is_named_when_it_ends_has_that_name() -> None:
    answer, out = Answer("p"), list[Delta]()
    answer.arguments_done({"output_index": 0, "name": "f", "arguments": {"x": 1}}, out)
    (item,) = answer.received_items()
    assert (item["type"], item["name"], item["arguments"]) == ("function_call", "f", '{"x":1}')


@pytest.mark.parametrize(
    ("of", "part", "expected"),
    [
        ("content_part", {"type": "output_text", "text": "Hi"}, [TextDelta("Hi")]),
        ("content_part", {"type": "refusal", "refusal": "No."}, []),
        ("content_part", {"type": "something_new", "text": 7}, []),
        ("content_part", None, []),
        ("reasoning_part", {"type": "reasoning_text", "text": "Hm"}, [ReasoningDelta("Hm")]),
        ("reasoning_summary_part", {"type": "summary_text", "text": "Hm"}, [ReasoningDelta("Hm")]),
    ],
)
def test_a_part_is_heard_at_its_end_if_nothing_of_it_was(of: str, part: Any, expected: list[Delta]) -> None:
    event = {"type": f"{of}.done", "part": part, "output_index": 0, "content_index": 0}
    assert heard(event, event, output=[]) == expected


def test_a_call_that_comes_whole_is_heard_whole() -> None:
    assert heard(output=[call('{"x":1}')]) == [ToolCallDelta('{"x":1}', 0, "f", "a")]
    assert heard(added(call("[1]")), done(call("[1]"))) == [ToolCallDelta("[1]", 0, "f", "a")]


def test_parallel_calls_are_told_apart_by_their_places() -> None:
    events = (
        {**added(call("", call_id="a")), "output_index": 1},
        {**added(call("", call_id="b", name="g")), "output_index": 2},
        delta("function_call_arguments", "B", output_index=2),
        delta("function_call_arguments", "A", output_index=1),
    )
    assert heard(*events) == [
        ToolCallDelta("", 0, "f", "a"),
        ToolCallDelta("", 1, "g", "b"),
        ToolCallDelta("B", 1),
        ToolCallDelta("A", 0),
    ]


def test_arguments_of_a_call_that_nobody_began_are_heard() -> None:
    assert heard(delta("function_call_arguments", "{}")) == [ToolCallDelta("{}", 0)]


def test_a_custom_call_is_heard_in_its_own_words() -> None:
    item = {"type": "custom_tool_call", "call_id": "a", "name": "sql"}
    events = (
        added(item),
        delta("custom_tool_call_input", "SELECT"),
        {"type": "custom_tool_call_input.done", "input": "SELECT 1"},
        done({**item, "input": "SELECT 1"}),
    )
    assert heard(*events) == [
        ToolCallDelta("", 0, "sql", "a"),
        ToolCallDelta("SELECT", 0),
        ToolCallDelta(" 1", 0),
    ]


def test_a_request_for_approval_is_heard_as_a_call() -> None:
    item = {"type": "mcp_approval_request", "id": "r1", "server_label": "s", "name": "n", "arguments": "{}"}
    told = '{"server_label":"s","name":"n","arguments":{}}'
    out = heard(added(item), done(item), output=[item])
    assert out == [ToolCallDelta(told, 0, "mcp_approval", "r1")]


# --- Images ------------------------------------------------------------------------------------------------------


def test_an_image_is_heard_as_it_grows_and_once_when_it_is_whole() -> None:
    partial = {
        "type": "image_generation_call.partial_image",
        "item_id": "ig_1",
        "partial_image_index": 0,
        "partial_image_b64": PNG,
    }
    item = {"type": "image_generation_call", "id": "ig_1", "result": PNG}
    assert heard(added({"type": "image_generation_call", "id": "ig_1"}), partial, done(item), output=[item]) == [
        FilePart(
            File(
                "image/png",
                data=b"\x89PNG",
                opaque=Opaque("p", {"partial": {"item_id": "ig_1", "partial_image_index": 0}}),
            )
        ),
        FilePart(
            File(
                "image/png",
                data=b"\x89PNG",
                opaque=Opaque("p", {"item": {"type": "image_generation_call", "id": "ig_1"}}),
            )
        ),
    ]


def test_an_item_that_begins_and_says_nothing_yet_is_not_heard() -> None:
    assert heard(added({"type": "web_search_call"}), added({"type": "mcp_approval_request"})) == []


def test_an_image_that_cannot_be_read_is_not_heard() -> None:
    assert heard({"type": "image_generation_call.partial_image", "partial_image_b64": "?"}) == []
    assert heard(done({"type": "image_generation_call", "result": None}), done({"type": "web_search_call"})) == []


# --- What goes wrong -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "path"),
    [
        (delta("output_text", 7), "delta"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        ({"type": "output_text.done", "text": 7}, "text"),
        ({"type": "output_item.added"}, "item"),
        ({"type": "output_item.done", "item": []}, "item"),
        (added({"type": "function_call", "name": 7}), "item.name"),
        (done({"type": "function_call", "name": "f", "arguments": 7}), "item.arguments"),
        ({"type": "function_call_arguments.delta", "delta": 7}, "delta"),
        ({"type": "function_call_arguments.done", "arguments": 7}, "arguments"),
        ({"type": "reasoning_text.delta", "delta": []}, ""),
    ],
)
def test_a_known_field_of_a_wrong_shape_is_named(event: dict[str, Any], path: str) -> None:
    if not path:
        assert heard(event) == []
        return
    with pytest.raises(WrongShapeError) as error:
        heard(event)
    assert error.value.path == path


def test_an_image_that_is_there_at_the_end_alone_is_heard_then() -> None:
    item = {"type": "image_generation_call", "id": "ig_1", "result": PNG}
    heard_late = heard(added({"type": "image_generation_call"}), done({**item, "result": None}), output=[item])

    assert [type(delta) for delta in heard_late] == [FilePart]
    assert len(heard(added({"type": "image_generation_call"}), done(item), output=[item])) == 1
