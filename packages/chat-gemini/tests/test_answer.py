from __future__ import annotations

import base64

import pytest
from chat_core.events import FilePart, ReasoningDelta, TextDelta, ToolCallDelta
from chat_core.messages import File, Opaque, Part, ProviderPart, Reasoning, Text, Tool
from chat_core.provider import Delta
from chat_core.wire.shapes import WrongShapeError
from chat_gemini.answer import Answer


def read(*chunks: list[object], whole: bool = False, holds_calls: bool = False) -> tuple[list[Part], list[Delta]]:
    answer, out = Answer("p", whole=whole, holds_calls=holds_calls), list[Delta]()
    for chunk in chunks:
        answer.read(chunk, out)
    answer.release_calls(out)
    return answer.parts(), out


def one(part: object, *, whole: bool = True) -> Part:
    (found,) = read([part], whole=whole)[0]
    return found


def tools(parts: list[Part]) -> list[Tool]:
    return [part for part in parts if isinstance(part, Tool)]


# --- Texts --------------------------------------------------------------------------------------------------


def test_consecutive_text_chunks_of_a_stream_are_joined() -> None:
    parts, out = read([{"text": "Hel"}], [{"text": "lo"}], [{"text": ""}])
    assert parts == [Text("Hello")]
    assert out == [TextDelta("Hel"), TextDelta("lo")]


def test_text_parts_of_a_whole_response_are_not_joined() -> None:
    assert read([{"text": "Hel"}, {"text": "lo"}, {"text": ""}], whole=True)[0] == [Text("Hel"), Text("lo")]


def test_thought_parts_become_reasoning() -> None:
    parts, out = read(
        [{"text": "Hm", "thought": True}], [{"text": "m", "thought": True}, {"text": "Yes", "thought": False}]
    )
    assert parts == [Reasoning("Hmm", opaque=Opaque("p", {})), Text("Yes")]
    assert out == [ReasoningDelta("Hm"), ReasoningDelta("m"), TextDelta("Yes")]


def test_null_fields_of_a_text_part_are_ignored() -> None:
    parts, _ = read(
        [{"text": "a", "functionCall": None, "thought": None}, None],
        [{"text": "b", "thoughtSignature": None, "inlineData": None}],
    )
    assert parts == [Text("ab")]


def test_a_part_with_text_and_another_field_becomes_two_parts() -> None:
    call = {"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "c2ln"}
    for part in ({"text": "", **call}, {**call, "text": ""}):
        tool = one(part)
        assert isinstance(tool, Tool)
        assert (tool.name, tool.call.opaque) == ("f", Opaque("p", {"thoughtSignature": "c2ln"}))
    parts, out = read([{"text": "Hm", "thought": True, **call}])
    assert parts[0] == Reasoning("Hm", opaque=Opaque("p", {}))
    assert [tool.name for tool in tools(parts)] == ["f"]
    assert out[0] == ReasoningDelta("Hm")
    ran = {"executableCode": {"code": "1"}}
    assert one({"text": "", **ran}) == ProviderPart("p", "executableCode", ran)


def test_a_thought_without_text_is_ignored() -> None:
    assert read([{"thought": True}, {"text": "a"}])[0] == [Text("a")]


def test_a_signature_is_kept_on_its_own_part() -> None:
    signed = {"text": "b", "thoughtSignature": "c2ln"}
    parts, _ = read([{"text": "a"}], [signed], [{"text": "c"}])
    assert parts == [Text("a"), Text("b", Opaque("p", {"thoughtSignature": "c2ln"})), Text("c")]


def test_an_empty_text_with_a_signature_is_kept() -> None:
    parts, out = read([{"text": "a"}], [{"text": "", "thoughtSignature": "c2ln"}])
    assert parts == [Text("a"), Text("", Opaque("p", {"thoughtSignature": "c2ln"}))]
    assert out == [TextDelta("a")]


def test_the_signature_of_a_thought_is_kept() -> None:
    thought = one({"text": "Hm", "thought": True, "thoughtSignature": "c2ln"})
    assert thought == Reasoning("Hm", "c2ln", Opaque("p", {}))


def test_unknown_fields_of_a_part_are_kept_as_opaque_data() -> None:
    assert one({"text": "a", "partMetadata": {"k": 1}}) == Text("a", Opaque("p", {"part": {"partMetadata": {"k": 1}}}))


# --- Calls --------------------------------------------------------------------------------------------------


def test_parallel_calls_of_the_same_function_are_separate() -> None:
    parts, out = read(
        [{"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "c2ln"}],
        [{"functionCall": {"name": "f", "args": {"a": 2}, "id": "c2"}}],
    )
    found = tools(parts)
    assert [(tool.call_id, tool.call.arguments) for tool in found] == [(None, {"a": 1}), ("c2", {"a": 2})]
    assert [tool.call.opaque for tool in found] == [Opaque("p", {"thoughtSignature": "c2ln"}), None]
    assert len({tool.id for tool in found}) == 2
    assert out == [ToolCallDelta('{"a":1}', 0, "f"), ToolCallDelta('{"a":2}', 1, "f", "c2")]


def test_a_call_between_two_texts_keeps_its_position() -> None:
    parts, out = read([{"text": "a"}, {"functionCall": {"name": "f"}}, {"text": "b"}])
    assert [type(part) for part in parts] == [Text, Tool, Text]
    assert out == [TextDelta("a"), ToolCallDelta("{}", 0, "f"), TextDelta("b")]


def test_a_call_with_its_result_in_a_later_chunk_has_no_delta() -> None:
    result = {"functionResponse": {"name": "search", "response": {"found": 1}}}
    parts, out = read(
        [{"functionCall": {"name": "search", "args": {"q": "a"}}}],
        [{"text": ""}],
        [result, {"functionCall": {"name": "pay", "args": {}}}],
        [{"text": "Done."}],
        holds_calls=True,
    )
    assert [tool.name for tool in tools(parts)] == ["pay"]
    assert out == [ToolCallDelta("{}", 0, "pay"), TextDelta("Done.")]


@pytest.mark.parametrize("holds_calls", [False, True])
@pytest.mark.parametrize("second", [{"functionCall": {"name": "g"}}, {"functionCall": None}])
def test_deltas_have_the_order_of_the_parts(holds_calls: bool, second: dict[str, object]) -> None:
    _, out = read([{"functionCall": {"name": "f"}}, {"text": "x", **second}], holds_calls=holds_calls)
    calls = [ToolCallDelta("{}", 0, "f"), ToolCallDelta("{}", 1, "g")]
    assert out == [calls[0], TextDelta("x"), *(calls[1:] if second["functionCall"] else [])]


def test_deltas_before_an_invalid_part_are_delivered() -> None:
    answer, out = Answer("p", whole=False), list[Delta]()
    with pytest.raises(WrongShapeError):
        answer.read([{"functionCall": {"name": "f"}}, {"functionCall": 5}], out)
    assert out == [ToolCallDelta("{}", 0, "f")]


def test_streamed_arguments_are_delivered_when_they_are_complete() -> None:
    pieces: list[list[object]] = [
        [{"functionCall": {"name": "f", "willContinue": True}}],
        [{"functionCall": {"partialArgs": [{"jsonPath": "$.a", "stringValue": "x"}], "willContinue": True}}],
        [{"functionCall": {}}],
        [{"functionCall": {}}],
    ]
    parts, out = read(*pieces)
    (tool,) = tools(parts)
    assert tool.call.arguments == {"a": "x"}
    assert out == [ToolCallDelta("", 0, "f"), ToolCallDelta('{"a":"x"}', 0)]


def test_a_new_call_ends_an_unfinished_call() -> None:
    parts, _ = read([{"functionCall": {"name": "f", "willContinue": True}}], [{"functionCall": {"name": "g"}}])
    first, second = tools(parts)
    assert first.call.problem is not None
    assert (second.name, second.call.problem) == ("g", None)


def test_unknown_fields_of_a_call_are_kept_as_opaque_data() -> None:
    (tool,) = tools([one({"functionCall": {"name": "f", "args": {}, "kind": "x"}, "partMetadata": {}})])
    assert tool.call.opaque == Opaque("p", {"part": {"partMetadata": {}}, "call": {"kind": "x"}})


def test_a_call_without_a_name_raises_a_shape_error() -> None:
    for call in ({"args": {"a": 1}}, {"partialArgs": [{"jsonPath": "$.a"}]}, {"name": 7}):
        with pytest.raises(WrongShapeError, match=r"parts\[0\]\.functionCall\.name"):
            read([{"functionCall": call}])


# --- Files --------------------------------------------------------------------------------------------------


def test_a_generated_image_becomes_a_file_with_its_signature() -> None:
    blob = {"mimeType": "image/png", "data": base64.b64encode(b"\x89PNG").decode(), "displayName": "cat.png"}
    parts, out = read([{"text": "Here"}], [{"inlineData": blob, "thoughtSignature": "c2ln"}])
    opaque = Opaque("p", {"thoughtSignature": "c2ln", "blob": {"displayName": "cat.png"}})
    file = File("image/png", data=b"\x89PNG", name="cat.png", opaque=opaque)
    assert parts == [Text("Here"), file]
    assert out == [TextDelta("Here"), FilePart(file)]


def test_file_data_may_be_encoded_as_url_safe_base64() -> None:
    file = one({"inlineData": {"mimeType": "image/png", "data": "-_-_"}})
    assert isinstance(file, File)
    assert file.data == b"\xfb\xff\xbf"


def test_chunks_of_raw_audio_are_joined_to_one_file() -> None:
    mime = "audio/L16;codec=pcm;rate=24000"
    pieces: list[list[object]] = [
        [{"inlineData": {"mimeType": mime, "data": base64.b64encode(sound).decode()}}] for sound in (b"ab", b"cd")
    ]
    parts, out = read(*pieces)
    assert parts == [File(mime, data=b"abcd")]
    assert out == [FilePart(File(mime, data=b"ab")), FilePart(File(mime, data=b"cd"))]


def test_audio_of_another_mime_type_becomes_another_file() -> None:
    parts, _ = read(
        [{"inlineData": {"mimeType": "audio/pcm;rate=1", "data": "YWI="}}],
        [{"inlineData": {"mimeType": "audio/pcm;rate=2", "data": "YWI="}}, {"inlineData": {"mimeType": "audio/wav"}}],
    )
    assert [part.mime for part in parts if isinstance(part, File)] == [
        "audio/pcm;rate=1",
        "audio/pcm;rate=2",
        "audio/wav",
    ]


def test_file_data_becomes_a_file_by_url() -> None:
    file = one({"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/v.mp4"}, "videoMetadata": {"fps": 1}})
    assert file == File("video/mp4", url="gs://b/v.mp4", opaque=Opaque("p", {"part": {"videoMetadata": {"fps": 1}}}))
    assert one({"fileData": {"fileUri": "gs://b/v"}}) == File("application/octet-stream", url="gs://b/v")


def test_a_draft_image_in_a_thought_becomes_a_provider_part() -> None:
    part = {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}, "thought": True}
    assert one(part) == ProviderPart("p", "inlineData", part)


# --- Other parts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        ("executableCode", {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "c2ln"}),
        ("codeExecutionResult", {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}),
        ("toolCall", {"thought": False, "toolCall": {"id": "t1", "toolType": "GOOGLE_SEARCH_WEB"}}),
        ("somethingNew", {"somethingNew": []}),
        ("thoughtSignature", {"thoughtSignature": "c2ln"}),
    ],
)
def test_server_tool_parts_become_provider_parts(kind: str, part: dict[str, object]) -> None:
    assert one(part) == ProviderPart("p", kind, part)
    assert one(part, whole=False) == ProviderPart("p", kind, part)


def test_an_empty_part_is_ignored() -> None:
    assert read([{}, {"text": None}, {"thought": False}], whole=True) == ([], [])


@pytest.mark.parametrize(
    ("part", "path"),
    [
        ("text", r"parts\[0\]"),
        ({"text": 7}, r"parts\[0\]\.text"),
        ({"text": "a", "thoughtSignature": 7}, r"parts\[0\]\.thoughtSignature"),
        ({"functionCall": []}, r"parts\[0\]\.functionCall"),
        ({"inlineData": "a"}, r"parts\[0\]\.inlineData"),
        ({"inlineData": {"mimeType": "image/png", "data": "a"}}, r"inlineData\.data is not base64"),
        ({"inlineData": {"mimeType": 7, "data": ""}}, r"inlineData\.mimeType"),
        ({"fileData": {"mimeType": "a/b"}}, r"fileData\.fileUri"),
    ],
)
def test_a_known_field_of_a_wrong_type_raises_with_its_path(part: object, path: str) -> None:
    with pytest.raises(WrongShapeError, match=path):
        read([part])


@pytest.mark.parametrize("data", ["QUE", "QUE=\n", "Q\nUE="])
def test_base64_without_padding_or_with_line_breaks_is_accepted(data: str) -> None:
    file = one({"inlineData": {"mimeType": "image/png", "data": data}})
    assert isinstance(file, File)
    assert file.data == b"AA"


def test_a_repeated_name_with_the_same_id_continues_an_unfinished_call() -> None:
    def piece(text: str, *, more: bool) -> list[object]:
        said = {"jsonPath": "$.a", "stringValue": text, "willContinue": more}
        return [{"functionCall": {"name": "f", "id": "c1", "partialArgs": [said], "willContinue": more}}]

    parts, out = read(piece("x", more=True), piece("y", more=False), piece("z", more=False))
    assert [dict(tool.call.arguments) for tool in tools(parts)] == [{"a": "xy"}, {"a": "z"}]
    assert [delta.name for delta in out if isinstance(delta, ToolCallDelta)] == ["f", None, "f"]


def test_an_id_without_a_name_raises_unless_the_call_is_known() -> None:
    with pytest.raises(WrongShapeError, match=r"functionCall\.name"):
        read([{"functionCall": {"id": "c1"}}])
    parts, _ = read([{"functionCall": {"name": "f", "id": "c1"}}], [{"functionCall": {"id": "c1"}}])
    assert len(tools(parts)) == 1
