from __future__ import annotations

import base64
from dataclasses import replace
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
    Turn,
)
from chat_core.usage import Metadata
from chat_responses import MCP_APPROVAL, ResponsesDialect
from chat_responses.parts import call_outputs, model_items, plain_items, wire_ids

DIALECT = ResponsesDialect(model="m", provider="p")
FORGETFUL = ResponsesDialect(model="m", provider="p", store=False)


def own(**data: Any) -> Opaque:
    return Opaque("p", data)


def items(*parts: Part, dialect: ResponsesDialect = DIALECT, provider: str | None = None) -> list[Any]:
    metadata = None if provider is None else Metadata(provider)
    return model_items(Turn(parts, metadata=metadata), dialect)


def said(text: str, head: dict[str, object] | None = None, **part: object) -> Text:
    data: dict[str, object] = {"item": head or {"id": "msg_1"}}
    return Text(text, Opaque("p", {**data, "part": part} if part else data))


# --- Parts of system and user turns ------------------------------------------------------------------------


def test_a_single_text_is_sent_as_a_string_and_several_parts_as_a_list() -> None:
    assert plain_items("user", Turn([Text("a")]), DIALECT) == [{"role": "user", "content": "a"}]
    (item,) = plain_items("user", Turn([Text("a"), Text("b")]), DIALECT)
    assert item["content"] == [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]


def test_an_empty_turn_is_not_sent() -> None:
    assert plain_items("user", Turn([]), DIALECT) == []


def test_a_provider_item_between_texts_splits_the_message() -> None:
    output: dict[str, object] = {"type": "computer_call_output", "call_id": "a", "output": {}}
    parts: list[Part] = [Text("a"), ProviderPart("p", "computer_call_output", output), Text("b")]
    assert plain_items("user", Turn(parts), DIALECT) == [
        {"role": "user", "content": "a"},
        output,
        {"role": "user", "content": "b"},
    ]
    assert plain_items("user", Turn([parts[1]]), DIALECT) == [output]


def test_a_content_part_of_the_provider_is_sent_in_its_message() -> None:
    part = {"type": "input_text", "text": "b", "further": 1}
    (item,) = plain_items("system", Turn([Text("a"), ProviderPart("p", "part", part)]), DIALECT)
    assert item == {"role": "system", "content": [{"type": "input_text", "text": "a"}, part]}


@pytest.mark.parametrize(
    "part",
    [
        ProviderPart("q", "web_search_call", {"type": "web_search_call"}),
        ProviderPart("p", "message", {"name": "Ana"}),
        ProviderPart("p", "thinking", {"type": "redacted"}),
    ],
)
def test_parts_of_other_providers_and_other_kinds_are_omitted(part: ProviderPart) -> None:
    assert plain_items("user", Turn([part]), DIALECT) == []
    assert items(part) == []


# --- Parts of model turns ------------------------------------------------------------------------------------


def test_text_without_an_item_is_sent_as_a_short_message() -> None:
    assert items(Text("a")) == [{"role": "assistant", "content": "a"}]
    assert items(Text("a"), Text("b")) == [
        {
            "role": "assistant",
            "content": [{"type": "output_text", "text": "a"}, {"type": "output_text", "text": "b"}],
        }
    ]


def test_texts_of_one_item_are_sent_back_as_one_message() -> None:
    note = {"type": "url_citation", "url": "https://h"}
    head: dict[str, object] = {"id": "msg_1", "phase": "commentary"}
    assert items(said("a", head, annotations=[note]), said("b", head), said("c", {"id": "msg_2"})) == [
        {
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "id": "msg_1",
            "phase": "commentary",
            "content": [
                {"type": "output_text", "text": "a", "annotations": [note]},
                {"type": "output_text", "text": "b", "annotations": []},
            ],
        },
        {
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "id": "msg_2",
            "content": [{"type": "output_text", "text": "c", "annotations": []}],
        },
    ]


def test_text_of_another_provider_is_sent_without_its_opaque_data() -> None:
    assert items(Text("a", Opaque("q", {"item": {"id": "x"}}))) == [{"role": "assistant", "content": "a"}]


def test_a_structured_part_is_sent_as_json_text() -> None:
    assert items(Structured({"a": 1})) == [{"role": "assistant", "content": '{"a":1}'}]


def test_a_refusal_is_sent_back_only_to_its_own_provider() -> None:
    refusal = ProviderPart("p", "refusal", {"refusal": "No.", "item": {"id": "msg_1"}})
    (item,) = items(refusal)
    assert (item["id"], item["content"]) == ("msg_1", [{"type": "refusal", "refusal": "No."}])
    assert items(ProviderPart("q", "refusal", {"refusal": "No."})) == []


def test_content_of_an_unknown_type_is_sent_back_in_its_message() -> None:
    piece = {"type": "output_audio", "data": "x"}
    (item,) = items(said("a"), ProviderPart("p", "content", {"content": piece, "item": {"id": "msg_1"}}))
    assert item["content"] == [{"type": "output_text", "text": "a", "annotations": []}, piece]
    assert items(ProviderPart("q", "content", {"content": piece, "item": {}})) == []


def test_an_embedding_is_rejected() -> None:
    with pytest.raises(UnsupportedPartError, match="Embedding"):
        items(Embedding((1.0,)))


# --- Reasoning ---------------------------------------------------------------------------------------------


def thought(**item: Any) -> Reasoning:
    return Reasoning("Hm", "gAAA", own(item={"id": "rs_1", "summary": [], **item}))


def test_reasoning_is_sent_back_in_its_original_position() -> None:
    call = Tool(FunctionCall("f", raw="{}"), call_id="a")
    assert [item["type"] for item in items(thought(), call, thought(), said("a"))] == [
        "reasoning",
        "function_call",
        "reasoning",
        "message",
    ]
    assert items(thought(), call)[0] == {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [],
        "encrypted_content": "gAAA",
    }


def test_reasoning_of_other_providers_or_with_replay_never_is_omitted() -> None:
    foreign = Reasoning("Hm", "sig", Opaque("q", {"item": {"id": "x"}}))
    assert items(foreign, Reasoning("Hm"), Text("a")) == [{"role": "assistant", "content": "a"}]
    never = ResponsesDialect(model="m", provider="p", reasoning_replay="never")
    assert items(thought(), Text("a"), dialect=never) == [{"role": "assistant", "content": "a"}]


def test_without_storage_reasoning_is_sent_back_only_with_its_content() -> None:
    sealed, *_ = items(thought(), Text("a"), dialect=FORGETFUL)
    assert sealed == {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
    open_ = Reasoning("Hm", None, own(item={"id": "rs_1", "content": [{"type": "reasoning_text", "text": "Hm"}]}))
    assert items(open_, Text("a"), dialect=FORGETFUL)[0]["content"] == [{"type": "reasoning_text", "text": "Hm"}]
    empty = Reasoning("", None, own(item={"id": "rs_1"}))
    assert items(empty, Text("a"), dialect=FORGETFUL) == [{"role": "assistant", "content": "a"}]
    assert items(empty, Text("a"))[0]["id"] == "rs_1"


def test_items_are_sent_without_ids_if_the_reasoning_before_them_is_not() -> None:
    never = ResponsesDialect(model="m", provider="p", reasoning_replay="never")
    search = ProviderPart("p", "web_search_call", {"type": "web_search_call", "id": "ws_1"})
    parts = (search, call(id="fc_1"), said("a"))
    assert [item["id"] for item in items(*parts, dialect=never)] == ["ws_1", "fc_1", "msg_1"]
    assert [item["id"] for item in items(thought(), *parts)] == ["rs_1", "ws_1", "fc_1", "msg_1"]
    sent = items(thought(), *parts, dialect=never)
    assert [item["type"] for item in sent] == ["web_search_call", "function_call", "message"]
    assert not any("id" in item for item in sent)


def test_a_response_that_was_not_stored_is_sent_as_without_storage() -> None:
    empty = Reasoning("", None, own(item={"id": "rs_2"}))
    search = ProviderPart("p", "web_search_call", {"type": "web_search_call", "id": "ws_1"})
    parts: list[Part] = [empty, thought(), search, call(id="fc_1"), said("a")]
    unstored = Metadata("p", extra={"store": False})
    sent = model_items(Turn(parts, metadata=unstored), DIALECT)
    assert sent == items(*parts, dialect=FORGETFUL)
    assert [item["type"] for item in sent] == ["reasoning", "web_search_call", "function_call", "message"]
    assert not any("id" in item for item in sent)
    assert model_items(Turn(parts, metadata=replace(unstored, extra={})), DIALECT) == items(*parts)


def test_reasoning_without_a_following_item_is_omitted() -> None:
    assert items(thought()) == []
    assert [item["type"] for item in items(said("a"), thought(), thought())] == ["message"]


# --- Items of the server ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "mcp_call",
        "mcp_list_tools",
        "computer_call",
        "local_shell_call",
        "compaction",
        "tool_search_call",
        "something_new",
    ],
)
def test_an_item_of_the_server_is_sent_back_unchanged(kind: str) -> None:
    item = {"type": kind, "id": "x_1", "status": "completed", "further": {"a": [1, None]}}
    assert items(ProviderPart("p", kind, item)) == [item]


def test_without_storage_optional_item_ids_are_omitted() -> None:
    def ids(kind: str) -> object:
        part = ProviderPart("p", kind, {"type": kind, "id": "x_1"})
        return items(part, dialect=FORGETFUL)[0].get("id")

    assert [ids("web_search_call"), ids("compaction")] == [None, None]
    assert [ids("mcp_list_tools"), ids("code_interpreter_call")] == ["x_1", "x_1"]
    assert "id" not in items(said("a"), dialect=FORGETFUL)[0]
    call = Tool(FunctionCall("f", raw="{}", opaque=own(item={"id": "fc_1"})), call_id="a")
    assert "id" not in items(call, dialect=FORGETFUL)[0]
    assert items(call)[0]["id"] == "fc_1"
    assert "id" not in items(call, dialect=ResponsesDialect(model="m", provider="p", item_ids=False))[0]


def test_a_generated_image_is_sent_back_as_its_original_item() -> None:
    item = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "revised_prompt": "A cat."}
    file = File("image/png", data=b"\x89PNG", opaque=own(item=item))
    assert items(file) == [{**item, "result": base64.b64encode(b"\x89PNG").decode()}]


def test_an_image_generated_by_another_model_is_sent_in_a_user_message() -> None:
    assert items(Text("Here."), File("image/png", url="https://h/a.png"), Text("Nice?")) == [
        {"role": "assistant", "content": "Here."},
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_image", "image_url": "https://h/a.png"}],
        },
        {"role": "assistant", "content": "Nice?"},
    ]
    with pytest.raises(UnsupportedPartError, match="audio/wav"):
        items(File("audio/wav", data=b"x"))


# --- Calls ---------------------------------------------------------------------------------------------------


def call(name: str = "f", raw: str = '{"x": 1}', **item: Any) -> Tool:
    opaque = own(item=item) if item else None
    return Tool(FunctionCall.parse(name, raw, opaque=opaque), call_id="a", status=Completed("ok"))


def test_a_call_is_sent_back_with_its_raw_arguments() -> None:
    assert items(call(id="fc_1", namespace="n")) == [
        {
            "type": "function_call",
            "call_id": "a",
            "name": "f",
            "arguments": '{"x": 1}',
            "id": "fc_1",
            "namespace": "n",
        }
    ]


@pytest.mark.parametrize(
    ("raw", "arguments"),
    [
        ('{"x": 1', '{"INVALID_JSON":"{\\"x\\": 1"}'),
        ('"x"', '{"INVALID_JSON":"\\"x\\""}'),
        ("[1]", '{"INVALID_JSON":"[1]"}'),
        ("null", "{}"),
        (" ", "{}"),
        ("", "{}"),
        (' {"x": 1} ', ' {"x": 1} '),
    ],
)
def test_arguments_are_always_sent_as_a_json_object(raw: str, arguments: str) -> None:
    assert items(call(raw=raw))[0]["arguments"] == arguments


def test_a_custom_call_of_another_provider_is_sent_with_json_arguments() -> None:
    made = FunctionCall("sql", {"input": "SELECT 1"}, raw="SELECT 1", opaque=Opaque("q", {"item": {}}))
    (item,) = items(Tool(made, call_id="a"), provider="q")
    assert (item["type"], item["arguments"]) == ("function_call", '{"input":"SELECT 1"}')


def test_the_status_of_a_finished_call_is_sent_as_its_output() -> None:
    turn = Turn(
        [
            call(),
            Tool(FunctionCall("g"), id="b", status=Failed("broken")),
            Tool(FunctionCall("h"), id="c", status=Rejected("no")),
        ]
    )
    first, second, third = call_outputs(turn, DIALECT)
    assert first == {"type": "function_call_output", "call_id": "a", "output": "ok"}
    assert (second["call_id"], second["output"]) == ("b", "broken")
    assert "no" in third["output"]


def test_files_returned_by_a_tool_are_sent_in_its_output() -> None:
    file = File("image/png", url="https://h/a.png")
    tool = Tool(FunctionCall("f"), call_id="a", status=Completed("ok", (file,)))
    image = {"type": "input_image", "image_url": "https://h/a.png"}
    assert call_outputs(Turn([tool]), DIALECT)[0]["output"] == [{"type": "input_text", "text": "ok"}, image]
    silent = Tool(FunctionCall("f"), call_id="a", status=Completed("", (file,)))
    assert call_outputs(Turn([silent]), DIALECT)[0]["output"] == [image]


def test_a_custom_call_and_its_output_are_sent_as_plain_text() -> None:
    made = FunctionCall("sql", {"input": "SELECT 1"}, raw="SELECT 1", opaque=own(item={"type": "custom_tool_call"}))
    turn = Turn([Tool(made, call_id="a", status=Completed("1"))])
    assert model_items(turn, DIALECT) == [
        {"type": "custom_tool_call", "call_id": "a", "name": "sql", "input": "SELECT 1"}
    ]
    assert call_outputs(turn, DIALECT) == [{"type": "custom_tool_call_output", "call_id": "a", "output": "1"}]


def test_the_output_of_a_call_keeps_its_caller() -> None:
    caller = {"type": "program", "caller_id": "prog_1"}
    assert call_outputs(Turn([call(caller=caller)]), DIALECT)[0]["caller"] == caller


def test_call_ids_are_made_unique_and_shortened_for_other_providers() -> None:
    long = "x" * 65
    repeated = Tool(FunctionCall("f"), id="ours", call_id="a")
    turn = Turn([call(), repeated, Tool(FunctionCall("f"), call_id=long)])
    assert wire_ids(turn, DIALECT) == ["a", "ours", long]
    foreign = Turn(turn.parts, metadata=Metadata("q"))
    ids = wire_ids(foreign, DIALECT)
    assert ids[:2] == ["a", "ours"]
    assert (len(ids[2]), ids) == (37, wire_ids(foreign, DIALECT))


def test_function_names_of_another_provider_are_sanitized() -> None:
    assert items(call("a.b:c"), provider="q")[0]["name"] == "a_b_c"
    assert items(call("a.b:c"), provider="p")[0]["name"] == "a.b:c"


# --- Remote tools that want to be approved ------------------------------------------------------------------

REQUEST = {
    "type": "mcp_approval_request",
    "id": "mcpr_1",
    "server_label": "wiki",
    "name": "delete",
    "arguments": '{"page": 1}',
}


def approval(status: Any, **further: Any) -> Tool:
    arguments = {"server_label": "wiki", "name": "delete", "arguments": {"page": 1}}
    made = FunctionCall(MCP_APPROVAL, arguments, opaque=own(item=REQUEST))
    return Tool(made, call_id="mcpr_1", status=status, **further)


def test_an_mcp_approval_request_is_sent_back_with_its_approval() -> None:
    turn = Turn([approval(Completed("yes"))])
    assert model_items(turn, DIALECT) == [REQUEST]
    answer = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
    assert call_outputs(turn, DIALECT) == [answer]
    assert model_items(turn, FORGETFUL) == [REQUEST], "the answer names it, stored or not"


@pytest.mark.parametrize("status", [Rejected("too risky"), Failed("there is no tool called mcp_approval")])
def test_a_rejected_or_failed_approval_is_sent_as_refused_with_its_reason(status: Rejected | Failed) -> None:
    (answer,) = call_outputs(Turn([approval(status)]), DIALECT)
    assert answer["approve"] is False
    assert (status.reason if isinstance(status, Rejected) else status.error) in answer["reason"]


def test_an_approval_with_edited_arguments_is_sent_as_refused() -> None:
    (answer,) = call_outputs(Turn([approval(Completed("yes"), edited={"name": "archive"})]), DIALECT)
    assert answer["approve"] is False
    assert "archive" in answer["reason"]
    (same,) = call_outputs(Turn([approval(Completed("yes"), edited=approval(None).call.arguments)]), DIALECT)
    assert same["approve"] is True


def test_a_call_named_mcp_approval_of_another_origin_is_sent_as_a_function_call() -> None:
    tool = Tool(FunctionCall(MCP_APPROVAL), call_id="a", status=Completed("ok"))
    assert items(tool)[0]["type"] == "function_call"
    assert call_outputs(Turn([tool]), DIALECT)[0]["type"] == "function_call_output"
