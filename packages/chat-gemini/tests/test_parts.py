from __future__ import annotations

import base64
from typing import Any

import pytest
from chat_core.errors import UnsupportedPartError
from chat_core.messages import (
    Completed,
    Embedding,
    Failed,
    File,
    FunctionCall,
    Opaque,
    Part,
    ProviderPart,
    Reasoning,
    Rejected,
    Structured,
    Text,
    Tool,
    ToolStatus,
    Turn,
)
from chat_core.usage import Metadata
from chat_gemini.options import Dialect
from chat_gemini.parts import file_part, model_contents, system_parts, user_content

DIALECT = Dialect(model="m", provider="p")
PNG = base64.b64encode(b"\x89PNG").decode()


def said(*parts: Part) -> list[Any]:
    content = user_content(Turn(parts), DIALECT)
    return [] if content is None else content["parts"]


def answered(*parts: Part, provider: str | None = "p", dialect: Dialect = DIALECT) -> list[Any]:
    metadata = None if provider is None else Metadata(provider)
    return model_contents(Turn(parts, finish_reason="stop", metadata=metadata), dialect)


def tool(
    result: object = "done",
    *,
    call_id: str | None = None,
    signature: str | None = None,
    status: ToolStatus | None = None,
) -> Tool:
    opaque = None if signature is None else Opaque("p", {"thoughtSignature": signature})
    call = FunctionCall("f", {"a": 1}, opaque=opaque)
    return Tool(call, call_id=call_id, status=status or Completed(result))


def result_of(part: Tool) -> Any:
    return answered(part)[1]["parts"][0]["functionResponse"]["response"]


# --- Texts --------------------------------------------------------------------------------------------------


def test_text_and_structured_parts_are_sent_as_text() -> None:
    assert user_content(Turn([Text("Hi"), Structured({"a": 1})]), DIALECT) == {
        "role": "user",
        "parts": [{"text": "Hi"}, {"text": '{"a":1}'}],
    }


def test_an_empty_text_is_sent_only_with_a_signature() -> None:
    assert said(Text("")) == []
    assert user_content(Turn([]), DIALECT) is None
    signed = Text("", Opaque("p", {"thoughtSignature": "c2ln"}))
    assert answered(signed) == [{"role": "model", "parts": [{"text": "", "thoughtSignature": "c2ln"}]}]


def test_a_signature_is_not_sent_to_another_provider() -> None:
    assert answered(Text("a", Opaque("q", {"thoughtSignature": "c2ln"})))[0]["parts"] == [{"text": "a"}]
    assert (
        "thoughtSignature"
        not in answered(tool(signature="c2ln"), dialect=Dialect(model="m", provider="q"))[0]["parts"][0]
    )


def test_reasoning_is_sent_back_only_to_its_own_provider() -> None:
    mine = Reasoning("Hm", "c2ln", Opaque("p", {"part": {"partMetadata": {}}}))
    assert answered(mine)[0]["parts"] == [
        {"text": "Hm", "thought": True, "partMetadata": {}, "thoughtSignature": "c2ln"}
    ]
    assert answered(Reasoning("Hm", None, Opaque("p", {})))[0]["parts"] == [{"text": "Hm", "thought": True}]
    assert answered(Reasoning("Hm", "c2ln", Opaque("q", {})), Reasoning("Hm")) == []


def test_a_provider_part_is_sent_back_unchanged_in_its_position() -> None:
    code = {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "c2ln"}
    parts = answered(Text("a"), ProviderPart("p", "executableCode", code), ProviderPart("q", "x", {"y": 1}), Text("b"))
    assert parts[0]["parts"] == [{"text": "a"}, code, {"text": "b"}]


def test_opaque_fields_of_a_part_are_sent_with_it() -> None:
    video = File("video/mp4", url="https://y/v", opaque=Opaque("p", {"part": {"videoMetadata": {"fps": 2}}}))
    assert said(video) == [
        {"fileData": {"fileUri": "https://y/v", "mimeType": "video/mp4"}, "videoMetadata": {"fps": 2}}
    ]


def test_a_system_message_with_a_file_is_rejected() -> None:
    assert system_parts(Turn([Text("Be brief."), Text("")]), DIALECT) == [{"text": "Be brief."}]
    with pytest.raises(UnsupportedPartError, match=r"File\(mime='image/png'\).*only contain text"):
        system_parts(Turn([File("image/png", data=b"x")]), DIALECT)


def test_a_part_that_a_user_message_cannot_contain_is_rejected_by_name() -> None:
    with pytest.raises(UnsupportedPartError, match="Embedding of 2 numbers"):
        said(Embedding((0.0, 1.0)))
    with pytest.raises(UnsupportedPartError, match="Tool"):
        said(tool())


# --- Files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "part"),
    [
        (File("image/png", data=b"\x89PNG"), {"inlineData": {"mimeType": "image/png", "data": PNG}}),
        (File("audio/wav", data=b"\x89PNG"), {"inlineData": {"mimeType": "audio/wav", "data": PNG}}),
        (File("video/mp4", data=b"\x89PNG"), {"inlineData": {"mimeType": "video/mp4", "data": PNG}}),
        (File("application/pdf", data=b"\x89PNG"), {"inlineData": {"mimeType": "application/pdf", "data": PNG}}),
        (File("text/csv", data=b"\x89PNG"), {"inlineData": {"mimeType": "text/csv", "data": PNG}}),
        (
            File("image/png", url=f"data:image/webp;base64,{PNG}"),
            {"inlineData": {"mimeType": "image/webp", "data": PNG}},
        ),
        (File("image/png", url=f"data:;base64,{PNG}"), {"inlineData": {"mimeType": "image/png", "data": PNG}}),
        (File("image/png", url="gs://b/a"), {"fileData": {"fileUri": "gs://b/a", "mimeType": "image/png"}}),
        (File("image/*", url="https://a/b"), {"fileData": {"fileUri": "https://a/b"}}),
        (
            File("audio/mpeg", opaque=Opaque("p", {"file_uri": "files/1"})),
            {"fileData": {"fileUri": "files/1", "mimeType": "audio/mpeg"}},
        ),
    ],
)
def test_a_file_is_sent_as_bytes_or_by_uri(file: File, part: object) -> None:
    assert file_part(file, DIALECT) == part


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (File("image/*", data=b"x"), "complete mime type"),
        (File("image", data=b"x"), "complete mime type"),
        (File("image/gif", data=b"x"), "convert the image"),
        (File("image/svg+xml", data=b"x"), "PNG, JPEG"),
        (File("application/zip", data=b"x"), "PDF, JSON or text"),
        (File("application/octet-stream", data=b"x"), "PDF, JSON or text"),
        (File("image/png", url="data:image/png,abc"), "base64"),
        (File("image/png", url="data:image/png;base64,a"), "base64"),
        (File("image/png", opaque=Opaque("q", {"file_id": "1"})), "attach its bytes"),
    ],
)
def test_a_file_that_cannot_be_sent_is_rejected_with_advice(file: File, words: str) -> None:
    with pytest.raises(UnsupportedPartError, match=words) as error:
        said(file)
    assert f"File(mime={file.mime!r})" in str(error.value)


def test_a_generated_file_is_sent_back_with_its_signature() -> None:
    image = File("image/png", data=b"\x89PNG", opaque=Opaque("p", {"thoughtSignature": "c2ln"}))
    assert answered(image)[0]["parts"] == [
        {"inlineData": {"mimeType": "image/png", "data": PNG}, "thoughtSignature": "c2ln"}
    ]


def test_a_generated_file_of_any_mime_type_is_sent_back_to_its_provider() -> None:
    odd = File("application/octet-stream", data=b"\x89PNG", opaque=Opaque("p", {"blob": {"displayName": "a"}}))
    blob = {"mimeType": "application/octet-stream", "data": PNG, "displayName": "a"}
    assert answered(odd)[0]["parts"] == [{"inlineData": blob}]
    with pytest.raises(UnsupportedPartError):
        answered(odd, provider="q")
    link = File("image/png", url="gs://b/a", opaque=Opaque("p", {"blob": {"displayName": "a"}}))
    assert said(link)[0]["fileData"]["displayName"] == "a"


# --- Calls --------------------------------------------------------------------------------------------------


def test_a_call_and_its_result_are_sent_in_two_contents() -> None:
    assert answered(Text("a"), tool("done", signature="c2ln")) == [
        {
            "role": "model",
            "parts": [{"text": "a"}, {"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "c2ln"}],
        },
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"result": "done"}}}]},
    ]


def test_results_are_sent_in_the_order_of_their_calls() -> None:
    results = answered(tool("one"), tool("two"))[1]["parts"]
    assert [item["functionResponse"]["response"] for item in results] == [{"result": "one"}, {"result": "two"}]


def test_ids_that_two_calls_of_a_turn_share_are_not_sent() -> None:
    model, user = answered(tool("first", call_id="c1"), tool("second", call_id="c1"))

    assert [part["functionCall"].get("id") for part in model["parts"]] == [None, None]
    assert [part["functionResponse"].get("id") for part in user["parts"]] == [None, None]

    model, user = answered(tool("first", call_id="c1"), tool("second", call_id="c2"))

    assert [part["functionCall"].get("id") for part in model["parts"]] == ["c1", "c2"]
    assert [part["functionResponse"].get("id") for part in user["parts"]] == ["c1", "c2"]


def test_a_call_id_is_sent_back_only_to_its_own_provider() -> None:
    model, user = answered(tool(call_id="c1"))
    assert model["parts"][0]["functionCall"]["id"] == "c1"
    assert user["parts"][0]["functionResponse"]["id"] == "c1"
    for provider in ("q", None):
        model, user = answered(tool(call_id="c1"), provider=provider)
        assert "id" not in model["parts"][0]["functionCall"]
        assert "id" not in user["parts"][0]["functionResponse"]
    minted = answered(tool())
    assert "id" not in minted[0]["parts"][0]["functionCall"]


def test_opaque_fields_of_a_call_are_sent_back() -> None:
    opaque = Opaque("p", {"call": {"kind": "x"}, "part": {"partMetadata": {}}})
    part = answered(Tool(FunctionCall("f", opaque=opaque), status=Completed(None)))[0]["parts"][0]
    assert part == {"functionCall": {"name": "f", "args": {}, "kind": "x"}, "partMetadata": {}}


@pytest.mark.parametrize(
    ("result", "response"),
    [
        ({"sky": "clear"}, {"sky": "clear"}),
        ({}, {}),
        ("clear", {"result": "clear"}),
        ([1], {"result": [1]}),
        (7, {"result": 7}),
        (None, {"result": None}),
    ],
)
def test_a_tool_result_is_always_sent_as_an_object(result: object, response: object) -> None:
    assert result_of(tool(result)) == response


def test_a_failed_or_rejected_call_is_sent_with_an_error_field() -> None:
    assert result_of(tool(status=Failed("no such city"))) == {"error": "no such city"}
    assert "no thanks" in result_of(tool(status=Rejected("no thanks")))["error"]


def test_the_result_of_an_edited_call_describes_the_change() -> None:
    edited = tool({"sky": "clear"})
    edited.edited = {"a": 2}
    assert result_of(edited)["result"].startswith("[The call was changed")
    assert answered(edited)[0]["parts"][0]["functionCall"]["args"] == {"a": 1}


def test_files_of_a_result_are_sent_inside_it_or_after_it() -> None:
    part = tool(status=Completed("done", (File("image/png", data=b"\x89PNG"),)))
    image = {"inlineData": {"mimeType": "image/png", "data": PNG}}
    (inside,) = answered(part)[1]["parts"]
    assert inside["functionResponse"]["parts"] == [image]
    result, after = answered(part, dialect=Dialect(model="m", provider="p", files_in_results=False))[1]["parts"]
    assert "parts" not in result["functionResponse"]
    assert after == image


def test_only_the_first_call_of_a_turn_gets_a_placeholder_signature() -> None:
    dialect = Dialect(model="m", provider="p", stand_in="stand-in")
    parts = answered(tool(), tool(), dialect=dialect)[0]["parts"]
    assert [part.get("thoughtSignature") for part in parts] == ["stand-in", None]
    assert answered(tool(signature="c2ln"), dialect=dialect)[0]["parts"][0]["thoughtSignature"] == "c2ln"
