from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest
from chat_completions import OLLAMA, Dialect
from chat_completions.parts import content_part, model_messages, plain_message, wire_ids
from chat_core.errors import UnsupportedPartError
from chat_core.messages import (
    Embedding,
    File,
    FunctionCall,
    Opaque,
    Part,
    ProviderPart,
    Reasoning,
    Role,
    Structured,
    Text,
    Tool,
    Turn,
)
from chat_core.usage import Metadata

DIALECT = Dialect(model="m", provider="p")


def mine(**data: object) -> Opaque:
    return Opaque("p", data)


def sent(part: Part) -> dict[str, Any]:
    return content_part(part, DIALECT)


def said(*parts: Part, dialect: Dialect = DIALECT) -> dict[str, Any]:
    return model_messages(Turn(parts), dialect)[0]


def completed(call_id: str | None, *files: File) -> Tool:
    tool = Tool(FunctionCall("f"), call_id=call_id)
    tool.start()
    tool.complete("ok", files=files)
    return tool


# --- Parts of user turns -------------------------------------------------------------------------------


def test_one_text_is_sent_as_a_string_and_several_parts_as_a_list() -> None:
    assert plain_message("user", Turn([Text("a")]), DIALECT) == {"role": "user", "content": "a"}
    assert plain_message("user", Turn([Text("a"), Text("b")]), DIALECT)["content"] == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
    ]
    assert plain_message("user", Turn([]), DIALECT)["content"] == ""


def test_a_text_part_is_sent_with_its_opaque_fields() -> None:
    text = Text("a", mine(part={"cache_control": {"type": "ephemeral"}}))
    assert plain_message("user", Turn([text]), DIALECT)["content"] == [
        {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
    ]


def test_a_structured_part_is_sent_as_json_text() -> None:
    assert sent(Structured({"a": 1})) == {"type": "text", "text": '{"a":1}'}


def test_an_image_is_sent_as_a_data_url_or_by_url() -> None:
    assert sent(File("image/png", data=b"x")) == {
        "type": "image_url",
        "image_url": {"url": f"data:image/png;base64,{base64.b64encode(b'x').decode()}"},
    }
    assert sent(File("image/png", url="https://example.org/a.png", opaque=mine(detail="low"))) == {
        "type": "image_url",
        "image_url": {"url": "https://example.org/a.png", "detail": "low"},
    }


@pytest.mark.parametrize(("mime", "name"), [("audio/wav", "wav"), ("audio/mpeg", "mp3"), ("audio/flac", "flac")])
def test_audio_is_sent_as_bytes_with_its_format_name(mime: str, name: str) -> None:
    assert sent(File(mime, data=b"x")) == {"type": "input_audio", "input_audio": {"data": "eA==", "format": name}}


def test_a_video_is_sent_by_url() -> None:
    url = "https://example.org/a.mp4"
    assert sent(File("video/mp4", url=url)) == {"type": "video_url", "video_url": {"url": url}}


@pytest.mark.parametrize(
    ("file", "name", "data"),
    [
        (File("application/pdf", data=b"x", name="a.pdf"), "a.pdf", "data:application/pdf;base64,eA=="),
        (File("application/pdf", data=b"x"), "file.pdf", "data:application/pdf;base64,eA=="),
        (File("text/", data=b"x"), "file.bin", "data:text/;base64,eA=="),
    ],
)
def test_other_files_are_sent_with_a_file_name(file: File, name: str, data: str) -> None:
    assert sent(file) == {"type": "file", "file": {"filename": name, "file_data": data}}


@pytest.mark.parametrize(("url", "name"), [("https://h/b.pdf?c", "b.pdf"), ("https://h/", "file.pdf")])
def test_a_document_is_sent_by_url_only_if_the_server_downloads_it(url: str, name: str) -> None:
    file = File("application/pdf", url=url)
    assert content_part(file, replace(DIALECT, url_files=("document",))) == {
        "type": "file",
        "file": {"filename": name, "file_data": url},
    }
    with pytest.raises(UnsupportedPartError, match="the server does not download it; attach its bytes"):
        sent(file)


def test_an_image_url_is_rejected_if_the_server_does_not_download_it() -> None:
    with pytest.raises(UnsupportedPartError, match="attach its bytes"):
        content_part(File("image/png", url="https://h/i"), OLLAMA.dialect)


@pytest.mark.parametrize(
    ("file", "kinds", "words"),
    [
        (File("image/png", data=b"x"), (), "supports no files"),
        (File("audio/wav", data=b"x"), ("image",), "only files of these kinds: image;"),
        (File("video/mp4", url="https://h/v"), ("image", "audio"), "only files of these kinds: image, audio;"),
        (File("application/pdf", data=b"x"), ("image",), "only files of these kinds: image;"),
        (File("text/plain", data=b"x"), ("image",), "only files of these kinds: image;"),
    ],
)
def test_a_file_type_that_the_dialect_does_not_support_is_rejected_by_name(file: File, kinds: Any, words: str) -> None:
    with pytest.raises(UnsupportedPartError, match=words) as error:
        content_part(file, Dialect(model="m", provider="p", files=kinds))
    assert f"File(mime={file.mime!r})" in str(error.value)


def test_a_dialect_accepts_its_file_types_and_uploaded_files() -> None:
    dialect = Dialect(model="m", provider="p", files=("image", "document"))
    assert content_part(File("image/png", url="https://h/i"), dialect)["type"] == "image_url"
    assert content_part(File("application/pdf", data=b"x"), dialect)["type"] == "file"
    known = File("audio/wav", opaque=mine(file_id="f_1"))
    assert content_part(known, Dialect(model="m", provider="p", files=()))["file"] == {"file_id": "f_1"}


def test_an_uploaded_file_is_sent_by_id() -> None:
    assert sent(File("application/pdf", opaque=mine(file_id="file-1"))) == {
        "type": "file",
        "file": {"file_id": "file-1"},
    }


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (File("application/pdf", opaque=Opaque("q", {"file_id": "file-1"})), "it is stored with another provider"),
        (File("audio/wav", url="https://example.org/a.wav"), "attach its bytes"),
        (Embedding((1.0, 2.0)), "Embedding of 2 numbers"),
        (Reasoning("Hm"), "Reasoning"),
        (Tool(FunctionCall("f")), "Tool"),
    ],
)
def test_parts_that_the_api_cannot_carry_are_rejected_by_name(part: Part, words: str) -> None:
    with pytest.raises(UnsupportedPartError, match=words) as error:
        plain_message("user", Turn([part]), DIALECT)
    assert "(provider 'p') does not accept" in str(error.value)


@pytest.mark.parametrize("role", ["system", "user"])
def test_provider_parts_are_sent_only_to_their_own_provider(role: Role) -> None:
    turn = Turn(
        [
            Text("a"),
            ProviderPart("p", "message", {"name": "ana"}),
            ProviderPart("p", "part", {"type": "custom", "x": 1}),
            ProviderPart("p", "unheard of", {"x": 1}),
            ProviderPart("q", "part", {"type": "custom", "x": 2}),
        ]
    )
    message = plain_message(role, turn, DIALECT)
    assert message == {
        "role": role,
        "name": "ana",
        "content": [{"type": "text", "text": "a"}, {"type": "custom", "x": 1}],
    }


# --- Parts of model turns ------------------------------------------------------------------------------


def test_a_model_turn_without_sendable_parts_is_sent_as_empty_text() -> None:
    assert said(ProviderPart("q", "secret", {})) == {"role": "assistant", "content": ""}


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_sent_back_in_its_source_field(field: str) -> None:
    assert said(Reasoning("Hm", opaque=mine(field=field)), Text("a")) == {
        "role": "assistant",
        "content": "a",
        field: "Hm",
    }


def test_reasoning_details_are_sent_back_unchanged() -> None:
    one = Reasoning("Hm", opaque=mine(field="reasoning", details=[{"type": "t", "signature": "s"}]))
    two = Reasoning("Ah", opaque=mine(details=[{"type": "u"}]))
    assert said(one, two, Text("a")) == {
        "role": "assistant",
        "content": "a",
        "reasoning": "Hm",
        "reasoning_details": [{"type": "t", "signature": "s"}, {"type": "u"}],
    }


def test_thinking_blocks_are_sent_back_unchanged() -> None:
    blocks = [{"type": "thinking", "thinking": "Hm", "signature": "s"}, {"type": "redacted_thinking", "data": "x"}]
    thought = Reasoning("Hm", opaque=mine(field="reasoning_content", blocks=blocks))
    assert said(thought, Text("a")) == {
        "role": "assistant",
        "content": "a",
        "reasoning_content": "Hm",
        "thinking_blocks": blocks,
    }
    assert "thinking_blocks" not in said(Reasoning("Hm", opaque=Opaque("another", {"blocks": blocks})), Text("a"))


def test_reasoning_from_a_thinking_chunk_is_sent_back_as_a_thinking_chunk() -> None:
    thought = Reasoning("Hm", opaque=mine(chunk={"type": "thinking", "closed": True}))
    assert said(thought, Text("a"))["content"] == [
        {"type": "thinking", "closed": True, "thinking": [{"type": "text", "text": "Hm"}]},
        {"type": "text", "text": "a"},
    ]


def test_reasoning_of_another_provider_is_omitted() -> None:
    foreign = Reasoning("Hm", signature="s", opaque=Opaque("q", {"field": "reasoning"}))
    assert said(foreign, Text("a")) == {"role": "assistant", "content": "a"}


def test_a_message_with_only_calls_has_null_or_empty_content() -> None:
    assert said(completed("a"))["content"] is None
    dialect = Dialect(model="m", provider="p", null_content=False)
    assert said(completed("a"), dialect=dialect)["content"] == ""
    assert said(Text("Hi"), completed("a"), dialect=dialect)["content"] == "Hi"


def test_the_dialect_names_the_field_for_reasoning_without_a_provider() -> None:
    assert said(Reasoning("Hm"), Text("a")) == {"role": "assistant", "content": "a"}
    dialect = Dialect(model="m", provider="p", reasoning_field="reasoning_content")
    assert said(Reasoning("Hm"), Text("a"), dialect=dialect)["reasoning_content"] == "Hm"


def test_reasoning_required_adds_placeholder_reasoning_to_every_call() -> None:
    dialect = Dialect(model="m", provider="p", reasoning_required=True)
    thought = Reasoning("Hm", opaque=mine(field="reasoning_content"))
    assert said(completed("a"), dialect=dialect)["reasoning_content"] == " ", "an empty text would be refused"
    assert said(Reasoning("Hm", opaque=Opaque("q", {})), completed("a"), dialect=dialect)["reasoning_content"] == " "
    assert said(thought, completed("a"), dialect=dialect)["reasoning_content"] == "Hm"
    assert "reasoning_content" not in said(Text("Hi"), dialect=dialect)


def test_reasoning_is_omitted_if_the_dialect_never_replays_it() -> None:
    dialect = Dialect(model="m", provider="p", reasoning_replay="never")
    assert "reasoning" not in said(Reasoning("Hm", opaque=mine(field="reasoning")), Text("a"), dialect=dialect)


def test_a_refusal_is_sent_back_as_a_refusal() -> None:
    assert said(ProviderPart("p", "refusal", {"refusal": "No."})) == {
        "role": "assistant",
        "content": None,
        "refusal": "No.",
    }


def test_only_annotations_of_parsed_files_are_sent_back() -> None:
    notes = [{"type": "url_citation"}, {"type": "file", "file": {"hash": "h"}}]
    assert said(Text("a"), ProviderPart("p", "annotations", {"annotations": notes}))["annotations"] == notes[1:]
    assert "annotations" not in said(Text("a"), ProviderPart("p", "annotations", {"annotations": notes[:1]}))


def test_provider_parts_of_a_message_are_sent_back() -> None:
    own = (ProviderPart("p", "message", {"extra_content": {"x": 1}}), ProviderPart("p", "part", {"type": "reference"}))
    assert said(Text("a"), *own) == {
        "role": "assistant",
        "content": [{"type": "text", "text": "a"}, {"type": "reference"}],
        "extra_content": {"x": 1},
    }


def test_executed_server_tools_are_not_sent_back() -> None:
    ran = ProviderPart("p", "executed_tool", {"type": "search"})
    assert said(Text("a"), ran) == {"role": "assistant", "content": "a"}


def test_a_generated_image_is_sent_back() -> None:
    file = File("image/png", data=b"x", opaque=mine(image={"index": 0}))
    assert said(Text("Here"), file) == {
        "role": "assistant",
        "content": "Here",
        "images": [{"index": 0, "type": "image_url", "image_url": {"url": "data:image/png;base64,eA=="}}],
    }


def test_generated_audio_is_sent_back_by_id_without_its_transcript() -> None:
    transcript = Text("Hello", mine(transcript_of="audio_1"))
    sound = File("audio/wav", data=b"x", opaque=mine(audio={"id": "audio_1", "expires_at": 9}))
    assert said(transcript, sound) == {"role": "assistant", "content": None, "audio": {"id": "audio_1"}}


def test_a_file_generated_by_another_model_is_rejected() -> None:
    with pytest.raises(UnsupportedPartError, match="add it to a user turn"):
        said(File("image/png", data=b"x"))


def test_a_structured_part_in_a_model_turn_is_sent_as_json_text() -> None:
    assert said(Structured([1]))["content"] == "[1]"


# --- Calls ---------------------------------------------------------------------------------------------


def test_the_raw_arguments_of_the_model_are_sent_back_unchanged() -> None:
    tool = Tool(FunctionCall.parse("f", '{ "x" : 1 }'), call_id="a")
    tool.approve(arguments={"x": 2})
    tool.start()
    tool.complete("ok")
    call, result = model_messages(Turn([tool]), DIALECT)
    assert call["tool_calls"][0]["function"]["arguments"] == '{ "x" : 1 }'
    assert result["content"].startswith("[The call was changed")


@pytest.mark.parametrize("text", ['{"x": 1', '{"x": "a', "[1]", '"x"', "5", '{"x": NaN}', '{"x": "\ud83d'])
def test_arguments_that_are_not_a_json_object_are_sent_as_one(text: str) -> None:
    call = FunctionCall.parse("f", text)
    assert call.problem is not None
    tool = Tool(call, call_id="a")
    tool.fail("not JSON")
    sent_text = said(tool)["tool_calls"][0]["function"]["arguments"]
    assert json.loads(sent_text) == {"INVALID_JSON": text}


@pytest.mark.parametrize("text", ["", "  ", "\n", "null", " null"])
def test_missing_arguments_are_sent_as_an_empty_object(text: str) -> None:
    tool = Tool(FunctionCall.parse("f", text), call_id="a")
    tool.reject()
    assert said(tool)["tool_calls"][0]["function"]["arguments"] == "{}"


def test_a_custom_call_of_another_provider_is_sent_with_its_input_as_json() -> None:
    opaque = Opaque("q", {"type": "custom"})
    tool = Tool(FunctionCall("f", {"input": "SELECT 1"}, raw="SELECT 1", opaque=opaque), call_id="a")
    tool.reject()
    assert said(tool)["tool_calls"][0]["function"]["arguments"] == '{"input":"SELECT 1"}'


def test_a_call_without_an_id_and_its_result_get_the_id_of_the_tool() -> None:
    tool = completed(None)
    call, result = model_messages(Turn([tool]), DIALECT)
    assert call["tool_calls"][0]["id"] == result["tool_call_id"] == tool.id


def test_duplicate_call_ids_are_made_unique() -> None:
    one, two = completed("a"), completed("a")
    two.id = "tool_2"
    messages = model_messages(Turn([one, two]), DIALECT)
    assert [call["id"] for call in messages[0]["tool_calls"]] == ["a", "tool_2"]
    assert [message["tool_call_id"] for message in messages[1:]] == ["a", "tool_2"]


def test_a_custom_call_is_sent_back_with_its_opaque_fields() -> None:
    tool = Tool(FunctionCall.parse("math", "4 + 4", opaque=mine(type="custom", extra_content={"s": 1})), call_id="a")
    tool.start()
    tool.complete("8")
    assert said(tool)["tool_calls"] == [
        {"id": "a", "type": "custom", "custom": {"name": "math", "input": "4 + 4"}, "extra_content": {"s": 1}}
    ]


def test_files_returned_by_a_tool_are_sent_in_a_user_message_after_the_results() -> None:
    messages = model_messages(
        Turn([completed("a", File("image/png", url="https://example.org/a.png")), completed("b")]), DIALECT
    )
    assert [message["role"] for message in messages] == ["assistant", "tool", "tool", "user"]
    assert messages[-1]["content"] == [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]


# --- Ids -----------------------------------------------------------------------------------------------

SHORT = Dialect(model="m", provider="p", short_call_ids=True)


def turn_of(*ids: str, provider: str | None = None) -> Turn:
    tools = [Tool(FunctionCall("f"), id=f"tool_{position}", call_id=id_) for position, id_ in enumerate(ids)]
    return Turn(tools, metadata=None if provider is None else Metadata(provider))


def test_a_call_id_of_the_same_provider_is_never_shortened() -> None:
    long = "x" * 300
    assert wire_ids(turn_of(long, provider="p"), DIALECT) == [long]
    assert wire_ids(turn_of(long), DIALECT) == [long], "nobody knows whose it is"


def test_a_long_call_id_of_another_provider_is_shortened() -> None:
    assert wire_ids(turn_of("x" * 40, provider="q"), DIALECT) == ["x" * 40]
    first, second = wire_ids(turn_of("x" * 41, "x" * 42, provider="q"), DIALECT)
    assert len(first) <= 40
    assert first != second
    assert wire_ids(turn_of("x" * 41, provider="q"), DIALECT) == [first]


def test_short_call_ids_have_nine_alphanumeric_characters() -> None:
    (kept, made, other) = wire_ids(turn_of("Ab3456789", "call_0123456789", "call_9876543210"), SHORT)
    assert kept == "Ab3456789"
    assert all(len(id_) == 9 and id_.isalnum() for id_ in (made, other))
    assert made != other
    assert wire_ids(turn_of("same", "same"), SHORT)[0] != wire_ids(turn_of("same", "same"), SHORT)[1]


def test_a_tool_result_uses_the_shortened_id_of_its_call() -> None:
    call, result = model_messages(Turn([completed("call_0123456789")]), SHORT)
    assert call["tool_calls"][0]["id"] == result["tool_call_id"] != "call_0123456789"


# --- Every part, in every role ---------------------------------------------------------------------------

FOREIGN = Opaque("q", {"x": 1})
EVERYTHING: list[tuple[str, Part, str, str]] = [
    # name, part, encoding in a user or system turn, encoding in a model turn
    ("text", Text("a"), "sent", "sent"),
    ("text of another provider", Text("a", FOREIGN), "sent", "sent"),
    ("a value", Structured({"a": 1}), "sent", "sent"),
    ("an image in bytes", File("image/png", data=b"x"), "sent", "refused"),
    ("an image by URL", File("image/png", url="https://example.org/a.png"), "sent", "refused"),
    ("an image of the model's", File("image/png", data=b"x", opaque=mine(image={})), "sent", "sent"),
    ("sound in bytes", File("audio/wav", data=b"x"), "sent", "refused"),
    ("sound by URL", File("audio/wav", url="https://example.org/a.wav"), "refused", "refused"),
    ("sound of the model's", File("audio/wav", data=b"x", opaque=mine(audio={"id": "a"})), "sent", "sent"),
    ("a video", File("video/mp4", data=b"x"), "sent", "refused"),
    ("a document", File("application/pdf", data=b"x"), "sent", "refused"),
    ("a document by URL", File("application/pdf", url="https://example.org/a.pdf"), "refused", "refused"),
    ("a file that was uploaded", File("application/pdf", opaque=mine(file_id="f")), "sent", "refused"),
    ("a file that another provider knows", File("application/pdf", opaque=FOREIGN), "refused", "refused"),
    ("a vector", Embedding((1.0,)), "refused", "refused"),
    ("a thought", Reasoning("Hm", opaque=mine(field="reasoning")), "refused", "sent"),
    ("a thought of another provider", Reasoning("Hm", opaque=FOREIGN), "refused", "kept"),
    ("a thought of nobody", Reasoning("Hm"), "refused", "kept"),
    ("a call", completed("a"), "refused", "sent"),
    ("a part of its own", ProviderPart("p", "part", {"type": "x"}), "sent", "sent"),
    ("further fields", ProviderPart("p", "message", {"name": "x"}), "sent", "sent"),
    ("a refusal", ProviderPart("p", "refusal", {"refusal": "No."}), "kept", "sent"),
    ("a part of another provider", ProviderPart("q", "part", {"type": "x"}), "kept", "kept"),
]


@pytest.mark.parametrize("role", ["system", "user", "model"])
@pytest.mark.parametrize("row", EVERYTHING, ids=[row[0] for row in EVERYTHING])
def test_every_part_is_sent_rejected_or_omitted_as_listed(row: tuple[str, Part, str, str], role: Role) -> None:
    _, part, said_by_others, said_by_model = row
    outcome = said_by_model if role == "model" else said_by_others

    def sent_as(*parts: Part) -> object:
        turn = Turn([Text("before"), *parts])
        return model_messages(turn, DIALECT) if role == "model" else plain_message(role, turn, DIALECT)

    if outcome == "refused":
        with pytest.raises(UnsupportedPartError, match="does not accept"):
            sent_as(part)
    else:
        assert (sent_as(part) == sent_as()) is (outcome == "kept")
        # What is kept back is no text, and no file: only what means nothing to this server.
        assert outcome == "sent" or isinstance(part, (Reasoning, ProviderPart))
