from __future__ import annotations

import base64
from typing import Any

import pytest
from chat_core.messages import File, FunctionCall, Opaque, Part, ProviderPart, Reasoning, Text, Tool, Turn
from chat_core.wire.shapes import WrongShapeError
from chat_responses import MCP_APPROVAL, ResponsesDialect
from chat_responses.items import approval_arguments, logprobs_of, parts_of
from chat_responses.parts import model_items

PNG = b"\x89PNG\r\n"


def read(item: Any) -> list[Part]:
    return parts_of(item, "p", "output[0]")


def tool(item: Any) -> Tool:
    (part,) = read(item)
    assert isinstance(part, Tool)
    return part


# --- Messages ------------------------------------------------------------------------------------------------


def test_a_message_becomes_texts_that_keep_their_item_and_annotations() -> None:
    note = {"type": "url_citation", "url": "https://h", "start_index": 0, "end_index": 1}
    item: dict[str, object] = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "phase": "final_answer",
        "content": [
            {"type": "output_text", "text": "a", "annotations": [note], "logprobs": [{"token": "a"}]},
            {"type": "output_text", "text": "b", "annotations": [], "logprobs": None},
        ],
    }
    head = {"id": "msg_1", "phase": "final_answer"}
    assert read(item) == [
        Text("a", Opaque("p", {"item": head, "part": {"annotations": [note]}})),
        Text("b", Opaque("p", {"item": head})),
    ]
    assert logprobs_of(item) == [{"token": "a"}]
    assert logprobs_of({"type": "message", "content": "a"}) == logprobs_of({"type": "reasoning"}) == []


def test_text_that_looks_like_json_stays_text() -> None:
    (part,) = read({"type": "message", "content": [{"type": "output_text", "text": '{"a": 1}'}]})
    assert isinstance(part, Text)
    assert part.text == '{"a": 1}'


@pytest.mark.parametrize(
    ("content", "texts"),
    [("a", ["a"]), (None, []), ([], []), ([{"text": "a"}], ["a"]), ([{"type": "text", "text": None}], [""])],
)
def test_message_content_of_unusual_types_is_read_as_text(content: object, texts: list[str]) -> None:
    assert [part.text for part in read({"type": "message", "content": content}) if isinstance(part, Text)] == texts


def test_a_refusal_becomes_a_provider_part() -> None:
    item = {"type": "message", "id": "msg_1", "content": [{"type": "refusal", "refusal": "No."}]}
    assert read(item) == [ProviderPart("p", "refusal", {"refusal": "No.", "item": {"id": "msg_1"}})]


def test_content_of_an_unknown_type_is_kept_as_a_provider_part() -> None:
    piece = {"type": "output_audio", "data": "x"}
    assert read({"type": "message", "id": "msg_1", "content": [piece]}) == [
        ProviderPart("p", "content", {"content": piece, "item": {"id": "msg_1"}})
    ]


def test_a_user_message_in_the_output_becomes_a_provider_part() -> None:
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
    assert read(item) == [ProviderPart("p", "item", item)]


# --- Reasoning -------------------------------------------------------------------------------------------------


def test_reasoning_text_joins_the_summary_and_the_content() -> None:
    item: dict[str, object] = {
        "type": "reasoning",
        "id": "rs_1",
        "status": "completed",
        "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}],
        "content": [{"type": "reasoning_text", "text": "c"}],
        "encrypted_content": "gAAA",
    }
    own = {name: item[name] for name in ("id", "summary", "content")}
    assert read(item) == [Reasoning("abc", "gAAA", Opaque("p", {"item": own}))]


def test_reasoning_without_text_is_kept() -> None:
    item: dict[str, object] = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "content": [],
        "encrypted_content": None,
    }
    assert read(item) == [Reasoning("", None, Opaque("p", {"item": {"id": "rs_1", "summary": []}}))]
    (part,) = read({"type": "reasoning", "summary": "Hm"})
    assert isinstance(part, Reasoning)
    assert part.text == "Hm"


# --- Calls -----------------------------------------------------------------------------------------------------


def test_a_call_keeps_the_fields_that_a_request_may_contain() -> None:
    item = {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "a",
        "name": "f",
        "arguments": '{"x": 1}',
        "status": "completed",
        "namespace": "n",
        "gateway_latency_ms": 7,  # the API refuses a request with an unknown field
    }
    call = tool(item)
    opaque = Opaque("p", {"item": {"id": "fc_1", "namespace": "n"}})
    assert (call.call_id, call.call) == ("a", FunctionCall("f", {"x": 1}, raw='{"x": 1}', opaque=opaque))


@pytest.mark.parametrize(("arguments", "text"), [("", "{}"), (None, "{}"), ({"x": 1}, '{"x":1}'), ("{", "{")])
def test_missing_arguments_and_arguments_sent_as_objects_are_accepted(arguments: object, text: str) -> None:
    call = tool({"type": "function_call", "name": "f", "call_id": "a", "arguments": arguments})
    assert call.call.text == text
    assert call.call.opaque is None


def test_an_incomplete_call_does_not_run_even_with_valid_arguments() -> None:
    cut = {"type": "function_call", "name": "f", "call_id": "a", "status": "incomplete"}
    whole = tool({**cut, "arguments": '{"x": 1}'}).call
    assert (whole.arguments, whole.text) == ({}, '{"x": 1}')
    assert whole.problem is not None
    assert "cut" in whole.problem
    broken = tool({**cut, "arguments": '{"x'}).call
    assert broken.problem is not None
    assert "not valid JSON" in broken.problem


@pytest.mark.parametrize(
    ("item", "call_id"), [({"call_id": "", "id": "fc_1"}, "fc_1"), ({"call_id": 7}, None), ({}, None)]
)
def test_a_call_without_a_call_id_uses_the_item_id_or_a_generated_id(item: dict[str, object], call_id: str) -> None:
    call = tool({"type": "function_call", "name": "f", "arguments": "{}", **item})
    assert call.call_id == call_id
    assert call.id


def test_an_incomplete_custom_call_does_not_run() -> None:
    (tool,) = parts_of({"type": "custom_tool_call", "name": "f", "input": "rm x", "status": "incomplete"}, "p", "")
    assert isinstance(tool, Tool)
    assert (tool.call.raw, tool.call.arguments) == ("rm x", {})
    assert tool.call.problem is not None


def test_a_message_without_a_role_is_read_as_the_models() -> None:
    (part,) = parts_of({"type": "message", "role": None, "content": "Hi"}, "p", "")
    assert isinstance(part, Text)
    assert part.text == "Hi"


def test_the_text_of_a_custom_call_becomes_its_input_argument() -> None:
    item = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "a", "name": "sql", "input": "SELECT 1"}
    call = tool(item).call
    assert (call.arguments, call.text, call.problem) == ({"input": "SELECT 1"}, "SELECT 1", None)
    assert call.opaque == Opaque("p", {"item": {"type": "custom_tool_call", "id": "ctc_1"}})


@pytest.mark.parametrize(
    ("given", "shown"), [('{"page": 1}', {"page": 1}), ("page 1", "page 1"), (None, None), ({"page": 1}, {"page": 1})]
)
def test_an_mcp_approval_request_becomes_a_call_with_the_requested_arguments(given: object, shown: object) -> None:
    item = {"type": "mcp_approval_request", "id": "r1", "server_label": "wiki", "name": "delete", "arguments": given}
    call = tool(item)
    assert (call.name, call.call_id) == (MCP_APPROVAL, "r1")
    assert call.call.arguments == {"server_label": "wiki", "name": "delete", "arguments": shown}
    assert call.call.opaque == Opaque("p", {"item": item})


# --- Images and other items --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "said", "mime"),
    [
        (PNG, "webp", "image/png"),
        (b"\xff\xd8\xff\xe0", None, "image/jpeg"),
        (b"GIF89a", None, "image/gif"),
        (b"RIFF\0\0\0\0WEBP", None, "image/webp"),
        (b"RIFF", "webp", "image/webp"),
        (b"<svg/>", "svg", "image/svg+xml"),
        (b"?", None, "image/png"),
    ],
)
def test_a_generated_image_becomes_a_file_that_keeps_its_item(data: bytes, said: str | None, mime: str) -> None:
    item = {"type": "image_generation_call", "id": "ig_1", "result": base64.b64encode(data).decode()}
    if said is not None:
        item["output_format"] = said
    kept = {name: value for name, value in item.items() if name != "result"}
    assert read(item) == [File(mime, data=data, opaque=Opaque("p", {"item": kept}))]


@pytest.mark.parametrize("result", [None, "", "no base64!", 7])
def test_an_image_call_without_an_image_becomes_a_provider_part(result: object) -> None:
    item = {"type": "image_generation_call", "id": "ig_1", "result": result, "status": "failed"}
    assert read(item) == [ProviderPart("p", "image_generation_call", item)]


@pytest.mark.parametrize(
    ("item", "kind"),
    [({"type": "web_search_call"}, "web_search_call"), ({"type": 7}, "item"), ({"type": ""}, "item"), ({}, "item")],
)
def test_any_other_item_becomes_a_provider_part(item: dict[str, object], kind: str) -> None:
    assert read(item) == [ProviderPart("p", kind, item)]


@pytest.mark.parametrize(
    ("item", "path"),
    [
        ({"type": "message", "content": 7}, "output[0].content"),
        ({"type": "message", "content": [7]}, "output[0].content[0]"),
        ({"type": "message", "content": [{"type": "output_text", "text": 7}]}, "output[0].content[0].text"),
        ({"type": "message", "content": [{"type": "refusal", "refusal": 7}]}, "output[0].content[0].refusal"),
        ({"type": "reasoning", "summary": 7}, "output[0].summary"),
        ({"type": "reasoning", "content": [{"text": 7}]}, "output[0].content[0].text"),
        ({"type": "reasoning", "encrypted_content": 7}, "output[0].encrypted_content"),
        ({"type": "function_call", "arguments": "{}"}, "output[0].name"),
        ({"type": "function_call", "name": "f", "arguments": 7}, "output[0].arguments"),
        ({"type": "custom_tool_call", "input": "x"}, "output[0].name"),
        ({"type": "mcp_approval_request"}, "output[0].id"),
    ],
)
def test_a_malformed_item_raises_a_shape_error_with_its_path(item: object, path: str) -> None:
    with pytest.raises(WrongShapeError) as error:
        read(item)
    assert error.value.path == path


def test_an_image_in_a_data_url_becomes_a_file_and_is_sent_back_unchanged() -> None:
    item = {"type": "image_generation_call", "id": "ig_1", "result": "data:image/png;base64,iVBORw=="}
    (file,) = parts_of(item, "p", "")
    assert isinstance(file, File)
    assert (file.mime, file.data) == ("image/png", b"\x89PNG")
    assert model_items(Turn([file]), ResponsesDialect(model="m", provider="p")) == [item]


def test_approval_arguments_that_are_nested_too_deeply_stay_text() -> None:
    deep = "[" * 500 + "]" * 500
    assert approval_arguments({"arguments": deep})["arguments"] == deep
    assert approval_arguments({"arguments": "[[]]"})["arguments"] == [[]]
