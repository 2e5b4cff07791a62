from __future__ import annotations

import json
from typing import Any, Final

import pytest
from chat_core.errors import (
    AuthenticationError,
    ChatError,
    ContentFilteredError,
    InvalidRequestError,
    InvalidResponseError,
    OverloadedError,
    ProviderError,
    QuotaExceededError,
    RateLimitedError,
    ServerError,
    StreamTruncatedError,
)
from chat_core.events import TextDelta
from chat_core.messages import ProviderPart, Reasoning, Text, Tool, Turn
from chat_core.provider import Delta
from chat_core.transport.values import Event
from chat_core.usage import Usage
from chat_responses.decode import StreamDecoder, decode, is_last

UNFINISHED_CALL: Final = {"type": "function_call", "call_id": "a", "name": "pay", "arguments": "{}"}

USAGE: Final = {"input_tokens": 3, "output_tokens": 2, "output_tokens_details": {"reasoning_tokens": 1}}


def message(*texts: str, **fields: Any) -> dict[str, Any]:
    return {"type": "message", "content": [{"type": "output_text", "text": text} for text in texts], **fields}


def response(*items: Any, **fields: Any) -> dict[str, Any]:
    return {"id": "resp_1", "model": "m-1", "status": "completed", "output": list(items), "usage": USAGE, **fields}


def whole(*items: Any, **fields: Any) -> Turn:
    return decode(json.dumps(response(*items, **fields)).encode(), "p")


def events(*said: Any, named: bool = False) -> list[Event]:
    found = list[Event]()
    for one in said:
        data = one if isinstance(one, bytes) else json.dumps(one).encode()
        name = one["type"] if named and isinstance(one, dict) else "message"  # pyright: ignore[reportUnknownVariableType] - JSON
        found.append(Event(str(name), data))  # pyright: ignore[reportUnknownArgumentType] - JSON
    return found


def delta(text: str, **fields: Any) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "delta": text, **fields}


def completed(*items: Any, kind: str = "completed", **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "response": response(*items, **fields)}


def streamed(*said: Any) -> tuple[list[Delta], Turn]:
    decoder = StreamDecoder("p")
    deltas = decoder.feed(events(*said))
    return deltas, decoder.close()


def failed(*said: Any) -> ChatError:
    decoder = StreamDecoder("p")
    with pytest.raises(ChatError) as error:
        for event in events(*said):
            decoder.feed([event])
        decoder.close()
    return error.value


# --- Whole responses -----------------------------------------------------------------------------------------------


def test_a_response_is_decoded_into_a_turn_with_metadata() -> None:
    turn = whole(message("Hello"), service_tier="flex", background=None)
    assert (turn.text, turn.finish_reason, turn.usage) == ("Hello", "stop", Usage(3, 2, reasoning_tokens=1))
    assert turn.metadata is not None
    assert (turn.metadata.provider, turn.metadata.model, turn.metadata.id) == ("p", "m-1", "resp_1")
    assert (turn.metadata.finish_reason, turn.metadata.extra) == ("completed", {"service_tier": "flex"})


@pytest.mark.parametrize(("store", "extra"), [(True, {}), (None, {}), (False, {"store": False})])
def test_store_false_of_a_response_is_kept_in_the_metadata(store: bool | None, extra: dict[str, object]) -> None:
    turn = whole(message("Hello"), store=store, background=False)
    assert turn.metadata is not None
    assert turn.metadata.extra == extra


def test_a_completed_event_is_decoded_like_a_whole_response() -> None:
    assert decode(json.dumps(completed(message("Hello"))).encode(), "p").text == "Hello"


@pytest.mark.parametrize(
    ("fields", "items", "reason"),
    [
        ({}, [message("a")], "stop"),
        ({"status": None}, [message("a")], "stop"),
        ({}, [{"type": "function_call", "name": "f", "arguments": "{}"}], "tool_calls"),
        ({}, [{"type": "mcp_approval_request", "id": "r"}], "tool_calls"),
        ({}, [{"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}], "refusal"),
        ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, [], "length"),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, [], "content_filter"),
        ({"status": "incomplete", "incomplete_details": {"reason": "a new one"}}, [], "other"),
        ({"status": "incomplete", "incomplete_details": None}, [], "other"),
        ({"status": None, "incomplete_details": {"reason": "max_output_tokens"}}, [UNFINISHED_CALL], "length"),
        ({"status": None, "incomplete_details": {"reason": "a new one"}}, [UNFINISHED_CALL], "other"),
        ({"status": "a new one"}, [message("a")], "other"),
    ],
)
def test_the_finish_reason_is_derived_from_status_and_items(
    fields: dict[str, Any], items: list[Any], reason: str
) -> None:
    turn = whole(*items, **fields)
    assert turn.finish_reason == reason
    assert turn.metadata is not None
    assert turn.metadata.finish_reason == response(**fields)["status"]


@pytest.mark.parametrize("status", ["queued", "in_progress"])
def test_an_unfinished_response_raises_with_the_partial_turn(status: str) -> None:
    with pytest.raises(InvalidResponseError, match=rf"resp_1 is still '{status}'.*background=True") as caught:
        whole(UNFINISHED_CALL, status=status)
    assert (caught.value.path, caught.value.retryable, caught.value.usage) == (
        "status",
        False,
        Usage(3, 2, reasoning_tokens=1),
    )
    assert caught.value.partial is not None
    assert [tool.name for tool in caught.value.partial.tools] == ["pay"]


@pytest.mark.parametrize("status", ["queued", "in_progress"])
def test_a_stream_that_ends_with_an_unfinished_response_raises(status: str) -> None:
    error = failed({"type": "response.done", "response": response(UNFINISHED_CALL, status=status)})
    assert isinstance(error, InvalidResponseError)


SERVER_RUN: Final = {
    "type": "custom_tool_call", "id": "ctc_1", "call_id": "xs_1", "name": "x_keyword_search", "input": '{"q":"a"}',
    "status": "completed",
}  # fmt: skip
"""Item for a search that xAI ran for its tool `x_search`."""


@pytest.mark.parametrize(
    ("name", "tools"),
    [
        ("x_keyword_search", None),
        ("x_keyword_search", [{"type": "x_search"}, {"type": "mcp"}]),
        ("pay", [{"type": "x_search"}, {"type": "function", "name": "pay"}]),
    ],
)
def test_a_custom_call_that_the_server_ran_becomes_a_provider_part(
    name: str, tools: list[dict[str, Any]] | None
) -> None:
    item = {**SERVER_RUN, "name": name}
    turn = whole(item, message("Found."), tools=tools)
    assert (turn.tools, turn.text, turn.finish_reason) == ([], "Found.", "stop")
    assert turn.parts[0] == ProviderPart("p", "custom_tool_call", item)
    created = {"type": "response.created", "response": {"tools": tools}}
    added = {"type": "response.output_item.added", "output_index": 0, "item": {**item, "input": ""}}
    piece = {"type": "response.custom_tool_call_input.delta", "output_index": 0, "delta": '{"q":"a"}'}
    ended = {"type": "response.output_item.done", "output_index": 0, "item": item}
    deltas, same = streamed(created, added, piece, ended, completed(item, message("Found."), tools=tools))
    assert (deltas, same.parts) == ([TextDelta("Found.")], turn.parts)


@pytest.mark.parametrize(
    ("name", "tools"),
    [
        ("pay", None),
        ("pay", []),
        ("pay", [{"type": "custom", "name": "pay"}]),
        ("pay", [{"type": "namespace", "name": "n"}, {"type": "x_search"}]),
        ("x_keyword_search", [{"type": "custom", "name": "x_keyword_search"}]),
    ],
)
def test_a_call_of_a_declared_custom_tool_becomes_a_tool_call(name: str, tools: list[dict[str, Any]] | None) -> None:
    turn = whole({**SERVER_RUN, "name": name}, tools=tools)
    assert [tool.name for tool in turn.tools] == [name]
    assert turn.finish_reason == "tool_calls"


@pytest.mark.parametrize(
    "items",
    [
        [{"type": "shell_call", "call_id": "a"}, {"type": "shell_call_output", "call_id": "a"}],
        [{"type": "tool_search_call", "call_id": None, "execution": "server"}],
        [{"type": "web_search_call", "id": "ws_1"}],
    ],
)
def test_an_action_that_the_server_ran_becomes_a_provider_part(items: list[dict[str, Any]]) -> None:
    turn = whole(*items, message("Done."))
    assert (turn.text, len(turn.parts)) == ("Done.", len(items) + 1)


def test_an_incomplete_response_with_a_call_finishes_with_length() -> None:
    call = {"type": "function_call", "name": "f", "arguments": '{"x":', "status": "incomplete"}
    turn = whole(call, status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    assert turn.finish_reason == "length"
    assert turn.tools[0].call.problem is not None


def test_log_probabilities_are_collected_in_the_metadata() -> None:
    content = [{"type": "output_text", "text": "a", "logprobs": [{"token": "a", "logprob": -1}]}]
    turn = whole({"type": "message", "content": content})
    assert turn.metadata is not None
    assert turn.metadata.extra["logprobs"] == [{"token": "a", "logprob": -1}]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"status": "failed", "output": [], "error": {"code": "server_error", "message": "Sorry"}}, ServerError),
        (
            {"status": "failed", "output": [], "error": {"code": "rate_limit_exceeded", "message": "Slow"}},
            RateLimitedError,
        ),
        ({"status": "failed", "output": [], "error": {"code": "invalid_prompt", "message": "No"}}, InvalidRequestError),
        ({"status": "failed", "output": [], "error": None}, ServerError),
        ({"status": "cancelled", "output": []}, ServerError),
        ({"error": {"code": "insufficient_quota", "message": "Pay"}}, QuotaExceededError),
        ({"error": "overloaded"}, OverloadedError),
        ({"detail": "no such path"}, ProviderError),
        ([{"error": {"code": 429, "message": "Later"}}], RateLimitedError),
        ({"status": "failed", "id": "resp_1"}, ServerError),
    ],
)
def test_a_failed_response_raises(body: object, kind: type[ChatError]) -> None:
    with pytest.raises(kind) as error:
        decode(json.dumps(body).encode(), "p")
    assert error.value.partial is not None


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (b"<html>", ""),
        (b"[]", ""),
        (b"7", ""),
        (b"{}", "output"),
        (b'{"output": null}', "output"),
        (b'{"output": {}}', "output"),
        (b'{"output": [7]}', "output[0]"),
        (b'{"output": [{"type": "message", "content": 7}]}', "item.content"),
        (b'{"output": [{"type": "function_call"}]}', "output[0].name"),
    ],
)
def test_a_malformed_response_raises_invalid_response_with_its_path(body: bytes, path: str) -> None:
    with pytest.raises(InvalidResponseError) as error:
        decode(body, "p")
    assert error.value.path == path
    assert error.value.raw == body.decode() or error.value.raw == body


def test_the_error_of_a_failed_response_contains_its_usage_and_metadata() -> None:
    body = response(message("Hal"), status="failed", error={"code": "server_error", "message": "Sorry"})
    with pytest.raises(ServerError) as error:
        decode(json.dumps(body).encode(), "p")
    assert error.value.usage == Usage(3, 2, reasoning_tokens=1)
    assert error.value.metadata is not None
    assert error.value.metadata.id == "resp_1"


# --- Streams ---------------------------------------------------------------------------------------------------------


def test_a_stream_is_decoded_into_deltas_and_a_turn() -> None:
    deltas, turn = streamed(
        {"type": "response.created", "response": {"id": "resp_1", "model": "m-1", "status": "in_progress"}},
        {"type": "response.in_progress", "response": {}},
        delta("Hel"),
        delta("lo"),
        completed(message("Hello")),
    )
    assert deltas == [TextDelta("Hel"), TextDelta("lo")]
    assert (turn.text, turn.finish_reason) == ("Hello", "stop")


def test_unknown_events_and_item_types_are_ignored() -> None:
    deltas, turn = streamed(
        {"type": "response.something.new", "response": 7},
        {"type": "ping", "cost": "0"},
        {"type": "keepalive"},
        {"no": "type"},
        delta("Hi", obfuscation="xyz"),
        completed(message("Hi"), {"type": "something_new"}),
    )
    assert deltas == [TextDelta("Hi")]
    assert [type(part).__name__ for part in turn.parts] == ["Text", "ProviderPart"]


def test_the_sse_event_name_is_used_if_the_data_has_no_type() -> None:
    decoder = StreamDecoder("p")
    assert decoder.feed([Event("response.output_text.delta", b'{"delta": "Hi"}')]) == [TextDelta("Hi")]


@pytest.mark.parametrize("blank", [b"", b" \n", b"[DONE]"])
def test_blank_and_done_events_do_not_end_the_stream(blank: bytes) -> None:
    _, turn = streamed(blank, delta("Hi"), blank, completed(message("Hi")))
    assert turn.text == "Hi"
    assert isinstance(failed(delta("Hi"), b"[DONE]"), StreamTruncatedError)


def test_events_after_the_completed_event_are_ignored() -> None:
    decoder = StreamDecoder("p")
    decoder.feed(events(completed(message("Hi")), delta("more"), {"type": "error"}))
    assert decoder.done
    assert decoder.feed(events(delta("more"))) == []
    assert decoder.close().text == "Hi"


def test_the_event_type_gives_the_status_if_the_response_has_none() -> None:
    _, turn = streamed(
        completed(message("Hi"), kind="incomplete", status=None, incomplete_details={"reason": "max_tokens"})
    )
    assert turn.finish_reason == "length"
    assert turn.metadata is not None
    assert turn.metadata.finish_reason == "incomplete"


@pytest.mark.parametrize(("status", "finish"), [("completed", "stop"), (None, "stop"), ("incomplete", "other")])
def test_the_status_decides_the_finish_reason_of_a_done_event(status: str | None, finish: str) -> None:
    created = {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}}
    _, turn = streamed(created, delta("Hi"), {"type": "response.done", "response": {"status": status}})
    assert (turn.text, turn.finish_reason) == ("Hi", finish)
    assert is_last(Event("message", json.dumps({"type": "response.done"}).encode()))


def test_feed_json_decodes_events_without_sse_framing() -> None:
    decoder = StreamDecoder("p")
    assert decoder.feed_json([delta("Hi"), completed(message("Hi")), delta("more")]) == [TextDelta("Hi")]
    assert decoder.close().text == "Hi"
    assert StreamDecoder("p").feed_json([delta("Hi")]) == [TextDelta("Hi")]
    broken = StreamDecoder("p")
    with pytest.raises(InvalidResponseError) as error:
        broken.feed_json([delta(7)])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - wrong on purpose
    assert (error.value.path, json.loads(error.value.raw)) == ("delta", delta(7))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - wrong on purpose


def test_a_surrogate_pair_split_between_deltas_is_delivered_as_one_character() -> None:
    halves = [b'{"type":"response.output_text.delta","delta":"%s"}' % half for half in (b"a\\ud83d", b"\\ude00b")]
    deltas, _ = streamed(*halves, completed(message("a😀b")))
    assert deltas == [TextDelta("a"), TextDelta("😀b")]
    decoder = StreamDecoder("p")
    assert decoder.feed(events(halves[0], delta("c"))) == [TextDelta("a"), TextDelta("\ud83dc")], "it never came"


# --- Failed and incomplete responses ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    [
        [],
        [delta("Hi")],
        [{"type": "response.created", "response": {}}, {"type": "response.output_item.done", "item": message("Hi")}],
    ],
)
def test_a_stream_without_a_final_response_raises_stream_truncated(said: list[Any]) -> None:
    error = failed(*said)
    assert isinstance(error, StreamTruncatedError)
    assert error.retryable
    assert error.partial is not None
    assert error.partial.finish_reason is None


def test_the_truncation_error_contains_the_partial_turn_and_the_calls_not_run() -> None:
    error = failed(
        {"type": "response.created", "response": {"id": "resp_1", "usage": USAGE}},
        {"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "summary": []}},
        {"type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "Hm"},
        delta("Hal", output_index=1),
        {"type": "response.output_item.added", "output_index": 2, "item": {"type": "function_call", "name": "f"}},
        {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '{"x"'},
        {"type": "response.output_item.added", "output_index": 3, "item": {"type": "function_call"}},
    )
    assert "1 call was not run" in str(error)
    assert error.usage == Usage(3, 2, reasoning_tokens=1)
    assert error.partial is not None
    thought, text, call = error.partial.parts
    assert isinstance(thought, Reasoning)
    assert isinstance(text, Text)
    assert isinstance(call, Tool)
    assert (thought.text, text.text, call.call.text) == ("Hm", "Hal", '{"x"')
    assert call.call.problem is not None
    two = {"type": "response.output_item.done", "item": {"type": "function_call", "name": "f"}}
    assert "2 calls were not run" in str(failed(two, two))


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ({"type": "error", "code": "server_error", "message": "Sorry", "param": None}, ServerError),
        ({"type": "error", "error": {"type": "insufficient_quota", "code": "insufficient_quota"}}, QuotaExceededError),
        ({"type": "error", "status": 400, "error": {"code": "previous_response_not_found"}}, InvalidRequestError),
        ({"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}}, RateLimitedError),
        ({"type": "response.failed", "response": {"error": {"code": "server_error", "message": "Sorry"}}}, ServerError),
        ({"type": "response.failed", "response": {"error": {"code": "bio_policy"}}}, ContentFilteredError),
        ({"type": "response.failed", "response": {}}, ServerError),
        ({"type": "response.cancelled", "response": {"status": "cancelled"}}, ServerError),
        (completed(status="failed"), ServerError),
        (completed(kind="done", status="failed"), ServerError),
        ({"type": "response.error", "error": {"code": "rate_limit_exceeded", "message": "Slow"}}, RateLimitedError),
        ({"type": "response.failed", "error": {"code": "invalid_prompt", "message": "No"}}, InvalidRequestError),
        ({"type": "error", "status": 429, "error": {"message": "Later"}}, RateLimitedError),
        ({"type": "error", "status_code": 401, "error": {"message": "Who?"}}, AuthenticationError),
        ({"type": "error", "status": 400, "error": {"code": "websocket_connection_limit_reached"}}, ServerError),
        ({"type": "error", "code": "server_is_overloaded", "message": "Later"}, OverloadedError),
        ({"type": "error", "status_code": 429, "error": {"type": "usage_limit_reached"}}, QuotaExceededError),
    ],
)
def test_an_error_event_is_raised_with_the_partial_turn(event: dict[str, Any], kind: type[ChatError]) -> None:
    error = failed(delta("Hal"), event)
    assert isinstance(error, kind)
    assert error.partial is not None
    assert error.partial.text == "Hal"


def test_an_error_event_with_plain_text_is_raised() -> None:
    decoder = StreamDecoder("p")
    with pytest.raises(ProviderError, match="out of order"):
        decoder.feed([Event("error", b"out of order")])


def test_deltas_before_an_error_event_are_delivered_first() -> None:
    decoder = StreamDecoder("p")
    assert decoder.feed(events(delta("Hal"), {"type": "error", "message": "Sorry"})) == [TextDelta("Hal")]
    assert decoder.failure is not None
    with pytest.raises(ServerError):
        decoder.feed(events(delta("lo")))
    with pytest.raises(ServerError):
        decoder.close()


@pytest.mark.parametrize(
    ("event", "path"),
    [
        (b"<html>", ""),
        (b"[1]", ""),
        (b"7", ""),
        (delta(7), "delta"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] - wrong on purpose
        ({"type": "response.completed"}, "response"),
        ({"type": "response.completed", "response": []}, "response"),
        ({"type": "response.created", "response": [7]}, "response"),
        (completed(output=7), "output"),
        (completed(7), "output[0]"),
        (completed({"type": "function_call"}), "output[0].name"),
        (delta("a", content_index=[1]), "content_index"),
        ({"type": ["odd"]}, "type"),
    ],
)
def test_a_malformed_event_raises_invalid_response_with_its_path(event: Any, path: str) -> None:
    error = failed(event)
    assert isinstance(error, InvalidResponseError)
    assert error.path == path


def test_plain_text_in_an_unknown_event_is_ignored() -> None:
    decoder = StreamDecoder("p")
    assert decoder.feed([Event("comment", b"hello")]) == []
    with pytest.raises(InvalidResponseError):
        decoder.feed([Event("response.completed", b"hello")])


@pytest.mark.parametrize("data", [b"null", b"1", b'"alive"', b"[1]"])
def test_data_that_is_not_an_object_in_an_unknown_event_is_ignored(data: bytes) -> None:
    decoder = StreamDecoder("p")
    assert decoder.feed([Event("ping", data)]) == []
    with pytest.raises(InvalidResponseError):
        decoder.feed([Event("response.completed", data)])


def test_an_error_event_with_a_json_string_is_raised() -> None:
    with pytest.raises(OverloadedError):
        StreamDecoder("p").feed([Event("error", b'"overloaded"')])


def test_a_null_delta_is_ignored() -> None:
    deltas, turn = streamed({"type": "response.output_text.delta", "delta": None}, delta("Hi"), completed())
    assert (deltas, turn.text) == ([TextDelta("Hi")], "Hi")


def test_text_is_delivered_once_if_index_and_id_of_its_item_change() -> None:
    thought = {"type": "reasoning", "id": "r", "summary": None}
    deltas, turn = streamed(
        {"type": "response.output_item.done", "output_index": 0, "item": thought},
        delta("Hi", output_index=1, content_index=0, item_id="a"),
        {"type": "response.output_item.done", "output_index": 1, "item": message("Hi", id="b")},
        completed(message("Hi", id="c")),
    )
    assert (deltas, turn.text) == ([TextDelta("Hi")], "Hi")


def test_programming_errors_are_not_reported_as_invalid_responses() -> None:
    with pytest.raises(AttributeError):
        StreamDecoder("p").feed([*events(delta("Hi")), None])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType] - wrong on purpose


# --- The last event --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "last"),
    [
        (Event("response.completed", b"{}"), True),
        (Event("response.output_text.delta", b'{"type":"response.completed"}'), False),
        (Event("message", b"[DONE]"), True),
        (Event("message", b'{"type": "response.incomplete", "response": {}}'), True),
        (Event("message", b'{"response":{},"type":"response.failed"}'), True),
        (Event("message", b'{"type":"error"}'), True),
        (Event("message", b'{"delta":"\\"response.completed\\"","type":"response.output_text.delta"}'), False),
        (Event("message", b'{"type":"response.output_item.done","item":{"error":"response.failed"}}'), False),
        (Event("message", b'"error"'), False),
        (Event("message", b'"error" {'), False),
        (Event("message", b"{}"), False),
    ],
)
def test_is_last_recognizes_the_final_event_by_its_type(event: Event, last: bool) -> None:
    assert is_last(event) is last
