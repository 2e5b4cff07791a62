from __future__ import annotations

import base64
from typing import Any

import pytest
from chat_claude.parts import add_cache_point, file_block, input_blocks, model_blocks, text_block, wire_ids
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

P = "claude"
SIGNED = Opaque(P, {})


def model(*parts: Part, provider: str | None = None) -> list[dict[str, Any]]:
    return model_blocks(Turn(parts, metadata=Metadata(provider)), P)[0]


def tool(status: Any, **fields: Any) -> Tool:
    return Tool(FunctionCall("f", {"a": 1}), call_id="toolu_1", status=status, **fields)


def result(status: Any, **fields: Any) -> dict[str, Any]:
    return model_blocks(Turn([tool(status, **fields)]), P)[1][0]


# --- Parts of user turns ------------------------------------------------------------------------------------


def test_text_and_files_are_sent_in_their_order() -> None:
    turn = Turn([Text("Look:"), File("image/png", data=b"png"), Text("Well?")])
    assert [block["type"] for block in input_blocks(turn, P, "user")] == ["text", "image", "text"]


def test_empty_texts_are_omitted_and_an_empty_user_message_is_rejected() -> None:
    assert text_block(Text(" \n"), P) is None
    assert len(input_blocks(Turn([Text(""), Text("x")]), P, "user")) == 1
    with pytest.raises(UnsupportedPartError, match="empty user message"):
        input_blocks(Turn([Text(" ")]), P, "user")
    assert input_blocks(Turn([Text("")]), P, "system") == []


def test_opaque_fields_of_a_text_are_sent_only_to_their_own_provider() -> None:
    assert text_block(Text("x", Opaque(P, {"citations": [1]})), P) == {"type": "text", "text": "x", "citations": [1]}
    assert text_block(Text("x", Opaque("gemini", {"citations": [1]})), P) == {"type": "text", "text": "x"}


def test_citations_are_sent_back_without_their_file_id() -> None:
    note = {"type": "page_location", "cited_text": "x"}
    part = Text("x", Opaque(P, {"citations": [{**note, "file_id": None}, {**note, "file_id": "file_1"}]}))
    assert model(part)[0]["citations"] == [note, note]
    beside = ProviderPart(P, "text", {"type": "text", "text": "x", "citations": [{**note, "file_id": None}]})
    assert model(beside)[0]["citations"] == [note]


def test_a_block_of_another_provider_is_omitted() -> None:
    turn = Turn([ProviderPart("gemini", "a", {"type": "a"}), ProviderPart(P, "b", {"type": "b"})])
    assert input_blocks(turn, P, "user") == [{"type": "b"}]
    assert model(*turn.parts) == [{"type": "b"}]
    assert input_blocks(Turn(turn.parts[:1]), P, "user") == []


def test_a_structured_part_is_sent_as_json_text() -> None:
    assert input_blocks(Turn([Structured({"a": 1})]), P, "user") == [{"type": "text", "text": '{"a":1}'}]
    assert model(Structured([1])) == [{"type": "text", "text": "[1]"}]


@pytest.mark.parametrize("part", [Embedding((0.5,)), Reasoning("hm")])
def test_a_part_that_a_user_message_cannot_contain_is_rejected_by_name(part: Part) -> None:
    with pytest.raises(UnsupportedPartError, match=r"Embedding of 1 numbers|Reasoning"):
        input_blocks(Turn([part]), P, "user")


def test_a_file_in_a_system_or_model_message_is_rejected() -> None:
    file = File("image/png", data=b"png")
    with pytest.raises(UnsupportedPartError, match="system messages cannot contain"):
        input_blocks(Turn([file]), P, "system")
    with pytest.raises(UnsupportedPartError, match="put it into a user message"):
        model(file)


# --- Files -----------------------------------------------------------------------------------------------------


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize(
    ("file", "block"),
    [
        (
            File("image/jpg", data=b"jpg"),
            {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": encoded(b"jpg")}},
        ),
        (File("image/*", url="https://a/b"), {"type": "image", "source": {"type": "url", "url": "https://a/b"}}),
        (
            File("application/pdf", data=b"%PDF", name="a.pdf"),
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": encoded(b"%PDF")},
                "title": "a.pdf",
            },
        ),
        (
            File("application/pdf", url="https://a/b.pdf"),
            {"type": "document", "source": {"type": "url", "url": "https://a/b.pdf"}},
        ),
        (
            File("text/csv; charset=utf-8", data=b"\xef\xbb\xbfa,b"),
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a,b"}},
        ),
        (
            File("application/json", data=b"{}"),
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "{}"}},
        ),
    ],
)
def test_the_mime_type_of_a_file_selects_its_block_type(file: File, block: dict[str, Any]) -> None:
    assert file_block(file, P) == block


@pytest.mark.parametrize(
    ("file", "why"),
    [
        (File("image/tiff", data=b"tiff"), r"mime='image/tiff'.*convert the file"),
        (File("image/svg+xml", url="https://a/b.svg"), r"by URL.*convert the file"),
        (File("audio/wav", data=b"RIFF"), r"mime='audio/wav'.*images, PDF and text"),
        (File("video/mp4", url="https://a/b.mp4"), "images, PDF and text"),
        (File("text/plain", url="https://a/b.txt"), "download the text"),
        (File("text/plain", data=b"\xff\xfe"), "not valid UTF-8"),
        (File("text/plain", data=b" "), "it is empty"),
        (File("image/png", data=b""), "has no bytes"),
        (File("image/png", opaque=Opaque("openai", {"file_id": "f"})), "stored with another provider"),
    ],
)
def test_a_file_that_cannot_be_sent_is_rejected_with_advice(file: File, why: str) -> None:
    with pytest.raises(UnsupportedPartError, match=why):
        file_block(file, P)


def test_case_and_parameters_of_a_mime_type_are_ignored() -> None:
    assert file_block(File("IMAGE/JPG; q=1", data=b"x"), P)["source"]["media_type"] == "image/jpeg"
    assert file_block(File("Application/PDF", data=b"x"), P)["type"] == "document"
    assert file_block(File("Image/PNG", opaque=Opaque(P, {"file_id": "f"})), P)["type"] == "image"


# --- Parts of model turns ------------------------------------------------------------------------------------


def test_thinking_is_sent_back_in_place_with_its_signatures() -> None:
    redacted = ProviderPart(P, "redacted_thinking", {"type": "redacted_thinking", "data": "x"})
    blocks = model(Reasoning("a", "s1", SIGNED), redacted, Text("b"), Reasoning("c", "s2", SIGNED), tool(Completed("")))
    assert [block["type"] for block in blocks] == ["thinking", "redacted_thinking", "text", "thinking", "tool_use"]
    assert blocks[0] == {"type": "thinking", "thinking": "a", "signature": "s1"}


def test_reasoning_without_a_claude_signature_is_omitted() -> None:
    assert len(model(Reasoning("a", "s"), Text("b"), provider="gemini")) == 1
    assert len(model(Reasoning("a", "s", Opaque("gemini", {})), Text("b"))) == 1
    assert len(model(Reasoning("a", None, SIGNED), Text("b"))) == 1
    assert len(model(Reasoning("a", "s"), Text("b"))) == 2
    assert len(model(Reasoning("a", "s", SIGNED), Text("b"), provider="gemini")) == 2


def test_thinking_blocks_at_the_end_of_a_message_are_omitted() -> None:
    redacted = ProviderPart(P, "redacted_thinking", {"type": "redacted_thinking", "data": "x"})
    assert model(Text("a"), Reasoning("b", "s", SIGNED), redacted) == [{"type": "text", "text": "a"}]
    assert model(Reasoning("b", "s", SIGNED)) == []


def test_the_explanation_of_a_refusal_is_not_sent_back() -> None:
    assert model(ProviderPart(P, "refusal", {"refusal": "no"})) == []


def test_a_block_without_a_type_is_not_sent_back() -> None:
    assert model(Text("x"), ProviderPart(P, "unknown", {"odd": 1})) == [{"type": "text", "text": "x"}]


def test_calls_before_a_fallback_are_not_sent_back() -> None:
    fall = ProviderPart(P, "fallback", {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}})
    calls = [Tool(FunctionCall("f", {}), call_id=f"toolu_{n}", status=Completed("x")) for n in range(3)]
    thought = Reasoning("Hm", "s", SIGNED)
    turn = Turn([thought, calls[0], fall, calls[1], calls[2]], metadata=Metadata(P))
    blocks, results = model_blocks(turn, P)
    assert [block["type"] for block in blocks] == ["thinking", "fallback", "tool_use", "tool_use"]
    assert [block["id"] for block in blocks[2:]] == ["toolu_1", "toolu_2"]
    assert [block["tool_use_id"] for block in results] == ["toolu_1", "toolu_2"]
    assert len(model_blocks(turn, "other")[1]) == 3


def test_a_call_and_its_result_are_sent_as_two_blocks() -> None:
    calls, results = model_blocks(Turn([tool(Completed({"b": 2}))]), P)
    assert calls == [{"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}}]
    assert results == [{"type": "tool_result", "tool_use_id": "toolu_1", "content": '{"b":2}'}]


def test_arguments_that_are_not_json_are_sent_back_as_invalid_json() -> None:
    call = Tool(FunctionCall.parse("f", '{"a": '), call_id="toolu_1", status=Failed("no JSON"))
    assert model(call)[0]["input"] == {"INVALID_JSON": '{"a": '}


def test_a_call_keeps_its_caller_but_no_opaque_data_of_another_provider() -> None:
    caller = {"caller": {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}}
    own = Tool(FunctionCall("f", opaque=Opaque(P, caller)), status=Completed(""))
    foreign = Tool(FunctionCall("f", opaque=Opaque("gemini", {"thoughtSignature": "s"})), status=Completed(""))
    assert model(own)[0]["caller"] == caller["caller"]
    assert model(foreign)[0].keys() == {"type", "id", "name", "input"}


@pytest.mark.parametrize("value", ["done", [{"type": "tool_reference", "tool_name": "f"}]], ids=["text", "blocks"])
def test_the_result_of_a_call_to_a_toolset_names_the_toolset(value: Any) -> None:
    for provider, name in ((P, "computer"), ("another", None)):
        call = FunctionCall("left_click", opaque=Opaque(provider, {"toolset_name": "computer"}))
        _, (sent,) = model_blocks(Turn([Tool(call, call_id="toolu_1", status=Completed(value))]), P)
        assert sent.get("toolset_name") == name


def test_foreign_ids_and_names_are_replaced_deterministically() -> None:
    odd = Tool(FunctionCall("space.walk"), call_id="call|1/ü", status=Completed(""))
    blocks = model(odd, provider="p")
    assert blocks[0]["name"] == "space_walk"
    assert blocks[0]["id"] == wire_ids(Turn([odd]))[0]
    assert blocks[0]["id"].startswith("toolu_")
    long = Tool(FunctionCall("f"), call_id="x" * 200, status=Completed(""))
    assert len(wire_ids(Turn([long]))[0]) == 38


def test_a_call_with_an_empty_name_is_sent_with_a_placeholder_name() -> None:
    assert model(Tool(FunctionCall("", {}), call_id="t", status=Failed("there is none")))[0]["name"] == "_"


def test_a_call_without_an_id_and_its_result_get_the_same_generated_id() -> None:
    calls, results = model_blocks(Turn([Tool(FunctionCall("f"), status=Completed("ok"))]), P)
    assert calls[0]["id"] == results[0]["tool_use_id"] != ""


@pytest.mark.parametrize("status", [Failed("broken"), Rejected("not now", "person"), Failed(" ")])
def test_a_failed_or_rejected_call_is_sent_as_an_error_result(status: Any) -> None:
    block = result(status)
    assert block["is_error"] is True
    assert block["content"].strip()


def test_an_empty_result_is_sent_without_content() -> None:
    assert result(Completed("")) == {"type": "tool_result", "tool_use_id": "toolu_1"}


def test_a_result_contains_images_and_documents_next_to_its_text() -> None:
    files = (File("image/png", data=b"png"), File("application/pdf", data=b"%PDF"))
    assert [block["type"] for block in result(Completed("see", files))["content"]] == ["text", "image", "document"]
    assert [block["type"] for block in result(Completed(None, files))["content"]] == ["image", "document"]


def test_a_result_may_consist_of_native_blocks() -> None:
    found = [{"type": "tool_reference", "tool_name": "g"}]
    assert result(Completed(found))["content"] == found
    assert result(Completed([*found, 1]))["content"].startswith("[")
    assert result(Completed([]))["content"] == "[]"
    assert result(Completed(found), edited={"a": 2})["content"].startswith("[The call was changed")


def test_a_result_may_mix_text_blocks_with_citable_blocks() -> None:
    found: dict[str, Any] = {"type": "search_result", "source": "s", "title": "t", "content": []}
    words: dict[str, Any] = {"type": "text", "text": "x"}
    assert result(Completed([words, found]))["content"] == [words, found]
    assert isinstance(result(Completed([words]))["content"], str)
    assert isinstance(result(Completed([found, {"type": "odd"}]))["content"], str)


# --- Cache points ---------------------------------------------------------------------------------------------


def test_a_cache_point_is_put_on_the_last_block_that_supports_one() -> None:
    blocks: list[dict[str, Any]] = [{"type": "text"}, {"type": "thinking"}, {"type": "redacted_thinking"}]
    assert add_cache_point(blocks, "1h")
    assert blocks[0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert blocks[1].keys() == blocks[2].keys() == {"type"}
    assert not add_cache_point(blocks[1:], "5m")


@pytest.mark.parametrize("kind", ["thinking", "redacted_thinking", "fallback", "mcp_tool_listing"])
def test_block_types_without_cache_support_get_no_cache_point(kind: str) -> None:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": "x"}, {"type": kind}]
    assert add_cache_point(blocks, "5m")
    assert ["cache_control" in block for block in blocks] == [True, False]


def test_an_existing_cache_point_is_kept() -> None:
    blocks: list[dict[str, Any]] = [{"type": "text", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
    assert add_cache_point(blocks, "5m")
    assert blocks[0]["cache_control"]["ttl"] == "1h"


@pytest.mark.parametrize("kind", [["thinking"], {"a": 1}, 7, None])
def test_stored_blocks_whose_type_is_not_a_string_are_sent_back_unchanged(kind: object) -> None:
    block = {"type": kind, "value": 1}
    assert model(ProviderPart(P, "odd", block)) == [block]
    add_cache_point([dict(block)], "5m")
    completed = result(Completed([block]))
    assert completed["type"] == "tool_result"
