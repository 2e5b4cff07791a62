from __future__ import annotations

import json
from typing import Any

import pytest
from chat_completions.codec import DONE, StreamDecoder, decode, is_last
from chat_completions.decode import wrong_path
from chat_core.errors import (
    ChatError,
    ContextLengthError,
    InvalidResponseError,
    OverloadedError,
    ServerError,
    StreamTruncatedError,
)
from chat_core.events import ReasoningDelta, TextDelta, ToolCallDelta
from chat_core.messages import FinishReason, Text, Turn
from chat_core.provider import Delta
from chat_core.transport import Event
from chat_core.usage import Usage

HEAD = {"id": "c1", "model": "m-1", "object": "chat.completion.chunk"}
END = Event("message", DONE)


def event(value: object, kind: str = "message") -> Event:
    return Event(kind, json.dumps(value).encode())


def piece(delta: object, finish: str | None = None, **fields: object) -> Event:
    return event({**HEAD, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **fields})


def whole(message: object, finish: str | None = "stop", **fields: object) -> Turn:
    body = {**HEAD, "choices": [{"index": 0, "message": message, "finish_reason": finish}], **fields}
    return decode(json.dumps(body).encode(), "p")


def listen(*events: Event) -> tuple[list[Delta], Turn]:
    decoder = StreamDecoder("p")
    deltas = [delta for event in events for delta in decoder.feed([event])]
    return deltas, decoder.close()


def failure_of(*events: Event) -> ChatError:
    with pytest.raises(ChatError) as failure:
        listen(*events)
    return failure.value


# --- Text and other fields of a message ----------------------------------------------------------------


def test_a_text_stream_yields_deltas_and_is_joined_in_the_turn() -> None:
    deltas, turn = listen(
        piece({"role": "assistant", "content": ""}), piece({"content": "Hel"}), piece({"content": "lo"}, "stop"), END
    )
    assert deltas == [TextDelta("Hel"), TextDelta("lo")]
    assert turn.text == "Hello"
    assert turn.finish_reason == "stop"


def test_a_whole_response_is_decoded_into_a_turn_with_metadata() -> None:
    turn = whole({"role": "assistant", "content": "Hello"}, usage={"prompt_tokens": 3, "completion_tokens": 2})
    assert turn.text == "Hello"
    metadata = turn.metadata
    assert metadata is not None
    assert (metadata.provider, metadata.model, metadata.id, metadata.finish_reason) == ("p", "m-1", "c1", "stop")
    assert turn.usage == Usage(3, 2)


def test_text_that_looks_like_json_stays_text() -> None:
    said = '{"a": 1}'
    assert whole({"role": "assistant", "content": said}).parts == (Text(said),)
    _, turn = listen(piece({"content": said[:4]}), piece({"content": said[4:]}, "stop"), END)
    assert turn.parts == (Text(said),)


OTHER_CHOICES: list[dict[str, object]] = [
    {
        "index": 1,
        "message": {"content": "Bye", "tool_calls": []},
        "finish_reason": "stop",
    },
    {
        "index": 2,
        "message": {"content": "", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]},
        "finish_reason": "tool_calls",
    },
    {
        "index": 3,
        "message": {"content": "", "tool_calls": [], "reasoning": "Hm.", "refusal": "No."},
        "finish_reason": "stop",
    },
]


def test_further_choices_are_kept_in_the_metadata_and_their_calls_do_not_run() -> None:
    first = {"index": 0, "message": {"content": "Hello"}, "finish_reason": "stop"}
    turns = [decode(json.dumps({**HEAD, "choices": [first, *OTHER_CHOICES]}).encode(), "p")]
    deltas = [
        {"index": 1, "delta": {"content": "By"}},
        {"index": 1, "delta": {"content": "e"}, "finish_reason": "stop"},
    ]
    call = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}
    deltas += [{"index": 2, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]
    deltas += [{"index": 3, "delta": {"reasoning": "Hm.", "refusal": "No."}, "finish_reason": "stop"}]
    seen, turn = listen(piece({"content": "Hello"}, "stop"), *[event({**HEAD, "choices": [d]}) for d in deltas], END)
    turns.append(turn)

    assert seen == [TextDelta("Hello")]
    for turn in turns:
        assert turn.parts == (Text("Hello"),)
        assert turn.metadata is not None
        assert turn.metadata.extra["choices"] == OTHER_CHOICES


def test_further_choices_without_an_index_are_kept_in_the_metadata() -> None:
    choices = [{"message": {"content": text}, "finish_reason": "stop"} for text in ("Hello", "Bye")]
    turn = decode(json.dumps({**HEAD, "choices": choices}).encode(), "p")
    assert turn.parts == (Text("Hello"),)
    assert turn.metadata is not None
    assert turn.metadata.extra["choices"] == [
        {"index": 1, "message": {"content": "Bye", "tool_calls": []}, "finish_reason": "stop"}
    ]


def test_a_first_chunk_without_choices_yields_no_delta() -> None:
    first = event({"choices": [], "id": "", "model": "", "prompt_filter_results": [{"prompt_index": 0}]})
    deltas, turn = listen(first, piece({"content": "Hi"}, "stop"), END)
    assert deltas == [TextDelta("Hi")]
    assert turn.metadata is not None
    assert turn.metadata.id == "c1"
    assert turn.metadata.extra["prompt_filter_results"] == [{"prompt_index": 0}]


def test_usage_is_read_from_a_last_chunk_without_choices() -> None:
    usage = event({**HEAD, "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 1}})
    _, turn = listen(piece({"content": "Hi"}, "stop"), usage, END)
    assert turn.usage == Usage(7, 1)


def test_usage_of_the_last_chunk_replaces_earlier_usage() -> None:
    _, turn = listen(
        piece({"content": "a"}, usage={"prompt_tokens": 7, "completion_tokens": 1}),
        piece({"content": "b"}, "stop", usage={"prompt_tokens": 7, "completion_tokens": 2}),
        END,
    )
    assert turn.usage == Usage(7, 2)


def test_usage_in_the_groq_field_is_read() -> None:
    _, turn = listen(
        piece({"content": "a"}, "stop", x_groq={"usage": {"prompt_tokens": 4, "completion_tokens": 1}}), END
    )
    assert turn.usage == Usage(4, 1)


def test_padding_and_unknown_fields_are_ignored() -> None:
    _, turn = listen(piece({"content": "a", "token_id": 7, "padding": "xxx"}, "stop", obfuscation="abc", p="abcd"), END)
    assert turn.text == "a"


def test_a_null_delta_is_ignored() -> None:
    deltas, _ = listen(piece(None), piece({"content": "a"}, "stop"), END)
    assert deltas == [TextDelta("a")]


def test_whitespace_around_the_json_of_an_event_is_ignored() -> None:
    padded = Event("message", b"   " + piece({"content": "a"}, "stop").data + b"   \n ")
    assert listen(padded, END)[1].text == "a"


def test_a_lone_surrogate_in_a_chunk_is_kept() -> None:
    halved = Event(
        "message",
        b'{"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"\\ud83d"},"finish_reason":"stop"}]}',
    )
    assert listen(halved, END)[1].text == "\ud83d"


def test_a_surrogate_pair_split_between_chunks_becomes_one_character() -> None:
    deltas, turn = listen(piece({"content": "an \ud83e"}), piece({"content": "\udd89."}, "stop"), END)
    assert deltas == [TextDelta("an "), TextDelta("\U0001f989.")]
    assert turn.text == "an \U0001f989."


def test_only_the_first_choice_is_decoded_into_parts() -> None:
    other = event({**HEAD, "choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}]})
    deltas, turn = listen(other, piece({"content": "yes"}), other, piece({}, "stop"), END)
    assert deltas == [TextDelta("yes")]
    assert turn.text == "yes"
    assert turn.finish_reason == "stop"
    body = {"choices": [{"index": 1, "message": {"content": "no"}}, {"index": 0, "message": {"content": "yes"}}]}
    assert decode(json.dumps(body).encode(), "p").text == "yes"


def test_log_probabilities_are_collected_in_the_metadata() -> None:
    def chunk(token: str, finish: str | None = None) -> Event:
        tokens = {"content": [{"token": token, "logprob": -0.5}], "refusal": None}
        choice = {"index": 0, "delta": {"content": token}, "logprobs": tokens, "finish_reason": finish}
        return event({**HEAD, "choices": [choice]})

    _, turn = listen(chunk("a"), chunk("b", "stop"), END)
    assert turn.metadata is not None
    assert turn.metadata.extra["logprobs"] == {
        "content": [{"token": "a", "logprob": -0.5}, {"token": "b", "logprob": -0.5}]
    }


def test_further_response_fields_are_kept_in_the_metadata() -> None:
    _, turn = listen(
        piece({"content": "a"}, system_fingerprint="fp", citations=["https://example.org"]),
        event({**HEAD, "choices": [{"index": 0, "finish_reason": "stop", "native_finish_reason": "STOP"}]}),
        event({**HEAD, "choices": [], "service_tier": "default"}),
        END,
    )
    assert turn.metadata is not None
    assert turn.metadata.extra == {
        "system_fingerprint": "fp",
        "citations": ["https://example.org"],
        "native_finish_reason": "STOP",
        "service_tier": "default",
    }


# --- Finish reasons ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "ours"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("model_length", "length"),
        ("content_filter", "content_filter"),
        ("tool_calls", "tool_calls"),
        ("function_call", "tool_calls"),
        ("content_filter: RECITATION", "content_filter"),
        ("function_call_filter: MALFORMED_FUNCTION_CALL", "other"),
        ("guardrail_intervened", "content_filter"),
        ("max_output_tokens", "length"),
        ("something_new", "other"),
        (None, "other"),
    ],
)
def test_a_finish_reason_is_normalized_and_the_original_kept_in_the_metadata(
    raw: str | None, ours: FinishReason
) -> None:
    turn = whole({"content": "a"}, raw)
    assert turn.finish_reason == ours
    assert turn.metadata is not None
    assert turn.metadata.finish_reason == raw


def test_a_response_with_calls_finishes_with_tool_calls() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    assert whole({"content": None, "tool_calls": [call]}, "stop").finish_reason == "tool_calls"
    assert whole({"content": None, "tool_calls": [call]}, None).finish_reason == "tool_calls"
    assert whole({"content": None, "tool_calls": [call]}, "length").finish_reason == "length"


CALL: dict[str, Any] = {"index": 0, "id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def test_a_response_with_calls_and_an_unknown_finish_reason_finishes_with_other() -> None:
    assert whole({"content": None, "tool_calls": [CALL]}, "max_time").finish_reason == "other"
    decoder = StreamDecoder("p")
    decoder.feed([piece({"tool_calls": [CALL]}), Event("message", b"[DONE]")])
    assert decoder.close().finish_reason == "other"


def test_a_dialect_can_map_further_finish_reasons() -> None:
    reasons: Any = (("max_time", "length"), ("stop", "content_filter"))
    for word, meaning in (("MAX_TIME", "length"), ("stop", "content_filter"), ("tool_calls", "tool_calls")):
        body = {**HEAD, "choices": [{"index": 0, "message": {"content": "a"}, "finish_reason": word}]}
        turn = decode(json.dumps(body).encode(), "p", finish_reasons=reasons)
        assert turn.finish_reason == meaning
        assert turn.metadata is not None
        assert turn.metadata.finish_reason == word
        decoder = StreamDecoder("p", finish_reasons=reasons)
        decoder.feed([piece({"content": "a"}, word)])
        assert decoder.close().finish_reason == meaning


def test_a_refusal_sets_the_finish_reason_refusal() -> None:
    turn = whole({"content": None, "refusal": "I will not."})
    assert turn.finish_reason == "refusal"
    assert turn.text == ""


# --- The end of a stream -------------------------------------------------------------------------------


def test_done_ends_the_stream_and_later_events_are_ignored() -> None:
    assert is_last(END)
    assert not is_last(piece({"content": "a"}))
    decoder = StreamDecoder("p")
    decoder.feed([piece({"content": "a"}), END, piece({"content": "b"})])
    assert decoder.done
    assert decoder.close().text == "a"


def test_a_stream_may_end_without_done_after_a_finish_reason() -> None:
    assert listen(piece({"content": "a"}, "stop"))[1].text == "a"


def test_a_stream_without_done_or_finish_reason_raises_stream_truncated() -> None:
    first = piece({"content": "Hel"}, usage={"prompt_tokens": 120, "completion_tokens": 35})
    call = piece({"tool_calls": [{"index": 0, "id": "1", "function": {"name": "f", "arguments": '{"a"'}}]})
    failure = failure_of(first, call)
    assert isinstance(failure, StreamTruncatedError)
    size = len(first.data) + len(call.data)
    assert str(failure) == (
        f"the stream of p ended after {size} bytes without `[DONE]` or a finish reason; "
        "1 call was not run; usage so far: 120 in, 35 out"
    )
    assert failure.retryable
    assert failure.usage == Usage(120, 35)
    assert failure.partial is not None
    assert failure.partial.text == "Hel"
    assert failure.partial.finish_reason is None
    assert failure.partial.tools[0].call.problem is not None


def test_the_truncation_error_counts_all_calls() -> None:
    calls = [{"index": index, "id": str(index), "function": {"name": "f", "arguments": ""}} for index in range(2)]
    assert "2 calls were not run" in str(failure_of(piece({"tool_calls": calls})))


def test_an_empty_stream_raises_stream_truncated() -> None:
    assert isinstance(failure_of(), StreamTruncatedError)


def test_done_without_any_choice_raises_invalid_response() -> None:
    failure = failure_of(event({**HEAD, "choices": []}), END)
    assert isinstance(failure, InvalidResponseError)
    assert failure.path == "choices"


def test_text_after_a_finish_reason_needs_another_finish_reason() -> None:
    assert isinstance(failure_of(piece({"content": "a"}, "stop"), piece({"content": "b"})), StreamTruncatedError)
    assert listen(piece({"content": "a"}, "stop"), piece({"role": "assistant", "content": ""}))[1].text == "a"
    assert listen(piece({"content": "a"}, "stop"), piece({"content": "b"}, "stop"))[1].text == "ab"


def test_partial_returns_the_turn_read_so_far() -> None:
    decoder = StreamDecoder("p")
    decoder.feed([piece({"content": "Hel"})])
    assert decoder.partial().text == "Hel"
    assert decoder.partial().finish_reason is None
    decoder.feed([piece({"content": "lo"}, "stop")])
    assert decoder.partial().text == "Hello"
    assert decoder.close().text == "Hello"


# --- Errors reported by the server ---------------------------------------------------------------------


def test_an_error_event_is_raised_with_the_partial_turn() -> None:
    error = event({"error": {"message": "try later", "type": "overloaded_error"}}, "error")
    failure = failure_of(piece({"content": "Hel"}), error)
    assert isinstance(failure, OverloadedError)
    assert failure.retryable
    assert failure.partial is not None
    assert failure.partial.text == "Hel"


def test_an_error_next_to_a_choice_is_raised() -> None:
    chunk = piece({"content": ""}, "error", error={"code": 502, "message": "upstream is gone"})
    failure = failure_of(piece({"content": "Hel"}), chunk)
    assert isinstance(failure, ServerError)
    assert failure.status == 502


def test_an_error_inside_a_choice_is_raised() -> None:
    choice = {
        "index": 0,
        "delta": {},
        "finish_reason": "stop",
        "error": {"code": 400, "message": "token limit reached"},
    }
    assert isinstance(failure_of(event({**HEAD, "choices": [choice]})), ContextLengthError)


def test_an_error_in_the_groq_field_is_raised() -> None:
    assert isinstance(
        failure_of(event({**HEAD, "choices": [], "x_groq": {"error": "model is gone"}}), END), ServerError
    )


def test_an_error_event_without_an_error_field_is_raised() -> None:
    assert isinstance(failure_of(event({"message": "no"}, "error")), ServerError)


@pytest.mark.parametrize(
    ("finish", "kind"), [("error", ServerError), ("insufficient_system_resource", OverloadedError)]
)
def test_a_finish_reason_that_reports_a_failure_is_raised(finish: str, kind: type[ChatError]) -> None:
    failure = failure_of(piece({"content": "Hel"}, finish), END)
    assert isinstance(failure, kind)
    assert failure.retryable
    assert failure.partial is not None
    assert failure.partial.text == "Hel"
    with pytest.raises(kind):
        whole({"content": "Hel"}, finish)


def test_deltas_received_in_one_read_with_an_error_are_delivered_first() -> None:
    decoder = StreamDecoder("p")
    batch = [piece({"content": "Hel"}), event({"error": {"message": "no"}}), piece({"content": "lo"})]
    assert decoder.feed(batch) == [TextDelta("Hel")]
    with pytest.raises(ServerError):
        decoder.feed([piece({"content": "lo"})])
    with pytest.raises(ServerError):
        decoder.close()


def test_an_error_object_instead_of_a_response_is_raised() -> None:
    with pytest.raises(ServerError, match="no luck"):
        decode(b'{"error": {"message": "no luck", "code": 500}}', "p")


# --- Wrong shapes --------------------------------------------------------------------------------------

WRONG: list[tuple[Any, str]] = [
    ({"choices": 7}, "choices"),
    ({"choices": [7]}, "choices[0]"),
    ({"choices": [{"delta": "text"}]}, "choices[0].delta"),
    ({"choices": [{"delta": {"content": 7}}]}, "choices[0].delta.content"),
    ({"choices": [{"delta": {"content": ["text"]}}]}, "choices[0].delta.content[0]"),
    ({"choices": [{"delta": {"refusal": 7}}]}, "choices[0].delta.refusal"),
    ({"choices": [{"delta": {"reasoning": {"a": 1}}}]}, "choices[0].delta.reasoning"),
    ({"choices": [{"delta": {"tool_calls": {"a": 1}}}]}, "choices[0].delta.tool_calls"),
    ({"choices": [{"delta": {"tool_calls": ["f"]}}]}, "choices[0].delta.tool_calls[0]"),
    ({"choices": [{"delta": {"tool_calls": [{"function": "f"}]}}]}, "choices[0].delta.tool_calls[0].function"),
    ({"choices": [{"delta": {"tool_calls": [{"type": 1}]}}]}, "choices[0].delta.tool_calls[0].type"),
    ({"choices": [{"delta": {"tool_calls": [{"id": 1}]}}]}, "choices[0].delta.tool_calls[0].id"),
    ({"choices": [{"delta": {"function_call": {"name": 1}}}]}, "choices[0].delta.function_call.function.name"),
    ({"choices": [{"finish_reason": 7}]}, "choices[0].finish_reason"),
    ({"choices": [{"delta": {}, "logprobs": [7]}]}, "choices[0].logprobs"),
    ([1], ""),
    (7, ""),
    ("text", ""),
]


@pytest.mark.parametrize(("value", "path"), WRONG, ids=json.dumps)
def test_a_known_field_of_a_wrong_type_raises_invalid_response_with_its_path(value: object, path: str) -> None:
    failure = failure_of(piece({"content": "Hel"}), event(value))
    assert isinstance(failure, InvalidResponseError)
    assert failure.path == path
    assert failure.raw == event(value).data
    assert failure.partial is not None
    assert failure.partial.text == "Hel"
    assert not failure.retryable


@pytest.mark.parametrize("name", ["id", "model"])
def test_id_and_model_of_the_first_chunk_must_be_strings(name: str) -> None:
    failure = failure_of(event({name: 7, "choices": []}))
    assert isinstance(failure, InvalidResponseError)
    assert failure.path == name


def test_data_that_is_not_json_raises_invalid_response() -> None:
    failure = failure_of(Event("message", b"<html>"))
    assert isinstance(failure, InvalidResponseError)
    assert failure.raw == b"<html>"
    with pytest.raises(InvalidResponseError):
        decode(b"<html>", "p")


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (b"{}", "choices"),
        (b'{"choices": []}', "choices"),
        (b'{"choices": {}}', "choices"),
        (b'{"choices": {"a": 1}}', "choices"),
        (b'{"choices": [{}]}', "choices[0].message"),
        (b'{"choices": [{"message": "hi"}]}', "choices[0].message"),
        (b'{"choices": [7]}', "choices[0]"),
        (b"[]", ""),
    ],
)
def test_a_response_without_a_message_raises_invalid_response(body: bytes, path: str) -> None:
    with pytest.raises(InvalidResponseError) as failure:
        decode(body, "p")
    assert failure.value.path == path


def test_a_filtered_choice_without_a_message_is_an_empty_turn() -> None:
    turn = decode(b'{"choices": [{"finish_reason": "content_filter", "index": 0}]}', "p")
    assert turn.parts == ()
    assert turn.finish_reason == "content_filter"


def test_a_call_without_a_name_raises_invalid_response() -> None:
    failure = failure_of(
        piece({"tool_calls": [{"index": 0, "id": "1", "function": {"arguments": "{}"}}]}, "tool_calls"), END
    )
    assert isinstance(failure, InvalidResponseError)
    assert failure.path == "choices[0].delta.tool_calls[0].function.name"


def test_programming_errors_are_not_reported_as_invalid_responses() -> None:
    assert wrong_path({"choices": [{"delta": {"content": "fine"}}]}, "delta") is None
    with pytest.raises(AttributeError):
        StreamDecoder("p").feed([piece({"content": "a"}), None])  # type: ignore[list-item]  # wrong on purpose


# --- Combined cases ------------------------------------------------------------------------------------


def test_the_joined_deltas_equal_the_parts_of_the_turn() -> None:
    deltas, turn = listen(
        piece({"reasoning_content": "Let me "}),
        piece({"reasoning_content": "see."}),
        piece({"content": "It "}),
        piece({"content": "is."}),
        piece({"tool_calls": [{"index": 0, "id": "1", "function": {"name": "f", "arguments": ""}}]}),
        piece({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}, "tool_calls"),
        END,
    )
    assert [delta.text for delta in deltas if isinstance(delta, ReasoningDelta)] == ["Let me ", "see."]
    assert [delta.text for delta in deltas if isinstance(delta, TextDelta)] == ["It ", "is."]
    assert [delta for delta in deltas if isinstance(delta, ToolCallDelta)] == [
        ToolCallDelta("", 0, "f", "1"),
        ToolCallDelta("{}", 0),
    ]
    assert [type(part).__name__ for part in turn.parts] == ["Reasoning", "Text", "Tool"]
