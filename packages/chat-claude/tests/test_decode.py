from __future__ import annotations

import json
from time import process_time
from typing import Any

import pytest
from chat_claude.decode import REFUSED, StreamDecoder, decode, is_last
from chat_core.errors import ChatError, InvalidResponseError, ServerError, StreamTruncatedError
from chat_core.events import ReasoningDelta, TextDelta, ToolCallDelta
from chat_core.messages import Failed, Opaque, ProviderPart, Reasoning, Text, Turn
from chat_core.provider import Delta
from chat_core.transport import Event
from chat_core.usage import Usage

P = "claude"
START: dict[str, Any] = {
    "type": "message_start",
    "message": {"id": "msg_1", "model": "m-1", "content": [], "usage": {"input_tokens": 10, "output_tokens": 1}},
}
STOP: dict[str, Any] = {"type": "message_stop"}


def begin(block: dict[str, Any], index: int = 0) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def grow(delta: Any, index: int = 0) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def end(index: int = 0) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def over(reason: str | None = "end_turn", **fields: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}, **fields}


def event(chunk: dict[str, Any]) -> Event:
    return Event(chunk.get("type", "message"), json.dumps(chunk).encode())


def text(words: str = "Hi", index: int = 0) -> list[dict[str, Any]]:
    return [begin({"type": "text", "text": ""}, index), grow({"type": "text_delta", "text": words}, index), end(index)]


def call(arguments: str = "", index: int = 0, **fields: Any) -> list[dict[str, Any]]:
    block: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}, **fields}
    return [begin(block, index), grow({"type": "input_json_delta", "partial_json": arguments}, index), end(index)]


def listen(*chunks: Any, output_tool: str | None = None) -> tuple[list[Delta], Turn]:
    decoder = StreamDecoder(P, output_tool=output_tool)
    deltas: list[Delta] = []
    for chunk in chunks:
        deltas += decoder.feed([chunk if isinstance(chunk, Event) else event(chunk)])
    return deltas, decoder.close()


def turn(*chunks: Any) -> Turn:
    return listen(START, *chunks, over(), STOP)[1]


def failure(*chunks: Any) -> ChatError:
    decoder = StreamDecoder(P)
    with pytest.raises(ChatError) as error:
        for chunk in chunks:
            decoder.feed([chunk if isinstance(chunk, Event) else event(chunk)])
        decoder.close()
    return error.value


def whole(**fields: Any) -> Turn:
    answer: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "model": "m-1",
        "content": [],
        "stop_reason": "end_turn",
        **fields,
    }
    return decode(json.dumps(answer).encode(), P)


# --- Text, thoughts, calls ------------------------------------------------------------------------------------


def test_a_stream_is_decoded_into_deltas_and_a_turn_with_metadata() -> None:
    deltas, said = listen(START, {"type": "ping"}, *text("Hel"), *text("lo", 1), over(), STOP)
    assert deltas == [TextDelta("Hel"), TextDelta("lo")]
    assert said.text == "Hello"
    assert said.finish_reason == "stop"
    assert said.metadata is not None
    assert (said.metadata.id, said.metadata.model, said.metadata.finish_reason) == ("msg_1", "m-1", "end_turn")


def test_the_stop_reason_is_read_from_the_message_delta() -> None:
    assert listen(START, *call("{}"), over("tool_use"), STOP)[1].finish_reason == "tool_calls"
    assert listen(START, *text(), over("max_tokens"), STOP)[1].finish_reason == "length"


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("pause_turn", "pause"),
        ("compaction", "pause"),
        ("refusal", "refusal"),
        ("something_new", "other"),
        (None, "other"),
    ],
)
def test_every_stop_reason_maps_to_a_finish_reason(reason: str | None, finish: str) -> None:
    said = listen(START, *text(), over(reason), STOP)[1]
    assert said.finish_reason == finish
    assert said.metadata is not None
    assert said.metadata.finish_reason == reason


def test_a_response_with_calls_finishes_with_tool_calls() -> None:
    assert listen(START, *call("{}"), over("end_turn"), STOP)[1].finish_reason == "tool_calls"
    assert listen(START, *call("{}"), over(None), STOP)[1].finish_reason == "tool_calls"
    assert listen(START, *call("{}"), over("max_tokens"), STOP)[1].finish_reason == "length"


def test_the_arguments_of_a_call_are_delivered_once_as_deltas() -> None:
    pieces = [grow({"type": "input_json_delta", "partial_json": piece}, 1) for piece in ("", '{"a"', ":1}")]
    block = begin({"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}, 1)
    deltas, said = listen(START, *text(), block, *pieces, end(1), over("tool_use"), STOP)
    assert deltas[1:] == [
        ToolCallDelta("", 0, "f", "toolu_1"),
        ToolCallDelta('{"a"', 0),
        ToolCallDelta(":1}", 0),
    ]
    assert [(tool.call_id, tool.name, dict(tool.call.arguments)) for tool in said.tools] == [("toolu_1", "f", {"a": 1})]


def test_a_call_without_arguments_gets_an_empty_object() -> None:
    for chunks in (call(), call()[:1]):
        tool = turn(*chunks).tools[0]
        assert dict(tool.call.arguments) == {}
        assert tool.call.problem is None


def test_arguments_in_the_block_start_are_used_without_deltas() -> None:
    block = {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}
    deltas, said = listen(START, begin(block), end(), over(), STOP)
    assert (deltas[-1], dict(said.tools[0].call.arguments)) == (ToolCallDelta('{"a":1}', 0), {"a": 1})
    assert dict(whole(content=[block]).tools[0].call.arguments) == {"a": 1}


def test_parallel_calls_are_separated_by_block() -> None:
    deltas, said = listen(START, *call('{"a":1}'), *call('{"a":2}', 1, id="toolu_2"), over("tool_use"), STOP)
    assert [delta.index for delta in deltas if isinstance(delta, ToolCallDelta)] == [0, 0, 1, 1]
    assert [dict(tool.call.arguments) for tool in said.tools] == [{"a": 1}, {"a": 2}]


def test_the_caller_of_a_call_is_kept_unless_it_is_direct() -> None:
    direct, code = {"type": "direct"}, {"type": "code_execution_20260120", "tool_id": "s"}
    assert turn(*call("{}", caller=direct)).tools[0].call.opaque is None
    assert turn(*call("{}", caller=code)).tools[0].call.opaque == Opaque(P, {"caller": code})


def test_thinking_blocks_keep_their_signature_and_position() -> None:
    deltas, said = listen(
        START,
        begin({"type": "thinking", "thinking": "", "signature": ""}),
        grow({"type": "thinking_delta", "thinking": "Hm"}),
        grow({"type": "thinking_delta", "thinking": ""}),
        grow({"type": "signature_delta", "signature": "sig"}),
        grow({"type": "something_new"}),
        end(),
        begin({"type": "redacted_thinking", "data": "xyz"}, 1),
        end(1),
        *text("Hi", 2),
        over(),
        STOP,
    )
    assert deltas == [ReasoningDelta("Hm"), TextDelta("Hi")]
    assert said.parts == (
        Reasoning("Hm", "sig", Opaque(P, {})),
        ProviderPart(P, "redacted_thinking", {"type": "redacted_thinking", "data": "xyz"}),
        Text("Hi"),
    )


def test_a_thinking_block_without_text_keeps_its_signature() -> None:
    for words in ("", "Hm"):
        said = whole(content=[{"type": "thinking", "thinking": words, "signature": "s"}])
        assert said.parts == (Reasoning(words, "s", Opaque(P, {})),)


def test_citations_are_kept_with_their_text() -> None:
    note = {"type": "page_location", "cited_text": "x"}
    said = turn(
        begin({"type": "text", "text": "", "citations": []}),
        grow({"type": "citations_delta", "citation": note}),
        grow({"type": "text_delta", "text": "Hi"}),
        grow({"type": "something_new"}),
    )
    assert said.parts == (Text("Hi", Opaque(P, {"citations": [note]})),)
    assert whole(content=[{"type": "text", "text": "Hi", "citations": [note]}]).parts == said.parts
    assert whole(content=[{"type": "text", "text": "Hi", "citations": None, "new": 1}]).parts == (
        Text("Hi", Opaque(P, {"new": 1})),
    )


# --- Other blocks ---------------------------------------------------------------------------------------------


def test_server_tool_blocks_become_provider_parts() -> None:
    said = turn(
        begin({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
        grow({"type": "input_json_delta", "partial_json": '{"query":'}),
        grow({"type": "input_json_delta", "partial_json": '"x"}'}),
        end(),
        begin({"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"encrypted_content": "e"}]}, 1),
        end(1),
    )
    assert [part.kind for part in said.parts if isinstance(part, ProviderPart)] == [
        "server_tool_use",
        "web_search_tool_result",
    ]
    data = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}}
    assert said.parts[0] == ProviderPart(P, "server_tool_use", data)
    assert said.tools == []


@pytest.mark.parametrize("pieces", ['{"a', "[1]"])
def test_invalid_input_of_a_server_tool_is_kept_as_invalid_json(pieces: str) -> None:
    said = turn(
        begin({"type": "server_tool_use", "id": "s", "name": "x", "input": {}}),
        grow({"type": "input_json_delta", "partial_json": pieces}),
    )
    assert isinstance(said.parts[0], ProviderPart)
    assert said.parts[0].data["input"] == {"INVALID_JSON": pieces}


def test_an_unknown_block_with_any_deltas_becomes_a_provider_part() -> None:
    said = turn(
        begin({"type": "hologram", "words": "a", "list": [1], "citations": None, "gone": None}),
        grow({"type": "hologram_delta", "words": None, "list": None}),
        grow({"type": "hologram_delta", "words": "b", "list": [2], "new": 3, "gone": None, "citation": 4}),
    )
    assert said.parts == (
        ProviderPart(
            P,
            "hologram",
            {"type": "hologram", "words": "ab", "list": [1, 2], "citations": [4], "gone": None, "new": 3},
        ),
    )
    assert whole(content=[{"odd": 1}]).parts == (ProviderPart(P, "unknown", {"odd": 1}),)


def test_a_compaction_delta_replaces_the_initial_content() -> None:
    said = turn(
        begin({"type": "compaction", "content": "?", "encrypted_content": None}),
        grow({"type": "compaction_delta", "content": "Said before.", "encrypted_content": "e"}),
    )
    data = {"type": "compaction", "content": "Said before.", "encrypted_content": "e"}
    assert said.parts == (ProviderPart(P, "compaction", data),)


def test_a_block_without_a_start_event_gets_its_type_from_its_deltas() -> None:
    said = turn(
        grow({"type": "text_delta", "text": "Hi"}),
        grow({"type": "thinking_delta", "thinking": "Hm"}, 1),
        grow({"type": "something_new"}, 2),
        end(3),
    )
    assert said.text == "Hi"
    assert isinstance(said.parts[1], Reasoning)
    assert isinstance(said.parts[2], ProviderPart)


def test_content_in_message_start_is_part_of_the_turn() -> None:
    start = {"type": "message_start", "message": {**START["message"], "content": [{"type": "text", "text": "Hi"}]}}
    deltas, said = listen(start, over(), STOP)
    assert deltas == [TextDelta("Hi")]
    assert said.text == "Hi"


def test_a_delta_after_the_end_of_its_block_is_added_to_it() -> None:
    said = turn(
        begin({"type": "thinking", "thinking": ""}),
        grow({"type": "thinking_delta", "thinking": "Hm"}),
        end(),
        *text("Hi", 1),
        grow({"type": "signature_delta", "signature": "s"}),
    )
    assert said.parts == (Reasoning("Hm", "s", Opaque(P, {})), Text("Hi"))


def test_a_delta_without_an_index_is_added_to_the_last_block() -> None:
    pieces: list[dict[str, Any]] = [
        {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": piece}}
        for piece in ('{"a"', ":1}")
    ]
    said = turn(*text(), begin({"type": "tool_use", "id": "t", "name": "f", "input": {}}, 1), *pieces)
    assert [dict(tool.call.arguments) for tool in said.tools] == [{"a": 1}]


def test_arguments_without_a_block_start_raise_invalid_response() -> None:
    error = failure(START, grow({"type": "input_json_delta", "partial_json": "{}"}), over("tool_use"), STOP)
    assert isinstance(error, InvalidResponseError)
    assert error.path == "index"


def test_a_block_start_with_a_used_index_ends_the_earlier_block() -> None:
    answer = begin({"type": "tool_use", "id": "t", "name": "city", "input": {"a": 1}})
    deltas, said = listen(START, answer, begin({"type": "text", "text": ""}), over(), STOP, output_tool="city")
    assert deltas == [TextDelta('{"a":1}')]
    assert said.text == '{"a":1}'


def test_a_signature_may_be_sent_in_a_thinking_delta() -> None:
    said = turn(
        begin({"type": "thinking", "thinking": ""}),
        grow({"type": "thinking_delta", "thinking": "Hm", "signature": "s"}),
    )
    assert said.parts == (Reasoning("Hm", "s", Opaque(P, {})),)


def test_citation_and_signature_deltas_imply_the_type_of_their_block() -> None:
    said = turn(
        grow({"type": "citations_delta", "citation": {"type": "page_location"}}),
        grow({"type": "text_delta", "text": "Hi"}),
        grow({"type": "signature_delta", "signature": "s"}, 1),
    )
    assert said.parts == (
        Text("Hi", Opaque(P, {"citations": [{"type": "page_location"}]})),
        Reasoning("", "s", Opaque(P, {})),
    )


def test_a_failed_compaction_is_kept_as_null() -> None:
    said = turn(
        begin({"type": "compaction", "content": "", "encrypted_content": None}),
        grow({"type": "compaction_delta", "content": None, "encrypted_content": None}),
    )
    assert said.parts == (
        ProviderPart(P, "compaction", {"type": "compaction", "content": None, "encrypted_content": None}),
    )


def test_an_unknown_block_grows_in_linear_time() -> None:
    piece = {"type": "hologram_delta", "words": "b" * 1000, "list": [2]}
    block: dict[str, Any] = {"type": "hologram", "words": "a", "list": [1]}
    decoder = StreamDecoder(P)
    decoder.feed([event(START), event(begin(block))])
    started = process_time()
    decoder.feed([event(grow(piece))] * 8_000)
    few = process_time() - started
    decoder.feed([event(over()), event(STOP)])
    data = decoder.close().parts[0]
    assert isinstance(data, ProviderPart)
    assert data.data == {"type": "hologram", "words": "a" + "b" * 8_000_000, "list": [1, *[2] * 8_000]}
    assert few < 2


FALLBACK: dict[str, Any] = {
    "type": "fallback",
    "from": {"model": "m-1"},
    "to": {"model": "m-2"},
    "trigger": {"type": "refusal", "category": None},
}


def test_calls_before_a_fallback_to_another_model_are_not_run() -> None:
    said = listen(START, *call('{"a":'), begin(FALLBACK, 1), end(1), *text("Hi", 2), over(), STOP)[1]
    cut = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"INVALID_JSON": '{"a":'}}
    assert (said.tools, said.parts[0]) == ([], ProviderPart(P, "tool_use", cut))
    assert said.finish_reason == "stop"
    assert said.metadata is not None
    assert said.metadata.model == "m-2"


def test_calls_after_a_fallback_to_another_model_are_run() -> None:
    said = listen(START, *call("{}"), begin(FALLBACK, 1), *call("{}", 2, id="toolu_2"), over("tool_use"), STOP)[1]
    assert [tool.call_id for tool in said.tools] == ["toolu_2"]
    assert said.finish_reason == "tool_calls"
    odd = {"type": "fallback", "to": None}
    metadata = whole(content=[odd]).metadata
    assert metadata is not None
    assert metadata.model == "m-1"


# --- Usage ----------------------------------------------------------------------------------------------------


def test_usage_of_the_last_event_replaces_earlier_counts() -> None:
    assert turn(*text()).usage == Usage(10, 9)
    later = over(usage={"output_tokens": 9, "input_tokens": 30, "cache_read_input_tokens": 5})
    assert listen(START, *text(), later, STOP)[1].usage == Usage(35, 9, 5)
    assert listen(START, *text(), {**over(), "usage": None}, STOP)[1].usage == Usage(10, 1)


def test_further_response_fields_are_kept_in_the_metadata() -> None:
    last = over(
        "stop_sequence",
        delta={"stop_reason": "stop_sequence", "stop_sequence": "END", "container": {"id": "c"}, "stop_details": None},
        context_management={"applied_edits": []},
        usage={"output_tokens": 9, "server_tool_use": {"web_search_requests": 1}},
    )
    metadata = listen(START, *text(), last, STOP)[1].metadata
    assert metadata is not None
    assert metadata.extra == {
        "stop_sequence": "END",
        "container": {"id": "c"},
        "context_management": {"applied_edits": []},
        "server_tool_use": {"web_search_requests": 1},
    }


def test_calls_of_a_refused_response_are_marked_as_failed() -> None:
    said = listen(START, *call("{}"), over("refusal"), STOP)[1]
    assert said.finish_reason == "refusal"
    assert said.tools[0].status == Failed(REFUSED)
    assert len(said.parts) == 1


def test_the_explanation_of_a_refusal_becomes_a_provider_part() -> None:
    why = {"stop_reason": "refusal", "stop_details": {"type": "refusal", "explanation": "It is forbidden."}}
    said = listen(START, over(delta=why), STOP)[1]
    assert said.parts == (ProviderPart(P, "refusal", {"refusal": "It is forbidden."}),)


# --- Structured answers by a tool -----------------------------------------------------------------------------


def test_the_arguments_of_the_output_tool_become_the_text() -> None:
    chunks = (START, *text("Here:"), *call('{"a":1}', 1, name="city"), over("tool_use"), STOP)
    deltas, said = listen(*chunks, output_tool="city")
    assert deltas == [TextDelta('{"a":1}')]
    assert said.text == '{"a":1}'
    assert said.tools == []
    assert said.finish_reason == "stop"
    assert said.parts[0] == ProviderPart(P, "text", {"type": "text", "text": "Here:"})


def test_text_without_the_output_tool_is_delivered_at_the_end() -> None:
    deltas, said = listen(START, *text("No."), over(), STOP, output_tool="city")
    assert deltas == [TextDelta("No.")]
    assert said.parts == (Text("No."),)


def test_calls_of_other_tools_run_with_the_output_tool() -> None:
    chunks = (START, *call("{}"), *call("", 1, name="city", input={"a": 1}), over("tool_use"), STOP)
    deltas, said = listen(*chunks, output_tool="city")
    assert (deltas[-1], [tool.name for tool in said.tools]) == (TextDelta('{"a":1}'), ["f"])
    assert said.finish_reason == "tool_calls"
    body = b'{"content":[{"type":"tool_use","id":"t","name":"city","input":{}}],"stop_reason":"tool_use"}'
    assert decode(body, P, output_tool="city").text == "{}"


# --- The end --------------------------------------------------------------------------------------------------


def test_a_stream_without_message_stop_is_truncated_even_with_a_stop_reason() -> None:
    error = failure(START, *text(), *call('{"a":', 1), over("tool_use"))
    assert isinstance(error, StreamTruncatedError)
    assert "without `message_stop`; 1 call was not run; usage so far: 10 in, 9 out" in str(error)
    assert error.retryable
    assert error.partial is not None
    assert error.partial.text == "Hi"
    assert error.partial.finish_reason is None
    assert "calls" not in str(failure(START, *text()))
    assert "2 calls were" in str(failure(START, *call(), *call("", 1)))
    assert "usage" not in str(failure())


@pytest.mark.parametrize("data", [b"[DONE]", b" [DONE] ", b"", b" "])
def test_done_and_blank_events_of_a_gateway_are_ignored(data: bytes) -> None:
    assert listen(START, *text(), Event("data", data), over(), Event("message", data), STOP)[1].text == "Hi"
    assert listen(START, *text(), over(), STOP, Event("message", data))[1].text == "Hi"
    assert isinstance(failure(START, *text(), over(), Event("message", data)), StreamTruncatedError)


def test_unknown_events_are_ignored() -> None:
    odd = (Event("new_thing", b"words"), Event("new_thing", b"[1]"), {"type": "new_thing"}, Event("ping", b"?"))
    assert turn(*odd, *text()).text == "Hi"


def test_events_without_an_event_name_are_read_by_type() -> None:
    chunks = [Event("message", json.dumps(chunk).encode()) for chunk in (START, *text(), over(), STOP)]
    assert listen(*chunks)[1].text == "Hi"
    assert [is_last(chunk) for chunk in chunks] == [False] * 5 + [True]
    assert not is_last(Event("message", b'{"type":"x","text":"message_stop"}'))
    assert not is_last(Event("message", b"message_stop"))
    assert is_last(Event("message_stop", b""))
    assert is_last(Event("error", b"{}"))
    assert not is_last(Event("content_block_delta", b'{"message_stop"'))


def test_events_without_a_type_are_read_by_their_event_name() -> None:
    chunks = (START, *text(), over(), STOP)
    bare = [{key: value for key, value in chunk.items() if key != "type"} for chunk in chunks]
    events = [Event(full["type"], json.dumps(chunk).encode()) for full, chunk in zip(chunks, bare, strict=True)]
    assert listen(*events)[1].text == "Hi"
    assert isinstance(failure(START, *text(), over(), Event("message", b"{}")), StreamTruncatedError)
    assert type(failure(START, Event("error", b'{"message": "no"}'))) is ServerError


def test_a_stream_without_message_start_raises_invalid_response() -> None:
    error = failure(STOP)
    assert isinstance(error, InvalidResponseError)
    assert error.path == "message"


def test_unfinished_blocks_end_with_the_message() -> None:
    block = begin({"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}})
    deltas, said = listen(START, block, over(), STOP)
    assert deltas[-1] == ToolCallDelta('{"a":1}', 0)
    assert dict(said.tools[0].call.arguments) == {"a": 1}


def test_a_surrogate_pair_split_between_deltas_is_delivered_as_one_character() -> None:
    first = Event("content_block_delta", rb'{"type":"content_block_delta","index":0,"delta":{"text":"a\ud83d"}}')
    second = Event("content_block_delta", rb'{"type":"content_block_delta","index":0,"delta":{"text":"\ude00b"}}')
    chunks = (START, begin({"type": "text", "text": ""}), first, {"type": "ping"}, {"type": "new_thing"}, second)
    deltas, said = listen(*chunks, over(), STOP)
    assert said.text == "a\N{GRINNING FACE}b"
    assert [delta.text for delta in deltas if isinstance(delta, TextDelta)] == ["a", "\N{GRINNING FACE}b"]


def test_calls_with_an_unknown_stop_reason_are_withheld_unless_it_is_mapped() -> None:
    block: dict[str, Any] = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    body: dict[str, Any] = {"id": "m", "content": [block], "stop_reason": "tool_calls"}
    data = json.dumps(body).encode()
    assert decode(data, "claude").finish_reason == "other"
    assert decode(data, "claude", finish_reasons=(("tool_calls", "tool_calls"),)).finish_reason == "tool_calls"
    decoder = StreamDecoder("claude", finish_reasons=(("eos", "stop"),))
    decoder.feed([event(chunk) for chunk in (START, *text(), over("EOS"), STOP)])
    assert decoder.close().finish_reason == "stop"
