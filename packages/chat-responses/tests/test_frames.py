from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from chat_core.errors import UsageError
from chat_core.messages import Messages
from chat_core.options import ChatOptions
from chat_core.provider import NO_TOOLS
from chat_core.transport import Event, Request
from chat_responses import ResponsesDialect, ResponsesFrames
from chat_responses.codec import decode, encode, is_last
from chat_responses.frames import finished_items, parse_error_event

FRAMES = ResponsesFrames()
ITEM = {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "Hi"}]}


def asked(body: Mapping[str, object] | bytes, path: str = "/v1/responses") -> dict[str, object]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    said: dict[str, object] = json.loads(FRAMES.ask(Request("POST", "https", "h", path, (), data), "1"))
    return said


def frame(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def test_a_request_becomes_a_response_create_frame_without_stream_fields() -> None:
    body = {"model": "m", "input": [{"role": "user", "content": 'Say "stream": twice'}], "stream": True}
    expected = {"type": "response.create", "model": "m", "input": body["input"]}
    assert asked(body) == expected
    assert next(iter(asked(body))) == "type"
    assert asked({**body, "stream": False, "background": False, "stream_options": {}}) == expected


def test_a_body_encoded_for_a_socket_is_sent_unchanged_in_the_frame() -> None:
    dialect = ResponsesDialect(model="m", socket=True)
    body = encode(Messages.from_user("Hé"), NO_TOOLS, ChatOptions(), None, dialect=dialect, stream=True)
    sent = FRAMES.ask(Request("POST", "https", "h", "/responses?v=1", (), body), "1")
    assert sent == '{"type":"response.create",' + body[1:].decode()


def test_nested_fields_named_stream_or_background_are_kept() -> None:
    body = {"model": "m", "metadata": {"stream": "x", "background": "y"}, "stream": True}
    assert asked(body) == {"type": "response.create", "model": "m", "metadata": {"stream": "x", "background": "y"}}


def test_requests_that_a_socket_does_not_support_are_rejected() -> None:
    with pytest.raises(
        UsageError, match="only /responses, not /v1/responses/input_tokens: send this request over HTTP"
    ):
        asked({}, "/v1/responses/input_tokens")
    with pytest.raises(UsageError, match="no background responses"):
        asked({"background": True})


def test_the_body_of_a_whole_response_is_the_response_without_its_event() -> None:
    response = {"id": "resp_1", "status": "completed", "output": [ITEM]}
    body = FRAMES.whole([frame(type="response.created"), frame(type="response.completed", response=response)])
    assert json.loads(body) == response
    assert decode(body, "p").text == "Hi"


def test_items_missing_in_the_final_event_are_taken_from_earlier_events() -> None:
    second = {**ITEM, "id": "msg_2"}
    frames = [
        frame(type="response.output_item.done", output_index=1, item=second),
        frame(type="response.output_item.done", output_index=0, item=ITEM),
        frame(type="response.done", response={"id": "resp_1", "status": "completed", "output": []}),
    ]
    assert json.loads(FRAMES.whole(frames))["output"] == [ITEM, second]
    assert finished_items(frames[2:]) == []


@pytest.mark.parametrize("kind", ["completed", "incomplete", "failed", "cancelled", "done", "error"])
def test_is_last_recognizes_every_event_that_ends_a_response(kind: str) -> None:
    assert is_last(Event("message", frame(type=f"response.{kind}")))
    assert not is_last(Event("message", frame(type="response.output_text.delta", delta=f"response.{kind}")))


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ({"type": "error", "status": 429, "error": {"code": "slow_down"}}, 429),
        ({"type": "error", "status_code": 400, "error": {}}, 400),
        ({"type": "response.error"}, 500),
        ({"type": "error", "status": 200, "error": {}}, 500),
        ({"type": "error", "status": True, "error": {}}, 500),
        ({"type": "response.completed", "response": {}}, None),
        ({"type": "response.failed", "response": {"status": "failed"}}, None),
        ([], None),
    ],
)
def test_the_status_of_an_error_event_is_returned(said: object, status: int | None) -> None:
    data = json.dumps(said).encode()
    assert FRAMES.failed(Event("message", data)) == status
    assert (parse_error_event(data) is not None) == (status is not None)


def test_data_that_is_not_json_is_not_an_error_event() -> None:
    assert FRAMES.failed(Event("message", b"[DONE]")) is None
    assert parse_error_event(b"<html>") is None
    assert FRAMES.whole([b'"so"']) == b'"so"'


@pytest.mark.parametrize("kind", [["error"], ["response.completed"], {}, 7, None])
def test_an_event_whose_type_is_not_a_string_is_neither_final_nor_an_error(kind: object) -> None:
    data = json.dumps({"type": kind, "response": {"output": []}, "x": "error"}).encode()
    assert not is_last(Event("message", data))
    assert FRAMES.failed(Event("message", data)) is None
    assert FRAMES.whole([data]) == data
    assert parse_error_event(data) is None


def test_a_frame_of_a_response_that_is_not_json_is_ignored() -> None:
    done = frame(type="response.output_item.done", output_index=0, item=ITEM)
    last = frame(type="response.done", response={"id": "resp_1", "status": "completed", "output": []})
    assert json.loads(FRAMES.whole([b"ping", done, last]))["output"] == [ITEM]
    assert FRAMES.whole([b"[DONE]"]) == b"[DONE]"


def test_the_protocol_sends_one_request_at_a_time_without_ids_or_cancel_frames() -> None:
    assert (FRAMES.multiplexed, FRAMES.acknowledged, FRAMES.cancel("1")) == (False, False, None)
    assert FRAMES.head(b"")[0] == 200
    assert FRAMES.read(b"{}") == (None, (Event("message", b"{}"),), False)
