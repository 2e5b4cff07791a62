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
    """Return the deltas for events, whose types omit the prefix `response.`, and for the final response."""
    answer, out = Answer("p"), list[Delta]()
    for event in events:
        EVENTS[f"response.{event['type']}"](answer, event, out)
    if output is not None:
        answer.finish(output, out)
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


def test_audio_events_are_collected_because_they_belong_to_no_item() -> None:
    answer, out = Answer("p"), list[Delta]()
    assert answer.audio() is None
    for event in (delta("audio", "QUJD"), delta("audio.transcript", "He"), delta("audio.transcript", "y")):
        EVENTS[f"response.{event['type']}"](answer, event, out)
    assert answer.audio() == {"data": ["QUJD"], "transcript": "Hey"}
    assert out == []


# --- Text --------------------------------------------------------------------------------------------------------


def test_repeated_text_events_are_delivered_once() -> None:
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
def test_text_without_deltas_is_delivered_from_its_done_event(events: list[dict[str, Any]]) -> None:
    out = heard(*events, output=[message("Hello")])
    assert "".join([piece.text for piece in out if isinstance(piece, TextDelta)]) == "Hello"


def test_a_refusal_next_to_text_is_not_delivered() -> None:
    item = {"type": "message", "content": [{"type": "refusal", "refusal": "No."}, {"type": "output_text", "text": "a"}]}
    assert heard(done(item)) == [TextDelta("a")]


def test_a_final_text_that_differs_from_its_deltas_is_not_delivered_again() -> None:
    assert heard(delta("output_text", "Help"), done(message("Hello"))) == [TextDelta("Help")]


def test_two_texts_of_a_message_are_delivered_separately() -> None:
    events = (delta("output_text", "a", content_index=0), delta("output_text", "b", content_index=1))
    assert heard(*events, done(message("a", "bc"))) == [TextDelta("a"), TextDelta("b"), TextDelta("c")]


@pytest.mark.parametrize("ends", ["text", "part", "item"])
def test_text_is_delivered_once_if_content_index_continues_across_items(ends: str) -> None:
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
def test_missing_ends_of_two_texts_are_delivered_for_any_first_index(first: int) -> None:
    events = (delta("output_text", "a", content_index=first), delta("output_text", "b", content_index=first + 1))
    assert heard(*events, done(message("a", "bc")), output=[message("a", "bcd")]) == [
        TextDelta("a"),
        TextDelta("b"),
        TextDelta("c"),
        TextDelta("d"),
    ]


def test_a_text_whose_done_event_has_another_index_is_delivered_once() -> None:
    events = (delta("output_text", "Hel", content_index=2), {"type": "output_text.done", "text": "Hello"})
    assert heard(*events, done(message("Hello"))) == [TextDelta("Hel"), TextDelta("lo")]


def test_equal_texts_without_deltas_are_all_delivered() -> None:
    ends: list[dict[str, Any]] = [{"type": "output_text.done", "text": "a", "content_index": index} for index in (0, 1)]
    assert heard(*ends, done(message("a", "a")), output=[message("a", "a")]) == [TextDelta("a"), TextDelta("a")]


def test_a_reasoning_summary_with_a_continued_index_is_delivered_once() -> None:
    item = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm"}]}
    assert heard(delta("reasoning_summary_text", "Hm", summary_index=4), done(item), output=[item]) == [
        ReasoningDelta("Hm")
    ]


@pytest.mark.parametrize("index", ["0", [0], {}, 0.5])
def test_an_index_that_is_not_an_integer_raises_a_shape_error(index: object) -> None:
    with pytest.raises(WrongShapeError, match="content_index"):
        heard(delta("output_text", "a", content_index=index))


def test_refusals_and_citations_yield_no_deltas() -> None:
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


def test_reasoning_is_delivered_once() -> None:
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


def test_a_call_is_delivered_by_name_first_and_then_by_arguments() -> None:
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


def test_an_empty_arguments_object_at_the_start_is_replaced_by_the_deltas() -> None:
    events = (added(call("{}")), delta("function_call_arguments", '{"x":1}'))
    assert heard(*events) == [ToolCallDelta("", 0, "f", "a"), ToolCallDelta('{"x":1}', 0)]


def test_a_call_gets_its_name_from_its_arguments_done_event() -> None:
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
def test_a_content_part_without_deltas_is_delivered_at_its_end(of: str, part: Any, expected: list[Delta]) -> None:
    event = {"type": f"{of}.done", "part": part, "output_index": 0, "content_index": 0}
    assert heard(event, event, output=[]) == expected


def test_a_call_without_deltas_is_delivered_complete() -> None:
    assert heard(output=[call('{"x":1}')]) == [ToolCallDelta('{"x":1}', 0, "f", "a")]
    assert heard(added(call("[1]")), done(call("[1]"))) == [ToolCallDelta("[1]", 0, "f", "a")]


def test_parallel_calls_are_separated_by_output_index() -> None:
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


def test_arguments_of_a_call_without_an_added_event_are_delivered() -> None:
    assert heard(delta("function_call_arguments", "{}")) == [ToolCallDelta("{}", 0)]


def test_the_input_of_a_custom_call_is_delivered_as_plain_text() -> None:
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


def test_an_mcp_approval_request_is_delivered_as_a_call() -> None:
    item = {"type": "mcp_approval_request", "id": "r1", "server_label": "s", "name": "n", "arguments": "{}"}
    told = '{"server_label":"s","name":"n","arguments":{}}'
    out = heard(added(item), done(item), output=[item])
    assert out == [ToolCallDelta(told, 0, "mcp_approval", "r1")]


# --- Images ------------------------------------------------------------------------------------------------------


def test_partial_images_and_the_final_image_are_delivered_once_each() -> None:
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


def test_an_item_without_content_yields_no_deltas() -> None:
    assert heard(added({"type": "web_search_call"}), added({"type": "mcp_approval_request"})) == []


def test_an_unreadable_image_yields_no_delta() -> None:
    assert heard({"type": "image_generation_call.partial_image", "partial_image_b64": "?"}) == []
    assert heard(done({"type": "image_generation_call", "result": None}), done({"type": "web_search_call"})) == []


# --- Failures ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "path"),
    [
        (delta("output_text", 7), "delta"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - wrong on purpose
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
def test_a_known_field_of_a_wrong_type_raises_with_its_path(event: dict[str, Any], path: str) -> None:
    if not path:
        assert heard(event) == []
        return
    with pytest.raises(WrongShapeError) as error:
        heard(event)
    assert error.value.path == path


def test_an_image_that_only_the_final_response_contains_is_delivered() -> None:
    item = {"type": "image_generation_call", "id": "ig_1", "result": PNG}
    heard_late = heard(added({"type": "image_generation_call"}), done({**item, "result": None}), output=[item])

    assert [type(delta) for delta in heard_late] == [FilePart]
    assert len(heard(added({"type": "image_generation_call"}), done(item), output=[item])) == 1
