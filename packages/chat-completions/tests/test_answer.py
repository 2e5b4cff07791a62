from __future__ import annotations

import base64
from time import process_time
from typing import Any

import pytest
from chat_completions.answer import Answer
from chat_core.events import FilePart, ReasoningDelta, TextDelta, ToolCallDelta
from chat_core.messages import File, Opaque, Part, ProviderPart, Reasoning, Text, Tool
from chat_core.provider import Delta
from chat_core.wire.shapes import WrongShapeError

PNG = base64.b64encode(b"\x89PNG").decode()


def read(*pieces: dict[str, Any], whole: bool = False) -> tuple[list[Part], list[Delta]]:
    answer = Answer("p", whole=whole)
    out = list[Delta]()
    for piece in pieces:
        answer.read(piece, out)
    return answer.parts(), out


def tools(*pieces: dict[str, Any], whole: bool = False) -> list[Tool]:
    return [part for part in read(*pieces, whole=whole)[0] if isinstance(part, Tool)]


def calls(*items: dict[str, Any]) -> dict[str, Any]:
    return {"tool_calls": list(items)}


def call(index: int | None, id: str | None, name: str | None, arguments: object) -> dict[str, Any]:
    item: dict[str, Any] = {"function": {"arguments": arguments}}
    if index is not None:
        item["index"] = index
    if id is not None:
        item["id"] = id
    if name is not None:
        item["function"]["name"] = name
    return item


# --- Calls ---------------------------------------------------------------------------------------------


def test_call_fragments_are_joined_by_index() -> None:
    first, second = tools(
        calls(call(0, "a", "f", "")),
        calls(call(1, "b", "g", '{"y"')),
        calls(call(0, None, None, '{"x":'), call(1, None, None, ":2}")),
        calls(call(0, None, None, "1}")),
    )
    assert (first.call_id, first.name, first.call.arguments) == ("a", "f", {"x": 1})
    assert (second.call_id, second.name, second.call.arguments) == ("b", "g", {"y": 2})
    assert first.call.raw == '{"x":1}'


def test_repeated_id_and_name_in_a_fragment_do_not_start_a_new_call() -> None:
    (tool,) = tools(calls(call(0, "a", "f", '{"x":')), calls(call(0, "a", "f", "1}")))
    assert (tool.name, tool.call.arguments) == ("f", {"x": 1})


def test_a_new_id_under_the_same_index_starts_a_new_call() -> None:
    first, second = tools(calls(call(0, "a", "f", "{}")), calls(call(0, "b", "f", '{"x":1}')))
    assert (first.call_id, second.call_id) == ("a", "b")
    assert second.call.arguments == {"x": 1}


def test_fragments_without_an_index_join_the_call_of_their_id_or_the_last_call() -> None:
    first, second = tools(
        calls(call(None, "a", "f", '{"x":')),
        calls(call(None, "b", "g", '{"y":')),
        calls(call(None, None, None, "2}")),
        calls(call(None, "a", None, "1}")),
    )
    assert first.call.arguments == {"x": 1}
    assert second.call.arguments == {"y": 2}


def test_calls_without_index_and_id_are_separated_by_name() -> None:
    first, second = tools(calls(call(None, None, "f", "{}")), calls(call(None, None, "f", '{"x":1}')))
    assert first.call_id is None
    assert first.id != second.id
    assert second.call.arguments == {"x": 1}


@pytest.mark.parametrize("cut", range(9))
def test_calls_that_a_stream_repeats_in_fragments_run_once(cut: int) -> None:
    text = '{"x":  1}'
    again = [calls(call(None, "a", "f", text[:cut])), calls(call(None, "a", None, text[cut:]))]
    found = tools(calls(call(None, "a", "f", '{"x":1}')), calls(call(None, "b", "g", "{}")), *again)
    assert [(tool.call_id, tool.name, tool.call.arguments) for tool in found] == [("a", "f", {"x": 1}), ("b", "g", {})]


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("text", ['{"x":1}', '{"x": 1}'])
def test_a_call_that_is_also_in_the_older_field_runs_once(text: str, whole: bool) -> None:
    older = {"function_call": {"name": "f", "arguments": text}}
    newer = calls(call(0, "a", "f", '{"x":1}'), call(1, "b", "g", "{}"))
    for message in (older | newer, newer | older):
        assert [tool.call_id for tool in tools(message, whole=whole)] == ["a", "b"]
    other = {"function_call": {"name": "f", "arguments": '{"x":2}'}}
    assert [tool.call_id for tool in tools(newer | other, whole=whole)] == ["a", "b", None]


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("texts", [("", "{}"), ("{}", ""), ("", "")])
def test_a_call_without_arguments_that_is_also_in_the_older_field_runs_once(
    texts: tuple[str, str], whole: bool
) -> None:
    message = calls(call(0, "a", "f", texts[0])) | {"function_call": {"name": "f", "arguments": texts[1]}}
    assert [tool.call_id for tool in tools(message, whole=whole)] == ["a"]


def test_null_arguments_and_ids_are_read_as_missing() -> None:
    item = {"index": 0, "id": None, "function": {"name": "f", "arguments": None}}
    (tool,) = tools(calls(item))
    assert tool.call_id is None
    assert tool.call.arguments == {}
    assert tool.call.problem is None


def test_arguments_sent_as_a_json_object_are_accepted() -> None:
    (tool,) = tools(calls(call(0, "a", "f", {"x": 1})))
    assert tool.call.arguments == {"x": 1}
    assert tool.call.text == '{"x":1}'


def test_arguments_of_another_type_raise_a_shape_error() -> None:
    with pytest.raises(WrongShapeError):
        read(calls(call(0, "a", "f", 7)))


def test_truncated_arguments_keep_their_raw_text_and_report_a_problem() -> None:
    (tool,) = tools(calls(call(0, "a", "f", '{"x": "y')))
    assert tool.call.raw == '{"x": "y'
    assert tool.call.problem is not None


def test_the_first_call_delta_is_held_back_until_the_name_arrives() -> None:
    _, out = read(calls(call(0, "a", "", "")), calls(call(0, None, "f", "{}")), calls(call(0, None, None, " ")))
    assert out == [ToolCallDelta("{}", 0, "f", "a"), ToolCallDelta(" ", 0)]


def test_calls_of_a_whole_response_are_not_joined_by_index() -> None:
    first, second = tools(calls(call(0, None, "f", "{}"), call(0, None, "f", '{"x":1}')), whole=True)
    assert first.call.arguments == {}
    assert second.call.arguments == {"x": 1}


def test_the_deprecated_function_call_field_is_read_as_a_tool_call() -> None:
    (tool,) = tools({"function_call": {"name": "f", "arguments": '{"x":'}}, {"function_call": {"arguments": "1}"}})
    assert (tool.name, tool.call.arguments, tool.call_id) == ("f", {"x": 1}, None)
    assert tools({"function_call": {"name": "", "arguments": ""}}) == []


def test_the_free_text_of_a_custom_call_becomes_its_input_argument() -> None:
    item = {"id": "a", "type": "custom", "custom": {"name": "math", "input": "4 + 4"}}
    (tool,) = tools(calls(item))
    assert (tool.name, tool.call.text, tool.call.arguments) == ("math", "4 + 4", {"input": "4 + 4"})
    assert tool.call.problem is None
    assert tool.call.opaque == Opaque("p", {"type": "custom"})


def test_an_empty_custom_field_of_a_function_call_is_ignored() -> None:
    item = call(0, "a", "f", "{}") | {"type": "function", "custom": {"name": "", "input": ""}}
    (tool,) = tools(calls(item))
    assert tool.name == "f"
    assert tool.call.opaque is None


def test_extra_content_of_a_call_is_kept_as_opaque_data() -> None:
    item = call(0, "a", "f", "{}") | {"extra_content": {"google": {"thought_signature": "s"}}}
    (tool,) = tools(calls(item))
    assert tool.call.opaque == Opaque("p", {"extra_content": {"google": {"thought_signature": "s"}}})


# --- Reasoning -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_keeps_the_name_of_its_source_field(name: str) -> None:
    parts, out = read({name: "Let me "}, {name: "see"}, {"content": "Yes"})
    assert parts == [Reasoning("Let me see", opaque=Opaque("p", {"field": name})), Text("Yes")]
    assert out == [ReasoningDelta("Let me "), ReasoningDelta("see"), TextDelta("Yes")]


def test_reasoning_sent_in_two_fields_is_read_once() -> None:
    parts, out = read({"reasoning": "Hm", "reasoning_content": "Hm"}, {"reasoning": ".", "reasoning_content": "."})
    assert parts == [Reasoning("Hm.", opaque=Opaque("p", {"field": "reasoning"}))]
    assert out == [ReasoningDelta("Hm"), ReasoningDelta(".")]


def test_reasoning_details_are_joined_and_keep_their_signature() -> None:
    def detail(**fields: object) -> dict[str, Any]:
        return {
            "reasoning": fields.get("text"),
            "reasoning_details": [{"type": "reasoning.text", "index": 0, **fields}],
        }

    parts, out = read(detail(text="Let me ", format="x"), detail(text="see"), detail(signature="s", text=None))
    assert parts == [
        Reasoning(
            "Let me see",
            opaque=Opaque(
                "p",
                {
                    "field": "reasoning",
                    "details": [
                        {"type": "reasoning.text", "index": 0, "text": "Let me see", "format": "x", "signature": "s"}
                    ],
                },
            ),
        )
    ]
    assert out == [ReasoningDelta("Let me "), ReasoningDelta("see")]


def test_thinking_blocks_of_a_stream_are_joined_and_keep_their_signatures() -> None:
    def piece(text: str, **fields: object) -> dict[str, Any]:
        return {"reasoning_content": text, "thinking_blocks": [{"type": "thinking", "thinking": text, **fields}]}

    secret = {"type": "redacted_thinking", "data": "x"}
    pieces = (piece("H"), piece("m", signature=None), piece("", signature="s1"), piece("Ah", signature="s2"))
    parts, out = read(*pieces, {"thinking_blocks": [secret]}, {"thinking_blocks": [secret]})
    blocks = [
        {"type": "thinking", "thinking": "Hm", "signature": "s1"},
        {"type": "thinking", "thinking": "Ah", "signature": "s2"},
        secret,
        secret,
    ]
    assert parts == [Reasoning("HmAh", opaque=Opaque("p", {"field": "reasoning_content", "blocks": blocks}))]
    assert out == [ReasoningDelta("H"), ReasoningDelta("m"), ReasoningDelta("Ah")]


def test_thinking_blocks_without_a_text_field_are_read_as_reasoning() -> None:
    blocks = [{"type": "thinking", "thinking": "Hm", "signature": "s"}, {"type": "thinking", "thinking": "Ah"}]
    parts, out = read({"thinking_blocks": blocks}, whole=True)
    assert parts == [Reasoning("HmAh", opaque=Opaque("p", {"blocks": blocks}))]
    assert out == [ReasoningDelta("Hm"), ReasoningDelta("Ah")]


def test_thinking_blocks_belong_to_the_reasoning_that_they_came_with() -> None:
    def block(text: str, signature: str) -> dict[str, Any]:
        return {"type": "thinking", "thinking": text, "signature": signature}

    pieces = ({"thinking_blocks": [block("A", "s1")]}, {"content": "one"})
    more = ({"content": [{"type": "thinking", "thinking": "B"}]}, {"thinking_blocks": [block("B", "s2")]})
    parts, out = read(*pieces, *more)

    reasonings = [part for part in parts if isinstance(part, Reasoning)]
    assert [part.text for part in reasonings] == ["A", "B"]
    assert [part.opaque and part.opaque.data["blocks"] for part in reasonings] == [
        [block("A", "s1")],
        [block("B", "s2")],
    ]
    assert out == [ReasoningDelta("A"), TextDelta("one"), ReasoningDelta("B")]


def test_reasoning_details_without_a_text_field_are_read_as_reasoning() -> None:
    summary = {"type": "reasoning.summary", "summary": "Hm", "index": 0}
    secret = {"type": "reasoning.encrypted", "data": "xyz", "index": 1}
    parts, out = read({"reasoning_details": [summary, secret]})
    assert parts == [Reasoning("Hm", opaque=Opaque("p", {"details": [summary, secret]}))]
    assert out == [ReasoningDelta("Hm")]


def test_reasoning_details_with_different_ids_are_not_joined() -> None:
    one = {"type": "t", "index": 0, "id": "1", "data": "a"}
    parts, _ = read({"reasoning_details": [one]}, {"reasoning_details": [{**one, "id": "2"}]})
    assert isinstance(parts[0], Reasoning)
    assert parts[0].opaque is not None
    assert parts[0].opaque.data["details"] == [one, {**one, "id": "2"}]


def test_reasoning_details_of_a_whole_response_are_not_joined() -> None:
    details = [{"type": "t", "text": "a", "index": 0}, {"type": "t", "text": "b", "index": 0}]
    parts, _ = read({"reasoning_details": details, "reasoning": "ab"}, whole=True)
    assert isinstance(parts[0], Reasoning)
    assert parts[0].opaque is not None
    assert parts[0].opaque.data["details"] == details


# --- Lists in content ----------------------------------------------------------------------------------


def thinking(text: str, **fields: object) -> dict[str, Any]:
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}], **fields}


def test_thinking_chunks_in_a_content_list_become_reasoning_before_the_text() -> None:
    parts, out = read(
        {"content": [thinking("Let ")]},
        {"content": [thinking("me see", closed=True), {"type": "text", "text": "Yes"}]},
        {"content": "!"},
    )
    chunk = {"type": "thinking", "closed": True}
    assert parts == [Reasoning("Let me see", opaque=Opaque("p", {"chunk": chunk})), Text("Yes!")]
    assert out == [ReasoningDelta("Let "), ReasoningDelta("me see"), TextDelta("Yes"), TextDelta("!")]


def test_thinking_after_text_becomes_another_reasoning_part() -> None:
    parts, _ = read(
        {"content": [thinking("One"), {"type": "text", "text": "A"}, thinking("Two"), {"type": "text", "text": "B"}]}
    )
    opaque = Opaque("p", {"chunk": {"type": "thinking"}})
    assert parts == [Reasoning("One", opaque=opaque), Text("A"), Reasoning("Two", opaque=opaque), Text("B")]


def test_a_thinking_chunk_may_contain_a_plain_string() -> None:
    parts, _ = read({"content": [{"type": "thinking", "thinking": "Hm"}]})
    assert isinstance(parts[0], Reasoning)
    assert parts[0].text == "Hm"


def test_content_parts_of_unknown_types_are_kept_as_provider_parts() -> None:
    parts, _ = read(
        {
            "content": [
                {"text": "a"},
                {"type": "text", "text": None},
                {"type": "refusal", "refusal": "No."},
                {"type": "reference", "reference_ids": [1]},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
            ]
        }
    )
    assert parts == [
        Text("a"),
        File("image/png", data=b"\x89PNG", opaque=Opaque("p", {"image": {}})),
        ProviderPart("p", "part", {"type": "reference", "reference_ids": [1]}),
        ProviderPart("p", "refusal", {"refusal": "No."}),
    ]


# --- Files and other fields ----------------------------------------------------------------------------


def test_a_generated_image_becomes_a_file_and_is_streamed_as_a_file_part() -> None:
    image = {"type": "image_url", "index": 0, "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    parts, out = read({"content": "Here", "images": [image]})
    file = File("image/png", data=b"\x89PNG", opaque=Opaque("p", {"image": {"index": 0}}))
    assert parts == [Text("Here"), file]
    assert out == [TextDelta("Here"), FilePart(file)]


def test_a_generated_image_may_be_given_by_url() -> None:
    parts, _ = read({"images": [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]})
    assert isinstance(parts[0], File)
    assert parts[0].url == "https://example.org/a.png"


@pytest.mark.parametrize("url", ["data:image/png;base64,***", "data:image/png,abc"])
def test_a_generated_image_with_a_malformed_data_url_raises_a_shape_error(url: str) -> None:
    with pytest.raises(WrongShapeError):
        read({"images": [{"image_url": {"url": url}}]})


def test_generated_audio_becomes_a_file_and_its_transcript_becomes_text() -> None:
    def sound(data: bytes) -> str:
        return base64.b64encode(data).decode()

    parts, out = read(
        {"audio": {"id": "audio_1", "transcript": "Hel"}},
        {"audio": {"data": sound(b"\x01\x02")}},
        {"audio": {"data": sound(b"\x03"), "transcript": "lo"}},
        {"audio": {"expires_at": 9}},
        {"audio": {"id": "", "data": "", "transcript": "", "expires_at": 0}},
    )
    assert parts == [
        Text("Hello", Opaque("p", {"transcript_of": "audio_1"})),
        File("audio/pcm", data=b"\x01\x02\x03", opaque=Opaque("p", {"audio": {"id": "audio_1", "expires_at": 9}})),
    ]
    assert out == [TextDelta("Hel"), TextDelta("lo")]


@pytest.mark.parametrize(
    ("data", "mime"),
    [(b"RIFF....WAVE", "audio/wav"), (b"ID3", "audio/mpeg"), (b"fLaC", "audio/flac"), (b"OggS", "audio/ogg")],
)
def test_the_mime_type_of_generated_audio_is_detected_from_its_first_bytes(data: bytes, mime: str) -> None:
    parts, _ = read({"audio": {"id": "a", "data": base64.b64encode(data).decode()}})
    assert isinstance(parts[0], File)
    assert parts[0].mime == mime


def test_an_audio_object_with_only_empty_fields_is_ignored() -> None:
    assert read({"audio": {"id": "", "data": "", "transcript": "", "expires_at": 0}}) == ([], [])


def test_annotations_of_all_chunks_are_joined_in_one_provider_part() -> None:
    note = {"type": "url_citation", "url_citation": {"url": "https://example.org"}}
    parts, _ = read({"content": "a", "annotations": [note]}, {"annotations": [note]})
    assert parts == [Text("a"), ProviderPart("p", "annotations", {"annotations": [note, note]})]


def test_extra_content_of_a_message_is_kept_as_a_provider_part() -> None:
    parts, _ = read({"content": "a", "extra_content": {"google": {"thought": True}}})
    assert parts[1] == ProviderPart("p", "message", {"extra_content": {"google": {"thought": True}}})


def test_executed_tools_are_kept_in_their_last_state() -> None:
    parts, _ = read(
        {"executed_tools": [{"index": 0, "type": "search"}]},
        {"executed_tools": [{"index": 0, "type": "search", "output": "found"}, {"type": "visit"}]},
    )
    assert parts == [
        ProviderPart("p", "executed_tool", {"index": 0, "type": "search", "output": "found"}),
        ProviderPart("p", "executed_tool", {"type": "visit"}),
    ]


def test_null_and_empty_fields_are_ignored() -> None:
    names = ("content", "reasoning", "refusal", "tool_calls", "function_call", "images", "audio", "annotations")
    assert read(dict.fromkeys(names), dict.fromkeys(names, "")) == ([], [])


def test_reasoning_details_citations_and_audio_are_joined_in_linear_time() -> None:
    answer = Answer("p", whole=False)
    started = process_time()
    for number in range(20_000):
        answer.read({"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "a" * 100}]}, [])
        answer.read({"audio": {"id": "x", "transcript": "b" * 100}, "citations": [number]}, [])
        answer.read({"executed_tools": [{"index": number, "output": "c"}]}, [])
    parts = answer.parts()
    assert process_time() - started < 10
    assert answer.parts() == parts
    assert isinstance(parts[0], Reasoning)
    assert parts[0].text == "a" * 2_000_000
    assert parts[0].opaque is not None
    details: Any = parts[0].opaque.data["details"]
    assert details[0]["text"] == parts[0].text
    assert sum(isinstance(part, ProviderPart) and part.kind == "executed_tool" for part in parts) == 20_000
    assert [part.data for part in parts if isinstance(part, ProviderPart) and part.kind == "citations"] == [
        {"citations": list(range(20_000))}
    ]
