from __future__ import annotations

import json
from collections.abc import Callable
from typing import cast

import pytest
from chat_core.errors import (
    ContentFilteredError,
    InvalidResponseError,
    OverloadedError,
    ProviderError,
    ServerError,
    StreamTruncatedError,
)
from chat_core.events import ReasoningDelta, TextDelta
from chat_core.messages import FinishReason, Pending, ProviderPart, Text, Turn
from chat_core.provider import Delta
from chat_core.transport import Event
from chat_core.usage import Usage
from chat_gemini.decode import StreamDecoder, decode, wrong_path
from chat_gemini.options import Dialect
from chat_gemini.parts import model_contents


def chunk(*parts: object, finish: str | None = None, index: object = 0, **fields: object) -> dict[str, object]:
    candidate: dict[str, object] = {"content": {"role": "model", "parts": list(parts)}, "index": index}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": "m-1", "responseId": "r1", **fields}


def say(text: str, finish: str | None = None, **fields: object) -> dict[str, object]:
    return chunk({"text": text}, finish=finish, **fields)


def event(value: object) -> Event:
    return Event("message", value if isinstance(value, bytes) else json.dumps(value).encode())


def listen(*chunks: object) -> tuple[list[Delta], StreamDecoder]:
    decoder = StreamDecoder("p")
    return [delta for item in chunks for delta in decoder.feed([event(item)])], decoder


def stream(*chunks: object) -> Turn:
    return listen(*chunks)[1].close()


def whole(value: object) -> Turn:
    return decode(json.dumps(value).encode(), "p")


def extra(turn: Turn) -> object:
    assert turn.metadata is not None
    return turn.metadata.extra


# --- Answers ------------------------------------------------------------------------------------------------


def test_a_whole_response_is_decoded_into_a_turn_with_metadata() -> None:
    turn = whole(say("Hello", "STOP", usageMetadata={"promptTokenCount": 3, "candidatesTokenCount": 1}))
    assert (turn.parts, turn.finish_reason, turn.usage) == ((Text("Hello"),), "stop", Usage(3, 1))
    assert turn.metadata is not None
    assert (turn.metadata.provider, turn.metadata.model, turn.metadata.id) == ("p", "m-1", "r1")
    assert turn.metadata.finish_reason == "STOP"


def test_a_stream_is_decoded_into_deltas_and_a_turn() -> None:
    deltas, decoder = listen(chunk({"text": "Hm", "thought": True}), say("Hel"), say("lo"), say("!"), say("", "STOP"))
    assert deltas == [ReasoningDelta("Hm"), TextDelta("Hel"), TextDelta("lo"), TextDelta("!")]
    assert decoder.close().text == "Hello!"


def test_only_the_first_candidate_is_decoded() -> None:
    two = {"candidates": [*_of(say("first", "STOP")), *_of(say("second", "STOP", index=1))]}
    assert whole(two).text == "first"
    assert stream(two).text == "first"
    assert stream(say("no", index=1), say("yes", "STOP"), say("no", "STOP", index=1)).text == "yes"


def test_further_candidates_are_kept_in_the_metadata_and_their_calls_do_not_run() -> None:
    call: dict[str, object] = {"functionCall": {"name": "f", "args": {"a": 1}, "id": "c"}, "thoughtSignature": "c2ln"}
    thought: dict[str, object] = {"text": "Hm", "thought": True}
    parts: list[object] = [thought, {"text": "second"}, call]
    kept = [{"index": 1, "content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]
    two: dict[str, object] = {"candidates": [*_of(say("first", "STOP")), *kept]}
    pieces = [say("sec", index=1), say("ond", index=1), chunk(call, finish="STOP", index=1)]
    deltas, decoder = listen(say("first"), chunk(thought, index=1), *pieces, say("", "STOP"))
    assert deltas == [TextDelta("first")]
    without_zero: dict[str, object] = {"candidates": [{**_one(say("first", "STOP")), "index": 2}, *kept]}
    for turn in (whole(two), stream(two), decoder.close(), whole(without_zero)):
        assert (turn.parts, turn.finish_reason) == ((Text("first"),), "stop")
        assert turn.metadata is not None
        assert turn.metadata.extra["candidates"] == kept


def _one(value: dict[str, object]) -> dict[str, object]:
    (candidate,) = _of(value)
    assert isinstance(candidate, dict)
    return {**candidate}


def _of(value: dict[str, object]) -> list[object]:
    candidates = value["candidates"]
    assert isinstance(candidates, list)
    return [*candidates]


def test_a_candidate_without_an_index_is_the_first() -> None:
    assert whole(say("a", "STOP", index=None)).text == "a"
    assert stream(say("a", "STOP", index=None)).text == "a"


def test_a_single_candidate_with_another_index_is_decoded() -> None:
    assert whole(say("a", "STOP", index=1)).text == "a"


@pytest.mark.parametrize(
    ("reason", "meaning"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("BLOCKLIST", "content_filter"),
        ("PROHIBITED_CONTENT", "content_filter"),
        ("SPII", "content_filter"),
        ("IMAGE_SAFETY", "content_filter"),
        ("MODEL_ARMOR", "content_filter"),
        ("ESCALATION", "content_filter"),
        ("PUP_LIMITED_DISABLED", "content_filter"),
        ("CONTINUATION", "pause"),
        ("LANGUAGE", "other"),
        ("NO_IMAGE", "other"),
        ("SOMETHING_NEW", "other"),
    ],
)
def test_every_finish_reason_is_normalized_and_the_original_kept(reason: str, meaning: FinishReason) -> None:
    for turn in (whole(say("a", reason)), stream(say("a"), {"candidates": [{"finishReason": reason}]})):
        assert turn.finish_reason == meaning
        assert turn.metadata is not None
        assert turn.metadata.finish_reason == reason


def test_a_candidate_may_contain_only_a_finish_reason() -> None:
    bare = {"candidates": [{"finishReason": "LANGUAGE", "finishMessage": "print(f())"}]}
    for turn in (whole(bare), stream(bare)):
        assert (turn.parts, turn.finish_reason) == ((), "other")
        assert extra(turn) == {"finishMessage": "print(f())"}


@pytest.mark.parametrize(
    ("reason", "retryable"),
    [
        ("MALFORMED_FUNCTION_CALL", True),
        ("MALFORMED_RESPONSE", True),
        ("UNEXPECTED_TOOL_CALL", True),
        ("TOO_MANY_TOOL_CALLS", False),
        ("MISSING_THOUGHT_SIGNATURE", False),
    ],
)
@pytest.mark.parametrize("read", [whole, stream], ids=["whole", "stream"])
def test_a_finish_reason_that_reports_a_malformed_response_raises(
    read: Callable[..., Turn], reason: str, retryable: bool
) -> None:
    call: dict[str, object] = {"functionCall": {"name": "pay", "args": {}}}
    content = {"role": "model", "parts": [{"text": "I pay."}, call]}
    candidate = {"content": content, "finishReason": reason, "finishMessage": "Unexpected tool call: pay"}
    message = rf"{reason} \(Unexpected tool call: pay\): .* \(next step: .*\)$"
    with pytest.raises(InvalidResponseError, match=message) as caught:
        read({"candidates": [candidate]})
    error = caught.value
    assert (error.path, error.raw, error.retryable) == ("candidates[0].finishReason", reason, retryable)
    assert error.partial is not None
    assert (error.partial.text, [tool.name for tool in error.partial.tools]) == ("I pay.", ["pay"])


@pytest.mark.parametrize("read", [whole, stream], ids=["whole", "stream"])
@pytest.mark.parametrize("id_", [None, "c1"])
def test_a_call_with_a_result_in_the_response_is_not_run_again(read: Callable[..., Turn], id_: str | None) -> None:
    ids = {"id": id_} if id_ else {}
    call: dict[str, object] = {"functionCall": {"name": "search", "args": {"q": "a"}, **ids}, "thoughtSignature": "s"}
    result: dict[str, object] = {"functionResponse": {"name": "search", "response": {"found": 1}, **ids}}
    turn = read(chunk(call, result, {"text": "Found."}, finish="STOP"))
    assert (turn.tools, turn.text, turn.finish_reason) == ([], "Found.", "stop")
    assert turn.parts[:2] == (ProviderPart("p", "functionCall", call), ProviderPart("p", "functionResponse", result))
    (content,) = model_contents(turn, Dialect(model="m", provider="p"))
    assert content["parts"] == [call, result, {"text": "Found."}]


def test_a_server_result_is_matched_to_one_call() -> None:
    def call(id_: str | None, name: str = "search") -> dict[str, object]:
        return {"functionCall": {"name": name, "args": {}} | ({"id": id_} if id_ else {})}

    result: dict[str, object] = {"functionResponse": {"name": "search", "response": {}}}
    turn = whole(chunk(call(None), call(None), call(None, "pay"), result, finish="STOP"))
    assert ([tool.name for tool in turn.tools], turn.finish_reason) == (["search", "pay"], "tool_calls")
    named: dict[str, object] = {"functionResponse": {"name": "search", "id": "b", "response": {}}}
    turn = whole(chunk(call("a"), call("b"), named, result, finish="STOP"))
    assert turn.tools == []
    assert [tool.call_id for tool in whole(chunk(call("a"), call("b"), named, finish="STOP")).tools] == ["a"]
    assert len(whole(chunk(result, call("a"), finish="STOP")).tools) == 1


def test_a_response_with_calls_finishes_with_tool_calls_if_complete() -> None:
    call: dict[str, object] = {"functionCall": {"name": "f", "args": {}}}
    assert whole(chunk(call, finish="STOP")).finish_reason == "tool_calls"
    assert whole(chunk(call)).finish_reason == "other"  # whether it is complete is unknown, so its calls do not run
    assert whole(chunk(call, finish="MAX_TOKENS")).finish_reason == "length"


def test_a_whole_response_without_a_finish_reason_finishes_with_other() -> None:
    turn = whole(say("a", "FINISH_REASON_UNSPECIFIED"))
    assert (turn.text, turn.finish_reason) == ("a", "other")


def test_the_last_value_of_each_token_count_is_used() -> None:
    turn = stream(
        say("a", usageMetadata={"promptTokenCount": 5, "candidatesTokenCount": 1}),
        say("b", usageMetadata={"trafficType": "ON_DEMAND"}),
        say("c", "STOP", usageMetadata={"candidatesTokenCount": 3, "thoughtsTokenCount": 2}),
    )
    assert turn.usage == Usage(5, 5, reasoning_tokens=2)


def test_grounding_and_safety_fields_are_kept_in_the_metadata() -> None:
    grounding = {"groundingChunks": [{"web": {"uri": "https://a"}}], "webSearchQueries": ["q"]}
    candidate = {"content": {"parts": [{"text": "a"}]}, "finishReason": "STOP", "groundingMetadata": grounding}
    turn = whole({"candidates": [{**candidate, "safetyRatings": [{"category": "X"}]}], "createTime": "2026-01-01"})
    assert extra(turn) == {
        "groundingMetadata": grounding,
        "safetyRatings": [{"category": "X"}],
        "createTime": "2026-01-01",
    }


def test_citations_of_all_chunks_are_collected() -> None:
    def cited(*numbers: int, finish: str | None = None) -> dict[str, object]:
        candidate = {"citationMetadata": {"citations": [{"startIndex": number} for number in numbers]}}
        return {"candidates": [{**candidate, "content": {"parts": [{"text": "a"}]}, "finishReason": finish}]}

    turn = stream(cited(1), cited(2, 3), cited(2, 3, finish="STOP"))
    numbers = [{"startIndex": 1}, {"startIndex": 2}, {"startIndex": 3}]
    assert extra(turn) == {"citationMetadata": {"citations": [*numbers, {"startIndex": 2}, {"startIndex": 3}]}}


def test_a_metadata_field_may_change_its_type_between_chunks() -> None:
    def with_field(value: object, finish: str | None = None) -> dict[str, object]:
        return {
            "candidates": [{"urlContextMetadata": value, "content": {"parts": [{"text": "a"}]}, "finishReason": finish}]
        }

    assert extra(stream(with_field({"a": 1}), with_field("b", "STOP"))) == {"urlContextMetadata": "b"}
    assert extra(stream(with_field({"a": [1]}), with_field({"a": [1]}), with_field({"b": 2}, "STOP"))) == {
        "urlContextMetadata": {"a": [1], "b": 2}
    }


def test_grounding_metadata_of_all_chunks_is_merged() -> None:
    def grounded(metadata: object, finish: str | None = None) -> dict[str, object]:
        candidate = {"groundingMetadata": metadata, "content": {"parts": [{"text": "a"}]}, "finishReason": finish}
        return {"candidates": [candidate]}

    chunks = ({"groundingChunks": [1], "webSearchQueries": ["q"]}, {"groundingChunks": [1, 2], "groundingSupports": []})
    assert extra(stream(grounded(chunks[0]), grounded(chunks[1]), grounded(None, "STOP"))) == {
        "groundingMetadata": {"groundingChunks": [1, 2], "webSearchQueries": ["q"], "groundingSupports": []}
    }


def test_later_chunks_do_not_change_an_earlier_partial_turn() -> None:
    def logged(number: int, finish: str | None = None) -> dict[str, object]:
        found = {"chosenCandidates": [{"tokenId": number}]}
        return {
            "candidates": [{"logprobsResult": found, "content": {"parts": [{"text": "a"}]}, "finishReason": finish}]
        }

    decoder = listen(logged(1))[1]
    before = extra(decoder.partial())
    decoder.feed([event(logged(2, "STOP"))])
    assert before == {"logprobsResult": {"chosenCandidates": [{"tokenId": 1}]}}
    assert extra(decoder.close()) == {"logprobsResult": {"chosenCandidates": [{"tokenId": 1}, {"tokenId": 2}]}}


def test_the_model_status_is_kept_in_the_metadata() -> None:
    assert extra(whole({**say("a", "STOP"), "modelStatus": {"modelStage": "LEGACY"}})) == {
        "modelStatus": {"modelStage": "LEGACY"}
    }


def test_a_whole_response_may_be_an_array_of_chunks() -> None:
    assert whole([say("Hel"), say("lo", "STOP")]).text == "Hello"


def test_unknown_fields_are_ignored() -> None:
    odd = {**say("a", "STOP"), "newField": {"x": [1]}, "automaticFunctionCallingHistory": None}
    assert stream(odd, {"keepalive": True}).text == "a"


def test_blank_and_done_events_are_ignored() -> None:
    assert stream(say("a", "STOP"), b" ", b"[DONE]").text == "a"


def test_a_surrogate_pair_split_between_chunks_is_delivered_as_one_character() -> None:
    first = json.dumps(say("x\ud83d")).encode()
    deltas, decoder = listen(first, say("\ude00 y"), say("z", "STOP"))
    assert decoder.close().text == "x\U0001f600 yz"
    assert [delta.text for delta in deltas if isinstance(delta, TextDelta)] == ["x", "\U0001f600 y", "z"]


# --- Blocked responses --------------------------------------------------------------------------------------


def test_a_blocked_prompt_raises_content_filtered_with_its_reason() -> None:
    blocked = {
        "promptFeedback": {"blockReason": "PROHIBITED_CONTENT", "blockReasonMessage": "No."},
        "usageMetadata": {"promptTokenCount": 4},
        "modelVersion": "m-1",
    }
    for read in (whole, stream):
        with pytest.raises(ContentFilteredError, match=r"PROHIBITED_CONTENT \(No\.\)") as failure:
            read(blocked)
        assert failure.value.code == "PROHIBITED_CONTENT"
        assert failure.value.usage == Usage(4)
        assert failure.value.metadata is not None
        assert failure.value.metadata.model == "m-1"


def test_an_unknown_block_reason_raises_content_filtered() -> None:
    with pytest.raises(ContentFilteredError, match="BRAND_NEW"):
        whole({"promptFeedback": {"blockReason": "BRAND_NEW"}})


def test_a_block_message_without_a_reason_raises_content_filtered() -> None:
    with pytest.raises(ContentFilteredError, match="Sorry") as failure:
        whole({"candidates": [], "promptFeedback": {"blockReasonMessage": "Sorry"}})
    assert failure.value.code is None


def test_prompt_feedback_without_a_block_reason_is_not_an_error() -> None:
    turn = whole({**say("a", "STOP"), "promptFeedback": {"safetyRatings": [{"category": "X"}]}})
    assert turn.text == "a"
    with pytest.raises(InvalidResponseError):
        whole({"promptFeedback": {"blockReason": "BLOCKED_REASON_UNSPECIFIED"}})


def test_a_block_during_the_response_raises_with_the_partial_turn() -> None:
    with pytest.raises(ContentFilteredError, match="PROHIBITED_CONTENT") as failure:
        stream(say("Hel"), say("lo"), {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}})
    assert failure.value.partial is not None
    assert failure.value.partial.text == "Hello"
    assert not failure.value.retryable


# --- Truncated responses ------------------------------------------------------------------------------------


def test_a_stream_without_a_finish_reason_raises_stream_truncated() -> None:
    _, decoder = listen(say("Hel", usageMetadata={"promptTokenCount": 3}), chunk({"functionCall": {"name": "f"}}))
    with pytest.raises(StreamTruncatedError, match=r"1 call was not run; usage so far: 3 in, 0 out") as failure:
        decoder.close()
    assert failure.value.retryable
    partial = failure.value.partial
    assert partial is not None
    assert (partial.text, partial.finish_reason) == ("Hel", None)
    assert isinstance(partial.tools[0].status, Pending)


def test_a_stream_without_any_candidate_content_raises_stream_truncated() -> None:
    with pytest.raises(StreamTruncatedError, match="after 0 bytes"):
        StreamDecoder("p").close()
    with pytest.raises(StreamTruncatedError):
        stream({"something": "else"})
    with pytest.raises(StreamTruncatedError):
        stream({"candidates": [{"content": None, "index": 0}]})


def test_parts_after_a_finish_reason_need_another_finish_reason() -> None:
    with pytest.raises(StreamTruncatedError):
        stream(say("a", "STOP"), say("b"))
    with pytest.raises(StreamTruncatedError):
        stream(say("a", "STOP"), chunk({"functionCall": {"name": "f"}}))
    assert stream(say("a", "STOP"), say("b"), say("c", "RECITATION")).finish_reason == "content_filter"


def test_empty_chunks_after_a_finish_reason_are_accepted() -> None:
    turn = stream(say("a", "STOP"), say(""), {"usageMetadata": {"promptTokenCount": 2}})
    assert (turn.finish_reason, turn.usage.input_tokens) == ("stop", 2)


# --- Failed responses ---------------------------------------------------------------------------------------


def test_an_error_chunk_is_raised_after_the_received_deltas() -> None:
    error = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
    decoder = StreamDecoder("p")
    assert decoder.feed([event(say("Hel")), event(error)]) == [TextDelta("Hel")]
    for again in (decoder.close, lambda: decoder.feed([])):
        with pytest.raises(OverloadedError) as failure:
            again()
        assert failure.value.partial is not None
        assert failure.value.partial.text == "Hel"


def test_an_error_object_in_a_list_is_raised() -> None:
    error = [{"error": {"code": 499, "message": "The operation was cancelled.", "status": "CANCELLED"}}]
    for read in (whole, stream):
        with pytest.raises(ServerError, match="cancelled") as failure:
            read(error)
        assert failure.value.status == 499


def test_an_error_after_the_finish_reason_is_raised() -> None:
    with pytest.raises(ProviderError):
        stream(say("a", "STOP"), {"error": {"code": 500, "message": "x", "status": "INTERNAL"}})


WRONG: list[tuple[object, str]] = [
    ([], "the answer"),
    ("hello", "the answer"),
    ({"candidates": {}}, "candidates"),
    ({"candidates": []}, "candidates"),
    ({"candidates": "x"}, "candidates"),
    ({"candidates": ["x"]}, "candidates[0]"),
    ({"candidates": [{}]}, "candidates"),
    ({"candidates": [{"content": "x"}]}, "candidates[0].content"),
    ({"candidates": [{"content": {"parts": {"text": "x"}}}]}, "candidates[0].content.parts"),
    ({"candidates": [{"content": {"parts": ["x"]}}]}, "candidates[0].content.parts[0]"),
    ({"candidates": [{"content": {"parts": [{"text": 7}]}}]}, "candidates[0].content.parts[0].text"),
    ({"candidates": [{"finishReason": 7}]}, "candidates[0].finishReason"),
    ({"usageMetadata": [1]}, "usageMetadata"),
    ({"promptFeedback": "x"}, "promptFeedback"),
    ({"responseId": 7}, "responseId"),
]


@pytest.mark.parametrize(("body", "path"), WRONG)
def test_a_known_field_of_a_wrong_type_raises_invalid_response_with_its_path(body: object, path: str) -> None:
    with pytest.raises(InvalidResponseError) as failure:
        whole(body)
    assert path in f"{failure.value} {failure.value.path}"


@pytest.mark.parametrize(
    "chunk",
    [
        {"candidates": "x"},
        {"candidates": ["x"]},
        {"candidates": [{"content": "x"}]},
        {"candidates": [{"content": {"parts": "x"}}]},
        {"candidates": [{"content": {"parts": ["x"]}}]},
        {"usageMetadata": 7},
        "x",
        7,
    ],
)
def test_a_malformed_chunk_raises_invalid_response_with_the_partial_turn(chunk: object) -> None:
    for before in ([], [say("a"), say("b")]):
        with pytest.raises(InvalidResponseError) as failure:
            stream(*before, chunk)
        assert failure.value.partial is not None


@pytest.mark.parametrize("body", [b"", b"<html>", b"{", b"\xff"])
def test_a_body_that_is_not_json_raises_invalid_response(body: bytes) -> None:
    with pytest.raises(InvalidResponseError, match="not JSON"):
        decode(body, "p")


def test_an_event_that_is_not_json_raises_invalid_response() -> None:
    with pytest.raises(InvalidResponseError, match="not JSON"):
        stream(b"<html>")


def test_programming_errors_are_not_reported_as_invalid_responses() -> None:
    decoder = StreamDecoder("p")
    with pytest.raises(AttributeError):
        decoder.feed([event(say("a")), cast("Event", "no event")])


@pytest.mark.parametrize("depth", [2, 100, 900])
def test_nested_lists_raise_invalid_response_at_any_depth(depth: int) -> None:
    body = b"[" * depth + json.dumps(say("a", "STOP")).encode() + b"]" * depth
    with pytest.raises(InvalidResponseError):
        decode(body, "p")
    with pytest.raises(InvalidResponseError):
        StreamDecoder("p").feed([event(body)])


def test_wrong_path_returns_none_for_a_valid_response() -> None:
    assert wrong_path(say("a", "STOP")) is None
    assert wrong_path([say("a"), {"candidates": 7}]) == "candidates"
    assert wrong_path([say("a")]) is None


def test_the_index_of_a_candidate_may_be_a_string() -> None:
    chunks = [chunk({"text": "Hel"}, index="0"), chunk({"text": "lo"}, index="0", finish="STOP")]
    assert stream(*chunks).text == whole(chunk({"text": "Hello"}, index="0", finish="STOP")).text == "Hello"
