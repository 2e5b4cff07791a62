from __future__ import annotations

import base64

import pytest
from chat_core.events import FilePart, ReasoningDelta, TextDelta, ToolCallDelta
from chat_core.messages import File, Opaque, Part, ProviderPart, Reasoning, Text, Tool
from chat_core.provider import Delta
from chat_core.wire.shapes import WrongShapeError
from chat_gemini.answer import Answer


def read(*chunks: list[object], whole: bool = False) -> tuple[list[Part], list[Delta]]:
    answer, out = Answer("p", whole=whole), list[Delta]()
    for chunk in chunks:
        answer.read(chunk, out)
    return answer.parts(), out


def one(part: object, *, whole: bool = True) -> Part:
    (found,) = read([part], whole=whole)[0]
    return found


def tools(parts: list[Part]) -> list[Tool]:
    return [part for part in parts if isinstance(part, Tool)]


# --- Words --------------------------------------------------------------------------------------------------


def test_pieces_of_a_stream_that_follow_each_other_are_one_text() -> None:
    parts, out = read([{"text": "Hel"}], [{"text": "lo"}], [{"text": ""}])
    assert parts == [Text("Hello")]
    assert out == [TextDelta("Hel"), TextDelta("lo")]


def test_the_parts_of_a_whole_answer_stay_apart() -> None:
    assert read([{"text": "Hel"}, {"text": "lo"}, {"text": ""}], whole=True)[0] == [Text("Hel"), Text("lo")]


def test_thoughts_are_told_apart_from_the_answer() -> None:
    parts, out = read(
        [{"text": "Hm", "thought": True}], [{"text": "m", "thought": True}, {"text": "Yes", "thought": False}]
    )
    assert parts == [Reasoning("Hmm", opaque=Opaque("p", {})), Text("Yes")]
    assert out == [ReasoningDelta("Hm"), ReasoningDelta("m"), TextDelta("Yes")]


def test_nulls_beside_a_text_say_nothing() -> None:
    parts, _ = read(
        [{"text": "a", "functionCall": None, "thought": None}, None],
        [{"text": "b", "thoughtSignature": None, "inlineData": None}],
    )
    assert parts == [Text("ab")]


def test_a_part_that_holds_a_text_and_something_else_is_two() -> None:
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


def test_a_thought_of_nothing_is_no_part() -> None:
    assert read([{"thought": True}, {"text": "a"}])[0] == [Text("a")]


def test_a_signature_stays_on_the_part_that_it_came_on() -> None:
    signed = {"text": "b", "thoughtSignature": "c2ln"}
    parts, _ = read([{"text": "a"}], [signed], [{"text": "c"}])
    assert parts == [Text("a"), Text("b", Opaque("p", {"thoughtSignature": "c2ln"})), Text("c")]


def test_an_empty_text_with_a_signature_is_a_part() -> None:
    parts, out = read([{"text": "a"}], [{"text": "", "thoughtSignature": "c2ln"}])
    assert parts == [Text("a"), Text("", Opaque("p", {"thoughtSignature": "c2ln"}))]
    assert out == [TextDelta("a")]


def test_the_signature_of_a_thought_is_its_own() -> None:
    thought = one({"text": "Hm", "thought": True, "thoughtSignature": "c2ln"})
    assert thought == Reasoning("Hm", "c2ln", Opaque("p", {}))


def test_further_fields_of_a_part_are_kept() -> None:
    assert one({"text": "a", "partMetadata": {"k": 1}}) == Text("a", Opaque("p", {"part": {"partMetadata": {"k": 1}}}))


# --- Calls --------------------------------------------------------------------------------------------------


def test_parallel_calls_of_one_name_stay_apart() -> None:
    parts, out = read(
        [{"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "c2ln"}],
        [{"functionCall": {"name": "f", "args": {"a": 2}, "id": "c2"}}],
    )
    found = tools(parts)
    assert [(tool.call_id, tool.call.arguments) for tool in found] == [(None, {"a": 1}), ("c2", {"a": 2})]
    assert [tool.call.opaque for tool in found] == [Opaque("p", {"thoughtSignature": "c2ln"}), None]
    assert len({tool.id for tool in found}) == 2
    assert out == [ToolCallDelta('{"a":1}', 0, "f"), ToolCallDelta('{"a":2}', 1, "f", "c2")]


def test_a_call_stands_between_the_texts_around_it() -> None:
    parts, _ = read([{"text": "a"}, {"functionCall": {"name": "f"}}, {"text": "b"}])
    assert [type(part) for part in parts] == [Text, Tool, Text]


def test_a_call_whose_arguments_are_streamed_is_told_when_it_is_whole() -> None:
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


def test_a_new_name_ends_a_call_that_was_open() -> None:
    parts, _ = read([{"functionCall": {"name": "f", "willContinue": True}}], [{"functionCall": {"name": "g"}}])
    first, second = tools(parts)
    assert first.call.problem is not None
    assert (second.name, second.call.problem) == ("g", None)


def test_further_fields_of_a_call_are_kept() -> None:
    (tool,) = tools([one({"functionCall": {"name": "f", "args": {}, "kind": "x"}, "partMetadata": {}})])
    assert tool.call.opaque == Opaque("p", {"part": {"partMetadata": {}}, "call": {"kind": "x"}})


def test_arguments_of_a_call_without_a_name_are_a_wrong_shape() -> None:
    for call in ({"args": {"a": 1}}, {"partialArgs": [{"jsonPath": "$.a"}]}, {"name": 7}):
        with pytest.raises(WrongShapeError, match=r"parts\[0\]\.functionCall\.name"):
            read([{"functionCall": call}])


# --- Files --------------------------------------------------------------------------------------------------


def test_an_image_is_a_file_with_its_signature() -> None:
    blob = {"mimeType": "image/png", "data": base64.b64encode(b"\x89PNG").decode(), "displayName": "cat.png"}
    parts, out = read([{"text": "Here"}], [{"inlineData": blob, "thoughtSignature": "c2ln"}])
    opaque = Opaque("p", {"thoughtSignature": "c2ln", "blob": {"displayName": "cat.png"}})
    file = File("image/png", data=b"\x89PNG", name="cat.png", opaque=opaque)
    assert parts == [Text("Here"), file]
    assert out == [TextDelta("Here"), FilePart(file)]


def test_bytes_may_be_in_the_alphabet_for_urls() -> None:
    file = one({"inlineData": {"mimeType": "image/png", "data": "-_-_"}})
    assert isinstance(file, File)
    assert file.data == b"\xfb\xff\xbf"


def test_pieces_of_raw_sound_are_one_file() -> None:
    mime = "audio/L16;codec=pcm;rate=24000"
    pieces: list[list[object]] = [
        [{"inlineData": {"mimeType": mime, "data": base64.b64encode(sound).decode()}}] for sound in (b"ab", b"cd")
    ]
    parts, out = read(*pieces)
    assert parts == [File(mime, data=b"abcd")]
    assert out == [FilePart(File(mime, data=b"ab")), FilePart(File(mime, data=b"cd"))]


def test_sound_of_another_kind_is_another_file() -> None:
    parts, _ = read(
        [{"inlineData": {"mimeType": "audio/pcm;rate=1", "data": "YWI="}}],
        [{"inlineData": {"mimeType": "audio/pcm;rate=2", "data": "YWI="}}, {"inlineData": {"mimeType": "audio/wav"}}],
    )
    assert [part.mime for part in parts if isinstance(part, File)] == [
        "audio/pcm;rate=1",
        "audio/pcm;rate=2",
        "audio/wav",
    ]


def test_a_file_may_be_a_link() -> None:
    file = one({"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/v.mp4"}, "videoMetadata": {"fps": 1}})
    assert file == File("video/mp4", url="gs://b/v.mp4", opaque=Opaque("p", {"part": {"videoMetadata": {"fps": 1}}}))
    assert one({"fileData": {"fileUri": "gs://b/v"}}) == File("application/octet-stream", url="gs://b/v")


def test_a_sketch_on_the_way_is_no_file_of_the_answer() -> None:
    part = {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}, "thought": True}
    assert one(part) == ProviderPart("p", "inlineData", part)


# --- What else there is -------------------------------------------------------------------------------------


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
def test_what_the_server_alone_understands_is_kept_whole(kind: str, part: dict[str, object]) -> None:
    assert one(part) == ProviderPart("p", kind, part)
    assert one(part, whole=False) == ProviderPart("p", kind, part)


def test_a_part_that_holds_nothing_is_none() -> None:
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
def test_a_known_field_of_a_wrong_shape_says_where_it_is(part: object, path: str) -> None:
    with pytest.raises(WrongShapeError, match=path):
        read([part])


@pytest.mark.parametrize("data", ["QUE", "QUE=\n", "Q\nUE="])
def test_base64_may_lack_its_end_or_be_cut_into_lines(data: str) -> None:
    file = one({"inlineData": {"mimeType": "image/png", "data": data}})
    assert isinstance(file, File)
    assert file.data == b"AA"


def test_a_call_that_is_named_again_by_its_id_goes_on() -> None:
    def piece(text: str, *, more: bool) -> list[object]:
        said = {"jsonPath": "$.a", "stringValue": text, "willContinue": more}
        return [{"functionCall": {"name": "f", "id": "c1", "partialArgs": [said], "willContinue": more}}]

    parts, out = read(piece("x", more=True), piece("y", more=False), piece("z", more=False))
    assert [dict(tool.call.arguments) for tool in tools(parts)] == [{"a": "xy"}, {"a": "z"}]
    assert [delta.name for delta in out if isinstance(delta, ToolCallDelta)] == ["f", None, "f"]


def test_a_call_without_a_name_is_not_passed_over() -> None:
    with pytest.raises(WrongShapeError, match=r"functionCall\.name"):
        read([{"functionCall": {"id": "c1"}}])
    parts, _ = read([{"functionCall": {"name": "f", "id": "c1"}}], [{"functionCall": {"id": "c1"}}])
    assert len(tools(parts)) == 1
