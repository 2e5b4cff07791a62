"""Malformed or failed responses, streamed and complete, and their errors."""

from __future__ import annotations

import json
from typing import Any

import pytest
from chat_claude.decode import StreamDecoder, decode
from chat_core.errors import ChatError, InvalidResponseError, OverloadedError, RateLimitedError, StreamTruncatedError
from chat_core.events import TextDelta
from chat_core.messages import Turn
from chat_core.transport import Event
from chat_core.usage import Usage

P = "claude"
START: dict[str, Any] = {
    "type": "message_start",
    "message": {"id": "msg_1", "model": "m-1", "content": [], "usage": {"input_tokens": 10, "output_tokens": 1}},
}


def begin(block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": 0, "content_block": block}


def grow(delta: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": delta}


def end() -> dict[str, Any]:
    return {"type": "content_block_stop", "index": 0}


def text() -> list[dict[str, Any]]:
    return [begin({"type": "text", "text": ""}), grow({"type": "text_delta", "text": "Hi"}), end()]


def event(chunk: dict[str, Any]) -> Event:
    return Event(chunk.get("type", "message"), json.dumps(chunk).encode())


def failure(*chunks: Any) -> ChatError:
    decoder = StreamDecoder(P)
    with pytest.raises(ChatError) as error:
        for chunk in chunks:
            decoder.feed([chunk if isinstance(chunk, Event) else event(chunk)])
        decoder.close()
    return error.value


def whole(**fields: Any) -> Turn:
    answer: dict[str, Any] = {"id": "msg_1", "model": "m-1", "content": [], "stop_reason": "end_turn", **fields}
    return decode(json.dumps(answer).encode(), P)


# --- Failures -------------------------------------------------------------------------------------------------


def error_event(kind: str, message: str = "no") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def test_a_response_that_begins_again_is_truncated() -> None:
    call = [begin({"type": "tool_use", "id": "a", "name": "pay", "input": {}}), end()]
    finish: list[dict[str, Any]] = [
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
    ]
    error = failure(START, *call, START, *call, *finish)
    assert isinstance(error, StreamTruncatedError)
    assert "1 call was not run" in str(error)
    decoder = StreamDecoder(P)
    decoder.feed([event(chunk) for chunk in (START, START, *call, *finish)])
    assert [tool.call_id for tool in decoder.close().tools] == ["a"]


def test_an_error_event_raises_its_class_after_the_received_deltas() -> None:
    decoder = StreamDecoder(P)
    chunks = [event(chunk) for chunk in (START, *text(), error_event("overloaded_error", "Overloaded"))]
    assert decoder.feed(chunks) == [TextDelta("Hi")]
    for attempt in (lambda: decoder.feed([]), decoder.close):
        with pytest.raises(OverloadedError, match="Overloaded") as error:
            attempt()
    assert error.value.retryable
    assert error.value.request_id == "req_1"
    assert error.value.partial is not None
    assert error.value.partial.text == "Hi"
    assert error.value.usage == Usage(10, 1)
    assert isinstance(failure(START, error_event("rate_limit_error")), RateLimitedError)


def test_error_events_of_other_formats_are_recognized() -> None:
    for odd in (Event("error", b"words"), Event("error", b'["words"]'), {"error": {"message": "words"}}):
        assert "words" in str(failure(START, odd))
    limited = failure(START, Event("throttlingException", b'{"message":"Too many tokens"}'))
    assert isinstance(limited, RateLimitedError)


@pytest.mark.parametrize(
    ("chunk", "path"),
    [
        ({"type": "message_start", "message": []}, "message"),
        ({"type": "message_start", "message": {"id": 1}}, "id"),
        ({"type": "message_start", "message": {"content": "x"}}, "content"),
        ({"type": "message_start", "message": {"content": ["x"]}}, "content[0]"),
        (begin("x"), "content_block"),
        (begin({"type": "text", "text": 1}), "content_block.text"),
        (begin({"type": "tool_use", "id": "t"}), "content_block.name"),
        (grow("x"), "delta"),
        (grow({"type": "text_delta", "text": 1}), "delta.text"),
        (grow({"type": "thinking_delta", "thinking": 1}), "delta.thinking"),
        ({"type": "message_delta", "delta": {"stop_reason": 1}}, "delta.stop_reason"),
    ],
)
def test_a_known_field_of_a_wrong_type_raises_invalid_response_with_its_path(chunk: dict[str, Any], path: str) -> None:
    error = failure(START, chunk)
    assert isinstance(error, InvalidResponseError)
    assert error.path == path
    assert error.raw


def test_an_event_that_is_not_json_raises_invalid_response() -> None:
    assert isinstance(failure(START, Event("content_block_delta", b"{")), InvalidResponseError)
    assert isinstance(failure(START, Event("message", b"<html>")), InvalidResponseError)
    assert isinstance(failure(START, begin({"type": "text"}), {**end(), "index": []}), InvalidResponseError)


def test_a_call_whose_input_is_not_an_object_raises_invalid_response() -> None:
    error = failure(START, begin({"type": "tool_use", "id": "t", "name": "f", "input": [1]}), end())
    assert isinstance(error, InvalidResponseError)
    assert error.path == "content_block.input"


# --- Whole answers --------------------------------------------------------------------------------------------


def test_a_whole_response_is_decoded_like_a_streamed_one() -> None:
    said = whole(
        content=[{"type": "text", "text": "Hi"}, {"type": "tool_use", "id": "t", "name": "f", "input": {}}],
        stop_reason="tool_use",
        usage={"input_tokens": 3, "output_tokens": 2},
    )
    assert said.text == "Hi"
    assert said.finish_reason == "tool_calls"
    assert said.usage == Usage(3, 2)
    assert [tool.name for tool in said.tools] == ["f"]


def test_whitespace_around_the_json_is_ignored() -> None:
    assert decode(b'  {"content": [] }   ', P).parts == ()


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b'{"content": 1}', b'{"content": [1]}'])
def test_a_malformed_response_raises_invalid_response(body: bytes) -> None:
    with pytest.raises(InvalidResponseError):
        decode(body, P)


def test_an_error_object_with_status_200_is_raised() -> None:
    with pytest.raises(OverloadedError):
        decode(json.dumps(error_event("overloaded_error")).encode(), P)


@pytest.mark.parametrize("kind", [["text"], {"a": 1}, 7, True])
def test_a_block_type_that_is_not_a_string_raises_invalid_response(kind: object) -> None:
    streamed = failure(START, begin({"type": kind}))
    assert isinstance(streamed, InvalidResponseError)
    assert streamed.path == "content_block.type"
    with pytest.raises(InvalidResponseError) as error:
        whole(content=[{"type": kind}])
    assert error.value.path == "content[0].type"
