from __future__ import annotations

import json

from chat_testing import Reply, sse_event


def test_sse_event_encodes_data_and_an_event_name() -> None:
    assert sse_event("[DONE]") == b"data: [DONE]\n\n"
    assert sse_event({"a": 1}, "news") == b'event: news\ndata: {"a":1}\n\n'


def test_sse_reply_has_one_chunk_per_event() -> None:
    reply = Reply.sse({"type": "begin"}, {"type": "end"}, named=True)

    assert reply.chunks == (
        b'event: begin\ndata: {"type":"begin"}\n\n',
        b'event: end\ndata: {"type":"end"}\n\n',
    )
    assert reply.headers["content-type"] == "text/event-stream"


def test_sse_reply_may_contain_text_events_without_names() -> None:
    assert Reply.sse({"a": 1}, "[DONE]").data == b'data: {"a":1}\n\ndata: [DONE]\n\n'


def test_json_reply_is_one_chunk_with_status_and_headers() -> None:
    reply = Reply.json({"ok": True}, 429, {"retry-after": "2"})

    assert (reply.status, reply.headers["retry-after"], len(reply.chunks)) == (429, "2", 1)
    assert json.loads(reply.data) == {"ok": True}


def test_json_lines_and_json_array_replies_have_one_chunk_per_value() -> None:
    assert Reply.json_lines({"a": 1}, {"b": 2}).chunks == (b'{"a":1}\n', b'{"b":2}\n')
    assert Reply.json_array({"a": 1}, {"b": 2}).chunks == (b'[{"a":1}', b',{"b":2}', b"]")
    assert json.loads(Reply.json_array({"a": 1}, {"b": 2}).data) == [{"a": 1}, {"b": 2}]
